//! A fleet of the suite: its config and manifests on disk, and runs of the built program on them.
//!
//! Whatever a run prints or writes is kept in one folder, which the last trials search for secrets.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use egress_plan::plan::ProxyKey;
use egress_plan::provider::libvirt::naming::instance_name;
use serde_json::Value;

use super::lab::{lab, sha256, tool};

/// The entry that all fleets but one have.
pub const ENTRY: &str = "lab";

/// User-data that asks for nothing, as a manifest gives it.
pub const EMPTY: &str = "cloudInit: \"#cloud-config\\nbootcmd: [[true]]\\n\"";

/// An image of the config.
pub struct Image {
    pub key: &'static str,
    /// File name below the lab's web server, with whatever follows it.
    pub url: String,
    pub sha256: String,
    pub format: &'static str,
    pub firmware: &'static str,
}

impl Image {
    /// A disk on which no firmware finds anything to boot: the machine runs and costs nothing.
    pub fn blank() -> Self {
        let file = Path::new(&lab("LAB_WEB_DIR")).join("blank.qcow2");
        if !file.exists() {
            tool("qemu-img", &["create", "-q", "-f", "qcow2", file.to_str().unwrap(), "1M"]);
        }
        let url = "blank.qcow2".to_owned();
        Self { key: "blank", url, sha256: sha256(&file), format: "qcow2", firmware: "bios" }
    }
}

/// A fleet: a folder with `config.yaml`, `manifests/` and `secrets/`.
pub struct Fleet {
    pub name: String,
    pub entry: String,
    pub folder: PathBuf,
}

/// What a config has besides hosts and images.
pub struct Settings {
    pub policy: &'static str,
    pub drain: &'static str,
    pub disk_gib: u32,
    pub more: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self { policy: "{minAge: 0s, maxDeletions: 100%}", drain: "0s", disk_gib: 1, more: String::new() }
    }
}

impl Fleet {
    /// A fleet of blank machines, without any manifest yet.
    pub fn blank(name: &str) -> Self {
        Self::new(name, ENTRY, "libvirt", &[Image::blank()], &Settings::default())
    }

    pub fn new(name: &str, entry: &str, kind: &str, images: &[Image], settings: &Settings) -> Self {
        let folder = Path::new(&lab("LAB_DIR")).join("tmp/fleets").join(name);
        for part in ["manifests", "secrets"] {
            fs::create_dir_all(folder.join(part)).unwrap();
        }
        let web = lab("LAB_WEB");
        let line = |Image { key, url, sha256, format, firmware }: &Image| {
            format!(
                "      {key}: {{url: {web}/{url}, checksum: 'sha256:{sha256}', format: {format}, firmware: {firmware}}}\n"
            )
        };
        let images = images.iter().map(line).collect::<Vec<_>>().concat();
        let host = |zone: &str, address: &str, pool: &str| {
            format!(
                "    - {{name: {zone}, address: '{}', user: {}, pool: {}, bridge: {}, domainType: qemu}}\n",
                lab(address),
                lab("LAB_USER"),
                lab(pool),
                lab("LAB_BRIDGE")
            )
        };
        let hosts = host("a", "LAB_SSH_A", "LAB_POOL_A") + &host("b", "LAB_SSH_B", "LAB_POOL_B");
        let Settings { policy, drain, disk_gib, more } = settings;
        let (key, known_hosts) = (lab("LAB_KEY"), lab("LAB_KNOWN_HOSTS"));
        let config = format!(
            "fleet: {name}\npolicy: {policy}\nproviders:\n- name: {entry}\n  type: {kind}\n  {kind}:\n    \
             sshKeyFile: {key}\n    knownHostsFile: {known_hosts}\n    diskSizeGb: {disk_gib}\n    poolReserve: 1GiB\n    \
             drain: {{timeout: {drain}}}\n{more}    images:\n{images}    machineTypes:\n      \
             tiny: {{vcpus: 1, memoryMiB: 64}}\n      small: {{vcpus: 1, memoryMiB: 512}}\n    hosts:\n{hosts}"
        );
        fs::write(folder.join("config.yaml"), config).unwrap();
        Self { name: name.to_owned(), entry: entry.to_owned(), folder }
    }

    /// Takes host b out of the config.
    #[allow(dead_code, reason = "the measure of the limits uses it, the story does not")]
    pub fn with_one_host(&self) {
        let config = self.folder.join("config.yaml");
        let text = fs::read_to_string(&config).unwrap();
        let end = text.find("    - {name: b,").unwrap();
        fs::write(&config, &text[..end]).unwrap();
    }

    /// Writes the manifest of a blank machine on a host.
    pub fn want(&self, proxy: &str, zone: &str) {
        self.manifest(proxy, zone, "tiny", "blank", EMPTY);
    }

    /// Writes a manifest; `cloud_init` is the field that gives the user-data.
    pub fn manifest(&self, proxy: &str, zone: &str, machine_type: &str, image: &str, cloud_init: &str) {
        let text = format!(
            "apiVersion: egress-plan.dev/v1alpha1\nkind: Proxy\nmetadata: {{name: {proxy}}}\nspec:\n  mode: Managed\n  \
             provider: {}\n  port: 3128\n  placement: {{zone: {zone}, machineType: {machine_type}, image: {image}}}\n  \
             {cloud_init}\n",
            self.entry
        );
        fs::write(self.folder.join("manifests").join(format!("{proxy}.yaml")), text).unwrap();
    }

    /// Removes a manifest.
    pub fn unwant(&self, proxy: &str) {
        fs::remove_file(self.folder.join("manifests").join(format!("{proxy}.yaml"))).unwrap();
    }

    /// The name that the machine of a proxy has on a host.
    pub fn instance(&self, proxy: &str, zone: &str) -> String {
        let place = format!("{}/{zone}", self.entry).parse().unwrap();
        instance_name(&self.name.parse().unwrap(), &place, &ProxyKey::new("default", proxy).unwrap())
    }

    /// Runs the program to its end. `-c` and, where the command takes manifests, `-f` are added.
    pub fn run(&self, args: &[&str]) -> Run {
        self.start(args, &[]).finish()
    }

    pub fn run_with(&self, args: &[&str], environment: &[(&str, &str)]) -> Run {
        self.start(args, environment).finish()
    }

    /// `apply` without a question, which must end with `code`.
    pub fn apply(&self, code: i32) -> Run {
        self.run(&["apply", "--auto-approve"]).must(code)
    }

    pub fn diff(&self, code: i32) -> Run {
        self.run(&["diff"]).must(code)
    }

    /// Deletes what a trial made.
    pub fn destroy(&self) {
        self.run(&["destroy", "--all", "--auto-approve"]).must(0);
    }

    /// Starts the program. Everything that it can tell, it tells: the most verbose logs, as JSON.
    pub fn start(&self, args: &[&str], environment: &[(&str, &str)]) -> Running {
        static RUNS: AtomicU32 = AtomicU32::new(0);
        let number = RUNS.fetch_add(1, Ordering::Relaxed);
        let text = args.contains(&"--log-format");
        let suffix = if text { "-text" } else { "" };
        let base = records().join(format!("{number:03}-{}-{}{suffix}", self.name, args[0]));
        let file = |ending: &str| base.with_extension(ending);
        let mut command = Command::new(env!("CARGO_BIN_EXE_egress-plan"));
        command.args(args).arg("-c").arg(self.folder.join("config.yaml"));
        if matches!(args[0], "diff" | "apply") {
            command.arg("-f").arg(self.folder.join("manifests"));
            command.arg("--secrets-dir").arg(self.folder.join("secrets"));
        }
        if !text {
            command.args(["-vv", "--log-format", "json"]);
        }
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("TMPDIR", lab("TMPDIR"));
        command.envs(environment.iter().copied()).stdin(Stdio::null());
        command.stdout(File::create(file("stdout")).unwrap()).stderr(File::create(file("stderr")).unwrap());
        let line = format!("{command:?}");
        let child = command.spawn().unwrap();
        Running { child, line, stdout: file("stdout"), stderr: file("stderr") }
    }
}

/// The folder of everything that runs print or write. It lies among the lab's logs, so that
/// `LAB_KEEP_LOGS` keeps it.
pub fn records() -> PathBuf {
    let folder = Path::new(&lab("LAB_DIR")).join("log/runs");
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// A run that is under way.
pub struct Running {
    pub child: Child,
    line: String,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Running {
    pub fn signal(&self, signal: &str) {
        tool("kill", &["-s", signal, &self.child.id().to_string()]);
    }

    /// Remote calls that the run has told of so far.
    #[allow(dead_code, reason = "the story uses it, the measure of the limits does not")]
    pub fn calls_so_far(&self) -> u64 {
        let log = fs::read_to_string(&self.stderr).unwrap_or_default();
        u64::try_from(log.lines().filter(|line| line.contains("\"libvirt call\"")).count()).unwrap()
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Whether one line of its log holds all of the texts by now.
    #[allow(dead_code, reason = "not every suite that uses this file needs it")]
    pub fn told(&self, texts: &[&str]) -> bool {
        let log = fs::read_to_string(&self.stderr).unwrap();
        log.lines().any(|line| texts.iter().all(|text| line.contains(text)))
    }

    /// What it has printed so far.
    #[allow(dead_code, reason = "not every suite that uses this file needs it")]
    pub fn printed(&self) -> String {
        fs::read_to_string(&self.stdout).unwrap()
    }

    pub fn finish(mut self) -> Run {
        // Of one that has ended already nobody knows when.
        let is_watched = !self.has_ended();
        let code = self.child.wait().unwrap().code();
        // Its last word, on either stream; after it, connections are closed and nothing else is done.
        let said = |path: &Path| fs::metadata(path).and_then(|meta| meta.modified()).unwrap();
        let closing = said(&self.stdout).max(said(&self.stderr)).elapsed().unwrap_or_default();
        let closing = if is_watched { closing } else { std::time::Duration::ZERO };
        let read = |path: &Path| fs::read_to_string(path).unwrap();
        Run { code, stdout: read(&self.stdout), stderr: read(&self.stderr), line: self.line.clone(), closing }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A trial that failed half way must not leave a run behind that disturbs the next one.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A run that has ended.
pub struct Run {
    /// None when a signal ended it.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    /// How long it went on after its last word, to close its connections; nothing when nobody was
    /// waiting for it then.
    #[allow(dead_code, reason = "not every suite that uses this file needs it")]
    pub closing: std::time::Duration,
    line: String,
}

impl Run {
    /// Demands an exit code; shows everything but the calls otherwise.
    pub fn must(self, code: i32) -> Self {
        assert!(self.code == Some(code), "ended with {:?} instead of {code}\n{}", self.code, self.all());
        self
    }

    /// Demands that the output holds each of the texts.
    pub fn says(self, texts: &[&str]) -> Self {
        for text in texts {
            let told = self.stdout.contains(text) || self.messages().any(|message| message.contains(text));
            assert!(told, "it does not say {text:?}\n{}", self.all());
        }
        self
    }

    /// The last line of the plan or of the outcome.
    pub fn ends_with(self, line: &str) -> Self {
        assert_eq!(self.stdout.lines().last(), Some(line), "{}", self.all());
        self
    }

    pub fn all(&self) -> String {
        let messages: Vec<String> = self.messages().collect();
        format!("{}\n--- stdout\n{}\n--- stderr\n{}", self.line, self.stdout, messages.join("\n"))
    }

    /// Lines of stderr that are no traced calls.
    fn messages(&self) -> impl Iterator<Item = String> {
        self.stderr.lines().filter_map(|line| {
            let Ok(value) = serde_json::from_str::<Value>(line) else { return Some(line.to_owned()) };
            match value["message"].as_str() {
                Some("libvirt call") if value["error"].is_null() => None,
                _ => Some(value.to_string()),
            }
        })
    }

    /// Remote calls of one kind on one host.
    pub fn calls(&self, host: &str, rpc: &str) -> Vec<Value> {
        self.calls_to(host).filter(|value| value["rpc"] == rpc).collect()
    }

    /// Remote calls on one host.
    pub fn calls_to(&self, host: &str) -> impl Iterator<Item = Value> {
        let lines = self.stderr.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter(move |value| value["message"] == "libvirt call" && value["host"] == host)
    }
}

/// A JSON file that a run wrote.
pub fn json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// UUIDs of the given machines.
pub fn uuids<'a>(instances: impl IntoIterator<Item = &'a String>) -> BTreeMap<String, String> {
    instances.into_iter().map(|name| (name.clone(), super::lab::virsh(&["domuuid", name]))).collect()
}
