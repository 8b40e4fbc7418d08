//! The config as a whole.

use super::*;

const BLOCK: &str =
    "machineTypes: {small: {vcpus: 1, memoryMiB: 512}}, hosts: [{name: h1, recorded: h1.yaml, bridge: br0}]";

fn read_config(text: &str) -> (Read, Vec<String>) {
    let folders = Folders { config: "/c".into(), home: None };
    let read = read_text("c.yaml", text.as_bytes(), &folders);
    let lines = read.problems.iter().map(|p| p.to_string().lines().next().unwrap_or_default().to_owned()).collect();
    (read, lines)
}

#[test]
fn a_bare_list_of_providers_loads_and_everything_else_has_defaults() {
    for (kind, block) in [("libvirt", "libvirt"), ("kvm2", "kvm2"), ("kvm", "kvm"), ("kvm2", "libvirt")] {
        let (read, lines) = read_config(&format!("providers:\n- {{name: lab, type: {kind}, {block}: {{{BLOCK}}}}}\n"));
        assert_eq!(lines, Vec::<String>::new(), "{kind} {block}");
        assert_eq!((read.fleet.clone(), read.policy.clone(), read.concurrency), Default::default());
        let providers = read.providers();
        assert_eq!(providers[0].entry().as_str(), "lab");
        let settings = providers[0].host_settings();
        assert!(settings[&"lab/h1".parse().expect("a place")].recorded);
    }
}

#[test]
fn policy_and_concurrency_are_read_within_their_bounds() {
    let (read, lines) = read_config(&format!(
        "fleet: f\npolicy: {{prune: false, minAge: 1h30m, maxDeletions: 5, allowEmpty: true, maxUnavailable: 50%, onCatalogueChange: replace}}\n\
         concurrency: {{hosts: 1, perHost: 3, downloads: 4}}\nproviders:\n- {{name: lab, type: kvm, kvm: {{{BLOCK}}}}}\n"
    ));
    assert_eq!(lines, Vec::<String>::new());
    assert_eq!(read.concurrency, Concurrency { hosts: 1, per_host: 3, downloads: 4 });
    let expected = Policy {
        prune: false,
        min_age: SignedDuration::from_mins(90),
        max_deletions: Bound::Count(5),
        allow_empty: true,
        max_unavailable: Bound::Percent(50),
        on_catalogue_change: OnCatalogueChange::Replace,
        ..Policy::default()
    };
    assert_eq!(read.policy, expected);
}

#[test]
fn every_problem_is_told_at_its_field() {
    let table = [
        ("providers: []", "c.yaml:1:1: providers: at least one provider is required"),
        ("fleet: f", "c.yaml:1:1: providers: at least one provider is required"),
        ("", "c.yaml: this config is empty"),
        ("providers: [{type: kvm, kvm: {BLOCK}}]", "c.yaml:1:13: providers[0].name: this field is required"),
        ("providers: [{name: A, type: kvm, kvm: {BLOCK}}]", "c.yaml:1:20: providers[0].name: 'A' is not allowed"),
        (
            "providers: [{name: a, type: xen, kvm: {BLOCK}}]",
            "c.yaml:1:29: providers[0].type: unknown type \"xen\"; known are libvirt, kvm2, kvm",
        ),
        ("providers: [{name: a, kvm: {BLOCK}}]", "c.yaml:1:13: providers[0].type: this field is required"),
        ("providers: [{name: a, type: kvm2}]", "c.yaml:1:13: kvm2: the block of the provider is required"),
        ("providers: [{name: a, type: kvm, kvm: {BLOCK}, libvirt: {BLOCK}}]", "kvm: an entry has one block"),
        ("providers: [{name: a, type: kvm, kvm: {bridge: x, BLOCK}}]", "c.yaml:1:40: kvm.bridge: unknown field"),
        (
            "policy: {minAge: 10}\nproviders: [{name: a, type: kvm, kvm: {BLOCK}}]",
            "c.yaml:1:18: policy.minAge: expected a duration",
        ),
        (
            "policy: {maxDeletions: 101%}\nproviders: [{name: a, type: kvm, kvm: {BLOCK}}]",
            "c.yaml:1:24: policy.maxDeletions: expected a count",
        ),
        (
            "policy: {maxUnavailable: 0}\nproviders: [{name: a, type: kvm, kvm: {BLOCK}}]",
            "c.yaml:1:26: policy.maxUnavailable: with none",
        ),
        (
            "concurrency: {hosts: 0}\nproviders: [{name: a, type: kvm, kvm: {BLOCK}}]",
            "c.yaml:1:22: concurrency.hosts: 0 is out of bounds; use 1 to 256",
        ),
        ("a: 1\n---\nb: 2\n", "c.yaml:3:1: a config is one document"),
        ("providers: [", "c.yaml:1:"),
    ];
    for (text, start) in table {
        let (_, lines) = read_config(&text.replace("BLOCK", BLOCK));
        assert_eq!(lines.len(), 1, "{text}\n{lines:#?}");
        assert!(lines[0].contains(start), "{start}\n{lines:#?}");
    }
}

#[test]
fn l48_one_daemon_and_pool_under_two_entries_is_an_error() {
    let entry = |name: &str, pool: &str| {
        format!(
            "- {{name: {name}, type: kvm, kvm: {{{}}}}}\n",
            BLOCK.replace("bridge", &format!("pool: {pool}, bridge"))
        )
    };
    let (_, lines) = read_config(&format!("providers:\n{}{}", entry("a", "p"), entry("b", "p")));
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(
        lines[0].contains("kvm.hosts[0]: the host b/h1 is the same daemon and pool as a/h1 on line 2"),
        "{lines:#?}"
    );
    assert!(read_config(&format!("providers:\n{}{}", entry("a", "p"), entry("b", "q"))).1.is_empty());
    let (_, lines) = read_config(&format!("providers:\n{}{}", entry("a", "p"), entry("a", "q")));
    assert!(lines[0].contains("c.yaml:3:10: providers[1].name: the name a is taken, first on line 2"), "{lines:#?}");
}
