//! What `check` says of a user whom sshd lets in and libvirt does not.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::fleet::Image;
use super::lab::{daemon, lab, tool, until};
use super::scene::Scene;

const USER: &str = "stranger";
const LIBVIRTD: &str = "/etc/libvirt/libvirtd.conf";
const SOON: Duration = Duration::from_millis(50);

/// Another text for a file of the system, until this is dropped.
struct Instead(&'static str, PathBuf);

impl Instead {
    fn of(path: &'static str, text: &str) -> Self {
        let file = Path::new(&lab("LAB_DIR")).join(Path::new(path).file_name().unwrap());
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        tool("mount", &["--bind", file.to_str().unwrap(), path]);
        Self(path, file)
    }
}

impl Drop for Instead {
    fn drop(&mut self) {
        tool("umount", &[self.0]);
        fs::remove_file(&self.1).unwrap();
    }
}

/// A libvirtd that asks polkit about everybody but root, as distributions have it, until this is
/// dropped.
struct Polkit {
    before: String,
    daemons: Vec<Child>,
}

impl Polkit {
    fn new() -> Self {
        let before = fs::read_to_string(LIBVIRTD).unwrap();
        let mut polkit = Self { before, daemons: Vec::new() };
        fs::create_dir_all("/run/dbus").unwrap();
        polkit.start("dbus-daemon", &["--system", "--nofork", "--nopidfile"]);
        let bus = Path::new("/run/dbus/system_bus_socket");
        until("the bus is there", 30, SOON, || bus.exists().then_some(()));
        let place =
            ["/usr/lib/polkit-1/polkitd", "/usr/libexec/polkitd"].into_iter().find(|path| Path::new(path).exists());
        polkit.start(place.expect("polkitd, which libvirt's package needs"), &["--no-debug"]);
        until("polkit knows libvirt", 30, SOON, || {
            let asked = Command::new("pkaction").args(["--action-id", "org.libvirt.unix.manage"]).output().unwrap();
            asked.status.success().then_some(())
        });
        let asks = polkit.before.replace("auth_unix_rw = \"none\"", "auth_unix_rw = \"polkit\"");
        assert_ne!(asks, polkit.before);
        fs::write(LIBVIRTD, asks).unwrap();
        daemon("restart", "libvirtd");
        polkit
    }

    fn start(&mut self, program: &str, args: &[&str]) {
        let mut command = Command::new(program);
        self.daemons.push(command.args(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    }
}

impl Drop for Polkit {
    fn drop(&mut self) {
        // A libvirtd that has a bus ends with it.
        daemon("stop", "libvirtd");
        fs::write(LIBVIRTD, &self.before).unwrap();
        for mut daemon in self.daemons.drain(..).rev() {
            daemon.kill().unwrap();
            daemon.wait().unwrap();
        }
        fs::remove_dir_all("/run/dbus").unwrap();
        daemon("start", "libvirtd");
    }
}

/// The socket's mode, until this is dropped.
struct Mode(u32);

impl Mode {
    fn new(mode: u32) -> Self {
        let before = fs::metadata(lab("LAB_SOCKET")).unwrap().permissions().mode();
        fs::set_permissions(lab("LAB_SOCKET"), fs::Permissions::from_mode(mode)).unwrap();
        Self(before)
    }
}

impl Drop for Mode {
    fn drop(&mut self) {
        fs::set_permissions(lab("LAB_SOCKET"), fs::Permissions::from_mode(self.0)).unwrap();
    }
}

pub fn user_whom_libvirt_refuses() {
    let scene = Scene::new("refused", Image::blank(), "budgets: {}");
    // An ordinary user, in no group but the one that is for nobody.
    let users = fs::read_to_string("/etc/passwd").unwrap();
    let users = Instead::of("/etc/passwd", &format!("{users}{USER}:x:61234:65534::/:/bin/sh\n"));
    let config = scene.fleet.folder.join("config.yaml");
    let good = fs::read_to_string(&config).unwrap();
    let b = format!("name: b, address: '{}', user: ", scene.relay.address());
    let text = good.replace(&format!("{b}{}", lab("LAB_USER")), &format!("{b}{USER}"));
    assert_ne!(text, good);
    fs::write(&config, text).unwrap();
    // A libvirtd that has just begun asks each QEMU what it can do before it answers.
    let check = |code| scene.fleet.run(&["check", "--target", "lab/b", "--timeout", "60s"]).must(code);

    // Nothing is wrong with the user as such.
    check(0);

    let polkit = Polkit::new();
    let run = check(1);
    let says = ["Forbidden at libvirt: ", USER, "org.libvirt.unix.manage", "Add the user to the group libvirt"];
    assert!(says.iter().all(|text| run.stdout.contains(text)), "{}", run.stdout);
    assert!(!run.stdout.contains("Unreachable"), "{}", run.stdout);
    // The remedy is one.
    let groups = fs::read_to_string("/etc/group").unwrap();
    let line = groups.lines().find(|line| line.starts_with("libvirt:")).expect("the group libvirt");
    let member = format!("{}{USER}", line.to_owned() + if line.ends_with(':') { "" } else { "," });
    let groups = Instead::of("/etc/group", &groups.replace(line, &member));
    check(0);
    drop(groups);
    drop(polkit);

    // Where the socket's mode refuses the user, sshd only says that it could not be opened: the remedy
    // names what it may be, and the user.
    let mode = Mode::new(0o770);
    let run = check(1);
    let says = ["Unreachable at socket: ", &format!("that {USER} may open its socket (group libvirt)")];
    assert!(says.iter().all(|text| run.stdout.contains(text)), "{}", run.stdout);
    drop(mode);

    check(0);
    drop(users);
    fs::write(&config, good).unwrap();
    scene.converges();
    scene.strike();
}
