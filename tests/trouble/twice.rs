//! One pool's folder that two hosts have.

use std::fs;

use super::fleet::EMPTY;
use super::lab::{lab, pool, state, tool, virsh, volumes};
use super::scene::Scene;

/// One folder behind two pools, the second through a symbolic link.
pub fn one_folder_behind_two_hosts() {
    let scene = Scene::blank("sto-twice");
    scene.converges();
    let link = pool("b").with_file_name("pool-c");
    std::os::unix::fs::symlink(pool("b"), &link).unwrap();
    virsh(&["pool-define-as", "pool-c", "dir", "--target", link.to_str().unwrap()]);
    virsh(&["pool-start", "pool-c"]);
    let before = volumes("b");
    let config = scene.fleet.folder.join("config.yaml");
    let text = fs::read_to_string(&config).unwrap();
    let b = text.lines().find(|line| line.contains("{name: b,")).unwrap();
    let c = b.replace("{name: b,", "{name: c,").replace(&lab("LAB_POOL_B"), "pool-c");
    fs::write(&config, text.clone() + &c + "\n").unwrap();
    scene.fleet.manifest("sto-twice-c", "c", "tiny", "blank", EMPTY);
    // It neither locks itself out nor takes the one for the other.
    let run = scene.fleet.run(&["apply", "--auto-approve"]).must(3).says(&["lab/c   unknown: DuplicateHost"]);
    let manifests = scene.fleet.folder.join("manifests");
    for target in ["lab/b", "lab/c"] {
        // Old enough to be leftovers, if they were anybody's.
        for file in &before {
            tool("touch", &["-d", "3 hours ago", pool("b").join(file).to_str().unwrap()]);
        }
        let args = ["images", "prune", "--leftovers", "--auto-approve", "--target", target, "-f"];
        let run = scene.fleet.run(&[&args[..], &[manifests.to_str().unwrap()]].concat());
        assert_eq!(volumes("b"), before, "{}", run.all());
    }
    assert_eq!(state(&scene.machine("b")), "running", "{}", run.all());
    fs::write(&config, text).unwrap();
    scene.fleet.unwant("sto-twice-c");
    for action in ["pool-destroy", "pool-undefine"] {
        virsh(&[action, "pool-c"]);
    }
    fs::remove_file(link).unwrap();
    scene.converges();
    scene.strike();
}
