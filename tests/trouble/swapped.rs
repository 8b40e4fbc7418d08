//! A machine's disk that somebody put another one in the place of.

use std::fs;

use super::lab::{lab, pool, sha256, state, tool, virsh, volumes};
use super::relay::random_disk;
use super::scene::Scene;

/// The machine is off, and its overlay is one of another image: of somebody's file, then of a base
/// that is called like ours.
pub fn overlay_of_another_image() {
    let scene = Scene::blank("sto-swapped");
    scene.converges();
    let (machine, name) = (scene.machine("b"), lab("LAB_POOL_B"));
    let called_like_ours = format!("egress-plan-base-lab-blank-{}-{}.raw", "0a".repeat(16), "0b".repeat(6));
    for base in ["somebodys.raw", &called_like_ours] {
        let overlay = format!("{machine}-{}.qcow2", &virsh(&["domuuid", &machine])[..8]);
        let (base_file, overlay_file) = (pool("b").join(base), pool("b").join(&overlay));
        random_disk(&base_file, 1);
        virsh(&["destroy", &machine]);
        let (backing, path) = (base_file.to_str().unwrap(), overlay_file.to_str().unwrap());
        tool("qemu-img", &["create", "-q", "-f", "qcow2", "-F", "raw", "-b", backing, path, "1G"]);
        virsh(&["pool-refresh", &name]);
        let before = (sha256(&base_file), sha256(&overlay_file), volumes("b"));

        // It is not started, and the run tells which disk is of what.
        let run = scene.fleet.apply(7);
        assert_eq!(state(&machine), "shut off", "{}", run.all());
        assert!(run.stdout.contains(&overlay) && run.stdout.contains(base), "{}", run.stdout);
        assert_eq!((sha256(&base_file), sha256(&overlay_file), volumes("b")), before);

        // Asked for by name, it is made anew from its own image, and the other one stays.
        let key = "default/sto-swapped-b";
        scene.fleet.run(&["apply", "--auto-approve", "--replace", key]).must(0);
        scene.converges();
        assert_eq!(sha256(&base_file), before.0);
        fs::remove_file(&base_file).unwrap();
        virsh(&["pool-refresh", &name]);
    }
    scene.strike();
}
