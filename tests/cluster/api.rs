//! A real API server before a real etcd, both on loopback and in a folder of their own, for as long as
//! the value lives.

use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

const READY: Duration = Duration::from_mins(2);
const AUDIT: &str = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- {level: Metadata, userGroups: ['system:serviceaccounts']}\n- {level: None}\n";

pub struct Api {
    pub folder: TempDir,
    /// Where kubectl and helm are.
    pub tools: PathBuf,
    pub port: u16,
    children: Vec<Child>,
}

/// What a command said, and how it ended.
pub struct Said {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Said {
    /// Demands success, and returns stdout.
    #[track_caller]
    pub fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{}{}", self.out, self.err);
        self.out
    }
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound").port()
}

fn openssl(folder: &Path, arguments: &str) {
    let done = Command::new("openssl").args(arguments.split(' ')).current_dir(folder).output().expect("openssl starts");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

impl Api {
    /// Starts both and waits until the API server is ready.
    pub fn start() -> Self {
        let tools = PathBuf::from(std::env::var_os("EGRESS_PLAN_KUBE").expect("run in tests/cluster/lab"));
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path();
        openssl(at, "genrsa -out sa.key 2048");
        openssl(at, "rsa -in sa.key -pubout -out sa.pub");
        std::fs::write(at.join("tokens.csv"), "admin-token,admin,admin,\"system:masters\"\n").expect("written");
        // Of the program's requests who asked for what, and whether it was allowed; of others nothing.
        std::fs::write(at.join("audit.yaml"), AUDIT).expect("written");
        let (client, peer, port) = (free_port(), free_port(), free_port());
        let (client, peer) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
        let mut api = Self { folder, tools, port, children: Vec::new() };
        api.spawn(
            "etcd",
            "etcd",
            &[
                "--data-dir=etcd",
                &format!("--listen-client-urls={client}"),
                &format!("--advertise-client-urls={client}"),
                &format!("--listen-peer-urls={peer}"),
                &format!("--initial-advertise-peer-urls={peer}"),
                &format!("--initial-cluster=default={peer}"),
                "--unsafe-no-fsync",
            ],
        );
        let server = api.tools.join("kube-apiserver");
        api.spawn(
            "api",
            server.to_str().expect("a path"),
            &[
                &format!("--etcd-servers={client}"),
                &format!("--secure-port={port}"),
                "--bind-address=127.0.0.1",
                "--advertise-address=127.0.0.1",
                "--cert-dir=certs",
                "--service-account-issuer=https://kubernetes.default.svc",
                "--service-account-key-file=sa.pub",
                "--service-account-signing-key-file=sa.key",
                "--service-cluster-ip-range=10.96.0.0/24",
                "--token-auth-file=tokens.csv",
                "--authorization-mode=RBAC",
                "--delete-collection-workers=8",
                "--audit-policy-file=audit.yaml",
                "--audit-log-path=audit.log",
            ],
        );
        api.kubeconfig("kubeconfig", "admin-token", "default");
        let begun = Instant::now();
        while api.kubectl("get --raw /readyz").code != Some(0) {
            assert!(begun.elapsed() < READY, "{}", api.log("api"));
            std::thread::sleep(Duration::from_millis(300));
        }
        api
    }

    fn spawn(&mut self, name: &str, program: &str, arguments: &[&str]) {
        let log = std::fs::File::create(self.path(&format!("{name}.log"))).expect("a log");
        // Both end with this process, however it ends.
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", program])
            .args(arguments)
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a handle"))
            .stderr(log)
            .spawn()
            .expect("starts");
        self.children.push(child);
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(&format!("{name}.log"))).unwrap_or_default()
    }

    /// Writes a kubeconfig for the bearer of a token.
    pub fn kubeconfig(&self, name: &str, token: &str, namespace: &str) -> PathBuf {
        let authority = self.path("certs/apiserver.crt");
        let path = self.path(name);
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters:\n- name: c\n  cluster: {{server: \"https://127.0.0.1:{}\", \
             certificate-authority: {}}}\nusers: [{{name: u, user: {{token: {token}}}}}]\n\
             contexts: [{{name: c, context: {{cluster: c, user: u, namespace: {namespace}}}}}]\n",
            self.port,
            authority.display()
        );
        std::fs::write(&path, text).expect("written");
        path
    }

    pub fn kubectl(&self, line: &str) -> Said {
        self.tool("kubectl", line, "")
    }

    /// With text on stdin.
    pub fn kubectl_with(&self, line: &str, text: &str) -> Said {
        self.tool("kubectl", line, text)
    }

    pub fn helm(&self, line: &str) -> Said {
        self.tool("helm", line, "")
    }

    fn tool(&self, name: &str, line: &str, text: &str) -> Said {
        let mut child = self.command(name, line).stdin(Stdio::piped()).spawn().expect("starts");
        child.stdin.take().expect("piped").write_all(text.as_bytes()).ok();
        child.wait_with_output().expect("ends").into()
    }

    /// Runs a line as a user would type it, with the tools in the path.
    pub fn shell(&self, folder: &Path, line: &str) -> Said {
        let path = format!("{}:{}", self.tools.display(), std::env::var("PATH").expect("a path"));
        self.at_home(&mut Command::new("bash"))
            .args(["-euc", line])
            .env("PATH", path)
            .current_dir(folder)
            .output()
            .expect("starts")
            .into()
    }

    /// One of the tools that is yet to be started, as the administrator.
    pub fn command(&self, name: &str, line: &str) -> Command {
        let mut command = Command::new(self.tools.join(name));
        self.at_home(&mut command).args(line.split_whitespace());
        command
    }

    fn at_home<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command
            .env("KUBECONFIG", self.path("kubeconfig"))
            .env("HOME", self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
    }

    /// Makes a namespace with these labels, unless another trial did.
    pub fn namespace(&self, name: &str, labels: &str) {
        let namespace = format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}, labels: {{{labels}}}}}\n");
        self.kubectl_with("apply --server-side --field-manager=trials -f -", &namespace).ok();
    }

    /// Stops the API server where it is, or lets it go on. It keeps its connections and answers nobody.
    #[allow(dead_code, reason = "not every suite that uses this file needs it")]
    pub fn freeze(&self, frozen: bool) {
        let signal = if frozen { "STOP" } else { "CONT" };
        let server = self.children.last().expect("started").id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &server]).status().expect("kill").success());
    }

    /// An object, as JSON.
    pub fn get(&self, line: &str) -> Value {
        serde_json::from_str(&self.kubectl(&format!("get -o json {line}")).ok()).expect("JSON")
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        for child in self.children.iter_mut().rev() {
            child.kill().ok();
            child.wait().ok();
        }
    }
}
