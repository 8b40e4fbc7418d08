//! The script that puts the guest's agent into a machine, from which the address is then read.
//!
//! A script and not cloud-config, because cloud-init drops a vendor-data cloud-config's keys that
//! user-data has too.

/// Installs and starts `qemu-guest-agent` with whichever package manager and service manager there
/// is. Harmless when run twice and where neither exists (L37): it always ends with success, since a
/// machine without the agent still serves.
pub const SCRIPT: &str = r#"#!/bin/sh
# Installs and starts the QEMU guest agent. Written by egress-plan; safe to run again.

have() {
    command -v "$1" >/dev/null 2>&1
}

install_agent() {
    if have apt-get; then
        DEBIAN_FRONTEND=noninteractive
        export DEBIAN_FRONTEND
        apt-get -q -y -o DPkg::Lock::Timeout=300 update
        apt-get -q -y -o DPkg::Lock::Timeout=300 install qemu-guest-agent
    elif have dnf; then
        dnf -y install qemu-guest-agent
    elif have yum; then
        yum -y install qemu-guest-agent
    elif have zypper; then
        zypper --non-interactive install qemu-guest-agent
    elif have apk; then
        apk add qemu-guest-agent
    else
        echo "egress-plan: no known package manager; the guest agent is not installed" >&2
    fi
}

start_agent() {
    if have systemctl; then
        systemctl enable qemu-guest-agent
        systemctl start qemu-guest-agent
    elif have rc-service; then
        if have rc-update; then
            rc-update add qemu-guest-agent default
        fi
        rc-service qemu-guest-agent start
    else
        echo "egress-plan: no known service manager; the guest agent is not started" >&2
    fi
}

if ! have qemu-ga; then
    install_agent || echo "egress-plan: the guest agent could not be installed" >&2
fi
start_agent || echo "egress-plan: the guest agent could not be started" >&2
exit 0
"#;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::path::{Path, PathBuf};
    use std::process::{Command, Output, Stdio};

    use super::*;

    /// Writes an executable file by another process: while a test of this one starts a process, that
    /// holds this one's open files for a moment, and a file that is open for writing cannot be run.
    fn write_command(path: &Path, body: &str) {
        let mut writer = Command::new("/bin/sh")
            .args(["-c", "cat > \"$0\" && chmod 755 \"$0\""])
            .arg(path)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        writer.stdin.take().unwrap().write_all(body.as_bytes()).unwrap();
        assert!(writer.wait().unwrap().success());
    }

    /// A folder of commands that write their name and arguments to `log`.
    struct Guest {
        folder: tempfile::TempDir,
    }

    impl Guest {
        fn with(commands: &[(&str, u8)]) -> Self {
            let folder = tempfile::tempdir().unwrap();
            fs::create_dir(folder.path().join("bin")).unwrap();
            for (command, code) in commands {
                let path = folder.path().join("bin").join(command);
                let log = folder.path().join("log");
                let body = format!("#!/bin/sh\necho {command} \"$@\" >> '{}'\nexit {code}\n", log.display());
                write_command(&path, &body);
            }
            fs::write(folder.path().join("agent.sh"), SCRIPT).unwrap();
            Self { folder }
        }

        fn run(&self, shell: &Path) -> Output {
            let mut command = Command::new(shell);
            if shell.ends_with("busybox") {
                command.arg("sh");
            }
            command.arg(self.folder.path().join("agent.sh")).env_clear().env("PATH", self.folder.path().join("bin"));
            command.output().unwrap()
        }

        fn log(&self) -> String {
            fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
        }
    }

    fn shells() -> Vec<PathBuf> {
        ["/bin/sh", "/bin/dash", "/bin/bash", "/bin/busybox"]
            .map(PathBuf::from)
            .into_iter()
            .filter(|p| p.exists())
            .collect()
    }

    #[test]
    fn l37_where_neither_package_nor_service_manager_exists_nothing_fails() {
        for shell in shells() {
            let guest = Guest::with(&[]);
            for _ in 0..2 {
                let output = guest.run(&shell);
                assert!(output.status.success(), "{shell:?}: {output:?}");
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                assert_eq!(said.lines().count(), 2, "only its own two lines: {said}");
            }
        }
    }

    #[test]
    fn l37_a_package_manager_without_a_service_manager_is_no_failure() {
        for shell in shells() {
            let guest = Guest::with(&[("apk", 0)]);
            assert!(guest.run(&shell).status.success());
            assert_eq!(guest.log(), "apk add qemu-guest-agent\n");
        }
    }

    #[test]
    fn each_package_manager_and_each_service_manager_is_used() {
        let systemd = "systemctl enable qemu-guest-agent\nsystemctl start qemu-guest-agent\n";
        let openrc = "rc-update add qemu-guest-agent default\nrc-service qemu-guest-agent start\n";
        for (manager, installs) in [
            (
                "apt-get",
                "apt-get -q -y -o DPkg::Lock::Timeout=300 update\n\
                 apt-get -q -y -o DPkg::Lock::Timeout=300 install qemu-guest-agent\n",
            ),
            ("dnf", "dnf -y install qemu-guest-agent\n"),
            ("yum", "yum -y install qemu-guest-agent\n"),
            ("zypper", "zypper --non-interactive install qemu-guest-agent\n"),
            ("apk", "apk add qemu-guest-agent\n"),
        ] {
            for (services, starts) in [(vec!["systemctl"], systemd), (vec!["rc-update", "rc-service"], openrc)] {
                let commands: Vec<_> = services.into_iter().chain([manager]).map(|name| (name, 0)).collect();
                let guest = Guest::with(&commands);
                assert!(guest.run(Path::new("/bin/sh")).status.success());
                assert_eq!(guest.log(), [installs, starts].concat());
            }
        }
    }

    #[test]
    fn an_agent_that_is_there_is_only_started() {
        let guest = Guest::with(&[("qemu-ga", 0), ("apt-get", 0), ("systemctl", 0)]);
        assert!(guest.run(Path::new("/bin/sh")).status.success());
        assert!(!guest.log().contains("apt-get"), "{}", guest.log());
    }

    #[test]
    fn failing_commands_do_not_fail_the_boot() {
        let guest = Guest::with(&[("dnf", 1), ("systemctl", 1)]);
        assert!(guest.run(Path::new("/bin/sh")).status.success());
        assert!(guest.log().contains("systemctl start"), "{}", guest.log());
    }
}
