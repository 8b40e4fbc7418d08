//! The chart's value sets, rendered by helm and really applied, each in a restricted namespace of its own.

use serde_json::{Value, json};

use super::api::Api;

pub const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/charts/egress-plan");
const SETS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/chart/values");
/// Violations are errors where a Pod is made, and warnings where only a template is.
const RESTRICTED: &str = "pod-security.kubernetes.io/enforce: restricted, pod-security.kubernetes.io/warn: restricted";
/// As much of the operator's definition as a rule of alerts may have, and nothing else: what it does not
/// know is an error.
const PROMETHEUS_RULE: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: prometheusrules.monitoring.coreos.com}
spec:
  group: monitoring.coreos.com
  names: {kind: PrometheusRule, plural: prometheusrules, singular: prometheusrule}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        required: [spec]
        properties:
          spec:
            type: object
            properties:
              groups:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items:
                  type: object
                  required: [name]
                  properties:
                    name: {type: string, minLength: 1}
                    rules:
                      type: array
                      items:
                        type: object
                        required: [expr]
                        properties:
                          alert: {type: string}
                          annotations: {type: object, additionalProperties: {type: string}}
                          expr: {x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}]}
                          for: {type: string, pattern: '^[0-9]+(ms|s|m|h|d|w|y)$'}
                          labels: {type: object, additionalProperties: {type: string}}
";

/// Every value set, by its name.
pub fn sets() -> Vec<String> {
    let files = std::fs::read_dir(SETS).expect("there").map(|file| file.expect("read").path());
    let name = |path: std::path::PathBuf| path.file_stem().expect("named").to_string_lossy().into_owned();
    let mut sets: Vec<String> = files.map(name).collect();
    sets.sort();
    assert!(sets.len() >= 6, "{sets:?}");
    sets
}

/// A value set as a release that has the name of its namespace.
pub struct Release<'a> {
    pub api: &'a Api,
    pub set: String,
    pub name: String,
}

impl<'a> Release<'a> {
    /// Makes everything that has to be there before.
    pub fn new(api: &'a Api, set: &str, name: &str) -> Self {
        for namespace in [name, "crawlers", "scrapers"] {
            api.namespace(namespace, RESTRICTED);
        }
        api.kubectl_with("apply --server-side -f -", PROMETHEUS_RULE).ok();
        api.kubectl("wait --for=condition=Established --timeout=30s crd/prometheusrules.monitoring.coreos.com").ok();
        Self { api, set: set.to_owned(), name: name.to_owned() }
    }

    /// The arguments that name release, chart and values to helm.
    pub fn arguments(&self) -> String {
        format!("{} {CHART} --namespace {} --values {SETS}/{}.yaml", self.name, self.name, self.set)
    }

    /// Makes the account that the chart takes for granted where it makes none.
    pub fn foreign_account(&self) {
        self.api.kubectl(&format!("create serviceaccount deployer -n {}", self.name)).ok();
    }

    /// What `helm template` prints.
    pub fn render(&self, more: &str) -> String {
        self.api.helm(&format!("template {} {more}", self.arguments())).ok()
    }

    /// Applies what was rendered, and demands that the server has nothing to say against it.
    pub fn apply(&self, rendered: &str) {
        let line = "apply --server-side --validate=strict --warnings-as-errors -f -";
        let said = self.api.kubectl_with(line, rendered);
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{}: {}", self.set, said.out);
    }

    /// An object of the release, as it is in the cluster.
    pub fn object(&self, kind: &str, suffix: &str) -> Value {
        let full = if self.set == "everywhere" {
            "egress-plan-of-everybody".to_owned()
        } else {
            format!("{}-egress-plan", self.name)
        };
        self.api.get(&format!("-n {} {kind} {full}{suffix}", self.name))
    }
}

/// The pod that a controller would make of a template.
fn pod_of(template: &Value, name: &str, namespace: &str) -> Value {
    let mut metadata = template["metadata"].clone();
    metadata["name"] = json!(name);
    metadata["namespace"] = json!(namespace);
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})
}

const CREATE: &str = "create --validate=strict --warnings-as-errors -f -";

/// Makes a Pod, and demands that nothing is said against it.
fn admitted(release: &Release<'_>, pod: &Value) {
    let said = release.api.kubectl_with(CREATE, &pod.to_string());
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{}: {pod}", release.set);
}

/// Tries the same Pod with more rights than it may have, which shows that somebody looks.
fn refused_with_more(release: &Release<'_>, pod: &Value) {
    for list in ["containers", "initContainers"] {
        let count = pod["spec"][list].as_array().map_or(0, Vec::len);
        for index in 0..count {
            let mut wrong = pod.clone();
            wrong["metadata"]["name"] = json!("wrong");
            wrong["spec"][list][index]["securityContext"]["allowPrivilegeEscalation"] = json!(true);
            let said = release.api.kubectl_with(CREATE, &wrong.to_string());
            assert!(said.err.contains("violates PodSecurity \"restricted"), "{}: {list}: {}", release.set, said.err);
        }
    }
}

/// All that was rendered, as it is in the cluster. Its versions are left out: the server writes a claim
/// once more when it is applied again, and to the byte the same.
fn stored(release: &Release<'_>, rendered: &str) -> Vec<Value> {
    let there = release.api.kubectl_with("get --show-managed-fields -o json -f -", rendered).ok();
    let there: Value = serde_json::from_str(&there).expect("JSON");
    let mut items = there["items"].as_array().expect("items").clone();
    for item in &mut items {
        item["metadata"]["resourceVersion"].take();
    }
    items
}

pub fn sets_are_taken(api: &Api) {
    for set in sets() {
        let name = format!("taken-{set}");
        let release = Release::new(api, &set, &name);
        if set == "foreign-account" {
            release.foreign_account();
        }
        api.helm(&format!("install --dry-run=server {}", release.arguments())).ok();
        let rendered = release.render("");
        release.apply(&rendered);
        let first = stored(&release, &rendered);
        // `helm template` prints the pod of `helm test` along with the rest.
        let name_of = |kind: &str| {
            let of_kind = first.iter().find(|it| it["kind"] == kind)?;
            Some(of_kind["metadata"]["name"].as_str().expect("a name").to_owned())
        };
        assert!(name_of("Pod").is_some_and(|pod| pod.ends_with("-test")), "{set}: {first:?}");
        release.apply(&rendered);
        assert_eq!(stored(&release, &rendered), first, "{set}: applied again, and nothing changed");

        let cron = release.object("cronjob", "");
        let pod = pod_of(&cron["spec"]["jobTemplate"]["spec"]["template"], "of-cronjob", &name);
        admitted(&release, &pod);
        refused_with_more(&release, &pod);
        let own = name_of("Job");
        assert_eq!(own.is_some(), ["by-hand", "everywhere"].contains(&set.as_str()), "{set}: {first:?}");
        let cron = name_of("CronJob").expect("always there");
        api.kubectl(&format!("create job -n {name} --from=cronjob/{cron} by-hand-1")).ok();
        for job in own.iter().map(String::as_str).chain(["by-hand-1"]) {
            let template = api.get(&format!("-n {name} job {job}"))["spec"]["template"].clone();
            admitted(&release, &pod_of(&template, &format!("of-{job}"), &name));
        }
    }
}
