//! The API server goes silent while a machine is being made.

use std::time::Duration;

use super::api::Api;
use super::lab::{domains, state, until, virsh, volumes};
use super::scene::{Scene, instance, uuids};

const SOON: Duration = Duration::from_millis(2);

/// Lets the API server go on, also when a trial fails.
struct Frozen<'a>(&'a Api);

impl<'a> Frozen<'a> {
    fn new(api: &'a Api) -> Self {
        api.freeze(true);
        Self(api)
    }
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        self.0.freeze(false);
    }
}

pub fn in_a_create(scene: &Scene) {
    // A machine that has nothing to boot, which nobody waits for.
    let upgrade = "helm upgrade egress-plan charts/egress-plan -n egress-plan -f values.yaml --set run.wait=running \
        --set cronJob.suspend=false";
    scene.reader().run(upgrade).ok();
    scene.proxy("late", "zone: nuc, machineType: tiny, image: blank", "#cloud-config\\nbootcmd: [[true]]\\n");
    let (before, name) = (uuids(), instance("late", "nuc"));
    let mut run = scene.start();
    until("the machine's first disk is there", 120, SOON, || {
        assert!(!run.has_ended(), "{}", run.said());
        volumes("b").iter().any(|volume| volume.starts_with(&name)).then_some(())
    });
    let frozen = Frozen::new(&scene.api);
    let run = run.finish();
    drop(frozen);
    let report = format!("{:?} after {:?}\n{}\n{}", run.code, run.took, run.out, run.err);
    assert!(run.out.contains("Applied: 1 created,"), "{report}");
    assert!(run.err.contains("written into the cluster"), "{report}");
    assert_eq!(run.code, Some(0), "{report}");
    assert!(domains().contains(&name) && state(&name) == "running");
    let made = uuids();
    let others = made.iter().filter(|(other, _)| **other != name);
    assert!(others.eq(before.iter()), "{made:?}");

    // The next run writes what could not be written, and makes nothing.
    let next = scene.start().finish().must(0);
    assert_eq!(next.out.lines().last(), Some("No changes."), "{}", next.err);
    assert_eq!(uuids(), made);
    let late = &scene.objects()["Proxy/late"];
    assert_eq!(late["status"]["instance"], name, "{late}");
    assert_eq!(late["status"]["observedGeneration"], late["metadata"]["generation"], "{late}");
    assert!(virsh(&["dumpxml", &name]).contains(">ready<"));
}
