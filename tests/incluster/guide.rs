//! The commands of docs/guide/kubernetes.md, done as they stand there, in a folder that has what the
//! guide names: the chart, `values.yaml`, keys and user-data.

use std::path::Path;
use std::process::{Command, Stdio};

use super::api::{Api, Said};
use super::manifest::JobSpec;
use super::node::{Ended, Pod};

const TEXT: &str = include_str!("../../docs/guide/kubernetes.md");

/// Commands of a section, in their order.
pub fn commands(section: &str) -> Vec<String> {
    let head = format!("\n## {section}\n");
    let text = TEXT.split_once(&head).unwrap_or_else(|| panic!("no section {section}")).1;
    let text = text.split("\n## ").next().unwrap_or_default();
    let (mut found, mut command, mut in_block, mut ends_at) = (Vec::new(), String::new(), false, None);
    for line in text.lines() {
        // Blocks of a numbered list are indented; a here-document inside of one would need its lines so.
        let bare = line.trim();
        if bare.starts_with("```") {
            in_block = bare == "```sh";
            continue;
        }
        if !in_block {
            continue;
        }
        command += if ends_at.is_some() { line } else { bare };
        command.push('\n');
        match ends_at {
            Some(end) if bare == end => ends_at = None,
            Some(_) => continue,
            None if bare.ends_with("<<'YAML'") => {
                ends_at = Some("YAML");
                continue;
            }
            None if bare.ends_with('\\') => continue,
            None => {}
        }
        found.push(std::mem::take(&mut command).trim_end().to_owned());
    }
    assert!(command.is_empty() && !found.is_empty(), "{section}: {command}");
    found
}

/// Whoever follows the guide.
pub struct Reader<'a> {
    pub api: &'a Api,
    pub folder: &'a Path,
}

impl Reader<'_> {
    fn command(&self, text: &str) -> Command {
        let path = format!("{}:/usr/bin:/bin", self.api.tools.display());
        let mut command = Command::new("bash");
        command
            .args(["-euo", "pipefail", "-c", text])
            .env_clear()
            .env("PATH", path)
            .env("HOME", self.folder)
            .env("KUBECONFIG", self.api.path("kubeconfig"))
            .current_dir(self.folder)
            .stdin(Stdio::null());
        command
    }

    pub fn run(&self, text: &str) -> Said {
        self.command(text).output().expect("bash").into()
    }

    /// Follows a section to its end, and returns what each command said. `else_` may do one in another way.
    pub fn follow(&self, section: &str, mut else_: impl FnMut(&str) -> Option<String>) -> Vec<String> {
        let follow = |command: String| {
            else_(&command).unwrap_or_else(|| {
                let said = self.run(&command);
                assert_eq!(said.code, Some(0), "{command}\n{}{}", said.out, said.err);
                said.out
            })
        };
        commands(section).into_iter().map(follow).collect()
    }

    /// The Job whose log a command shows, run by the node. `REVISION` is the last one.
    pub fn run_job_of(&self, command: &str) -> Option<Ended> {
        let (_, name) = command.split_once("kubectl -n egress-plan logs -f job/")?;
        let history = self.run("helm -n egress-plan history egress-plan -o json --max 1").ok();
        let history: serde_json::Value = serde_json::from_str(&history).expect("JSON");
        let name = name.replace("REVISION", &history[0]["revision"].to_string());
        let job = JobSpec::of_job(self.api, "egress-plan", &name);
        Some(Pod::start(self.api, "egress-plan", &name, &job).finish())
    }

    /// Deletes a namespace with the guide's command, and does what the controller of namespaces does then.
    pub fn delete_namespace(&self, command: &str, name: &str) -> String {
        let child = self.command(command).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("bash");
        let phase = || self.api.get(&format!("namespace {name}"))["status"]["phase"] == "Terminating";
        super::lab::until("the namespace ends", 30, std::time::Duration::from_millis(100), || phase().then_some(()));
        self.api.kubectl(&format!("delete leases,cm,secrets,sa,jobs,cronjobs,roles,rolebindings --all -n {name}")).ok();
        let mut object = self.api.get(&format!("namespace {name}"));
        object["spec"]["finalizers"] = serde_json::json!([]);
        let path = format!("replace --raw /api/v1/namespaces/{name}/finalize -f -");
        self.api.kubectl_with(&path, &object.to_string()).ok();
        Said::from(child.wait_with_output().expect("ends")).ok()
    }
}
