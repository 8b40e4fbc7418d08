//! From an empty cluster and two empty hosts to five proxies, through a change, and back to nothing.

#![allow(clippy::print_stdout, reason = "how much memory a run takes is told")]

use std::net::IpAddr;
use std::time::Duration;

use serde_json::Value;

use super::guide::commands;
use super::lab::{domains, state, until, virsh, volumes};
use super::manifest::JobSpec;
use super::node::{Ended, Pod};
use super::proxy;
use super::scene::{PAUSE, Scene, condition, instance, uuids};

const SET: &str = "apiVersion: egress-plan.dev/v1alpha1\nkind: ProxySet\nmetadata: {name: web, namespace: crawlers}\nspec:\n  \
    replicas: 2\n  zones: [beelink, nuc]\n  template:\n    spec:\n      provider: home\n      port: 3128\n      \
    placement: {machineType: small, image: debian-13}\n      cloudInit: \"#cloud-config\\nbootcmd: [[true]]\\n\"\n";
const PLACE: &str = "zone: nuc, machineType: small, image: debian-13";
const USER_DATA: &str = "#cloud-config\\nbootcmd: [[true]]\\n";

/// What the program says of a run, without its log.
fn summary(run: &Ended) -> &str {
    run.out.lines().last().unwrap_or_default()
}

fn told(what: &str, run: &Ended) {
    let mib = |bytes: u64| bytes >> 20;
    let memory = &run.memory;
    println!(
        "{what}: {} s; memory {} MiB of its own at most, {} MiB with pages of files, limit {} MiB",
        run.took.as_secs(),
        mib(memory.own),
        mib(memory.peak),
        mib(memory.limit)
    );
    assert!(
        memory.killed == 0 && memory.own > 0 && memory.own < memory.limit && memory.peak <= memory.limit,
        "{memory:?}"
    );
}

pub fn install(scene: &Scene) {
    let reader = scene.reader();
    let said = reader.follow("Install", |_| None).concat();
    assert!(said.contains("egress-plan is installed and suspended: no run begins."), "{said}");
    // What the controllers of a cluster put into each namespace.
    let authority = scene.api.path("certs/apiserver.crt");
    let line = format!("create configmap kube-root-ca.crt -n egress-plan --from-file=ca.crt={}", authority.display());
    scene.api.kubectl(&line).ok();
    // A pod starts without the keys as well, and says which file is missing.
    let job = "kubectl -n egress-plan create job --from=cronjob/egress-plan without-keys";
    assert_eq!(reader.run(job).code, Some(0));
    let job = JobSpec::of_job(&scene.api, "egress-plan", "without-keys");
    Pod::start(&scene.api, "egress-plan", "without-keys", &job)
        .finish()
        .must(1)
        .says(&["/etc/egress-plan/ssh/id_ed25519"]);
    assert!(domains().is_empty());
    reader.follow("Give keys", |_| None);
}

/// What keeps the stand-in honest: it starts nothing that it would start in part.
pub fn unknown_fields(scene: &Scene) {
    let pod = "/template/spec";
    for part in
        ["", "/securityContext", "/containers/0", "/containers/0/securityContext", "/containers/0/volumeMounts/0"]
    {
        let error = JobSpec::with_unknown(&scene.api, &format!("{pod}{part}")).expect_err(part);
        assert!(error.contains("unknown field `hostSomething`"), "{error}");
    }
    for (number, kind) in [(0, "projected"), (1, "configMap"), (2, "secret"), (3, "emptyDir")] {
        let error = JobSpec::with_unknown(&scene.api, &format!("{pod}/volumes/{number}/{kind}")).expect_err(kind);
        assert!(error.contains("unknown field `hostSomething`"), "{error}");
    }
}

pub fn first_proxies(scene: &Scene) {
    let reader = scene.reader();
    reader.follow("The first proxy", |command| {
        if let Some(run) = reader.run_job_of(command) {
            let run = run.must(0).says(&["crawlers/crawl-1", "create: small (1 vCPU, 512 MiB), debian-13"]);
            assert_eq!(
                summary(&run),
                "Plan: 1 to create, 0 to start, 0 to update, 0 to replace, 0 to delete, 0 blocked."
            );
            told("diff", &run);
            assert!(domains().is_empty());
            // What the guide says to do now.
            scene.values("");
            return Some(run.out);
        }
        if command.starts_with("kubectl -n crawlers wait ") {
            five_machines(scene);
        }
        None
    });
}

/// The run that makes everything, and another one beside it.
fn five_machines(scene: &Scene) {
    scene.proxy("crawl-2", PLACE, USER_DATA);
    scene.proxy("crawl-3", &PLACE.replace("nuc", "beelink"), USER_DATA);
    scene.api.kubectl_with("apply -f -", SET).ok();
    let mut first = scene.start();
    let holder = until("the first run holds the lease", 120, PAUSE, || {
        assert!(!first.has_ended(), "{}", first.said());
        let lease = scene.api.kubectl("get lease egress-plan-home -n egress-plan -o jsonpath={.spec.holderIdentity}");
        Some(lease.out).filter(|holder| !holder.is_empty())
    });
    assert!(holder.starts_with(&format!("{}/", first.name)), "{holder}");
    let second = scene.start().finish().must(6).says(&[&holder, "another run holds the lease"]);
    assert!(!first.has_ended() && second.out.is_empty(), "{}", first.said());
    let first = first.finish().must(0);
    assert_eq!(
        summary(&first),
        "Applied: 5 created, 0 started, 0 updated, 0 replaced, 0 deleted, 0 failed, 0 skipped.",
        "{}",
        first.err
    );
    told("apply, five machines and an image for two hosts", &first);
}

pub fn what_kubectl_shows(scene: &Scene) {
    let api = &scene.api;
    let table = api.kubectl("get px -n crawlers").ok();
    for name in ["crawl-1", "crawl-2", "crawl-3"] {
        let row = table.lines().find(|line| line.starts_with(&format!("{name} "))).expect("a row");
        let cells: Vec<&str> = row.split_whitespace().collect();
        assert_eq!((cells[1], cells[2], cells[4], cells[6]), ("Managed", "home", "Running", "Unknown"), "{table}");
        assert!(cells[5].parse::<IpAddr>().is_ok(), "{table}");
    }
    let table = api.kubectl("get pxs -n crawlers").ok();
    let cells: Vec<&str> = table.lines().last().expect("a row").split_whitespace().collect();
    assert_eq!(cells[..5], ["web", "2", "2", "home", "True"], "{table}");
    api.kubectl("wait -n crawlers --for=condition=Provisioned --timeout=5s px --all").ok();
    let objects = scene.objects();
    assert_eq!(objects.len(), 4);
    for (name, object) in objects.iter().filter(|(name, _)| name.starts_with("Proxy/")) {
        assert_eq!(condition(object, "Provisioned").0, "True", "{name}");
        assert_eq!(condition(object, "Healthy"), ("Unknown".to_owned(), "NotProbed".to_owned()), "{name}");
        assert_eq!(object["status"]["observedGeneration"], object["metadata"]["generation"], "{name}");
    }
    // The guide's way to look, and what it shows.
    let shown = scene.reader().follow("Watch", |_| None);
    let inventory = commands("Watch").iter().position(|command| command.contains("home-inventory")).expect("there");
    let inventory: Value = serde_json::from_str(&shown[inventory]).expect("JSON");
    let listed = inventory["proxies"].as_array().expect("proxies");
    assert_eq!(listed.len(), 5, "{inventory}");
    let leases = std::fs::read_to_string(format!("{}/leases", super::lab::lab("LAB_DIR"))).expect("there");
    for proxy in listed {
        let host = proxy["host"].as_str().expect("an address");
        assert!(leases.contains(&format!(" {host} ")), "{host}: {leases}");
    }
    let ip = |name: &str| objects[name]["status"]["ip"].as_str().expect("an address").to_owned();
    assert!(listed.iter().any(|proxy| proxy["host"] == ip("Proxy/crawl-1").as_str()), "{inventory}");
    assert_eq!(api.get("lease egress-plan-home -n egress-plan")["spec"]["holderIdentity"], Value::Null);
    // The machines themselves, and the user-data of a Secret at work in one.
    let all = domains();
    assert_eq!(all.len(), 5, "{all:?}");
    for (name, zone) in [("crawl-1", "beelink"), ("crawl-2", "nuc"), ("crawl-3", "beelink")] {
        assert!(all.contains(&instance(name, zone)), "{name}: {all:?}");
    }
    for name in &all {
        assert_eq!(state(name), "running");
        assert!(virsh(&["dumpxml", name]).contains(">ready<"), "{name}");
    }
    let address: IpAddr = ip("Proxy/crawl-1").parse().expect("an address");
    until("the Squid of crawl-1 answers", 600, Duration::from_secs(1), || {
        proxy::get(address).ok().filter(proxy::Answer::is_hello)
    });
    let answer = proxy::tunnel(address, 22).expect("it answers");
    assert!(proxy::is_refused(&answer), "{}", answer.head);
    // Whose user-data is in a Secret, and what else a pod is given, is in nothing that a run wrote.
    let written = api.kubectl("get cm,events.events.k8s.io,leases,px,pxs -A -o yaml").ok();
    for secret in ["visible_hostname", "OPENSSH PRIVATE KEY"] {
        assert!(!written.contains(secret), "{secret}");
    }
}

pub fn one_changed_one_deleted(scene: &Scene) {
    let (before, objects) = (uuids(), scene.objects());
    scene.proxy("crawl-2", PLACE, "#cloud-config\\nbootcmd: [[true], [true]]\\n");
    scene.api.kubectl("delete px crawl-3 -n crawlers").ok();
    let run = scene.start().finish().must(0);
    assert_eq!(
        summary(&run),
        "Applied: 0 created, 0 started, 0 updated, 1 replaced, 1 deleted, 0 failed, 0 skipped.",
        "{}",
        run.err
    );
    told("apply, one replaced and one deleted", &run);
    let (changed, deleted) = (instance("crawl-2", "nuc"), instance("crawl-3", "beelink"));
    let after = uuids();
    assert_eq!(after.len(), 4);
    for (name, uuid) in &after {
        assert_eq!(before[name] != *uuid, *name == changed, "{name}");
    }
    let gone = [&deleted, &changed].map(|name| format!("{name}-{}", &before[name][..8]));
    for zone in ["a", "b"] {
        let left = volumes(zone);
        assert!(!left.iter().any(|volume| gone.iter().any(|gone| volume.starts_with(gone))), "{left:?}");
    }
    let now = scene.objects();
    for name in ["Proxy/crawl-1", "ProxySet/web"] {
        assert_eq!(now[name], objects[name], "nothing of it was written");
    }
    let (old, new) = (&objects["Proxy/crawl-2"]["status"], &now["Proxy/crawl-2"]["status"]);
    assert_ne!(old, new);
    assert_eq!(condition(&now["Proxy/crawl-2"], "Provisioned").0, "True");
    let events = scene.events();
    let count = |reason: &str| events.get(reason).copied().unwrap_or_default();
    assert_eq!((count("Created"), count("Replaced"), count("Deleted"), events.len()), (5, 1, 1, 3), "{events:?}");
}

pub fn nothing_to_do(scene: &Scene) {
    let (objects, machines, events) = (scene.objects(), uuids(), scene.events());
    let reader = scene.reader();
    reader.follow("A run by hand", |command| {
        let run = reader.run_job_of(command)?.must(0);
        assert_eq!(summary(&run), "No changes.", "{}", run.err);
        told("apply, nothing to do", &run);
        Some(run.out)
    });
    assert_eq!((scene.objects(), uuids(), scene.events()), (objects, machines, events));
}

/// Reports of runs that ended, newest last.
pub fn reports(scene: &Scene) -> usize {
    scene.api.kubectl("get cm -n egress-plan -l egress-plan.dev/output=report -o name").ok().lines().count()
}

pub fn remove(scene: &Scene) {
    let reader = scene.reader();
    reader.follow("Suspend", |command| {
        command.ends_with(" NAME").then(|| {
            let run = reader.run(&command.replace("NAME", "without-keys"));
            assert_eq!(run.code, Some(0), "{}", run.err);
            run.out
        })
    });
    assert_eq!(scene.api.get("cronjob egress-plan -n egress-plan")["spec"]["suspend"], true);
    assert!(reports(scene) > 0);
    let left = domains().len();
    reader.follow("Remove", |command| {
        if let Some(run) = reader.run_job_of(command) {
            let run = run.must(0);
            let applied =
                format!("Applied: 0 created, 0 started, 0 updated, 0 replaced, {left} deleted, 0 failed, 0 skipped.");
            assert_eq!(summary(&run), applied, "{}", run.err);
            // Nothing waits, is kept or is blocked; the guide says to look for that.
            reader.run(&commands("Remove")[1]).ok();
            let again = reader.run_job_of(command).expect("a Job").must(0);
            assert_eq!(again.out.trim_end(), "No changes.");
            return Some(run.out);
        }
        command.starts_with("kubectl delete namespace ").then(|| reader.delete_namespace(command, "egress-plan"))
    });
    assert!(domains().is_empty(), "{:?}", domains());
    for zone in ["a", "b"] {
        let left = volumes(zone);
        let (bases, proofs): (Vec<&String>, Vec<&String>) =
            left.iter().partition(|name| name.rsplit('.').next() == Some("qcow2"));
        assert!(bases.iter().all(|name| name.starts_with("egress-plan-base-home-")), "{left:?}");
        assert!(
            proofs.iter().all(|proof| bases.iter().any(|base| proof.starts_with(&format!("{base}.sha256-")))),
            "{left:?}"
        );
        assert_eq!(bases.len(), proofs.len(), "{left:?}");
    }
    assert_eq!(scene.api.kubectl("get crd -o name").ok(), "");
    assert_ne!(scene.api.kubectl("get namespace egress-plan").code, Some(0));
}
