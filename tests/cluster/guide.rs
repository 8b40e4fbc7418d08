//! The guide to the chart, followed from the installation to the removal: every command in it is run as it
//! stands there. Nothing runs pods here, so that where the guide reads what one of them says, the program
//! is run with its arguments and its account, on a recorded host.

use std::path::Path;

use super::api::{Api, Said};
use super::chart::CHART;
use super::fleet::take_away;
use super::pod::{Program, arguments};

const GUIDE: &str = include_str!("../../docs/guide/kubernetes.md");
const DEFINITIONS: &str = "delete crd proxies.egress-plan.dev proxysets.egress-plan.dev";
const SUSPENDED: &str = "cronJob:\n  suspend: true\n";

/// The text of each block in a language, without what it is indented by in a list.
fn blocks(language: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut open: Option<(usize, bool, Vec<&str>)> = None;
    for line in GUIDE.lines() {
        let text = line.trim_start();
        match (open.take(), text.strip_prefix("```")) {
            (None, Some(of)) => open = Some((line.len() - text.len(), of == language, Vec::new())),
            (Some((_, wanted, lines)), Some(_)) => blocks.extend(wanted.then(|| lines.join("\n") + "\n")),
            (Some((indent, wanted, mut lines)), None) => {
                lines.push(line.get(indent..).unwrap_or_default());
                open = Some((indent, wanted, lines));
            }
            (None, None) => {}
        }
    }
    blocks
}

/// Each command, with the lines that go on and those that it reads.
fn commands() -> Vec<String> {
    let mut commands = Vec::new();
    for block in blocks("sh") {
        let mut lines = block.lines();
        while let Some(line) = lines.next() {
            let mut command = line.to_owned();
            let more = |command: &str| {
                command.ends_with('\\') || (command.contains("<<'YAML'") && !command.ends_with("\nYAML"))
            };
            while more(&command) {
                command = format!("{command}\n{}", lines.next().expect("it goes on"));
            }
            commands.push(command);
        }
    }
    commands
}

/// A user at a shell, and what stands for the pods.
struct User<'a> {
    api: &'a Api,
    folder: tempfile::TempDir,
    program: Option<Program>,
}

/// Other trials need what the last command takes away, and nothing of what is left when there was none.
impl Drop for User<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            take_away(self.api, "crawlers");
        } else {
            super::define(self.api);
        }
    }
}

impl<'a> User<'a> {
    /// With the files that the guide speaks of.
    fn new(api: &'a Api) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let user = Self { api, folder, program: None };
        let charts = Path::new(CHART).parent().expect("a folder");
        std::os::unix::fs::symlink(charts, user.folder.path().join("charts")).expect("linked");
        std::fs::create_dir(user.folder.path().join("keys")).expect("made");
        let values = blocks("yaml").swap_remove(0);
        assert!(values.ends_with(SUSPENDED), "{values}");
        for (file, text) in [
            ("values.yaml", values.as_str()),
            ("keys/id_ed25519", "a key\n"),
            ("keys/known_hosts", "a host\n"),
            ("squid.yaml", "#cloud-config\npackages: [squid]\n"),
        ] {
            std::fs::write(user.folder.path().join(file), text).expect("written");
        }
        user
    }

    fn types(&self, line: &str) -> String {
        let said = self.api.shell(self.folder.path(), line);
        assert_eq!(said.code, Some(0), "{line}: {}{}", said.out, said.err);
        said.out
    }

    fn revision(&self) -> String {
        let list: serde_json::Value =
            serde_json::from_str(&self.types("helm list -n egress-plan -o json")).expect("JSON");
        list[0]["revision"].as_str().expect("a number").to_owned()
    }

    /// Runs what a Job or the `CronJob` would run now. Its host is empty at first, and recorded.
    fn run(&mut self, of: &str) -> Said {
        let object = self.api.get(&format!("-n egress-plan {of}"));
        let template = object.pointer("/spec/jobTemplate/spec/template").unwrap_or(&object["spec"]["template"]);
        let api = self.api;
        let program = self.program.get_or_insert_with(|| {
            let account = template["spec"]["serviceAccountName"].as_str().expect("an account");
            let program = Program::new(api, "egress-plan", account);
            let host = format!(
                "format: egress-plan.dev/recorded/v1\nrecordedAt: {}\nhostname: beelink\ninterfaces: [br0]\nguestRange: 192.0.2.0/24\n",
                jiff::Timestamp::now()
            );
            std::fs::write(program.folder.path().join("beelink.yaml"), host).expect("written");
            program
        });
        let config = api.get("-n egress-plan configmap egress-plan-config")["data"]["config.yaml"]
            .as_str()
            .expect("a config")
            .to_owned();
        let recorded = |line: &str| match line.trim_start_matches(['-', ' ']).split(':').next() {
            Some("address") => line.replace("address: kvm1.home.arpa", "recorded: beelink.yaml"),
            Some("checksumUrl") => {
                format!("{}checksum: sha256:{}", &line[..line.len() - line.trim_start().len()], "0".repeat(64))
            }
            Some("user" | "sshKeyFile" | "knownHostsFile") => String::new(),
            _ => line.to_owned(),
        };
        let config: Vec<String> = config.lines().map(recorded).collect();
        // Nobody waits for a machine of this user to come of age.
        let config = format!("policy: {{minAge: 0s}}\n{}\n", config.join("\n"));
        std::fs::write(program.folder.path().join("config.yaml"), config).expect("written");
        let arguments = arguments(template);
        let simulate = if arguments.iter().any(|it| it == "apply") { "--simulate --save-recorded ." } else { "" };
        program.run(&arguments, simulate)
    }
}

pub fn followed(api: &Api) {
    // So that nothing is there before the first command.
    api.kubectl(DEFINITIONS).ok();
    let mut user = User::new(api);
    let mut said = Vec::new();
    let all = commands();
    for command in &all {
        let suspended = || api.get("-n egress-plan cronjob egress-plan")["spec"]["suspend"].clone();
        match command.as_str() {
            // There is no image to be built and no registry.
            it if it.starts_with("podman ") => {}
            it if it.contains(" logs -f job/") => {
                let job = it.split(" logs -f job/").nth(1).expect("a job").replace("REVISION", &user.revision());
                said.push(user.run(&format!("job {job}")).ok());
                // What the text says next: it may run by itself from now on.
                let file = user.folder.path().join("values.yaml");
                let values = std::fs::read_to_string(&file).expect("there");
                if values.ends_with(SUSPENDED) {
                    assert_eq!(suspended(), true);
                    std::fs::write(file, values.replace(SUSPENDED, "")).expect("written");
                }
            }
            it if it.contains(" wait proxy/") => {
                assert_eq!(suspended(), false);
                said.push(user.run("cronjob egress-plan").ok());
                user.types(it);
            }
            it if it.contains("configmap egress-plan-home-inventory") => assert!(user.types(it).contains("crawl-1")),
            it if it.ends_with(" --set cronJob.suspend=true") => {
                user.types(it);
                assert_eq!(suspended(), true);
            }
            it if it.contains("delete job NAME") => drop(user.types(&it.replace("NAME", "by-hand-1"))),
            it if it.starts_with("helm -n egress-plan rollback") => drop(user.types(&it.replace("REVISION", "1"))),
            it if it.starts_with("helm install ") => {
                user.types(it);
                let restrict = "kubectl label namespace egress-plan pod-security.kubernetes.io/enforce=restricted";
                assert!(GUIDE.contains(restrict));
                user.types(restrict);
            }
            it if it.starts_with("helm uninstall ") => {
                user.types(it);
                let left = api.kubectl("get cm,leases,secrets,sa,roles,cronjobs,jobs -n egress-plan -o name").ok();
                let mine =
                    |it: &&str| !it.starts_with("configmap/egress-plan-home-") && *it != "secret/egress-plan-ssh";
                let left: Vec<&str> = left.lines().filter(mine).collect();
                // The guide names no more than that, and the Secret goes with its namespace.
                assert_eq!(left, ["lease.coordination.k8s.io/egress-plan-home"]);
                let labelled = api.kubectl("get cm -n egress-plan -l egress-plan.dev/fleet -o name").ok();
                let all = api.kubectl("get cm -n egress-plan -o name").ok();
                assert_eq!(labelled, all, "the label finds them all");
            }
            // No controller empties a namespace here, and the command would wait for it.
            "kubectl delete namespace egress-plan" => {}
            it => drop(user.types(it)),
        }
    }
    assert!(all.len() > 25, "{all:?}");
    let [first, by_schedule, by_hand, removal] = said.as_slice() else { panic!("{said:?}") };
    assert!(first.contains("1 to create"), "{first}");
    assert!(by_schedule.contains("1 created"), "{by_schedule}");
    assert!(by_hand.ends_with("No changes.\n"), "{by_hand}");
    assert!(removal.contains("1 deleted"), "{removal}");
    assert_eq!(api.kubectl("get crd -o name").ok().matches("egress-plan.dev").count(), 0);
}
