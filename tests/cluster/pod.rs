//! The program as a pod of the chart would run it: with the arguments that the cluster holds for it and
//! the token of its own service account. What differs is where its files are, and that hosts are recorded.

use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use super::api::{Api, Said};
use super::chart::Release;
use super::fleet::{recorded_hosts, take_away};

pub struct Pod<'a> {
    pub release: Release<'a>,
    pub program: Program,
    /// As the arguments of its program name them.
    pub namespaces: Vec<String>,
    apply: Vec<String>,
    diff: Vec<String>,
}

/// The program as a service account, in a folder that stands for the file system of its pod.
pub struct Program {
    pub folder: TempDir,
    /// The account as the API server calls it.
    pub user: String,
    pub kubeconfig: PathBuf,
    namespace: String,
}

impl Program {
    /// Takes a token that is good for some minutes.
    pub fn new(api: &Api, namespace: &str, account: &str) -> Self {
        let token = api.kubectl(&format!("create token {account} -n {namespace} --duration=10m")).ok();
        let kubeconfig = api.kubeconfig(&format!("{namespace}.kubeconfig"), token.trim(), namespace);
        let user = format!("system:serviceaccount:{namespace}:{account}");
        let folder = tempfile::tempdir().expect("a folder");
        for within in ["state", "checkout/proxies"] {
            std::fs::create_dir_all(folder.path().join(within)).expect("made");
        }
        Self { folder, user, kubeconfig, namespace: namespace.to_owned() }
    }

    pub fn run(&self, arguments: &[String], more: &str) -> Said {
        let here = self.folder.path().to_str().expect("a path");
        let moved = arguments.iter().map(|it| {
            it.replace("$(POD_NAMESPACE)", &self.namespace)
                .replace("/etc/egress-plan/config/", &format!("{here}/"))
                .replace("/var/lib/egress-plan/", &format!("{here}/state/"))
                .replace("/manifests/", &format!("{here}/"))
        });
        Command::new(assert_cmd::cargo::cargo_bin!("egress-plan"))
            .env_clear()
            .env("KUBECONFIG", &self.kubeconfig)
            .env("POD_NAME", "egress-plan-29000000-abcde")
            .env("TMPDIR", here)
            .current_dir(here)
            .args(moved)
            .args(more.split_whitespace())
            .output()
            .expect("starts")
            .into()
    }
}

/// The arguments of the program in a pod, or in the template of one.
pub fn arguments(pod: &serde_json::Value) -> Vec<String> {
    let arguments = pod["spec"]["containers"][0]["args"].as_array().expect("arguments");
    arguments.iter().map(|it| it.as_str().expect("text").to_owned()).collect()
}

impl<'a> Pod<'a> {
    /// Applies a release whose hosts are recorded ones.
    pub fn new(release: Release<'a>, fleet: &str, more: &str) -> Self {
        release.apply(&release.render(&format!("--set job.command=diff --set job.extraArgs=null {more}")));
        let cron = release.object("cronjob", "")["spec"]["jobTemplate"]["spec"]["template"].clone();
        let diff = arguments(&release.object("job", "-diff-1")["spec"]["template"]);
        let account = cron["spec"]["serviceAccountName"].as_str().expect("an account");
        let program = Program::new(release.api, &release.name, account);
        recorded_hosts(program.folder.path(), fleet);
        let apply = arguments(&cron);
        let namespaces = apply.iter().filter_map(|it| it.strip_prefix("--namespace=").map(str::to_owned)).collect();
        Self { release, program, namespaces, apply, diff }
    }

    /// A run of the `CronJob`. What becomes of the hosts is there for the next one.
    pub fn apply(&self, more: &str) -> Said {
        let simulate = if self.apply.iter().any(|it| it == "--simulate") { "" } else { "--simulate" };
        self.program.run(&self.apply, &format!("{simulate} --save-recorded . {more}"))
    }

    /// The chart's own Job, or another command that only looks with what that Job is given.
    pub fn look(&self, command: &str) -> Said {
        let given = self.diff.iter().map(|it| if it == "diff" { command.to_owned() } else { it.clone() });
        // It asks no host, and so has no limit on how long hosts may take.
        let unknown = |it: &String| command == "validate" && it.starts_with("--timeout=");
        let given: Vec<String> = given.filter(|it| !unknown(it)).collect();
        assert!(given.iter().any(|it| it == command), "{given:?}");
        self.program.run(&given, "")
    }
}

impl Drop for Pod<'_> {
    fn drop(&mut self) {
        for namespace in &self.namespaces {
            take_away(self.release.api, namespace);
        }
    }
}
