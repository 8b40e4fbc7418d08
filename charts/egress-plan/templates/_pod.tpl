{{/* Nothing that a run needs wants more than this. */}}
{{- define "egress-plan.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* Arguments that say where manifests and config are, for commands that read both. */}}
{{- define "egress-plan.inputArgs" -}}
- --config=/etc/egress-plan/config/config.yaml
{{- with .Values.fleet }}
- --fleet={{ . }}
{{- end }}
{{- if eq .Values.manifests.source "cluster" }}
- --from-cluster
{{- range include "egress-plan.namespaces" . | fromJsonArray }}
- --namespace={{ . }}
{{- end }}
{{- else }}
- --filename=/manifests/{{ .Values.manifests.git.path }}
{{- end }}
- --timeout={{ .Values.run.timeoutSeconds }}s
{{- end -}}

{{- define "egress-plan.applyArgs" -}}
- --auto-approve
- --grace={{ .Values.run.graceSeconds }}s
- --wait={{ .Values.run.wait }}
- --cluster-namespace=$(POD_NAMESPACE)
{{- if eq .Values.manifests.source "git" }}
- --lease
{{- end }}
{{- with .Values.run.reports }}
- --cluster-reports={{ . }}
{{- end }}
{{- if .Values.run.inventory }}
- --cluster-inventory
{{- end }}
{{- if .Values.persistence.enabled }}
- --cache-dir=/var/lib/egress-plan/images
- --report=/var/lib/egress-plan/report.json
- --inventory=/var/lib/egress-plan/inventory.json
{{- end }}
{{- end -}}

{{/* The arguments of a command: root, command, extraArgs. */}}
{{- define "egress-plan.args" -}}
- --log-format={{ .root.Values.run.logFormat }}
{{- range until (int .root.Values.run.verbosity) }}
- --verbose
{{- end }}
- {{ .command }}
{{- if ne .command "version" }}
{{ include "egress-plan.inputArgs" .root }}
{{- end }}
{{- if eq .command "apply" }}
{{ include "egress-plan.applyArgs" .root }}
{{- end }}
{{- with .extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The metadata and spec of a pod that runs a command: root, command, extraArgs. */}}
{{- define "egress-plan.pod" -}}
{{- $root := .root -}}
{{- $values := .root.Values -}}
{{- $git := eq $values.manifests.source "git" -}}
{{- /* Other commands write nothing there, and need not wait for a volume that is in use. */}}
{{- $state := and $values.persistence.enabled (eq .command "apply") -}}
metadata:
  labels:
    {{- /* Labels of the user's give way where the chart's own say who this is. */}}
    {{- merge (include "egress-plan.labels" $root | fromYaml) $values.podLabels | toYaml | nindent 4 }}
  {{- with $values.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: {{ include "egress-plan.terminationSeconds" $root }}
  serviceAccountName: {{ include "egress-plan.serviceAccount" $root }}
  # The token is for the program alone: it has a volume of its own below.
  automountServiceAccountToken: false
  enableServiceLinks: false
  {{- with $values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with $values.image.pullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . }}
    {{- end }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    # Makes the keys readable to the program, and volumes writable.
    fsGroup: 65532
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile:
      type: RuntimeDefault
  {{- if $git }}
  initContainers:
    - name: checkout
      image: {{ $values.manifests.git.image }}
      imagePullPolicy: {{ $values.image.pullPolicy }}
      command:
        {{- toYaml $values.manifests.git.command | nindent 8 }}
      workingDir: /manifests
      env:
        - name: HOME
          value: /tmp
        - name: TMPDIR
          value: /tmp
        {{- with $values.manifests.git.env }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      securityContext:
        {{- include "egress-plan.containerSecurity" $root | nindent 8 }}
      resources:
        {{- toYaml $values.resources | nindent 8 }}
      volumeMounts:
        - name: manifests
          mountPath: /manifests
        - name: spool
          mountPath: /tmp
        {{- if $values.manifests.git.existingSecret }}
        - name: git
          mountPath: /etc/git
          readOnly: true
        {{- end }}
  {{- end }}
  containers:
    - name: egress-plan
      image: {{ include "egress-plan.image" $root }}
      imagePullPolicy: {{ $values.image.pullPolicy }}
      args:
        {{- include "egress-plan.args" . | nindent 8 }}
      env:
        - name: POD_NAME
          valueFrom:
            fieldRef:
              fieldPath: metadata.name
        - name: POD_NAMESPACE
          valueFrom:
            fieldRef:
              fieldPath: metadata.namespace
        - name: HOME
          value: /tmp
        - name: TMPDIR
          value: /tmp
        {{- with $values.run.env }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      securityContext:
        {{- include "egress-plan.containerSecurity" $root | nindent 8 }}
      resources:
        {{- toYaml $values.resources | nindent 8 }}
      volumeMounts:
        - name: token
          mountPath: /var/run/secrets/kubernetes.io/serviceaccount
          readOnly: true
        - name: config
          mountPath: /etc/egress-plan/config
          readOnly: true
        - name: ssh
          mountPath: /etc/egress-plan/ssh
          readOnly: true
        - name: spool
          mountPath: /tmp
        {{- if $git }}
        - name: manifests
          mountPath: /manifests
          readOnly: true
        {{- end }}
        {{- if $state }}
        - name: state
          mountPath: /var/lib/egress-plan
        {{- end }}
        {{- with $values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: token
      projected:
        sources:
          - serviceAccountToken:
              path: token
              expirationSeconds: 3600
          - configMap:
              name: kube-root-ca.crt
              items:
                - key: ca.crt
                  path: ca.crt
          - downwardAPI:
              items:
                - path: namespace
                  fieldRef:
                    fieldPath: metadata.namespace
    - name: config
      configMap:
        name: {{ include "egress-plan.configMap" $root }}
    # Without the Secret the pod starts all the same, and the program says what is missing.
    - name: ssh
      secret:
        secretName: {{ include "egress-plan.sshSecret" $root }}
        optional: true
        defaultMode: 0440
    - name: spool
      emptyDir:
        sizeLimit: {{ $values.spool.sizeLimit }}
    {{- if $git }}
    - name: manifests
      emptyDir:
        sizeLimit: {{ $values.manifests.git.sizeLimit }}
    {{- with $values.manifests.git.existingSecret }}
    - name: git
      secret:
        secretName: {{ . }}
        defaultMode: 0440
    {{- end }}
    {{- end }}
    {{- if $state }}
    - name: state
      persistentVolumeClaim:
        claimName: {{ include "egress-plan.claim" $root }}
    {{- end }}
    {{- with $values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with $values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}
