//! A `CronJob` or Job as the API server gives it, read without mercy: a field that is not listed here, or
//! has a value that is not, fails the test. What is listed is either done by the node's stand-in or
//! demanded to be of the one value that it stands for.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::api::Api;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CronJobSpec {
    suspend: bool,
    job_template: JobTemplate,
    concurrency_policy: String,
    // When runs begin and how many are kept is the controller's, who is not here.
    #[serde(rename = "schedule")]
    _schedule: String,
    #[serde(rename = "startingDeadlineSeconds")]
    _starting_deadline_seconds: u64,
    #[serde(rename = "successfulJobsHistoryLimit")]
    _successful_jobs_history_limit: u32,
    #[serde(rename = "failedJobsHistoryLimit")]
    _failed_jobs_history_limit: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JobTemplate {
    #[serde(rename = "metadata")]
    _metadata: Value,
    spec: JobSpec,
}

/// A Job: one pod, once.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JobSpec {
    backoff_limit: u32,
    pub active_deadline_seconds: u64,
    template: Template,
    // What the API server fills in, and what the controller does once a Job has ended.
    parallelism: Option<u32>,
    completions: Option<u32>,
    suspend: Option<bool>,
    #[serde(rename = "ttlSecondsAfterFinished")]
    _ttl_seconds_after_finished: Option<u32>,
    #[serde(rename = "completionMode")]
    _completion_mode: Option<String>,
    #[serde(rename = "podReplacementPolicy")]
    _pod_replacement_policy: Option<String>,
    #[serde(rename = "selector")]
    _selector: Option<Value>,
    #[serde(rename = "manualSelector")]
    _manual_selector: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Template {
    #[serde(rename = "metadata")]
    _metadata: Value,
    spec: PodSpec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodSpec {
    pub containers: Vec<Container>,
    pub volumes: Vec<Volume>,
    pub service_account_name: String,
    pub security_context: PodSecurity,
    pub termination_grace_period_seconds: u64,
    service_account: Option<String>,
    automount_service_account_token: bool,
    enable_service_links: bool,
    restart_policy: String,
    dns_policy: String,
    scheduler_name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodSecurity {
    pub run_as_user: u32,
    pub run_as_group: u32,
    pub fs_group: u32,
    run_as_non_root: bool,
    fs_group_change_policy: String,
    seccomp_profile: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Container {
    pub name: String,
    pub image: String,
    pub args: Vec<String>,
    pub env: Vec<Variable>,
    pub security_context: Security,
    pub resources: Resources,
    pub volume_mounts: Vec<Mount>,
    image_pull_policy: String,
    termination_message_path: String,
    termination_message_policy: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Security {
    pub allow_privilege_escalation: bool,
    pub read_only_root_filesystem: bool,
    pub capabilities: Capabilities,
    run_as_non_root: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Capabilities {
    pub drop: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resources {
    pub limits: Quantities,
    /// They say where a pod fits, and there is one place.
    #[serde(rename = "requests")]
    _requests: Quantities,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quantities {
    pub memory: String,
    pub cpu: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Variable {
    pub name: String,
    pub value: Option<String>,
    pub value_from: Option<ValueFrom>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ValueFrom {
    pub field_ref: FieldRef,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FieldRef {
    pub field_path: String,
    #[serde(rename = "apiVersion")]
    _api_version: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Mount {
    pub name: String,
    #[serde(rename = "mountPath")]
    pub place: String,
    #[serde(default)]
    pub read_only: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Volume {
    pub name: String,
    pub projected: Option<Projected>,
    pub config_map: Option<OfConfigMap>,
    pub secret: Option<OfSecret>,
    pub empty_dir: Option<EmptyDir>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Projected {
    pub sources: Vec<Source>,
    pub default_mode: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Source {
    pub service_account_token: Option<Token>,
    pub config_map: Option<OfConfigMap>,
    #[serde(rename = "downwardAPI")]
    pub downward_api: Option<Downward>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Token {
    pub path: String,
    pub expiration_seconds: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OfConfigMap {
    pub name: String,
    pub items: Option<Vec<Item>>,
    pub default_mode: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Item {
    pub key: String,
    pub path: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OfSecret {
    pub secret_name: String,
    pub default_mode: u32,
    #[serde(default)]
    pub optional: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EmptyDir {
    pub size_limit: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Downward {
    pub items: Vec<DownwardItem>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DownwardItem {
    pub path: String,
    pub field_ref: FieldRef,
}

impl JobSpec {
    /// What the schedule would start.
    pub fn of_cron_job(api: &Api, namespace: &str, name: &str) -> Self {
        let object = api.get(&format!("cronjob {name} -n {namespace}"));
        let spec: CronJobSpec = serde_json::from_value(object["spec"].clone()).expect("nothing that is not known here");
        assert_eq!((spec.suspend, spec.concurrency_policy.as_str()), (false, "Forbid"), "no run begins");
        spec.job_template.spec.demand()
    }

    /// Reads it where a field of another name is in one of its parts.
    pub fn with_unknown(api: &Api, part: &str) -> Result<(), String> {
        let mut spec = api.get("cronjob egress-plan -n egress-plan")["spec"]["jobTemplate"]["spec"].clone();
        let object = spec.pointer_mut(part).and_then(Value::as_object_mut).expect("a part");
        object.insert("hostSomething".to_owned(), true.into());
        serde_json::from_value::<Self>(spec).map(drop).map_err(|error| error.to_string())
    }

    pub fn of_job(api: &Api, namespace: &str, name: &str) -> Self {
        let object = api.get(&format!("job {name} -n {namespace}"));
        let spec: Self = serde_json::from_value(object["spec"].clone()).expect("nothing that is not known here");
        spec.demand()
    }

    /// Demands of each field that the stand-in does nothing about the value that needs nothing done.
    fn demand(self) -> Self {
        assert_eq!((self.backoff_limit, self.suspend.unwrap_or(false)), (0, false));
        assert_eq!((self.parallelism.unwrap_or(1), self.completions.unwrap_or(1)), (1, 1));
        let pod = &self.template.spec;
        assert_eq!(pod.service_account.as_ref().unwrap_or(&pod.service_account_name), &pod.service_account_name);
        assert_eq!((pod.automount_service_account_token, pod.enable_service_links), (false, false));
        let rest = [&pod.restart_policy, &pod.dns_policy, &pod.scheduler_name].map(String::as_str);
        assert_eq!(rest, ["Never", "ClusterFirst", "default-scheduler"]);
        let security = &pod.security_context;
        assert!(security.run_as_non_root && security.run_as_user != 0);
        assert_eq!(security.fs_group_change_policy, "OnRootMismatch");
        // The container runtime's own list of calls is not here; tests/chart demands the same of the pod.
        let profile: Vec<_> = security.seccomp_profile.iter().collect();
        assert_eq!(profile, [(&"type".to_owned(), &"RuntimeDefault".to_owned())]);
        let container = self.container();
        assert!(container.security_context.run_as_non_root);
        assert_eq!(container.security_context.capabilities.drop, ["ALL"]);
        let rest =
            [&container.image_pull_policy, &container.termination_message_path, &container.termination_message_policy];
        assert_eq!(rest.map(String::as_str), ["IfNotPresent", "/dev/termination-log", "File"]);
        self
    }

    pub fn pod(&self) -> &PodSpec {
        &self.template.spec
    }

    pub fn container(&self) -> &Container {
        let [container] = &self.pod().containers[..] else { panic!("one container") };
        container
    }
}
