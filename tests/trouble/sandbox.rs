//! The program where it may do little: as an ordinary user, with a root file system that cannot be
//! written and a small folder for temporary files, as in a container.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::process::Command;

use super::fleet::Fleet;
use super::lab::{lab, state};

/// Nobody, on every distribution.
const USER: u32 = 65534;

pub fn ordinary_user() {
    let fleet = Fleet::blank("sandbox");
    fleet.want("sandbox-1", "a");
    fleet.want("sandbox-2", "b");
    let folder = Path::new(&lab("LAB_DIR")).join("sandbox");
    fs::create_dir(&folder).unwrap();
    // The checkout may lie where that user may not go, or below what is hidden here.
    let (program, key) = (folder.join("egress-plan"), folder.join("key"));
    fs::copy(env!("CARGO_BIN_EXE_egress-plan"), &program).unwrap();
    fs::copy(lab("LAB_KEY"), &key).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    chown(&key, Some(USER), Some(USER)).unwrap();
    let config = fleet.folder.join("config.yaml");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, text.replace(&lab("LAB_KEY"), key.to_str().unwrap())).unwrap();

    let confined = |args: &str| {
        let script = format!(
            "set -eu
             mount -o remount,bind,ro / && mount -o remount,bind,ro /run
             mount -t tmpfs -o size=64m,mode=1777 small /tmp
             if touch /run/written 2>/dev/null || touch /etc/written 2>/dev/null; then exit 99; fi
             as_user() {{ setpriv --reuid {USER} --regid {USER} --clear-groups --bounding-set -all --no-new-privs \"$@\"; }}
             code=0
             as_user env -i PATH=/usr/bin:/bin {program} {args} -c {config} -f {manifests} || code=$?
             find /tmp -mindepth 1
             exit $code",
            program = program.display(),
            config = config.display(),
            manifests = fleet.folder.join("manifests").display(),
        );
        let output = Command::new("unshare").args(["--mount", "sh", "-c", &script]).output().unwrap();
        let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{args}\n{stdout}\n{stderr}");
        stdout.into_owned()
    };
    // What the program prints is the last that is printed: it leaves nothing in its folder.
    let applied = confined("apply --auto-approve");
    assert!(
        applied.ends_with("Applied: 2 created, 0 started, 0 updated, 0 replaced, 0 deleted, 0 failed, 0 skipped.\n"),
        "{applied}"
    );
    for (proxy, zone) in [("sandbox-1", "a"), ("sandbox-2", "b")] {
        assert_eq!(state(&fleet.instance(proxy, zone)), "running");
    }
    let looked = confined("diff");
    assert!(looked.ends_with("No changes.\n"), "{looked}");
    fleet.destroy();
    fs::remove_dir_all(&folder).unwrap();
}
