{{/* The name of the release's objects. 40 characters leave room for what is put behind it. */}}
{{- define "egress-plan.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $full := contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) -}}
{{- default $full .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "egress-plan.selectorLabels" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "egress-plan.labels" -}}
{{ include "egress-plan.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "egress-plan.image" -}}
{{- $repository := required "image.repository: name the image of the program" .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" $repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "egress-plan.serviceAccount" -}}
{{- $made := .Values.serviceAccount.create | ternary (include "egress-plan.fullname" .) "default" -}}
{{- default $made .Values.serviceAccount.name -}}
{{- end -}}

{{- define "egress-plan.configMap" -}}
{{- default (printf "%s-config" (include "egress-plan.fullname" .)) .Values.existingConfigMap -}}
{{- end -}}

{{- define "egress-plan.sshSecret" -}}
{{- default (printf "%s-ssh" (include "egress-plan.fullname" .)) .Values.ssh.existingSecret -}}
{{- end -}}

{{- define "egress-plan.claim" -}}
{{- default (include "egress-plan.fullname" .) .Values.persistence.existingClaim -}}
{{- end -}}

{{/* The fleet, where it is known here; empty when it is only in a ConfigMap of the user's. */}}
{{- define "egress-plan.fleet" -}}
{{- default (get .Values.config "fleet") .Values.fleet -}}
{{- end -}}

{{/* The namespaces whose objects count, as a JSON list; empty for all of them, and for files. */}}
{{- define "egress-plan.namespaces" -}}
{{- if or (ne .Values.manifests.source "cluster") .Values.manifests.allNamespaces -}}
[]
{{- else -}}
{{- default (list .Release.Namespace) .Values.manifests.namespaces | uniq | toJson -}}
{{- end -}}
{{- end -}}

{{/* What the program has after being interrupted, until it is killed. */}}
{{- define "egress-plan.terminationSeconds" -}}
{{- add .Values.run.graceSeconds .Values.run.marginSeconds -}}
{{- end -}}

{{- define "egress-plan.deadlineSeconds" -}}
{{- add .Values.run.startSeconds .Values.run.timeoutSeconds (include "egress-plan.terminationSeconds" .) -}}
{{- end -}}

{{/* Values that are each right and do not go together: what a schema cannot say in words. */}}
{{- define "egress-plan.check" -}}
{{- if and .Values.config .Values.existingConfigMap -}}
{{- fail "config: existingConfigMap is set as well; leave one of the two" -}}
{{- end -}}
{{- if not (or .Values.config .Values.existingConfigMap) -}}
{{- fail "config: give the providers config, or name a ConfigMap of yours with existingConfigMap" -}}
{{- end -}}
{{- if and .Values.config (not (include "egress-plan.fleet" .)) -}}
{{- fail "config: fleet is missing; it says which machines are yours" -}}
{{- end -}}
{{- if and .Values.fleet (hasKey .Values.config "fleet") -}}
{{- fail "fleet: config names the fleet already; leave one of the two" -}}
{{- end -}}
{{- if and .Values.ssh.existingSecret (or .Values.ssh.privateKey .Values.ssh.knownHosts) -}}
{{- fail "ssh: existingSecret is set, so the chart makes no Secret; remove privateKey and knownHosts" -}}
{{- end -}}
{{- if and .Values.manifests.allNamespaces .Values.manifests.namespaces -}}
{{- fail "manifests: allNamespaces is set; remove namespaces" -}}
{{- end -}}
{{- if eq .Values.manifests.source "git" -}}
{{- if or .Values.manifests.allNamespaces .Values.manifests.namespaces -}}
{{- fail "manifests: namespaces are of objects in the cluster; with source git, remove namespaces and allNamespaces" -}}
{{- end -}}
{{- if not (and .Values.manifests.git.image .Values.manifests.git.command) -}}
{{- fail "manifests.git: with source git, an image and a command that makes the checkout are needed" -}}
{{- end -}}
{{- end -}}
{{- end -}}
