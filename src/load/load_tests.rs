//! Manifests and config together.

use std::fs;

use super::*;

/// The config of the cases: entry `lab` with recorded hosts h1 and h2.
const CONFIG: &str = include_str!("../../tests/fixtures/config.yaml");

fn manifest(name: &str) -> String {
    format!(
        "apiVersion: egress-plan.dev/v1alpha1\nkind: Proxy\nmetadata: {{name: {name}, namespace: t}}\nspec:\n  mode: Managed\n  \
         provider: lab\n  port: 3128\n  placement: {{zone: h1, machineType: small, image: debian-13}}\n  \
         cloudInit: \"#cloud-config\\npackages: [squid]\\n\"\n"
    )
}

/// A folder with a config and manifests.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = Self(tempfile::tempdir().expect("a folder"));
        folder.write("config.yaml", CONFIG);
        for (name, text) in files {
            folder.write(&format!("m/{name}"), text);
        }
        folder
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        fs::write(path, text).expect("written");
    }

    fn sources(&self) -> Sources {
        Sources {
            filenames: vec![self.0.path().join("m")],
            config: self.0.path().join("config.yaml"),
            ..Sources::default()
        }
    }

    fn load(&self) -> Result<Loaded, Vec<String>> {
        self.load_from(&self.sources(), "")
    }

    /// Problems with paths relative to the folder.
    fn load_from(&self, sources: &Sources, stdin: &str) -> Result<Loaded, Vec<String>> {
        let prefix = format!("{}/", self.0.path().display());
        load(sources, &mut stdin.as_bytes())
            .map_err(|problems| problems.as_slice().iter().map(|p| p.to_string().replace(&prefix, "")).collect())
    }

    fn problems(&self) -> Vec<String> {
        self.load().err().unwrap_or_default()
    }
}

fn keys(loaded: &Loaded) -> Vec<String> {
    loaded.desired.proxies.keys().map(ToString::to_string).collect()
}

#[test]
fn twelve_broken_inputs_in_one_folder_are_twelve_located_errors_in_one_run() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let sources = Sources {
        filenames: vec![fixtures.join("broken")],
        config: fixtures.join("config.yaml"),
        ..Sources::default()
    };
    let problems = load(&sources, &mut std::io::empty()).expect_err("broken");
    let shown: Vec<String> =
        problems.as_slice().iter().map(|p| p.to_string().replace(&format!("{}/", fixtures.display()), "")).collect();
    let first_lines: Vec<&str> = shown.iter().filter_map(|text| text.lines().next()).collect();
    assert_eq!(
        first_lines,
        [
            "broken/01-unknown-field.yaml:9:3: spec.colour: unknown field; known here are mode, provider, port, placement, cloudInit, cloudInitFrom, network, protect, endpoint",
            "broken/02-wrong-type.yaml:9:12: spec.protect: expected true or false, found text",
            "broken/03-duplicate-key.yaml:9:3: spec.provider: this field is given twice, first on line 6; leave one",
            "broken/04-duplicate-proxy.yaml:15:18: metadata.name: the proxy broken/twice is given twice, first at \
             broken/04-duplicate-proxy.yaml:3:18; leave one",
            "broken/05-unknown-provider.yaml:6:13: spec.provider: unknown provider \"nowhere\"; known are lab",
            "broken/06-unknown-zone.yaml:8:21: spec.placement.zone: unknown zone \"h9\"; known are h1, h2",
            "broken/07-unknown-machine-type.yaml:8:38: spec.placement.machineType: unknown machine type \"huge\"; known are small",
            "broken/08-unknown-image.yaml:8:52: spec.placement.image: unknown image \"debian-99\"; known are debian-13",
            "broken/09-bad-cidr.yaml:9:25: spec.network.addresses[0]: \"192.0.2.300/24\" is no address with a prefix length; \
             expected one such as 192.0.2.17/24",
            "broken/10-user-data-missing.yaml:9:25: spec.cloudInitFrom.file: the file \"nowhere.yaml\" does not exist",
            "broken/11-port-zero.yaml:7:9: spec.port: 0 is out of bounds; use 1 to 65535",
            "broken/12-alias-bomb.yaml:10:14: the document is too large once its aliases are followed; write it out, or make it smaller",
        ]
    );
    let with_snippet = shown.iter().filter(|text| text.lines().count() == 3).count();
    assert_eq!(with_snippet, 12, "{shown:#?}");
}

#[test]
fn c01_no_document_is_lost_between_separators() {
    let block = manifest("p6").replace(
        "cloudInit: \"#cloud-config\\npackages: [squid]\\n\"",
        "cloudInit: |\n    #cloud-config\n    ---\n    a: 1",
    );
    let m = |name: &str| manifest(name);
    let text = format!(
        "\u{feff}{}--- \n{}--- # p3\n{}---\r\n{}...\n---\n{}---\n# between\n---\n{block}---",
        m("p1"),
        m("p2"),
        m("p3"),
        m("p4").replace('\n', "\r\n"),
        m("p5"),
    );
    let list = "apiVersion: v1\nkind: List\nitems:\n- ".to_owned()
        + m("p9").trim_end().replace('\n', "\n  ").as_str()
        + "\n- "
        + m("p10").trim_end().replace('\n', "\n  ").as_str()
        + "\n";
    let folder = Folder::new(&[("a.yaml", &text), ("list.yaml", &list)]);
    let loaded = folder.load().expect("sound");
    assert_eq!(keys(&loaded), ["t/p1", "t/p10", "t/p2", "t/p3", "t/p4", "t/p5", "t/p6", "t/p9"]);
    let p6 = &loaded.desired.proxies[&"t/p6".parse().expect("a key")];
    let Mode::Managed(managed) = &p6.mode else { panic!("managed") };
    assert_eq!(
        managed.spec.user_data.as_ref().map(crate::plan::UserData::expose),
        Some(b"#cloud-config\n---\na: 1\n".as_slice())
    );
}

#[test]
fn c01_utf16_and_no_break_spaces_are_refused_by_name() {
    let mut utf16 = vec![0xff, 0xfe];
    utf16.extend(manifest("p7").encode_utf16().flat_map(u16::to_le_bytes));
    let folder = Folder::new(&[("b.yaml", &manifest("p8").replace("\n  ", "\n\u{a0}\u{a0}"))]);
    folder.write("m/a.yaml", utf16);
    let problems = folder.problems();
    assert_eq!(problems.len(), 2, "{problems:#?}");
    assert!(problems[0].starts_with("m/a.yaml:1:1: this file is UTF-16 text"), "{problems:#?}");
    assert!(problems[1].starts_with("m/b.yaml:5:1: the character U+00A0 (a no-break space)"), "{problems:#?}");
}

#[test]
fn c03_no_canary_is_in_any_message() {
    let base = manifest("p1");
    let user_data = "cloudInit: \"#cloud-config\\npackages: [squid]\\n\"";
    let with = |replacement: &str| base.replace(user_data, replacement);
    let files = [
        ("1.yaml", with("cloudInit: {password: CANARY-1}")),
        ("2.yaml", with("cloudInit: [CANARY-2]")),
        ("3.yaml", with("cloudInit: |\n    #cloud-config\n    password: CANARY-3\n   port: x")),
        ("3b.yaml", with("cloudInit: |\n    #cloud-config\n password: CANARY-3")),
        ("4.yaml", with("cloudinit: |\n    #cloud-config\n    password: CANARY-4")),
        ("5.yaml", with("cloudInit: CANARY-5\n  cloudInit: |\n    CANARY-5")),
        ("6.yaml", with("cloudInit: CANARY-6").replace("  port: 3128\n", "") + "  port: \"x\"\n"),
        ("7.yaml", with("cloudInitFrom: {secretKeyRef: {name: s, key: k}}").replace("p1", "p7")),
    ];
    let folder = Folder::new(&files.each_ref().map(|(name, text)| (*name, text.as_str())));
    folder.write("s/t/s/k", b"CANARY-7\xff\n");
    folder.write("config.yaml", CONFIG.replace("    images:", "    vendorData: |\n      CANARY-8\n    images:"));
    let sources = Sources { secrets_dir: Some(folder.0.path().join("s")), ..folder.sources() };
    let problems = folder.load_from(&sources, "").expect_err("broken");
    assert!(!problems.concat().contains("CANARY"), "{problems:#?}");
    for start in [
        "config.yaml:6:5: libvirt.vendorData: cloud-init would ignore",
        "m/1.yaml:9:3: spec.cloudInit: expected text, found a mapping",
        "m/2.yaml:9:3: spec.cloudInit: expected text, found a list",
        "m/3.yaml:12:4: this is not YAML",
        "m/3b.yaml:11:2: this is not YAML",
        "m/4.yaml:9:3: spec.cloudinit: unknown field; did you mean cloudInit?",
        "m/5.yaml:10:3: spec.cloudInit: this field is given twice, first on line 9",
        "m/6.yaml:9:9: spec.port: expected a whole number, found text",
        "m/7.yaml:9:3: warning: spec.cloudInitFrom: cloud-init would do nothing",
    ] {
        assert!(problems.iter().any(|text| text.starts_with(start)), "{start}\n{problems:#?}");
    }
}

#[test]
fn c24_a_referenced_file_is_no_manifest_whatever_it_holds() {
    let from = manifest("p1")
        .replace("cloudInit: \"#cloud-config\\npackages: [squid]\\n\"", "cloudInitFrom: {file: squid.yaml}");
    for data in ["#cloud-config\npackages: [squid]\n", "a: [unclosed", "apiVersion: v1\nkind: ConfigMap\n"] {
        let folder = Folder::new(&[("p1.yaml", &from), ("squid.yaml", data), ("p2.yml", &manifest("p2"))]);
        let loaded = folder.load_from(&Sources { strict: true, ..folder.sources() }, "").expect("sound");
        assert_eq!((keys(&loaded), loaded.skipped), (vec!["t/p1".to_owned(), "t/p2".to_owned()], 0), "{data}");
    }
}

#[test]
fn c24_a_folder_without_manifests_never_means_nothing_desired() {
    for files in [vec![], vec![("readme.yaml", "a: 1\n")], vec![("c.yaml", "apiVersion: v1\nkind: ConfigMap\n")]] {
        let folder = Folder::new(&files);
        fs::create_dir_all(folder.0.path().join("m")).expect("made");
        let problems = folder.problems();
        assert_eq!(problems.len(), 1, "{problems:#?}");
        assert!(
            problems[0].starts_with("m: no manifest is in this folder")
                || problems[0].contains("/m: no manifest is in this folder"),
            "{problems:#?}"
        );
    }
    let empty = Folder::new(&[("none.yaml", "apiVersion: v1\nkind: List\nitems: []\n")]);
    assert!(empty.load().expect("meant").desired.proxies.is_empty());
}

#[test]
fn other_kinds_are_counted_and_refused_when_strict() {
    let text = format!("{}---\napiVersion: v1\nkind: ConfigMap\ndata: {{a: CANARY}}\n---\na: 1\n", manifest("p1"));
    let folder = Folder::new(&[("a.yaml", &text)]);
    let loaded = folder.load().expect("sound");
    assert_eq!((loaded.skipped, loaded.notes.len()), (2, 1));
    let problems = folder.load_from(&Sources { strict: true, ..folder.sources() }, "").expect_err("strict");
    assert_eq!(problems.len(), 2);
    assert!(problems[0].starts_with("m/a.yaml:11:1: this document (kind ConfigMap) is none of ours"), "{problems:#?}");
}

#[test]
fn what_speaks_of_our_api_is_never_passed_over() {
    for (from, to, start) in [
        ("kind: Proxy", "kind: Proxi", "m/a.yaml:2:7: kind: this kind is not known here"),
        ("kind: Proxy\n", "", "m/a.yaml:1:1: kind: this field is required"),
        ("v1alpha1", "v1", "m/a.yaml:1:13: apiVersion: this version is not known here"),
        ("apiVersion: egress-plan.dev/v1alpha1\n", "", "m/a.yaml:1:1: apiVersion: this field is required"),
    ] {
        let folder = Folder::new(&[("a.yaml", &manifest("p1").replacen(from, to, 1)), ("b.yaml", &manifest("p2"))]);
        let problems = folder.problems();
        assert_eq!(problems.len(), 1, "{problems:#?}");
        assert!(problems[0].starts_with(start), "{problems:#?}");
    }
}

#[test]
fn stdin_is_read_and_has_no_folder() {
    let folder = Folder::new(&[]);
    let sources = Sources { filenames: vec!["-".into()], ..folder.sources() };
    assert_eq!(keys(&folder.load_from(&sources, &manifest("p1")).expect("sound")), ["t/p1"]);
    assert!(folder.load_from(&sources, "").expect("nothing").desired.proxies.is_empty());
    let from =
        manifest("p1").replace("cloudInit: \"#cloud-config\\npackages: [squid]\\n\"", "cloudInitFrom: {file: x}");
    let problems = folder.load_from(&sources, &from).expect_err("no folder");
    assert!(
        problems[0].starts_with("stdin:9:25: spec.cloudInitFrom.file: a manifest from stdin has no folder"),
        "{problems:#?}"
    );
}

#[test]
fn one_address_for_two_proxies_is_an_error_with_both_places() {
    let network = "  network: {addresses: [192.0.2.17/24]}\n";
    let folder = Folder::new(&[
        ("a.yaml", &(manifest("p1") + network)),
        ("b.yaml", &(manifest("p2") + "  network: {addresses: [192.0.2.17/28]}\n")),
    ]);
    let problems = folder.problems();
    assert_eq!(problems.len(), 1, "{problems:#?}");
    assert!(
        problems[0].starts_with(
            "m/b.yaml:10:25: spec.network.addresses[0]: the address 192.0.2.17 of t/p2 is taken by t/p1 at m/a.yaml:10:25"
        ),
        "{problems:#?}"
    );
}

#[test]
fn an_external_proxy_has_an_endpoint_alone() {
    let external = |spec: &str| {
        format!(
            "apiVersion: egress-plan.dev/v1alpha1\nkind: Proxy\nmetadata: {{name: x}}\nspec: {{mode: External, {spec}}}\n"
        )
    };
    let folder = Folder::new(&[("a.yaml", &external("endpoint: {host: proxy.example, port: 8080}"))]);
    let loaded = folder.load().expect("sound");
    let Mode::External { host, port } = &loaded.desired.proxies[&"default/x".parse().expect("a key")].mode else {
        panic!("external")
    };
    assert_eq!((host.as_str(), *port), ("proxy.example", 8080));
    for (spec, start) in [
        ("provider: lab", "m/a.yaml:4:34: spec.provider: an External proxy is no machine"),
        ("endpoint: {host: 'http://x', port: 1}", "m/a.yaml:4:41: spec.endpoint.host: expected the name"),
        ("endpoint: {host: x, port: 65536}", "m/a.yaml:4:50: spec.endpoint.port: 65536 is out of bounds"),
    ] {
        let problems = Folder::new(&[("a.yaml", &external(spec))]).problems();
        assert!(problems.iter().any(|p| p.starts_with(start)), "{start}\n{problems:#?}");
    }
}

#[test]
fn a_zone_may_be_left_out_when_the_entry_has_one_host() {
    let text = manifest("p1").replace("zone: h1, ", "region: eu, ");
    let folder = Folder::new(&[("a.yaml", &text)]);
    assert!(folder.problems()[0].starts_with("m/a.yaml:8:3: spec.placement.zone: this field is required"));
    folder.write("config.yaml", CONFIG.replace("    - {name: h2, recorded: h2.yaml, bridge: br0}\n", ""));
    let loaded = folder.load().expect("sound");
    assert_eq!(loaded.desired.hosts.len(), 1);
    assert!(loaded.notes[0].contains("region"), "{:?}", loaded.notes);
}

fn set(replicas: usize, zones: &str, extra: &str) -> String {
    format!(
        "apiVersion: egress-plan.dev/v1alpha1\nkind: ProxySet\nmetadata: {{name: s, namespace: t, labels: {{a: x}}}}\n\
         spec:\n  replicas: {replicas}\n  zones: [{zones}]\n  template:\n    metadata: {{labels: {{b: y}}}}\n    spec:\n      \
         provider: lab\n      port: 3128\n      placement: {{machineType: small, image: debian-13}}\n{extra}"
    )
}

#[test]
fn a_set_is_spread_over_its_zones() {
    let folder = Folder::new(&[("a.yaml", &set(3, "h1, h2", ""))]);
    let loaded = folder.load().expect("sound");
    let places: Vec<String> = loaded
        .desired
        .proxies
        .values()
        .map(|proxy| match &proxy.mode {
            Mode::Managed(managed) => format!("{} {} {}", proxy.key, managed.place, proxy.labels.len()),
            Mode::External { .. } => String::new(),
        })
        .collect();
    assert_eq!(places, ["t/s-0 lab/h1 2", "t/s-1 lab/h2 2", "t/s-2 lab/h1 2"]);
}

#[test]
fn a_problem_of_a_set_is_told_once() {
    let cases = [
        (set(3, "h1, h9", ""), "m/a.yaml:6:15: spec.zones[1]: unknown zone \"h9\""),
        (set(3, "h1, h1", ""), "m/a.yaml:6:15: spec.zones[1]: this zone is given twice"),
        (set(3, "h1", "      protect: x\n"), "m/a.yaml:13:16: spec.template.spec.protect: expected true or false"),
        (set(10_001, "h1", ""), "m/a.yaml:5:13: spec.replicas: 10001 is out of bounds"),
        (
            set(3, "h1", "").replace("name: s", &format!("name: {}", "s".repeat(62))),
            "m/a.yaml:3:18: metadata.name: the names of the members",
        ),
        (
            set(2, "h1", "      network: {addresses: [192.0.2.5/24]}\n"),
            "m/a.yaml:13:29: spec.template.spec.network.addresses[0]: the address 192.0.2.5 of t/s-1 is taken by t/s-0",
        ),
        (
            set(1, "h1", "") + "---\n" + &manifest("s-0"),
            "m/a.yaml:16:18: metadata.name: the proxy t/s-0 is given twice, first at m/a.yaml:3:18",
        ),
    ];
    for (text, start) in cases {
        let problems = Folder::new(&[("a.yaml", &text)]).problems();
        assert_eq!(problems.len(), 1, "{start}\n{problems:#?}");
        assert!(problems[0].starts_with(start), "{start}\n{problems:#?}");
    }
}

#[test]
fn settling_keeps_members_where_the_hosts_show_them() {
    use crate::plan::{HostState, HostView, Standing};
    let folder = Folder::new(&[("a.yaml", &set(2, "h1, h2", ""))]);
    let mut loaded = folder.load().expect("sound");
    let key = "t/s-0".parse().expect("a key");
    let instance = Instance {
        name: "egress-s-0-x".to_owned(),
        uuid: String::new(),
        standing: Standing::Blocked {
            key: Some("t/s-0".parse().expect("a key")),
            reason: crate::plan::Reason::Paused,
            message: String::new(),
        },
        power: crate::plan::Power::Running,
        transient: false,
        disk_bytes: 0,
        missing_disks: Vec::new(),
        removes: Vec::new(),
        address: crate::plan::Address::NotAsked,
    };
    let view = |instances| HostState::Known(Box::new(HostView { instances, ..HostView::default() }));
    let observed = Observed {
        hosts: [("lab/h1", Vec::new()), ("lab/h2", vec![instance])]
            .map(|(place, instances)| (place.parse().expect("a place"), view(instances)))
            .into(),
    };
    let before = loaded.desired.proxies[&key].clone();
    loaded.settle(&observed);
    let Mode::Managed(after) = &loaded.desired.proxies[&key].mode else { panic!("managed") };
    let Mode::Managed(before) = before.mode else { panic!("managed") };
    assert_eq!(after.place.to_string(), "lab/h2");
    let (after, before) = (after.resolved.as_ref().expect("resolved"), before.resolved.expect("resolved"));
    assert_ne!(after.instance, before.instance);
    assert_eq!(after.spec, before.spec);
}

#[test]
fn user_data_that_switches_vendor_data_off_is_warned_about_while_the_agent_is_wanted() {
    let text = manifest("p1").replace("packages: [squid]", "vendor_data: {enabled: false}");
    let folder = Folder::new(&[("a.yaml", &text)]);
    let warnings = folder.load().expect("sound").warnings;
    assert_eq!(warnings.len(), 1);
    assert!(
        warnings[0]
            .to_string()
            .contains("a.yaml:9:14: warning: spec.cloudInit: this user-data switches vendor-data off")
    );
    folder.write("config.yaml", CONFIG.replace("    images:", "    installGuestAgent: false\n    images:"));
    assert!(folder.load().expect("sound").warnings.is_empty());
}

#[test]
fn every_problem_of_config_and_manifests_is_told_in_one_go() {
    let folder = Folder::new(&[("a.yaml", &manifest("p1").replace("zone: h1", "zone: h9")), ("b.yaml", "a: [")]);
    folder.write("config.yaml", CONFIG.replace("fleet: fixtures", "fleet: Fixtures").replace("vcpus: 1", "vcpus: 0"));
    let problems = folder.problems();
    let starts: Vec<&str> = problems.iter().filter_map(|p| p.split(": ").next()).collect();
    assert_eq!(starts, ["config.yaml:1:8", "config.yaml:11:22", "m/a.yaml:8:21", "m/b.yaml:1:4"], "{problems:#?}");
}

#[test]
fn namespace_name_and_labels_are_checked() {
    for (from, to, start) in [
        ("namespace: t", "namespace: T", "m/a.yaml:3:33: metadata.namespace: 'T' is not allowed"),
        ("name: p1", "name: p_1", "m/a.yaml:3:18: metadata.name: '_' is not allowed"),
        ("name: p1", "name: 1", "m/a.yaml:3:18: metadata.name: expected text, found a number; put it in quotes"),
        ("namespace: t", "labels: {a: 'b c'}", "m/a.yaml:3:34: metadata.labels.a: a label's value"),
        ("metadata: {name: p1, namespace: t}", "metadata: {}", "m/a.yaml:3:1: metadata.name: this field is required"),
        ("port: 3128", "port: 65536", "m/a.yaml:7:9: spec.port: 65536 is out of bounds"),
        ("  port: 3128\n", "", "m/a.yaml:4:1: spec.port: this field is required"),
        ("mode: Managed", "mode: managed", "m/a.yaml:5:9: spec.mode: expected Managed or External"),
    ] {
        let problems = Folder::new(&[("a.yaml", &manifest("p1").replacen(from, to, 1))]).problems();
        assert_eq!(problems.len(), 1, "{to}\n{problems:#?}");
        assert!(problems[0].starts_with(start), "{start}\n{problems:#?}");
    }
}

#[test]
fn what_a_cluster_adds_to_an_object_is_accepted() {
    let text = manifest("p1").replace(
        "namespace: t",
        "namespace: t, uid: u, generation: 3, annotations: {a: b}, creationTimestamp: null, managedFields: [{}]",
    ) + "status: {phase: Ready}\n";
    assert_eq!(keys(&Folder::new(&[("a.yaml", &text)]).load().expect("sound")), ["t/p1"]);
}

#[test]
fn an_empty_cloud_init_is_said_plainly() {
    let text = manifest("p1").replace("cloudInit: \"#cloud-config\\npackages: [squid]\\n\"", "cloudInit:");
    let warnings = Folder::new(&[("a.yaml", &text)]).load().expect("sound").warnings;
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].message.contains("spec.cloudInit: nothing is given here"), "{warnings:?}");
}

#[test]
fn a_retired_zone_gets_no_member_and_a_warning() {
    let folder = Folder::new(&[("a.yaml", &set(2, "h1, h2", ""))]);
    folder.write("config.yaml", CONFIG.replace("recorded: h1.yaml", "retired: true, recorded: h1.yaml"));
    let loaded = folder.load().expect("sound");
    assert!(loaded.warnings[0].message.contains("spec.zones[0]: the zone h1 is retired"), "{:?}", loaded.warnings);
    let on_h2 = |proxy: &crate::plan::Proxy| matches!(&proxy.mode, Mode::Managed(m) if m.place.host.as_str() == "h2");
    assert!(loaded.desired.proxies.values().all(on_h2));
}

#[test]
fn the_fleet_is_required_and_the_flag_wins() {
    let folder = Folder::new(&[("a.yaml", &manifest("p1"))]);
    let other = Sources { fleet: "other".parse().ok(), ..folder.sources() };
    let loaded = folder.load_from(&other, "").expect("sound");
    assert_eq!((loaded.desired.fleet.as_str(), loaded.notes.len()), ("other", 1));
    folder.write("config.yaml", CONFIG.replace("fleet: fixtures\n", ""));
    assert_eq!(folder.problems(), ["config.yaml: fleet: this field is required, in the config or by --fleet"]);
    assert_eq!(folder.load_from(&other, "").expect("sound").desired.fleet.as_str(), "other");
    let config = load_config(&other.config, None).expect("sound");
    assert!(config.fleet.is_none() && config.nothing_desired().is_none());
    assert_eq!(config.providers.len(), 1);
}

#[test]
fn a_manifest_that_moves_between_files_is_the_same() {
    let load = |name: &str, key: &str| {
        let folder = Folder::new(&[(name, &manifest(key))]);
        let loaded = folder.load().expect("sound");
        let Mode::Managed(managed) = &loaded.desired.proxies.values().next().expect("one").mode else {
            panic!("managed")
        };
        managed.resolved.clone().expect("resolved")
    };
    assert_eq!(load("a.yaml", "p1"), load("b/c.json", "p1"));
    assert_ne!(load("a.yaml", "p1").instance, load("a.yaml", "p2").instance);
}

#[test]
fn json_with_tabs_and_the_full_manifest_are_read() {
    let json = "{\n\t\"apiVersion\": \"egress-plan.dev/v1alpha1\",\n\t\"kind\": \"Proxy\",\n\t\"metadata\": {\"name\": \"j\"},\n\t\"spec\": {\n\t\t\"provider\": \"lab\", \"port\": 3128,\n\t\t\"placement\": {\"zone\": \"h1\", \"machineType\": \"small\", \"image\": \"debian-13\"}\n\t}\n}\n";
    let full = "\
apiVersion: egress-plan.dev/v1alpha1
kind: Proxy
metadata: {name: crawl-1, namespace: crawlers, labels: {site: prague}}
spec:
  mode: Managed                 # Managed | External
  provider: lab
  port: 3128
  placement: {zone: h1, machineType: small, image: debian-13}
  cloudInit: |
    #cloud-config
    packages: [squid]
  network:
    addresses: [192.0.2.17/24]
    gateway: 192.0.2.1
    nameservers: [192.0.2.1]
  protect: false
";
    let loaded = Folder::new(&[("a.json", json), ("b.yaml", full)]).load().expect("sound");
    assert_eq!(keys(&loaded), ["crawlers/crawl-1", "default/j"]);
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    let crawl = loaded.desired.proxies.values().next().expect("one");
    assert!(crawl.origin.ends_with("/m/b.yaml:1"), "{}", crawl.origin);
}
