//! A node's part of running a pod, from its manifest alone: volumes, identity, limits, root and
//! variables, then the program as the first process. `container` beside this file is the half of it that
//! happens in the pod's own mounts.
//!
//! What no pod has of its own here is a network: the hosts listen on loopback. Nor is there the container
//! runtime's list of system calls.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::api::Api;
use super::lab::{lab, tool};
use super::manifest::{JobSpec, Variable};
use super::volumes::{Identity, bytes, make, used};

/// The one image that this node has.
const IMAGE: &str = "registry.example/egress-plan:0.1.0";
const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const LOOK: Duration = Duration::from_millis(100);

/// A pod whose program runs.
pub struct Pod {
    pub name: String,
    child: Child,
    folder: PathBuf,
    begun: Instant,
    deadline: Duration,
    grace: Duration,
    memory_limit: u64,
    spools: Vec<(PathBuf, u64)>,
    /// The most that was seen of memory that cannot be given back.
    own_memory: u64,
}

/// A pod whose program has ended.
pub struct Ended {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
    pub memory: Memory,
    pub took: Duration,
}

/// What was counted of a pod's memory, in bytes.
#[derive(Debug)]
pub struct Memory {
    pub limit: u64,
    /// With pages of files, which are given back when there is need.
    pub peak: u64,
    /// Without them, as seen ten times a second.
    pub own: u64,
    /// Processes that were killed for want of it.
    pub killed: u64,
}

impl Ended {
    #[track_caller]
    pub fn must(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}\n{}", self.out, self.err);
        self
    }

    #[track_caller]
    pub fn says(self, texts: &[&str]) -> Self {
        for text in texts {
            assert!(self.out.contains(text) || self.err.contains(text), "{text}:\n{}\n{}", self.out, self.err);
        }
        self
    }
}

/// The program's place, as the image has it.
fn entry_point() -> String {
    let text = include_str!("../../Containerfile");
    let line = text.lines().find_map(|line| line.strip_prefix("ENTRYPOINT [\"")).expect("an entry point");
    line.strip_suffix("\"]").expect("of one word").to_owned()
}

/// Puts variables where an argument names them.
fn expanded(argument: &str, environment: &[(String, String)]) -> String {
    assert!(!argument.contains("$$"), "{argument}: an escape is not known here");
    environment.iter().fold(argument.to_owned(), |text, (name, value)| text.replace(&format!("$({name})"), value))
}

fn value(variable: &Variable, identity: &Identity<'_>) -> (String, String) {
    let value = match (&variable.value, &variable.value_from) {
        (Some(value), None) => value.clone(),
        (None, Some(from)) => identity.field(&from.field_ref).to_owned(),
        (value, _) => panic!("{}: {value:?} and a source", variable.name),
    };
    (variable.name.clone(), value)
}

impl Pod {
    /// Starts the pod of a Job.
    pub fn start(api: &Api, namespace: &str, name: &str, job: &JobSpec) -> Self {
        static PODS: AtomicU32 = AtomicU32::new(0);
        let number = PODS.fetch_add(1, Ordering::Relaxed);
        // As the controllers name pods: what they are of, and five characters.
        let name = format!("{name}-{number:05}");
        let folder = Path::new(&lab("LAB_DIR")).join("tmp/pods").join(&name);
        fs::create_dir_all(&folder).expect("a folder");
        let identity = Identity { namespace, name: &name };
        let (pod, container) = (job.pod(), job.container());
        assert_eq!((container.name.as_str(), container.image.as_str()), ("egress-plan", IMAGE));

        let (mut mounts, mut spools) = (String::new(), Vec::new());
        for volume in &pod.volumes {
            let (source, most) = make(api, &folder, volume, pod, &identity);
            spools.extend(most.map(|most| (source.clone(), most)));
            let mount = container.volume_mounts.iter().find(|mount| mount.name == volume.name).expect("a mount");
            let access = if mount.read_only { "ro" } else { "rw" };
            mounts += &format!("{}\t{}\t{access}\n", source.display(), mount.place);
        }
        assert_eq!(container.volume_mounts.len(), pod.volumes.len(), "a mount without a volume");
        let program = entry_point();
        mounts += &format!("{}\t{program}\tro\n", env!("CARGO_BIN_EXE_egress-plan"));

        // Services are told of as well: the API server's is known on every node.
        let mut environment: Vec<_> = container.env.iter().map(|variable| value(variable, &identity)).collect();
        let port = api.port.to_string();
        for (name, value) in [
            ("HOSTNAME", name.as_str()),
            ("KUBERNETES_SERVICE_HOST", "127.0.0.1"),
            ("KUBERNETES_SERVICE_PORT", &port),
            ("KUBERNETES_SERVICE_PORT_HTTPS", &port),
        ] {
            environment.push((name.to_owned(), value.to_owned()));
        }
        let command: Vec<_> = container.args.iter().map(|argument| expanded(argument, &environment)).collect();
        assert!(!command.iter().any(|argument| argument.contains("$(")), "{command:?}");
        let environment: Vec<_> = environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let (limits, security) = (&container.resources.limits, &container.security_context);
        let cpu = limits.cpu.as_ref().map_or("-".to_owned(), |cpu| match cpu.strip_suffix('m') {
            Some(thousandths) => thousandths.to_owned(),
            None => format!("{cpu}000"),
        });
        let who = &pod.security_context;
        let mut identity = vec![
            format!("--reuid={}", who.run_as_user),
            format!("--regid={}", who.run_as_group),
            format!("--groups={}", who.fs_group),
            // Dropping all of them is demanded where the manifest is read.
            "--inh-caps=-all".to_owned(),
            "--ambient-caps=-all".to_owned(),
            "--bounding-set=-all".to_owned(),
        ];
        if !security.allow_privilege_escalation {
            identity.push("--no-new-privs".to_owned());
        }
        let memory_limit = bytes(&limits.memory);
        let write = |name: &str, text: &str| fs::write(folder.join(name), text).expect("written");
        write("mounts", &mounts);
        write("limits", &format!("{memory_limit} {cpu}\n"));
        write("identity", &(identity.join("\n") + "\n"));
        write("root-access", if security.read_only_root_filesystem { "ro\n" } else { "rw\n" });
        write("command", &format!("{program}\n{}\n", command.join("\n")));
        write("environment", &format!("{PATH}\n{}\n", environment.join("\n")));
        let file = |name: &str| File::create(folder.join(name)).expect("a file");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/incluster/container");
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "unshare", "--mount"])
            .arg(script)
            .arg(&folder)
            .stdin(Stdio::null())
            .stdout(file("stdout"))
            .stderr(file("stderr"))
            .spawn()
            .expect("starts");
        let seconds = Duration::from_secs;
        let (deadline, grace) = (seconds(job.active_deadline_seconds), seconds(pod.termination_grace_period_seconds));
        let begun = Instant::now();
        Self { name, child, folder, begun, deadline, grace, memory_limit, spools, own_memory: 0 }
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.folder.join(name)).unwrap_or_default()
    }

    /// What it has said so far.
    pub fn said(&self) -> String {
        self.read("stdout") + &self.read("stderr")
    }

    /// A file of its control groups, by way of its own mounts.
    fn counted(&self, file: &str) -> String {
        let groups = self.read("groups");
        let group = groups.lines().find(|group| group.contains("memory")).unwrap_or_default();
        fs::read_to_string(format!("/proc/{}/root{group}/{file}", self.child.id())).unwrap_or_default()
    }

    /// Sends a signal to the program alone: to the last that its control group has, the others being
    /// those that wait for it.
    pub fn signal(&self, signal: &str) {
        let processes = self.counted("cgroup.procs");
        tool("kill", &["-s", signal, processes.lines().last().expect("it runs")]);
    }

    /// Looks as a node does, now and then; whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        if self.child.try_wait().expect("ours").is_some() {
            return true;
        }
        let statistics = self.counted("memory.stat");
        let own = |name: &str| statistics.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
        self.own_memory = self.own_memory.max(own("total_rss ").or_else(|| own("anon ")).unwrap_or(0));
        for (folder, most) in &self.spools {
            assert!(used(folder) <= *most, "{}: evicted, as its folder is too full", self.name);
        }
        false
    }

    /// Waits for its end, and ends it at its deadline as a node does.
    pub fn finish(mut self) -> Ended {
        let mut told = false;
        while !self.has_ended() {
            std::thread::sleep(LOOK);
            if self.begun.elapsed() > self.deadline && !told {
                self.signal("TERM");
                told = true;
            }
            assert!(self.begun.elapsed() < self.deadline + self.grace, "killed:\n{}", self.said());
        }
        let code = self.child.wait().expect("ended").code();
        let figure = |name: &str| {
            self.read(name).trim().parse().unwrap_or_else(|_| panic!("{name}: the pod did not start:\n{}", self.said()))
        };
        let memory =
            Memory { limit: self.memory_limit, peak: figure("peak"), own: self.own_memory, killed: figure("killed") };
        Ended { code, out: self.read("stdout"), err: self.read("stderr"), memory, took: self.begun.elapsed() }
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
        for (folder, _) in &self.spools {
            fs::remove_dir_all(folder).ok();
        }
    }
}
