//! What the API server refuses and what `validate` refuses: the same.

use std::process::Command;

use super::api::Api;
use super::fleet::Fleet;

/// An object that is no good: what it is, its document, and what the API server says of it.
type Wrong = (&'static str, &'static str, &'static str);

const MANAGED: &str = "provider: lab, port: 3128, placement: {zone: h1, machineType: small, image: debian-13}";

/// Of each, `SPEC` stands for a good managed spec without its braces.
const WRONG: &[Wrong] = &[
    ("no spec", "{kind: Proxy}", "spec: Required"),
    (
        "no provider",
        "{kind: Proxy, spec: {port: 3128, placement: {zone: h1, machineType: small, image: debian-13}}}",
        "the name of a provider entry",
    ),
    (
        "no port",
        "{kind: Proxy, spec: {provider: lab, placement: {zone: h1, machineType: small, image: debian-13}}}",
        "the TCP port",
    ),
    ("no placement", "{kind: Proxy, spec: {provider: lab, port: 3128}}", "placement: this field is required"),
    (
        "no machine type",
        "{kind: Proxy, spec: {provider: lab, port: 3128, placement: {zone: h1, image: debian-13}}}",
        "machineType: Required",
    ),
    (
        "no image",
        "{kind: Proxy, spec: {provider: lab, port: 3128, placement: {zone: h1, machineType: small}}}",
        "image: Required",
    ),
    (
        "a port of 0",
        "{kind: Proxy, spec: {provider: lab, port: 0, placement: {zone: h1, machineType: small, image: debian-13}}}",
        "greater than or equal to 1",
    ),
    (
        "a port beyond",
        "{kind: Proxy, spec: {provider: lab, port: 65536, placement: {zone: h1, machineType: small, image: debian-13}}}",
        "less than or equal to 65535",
    ),
    (
        "a port in words",
        "{kind: Proxy, spec: {provider: lab, port: squid, placement: {zone: h1, machineType: small, image: debian-13}}}",
        "must be of type integer",
    ),
    (
        "a provider in capitals",
        "{kind: Proxy, spec: {provider: Lab, port: 3128, placement: {zone: h1, machineType: small, image: debian-13}}}",
        "spec.provider in body should match",
    ),
    (
        "a zone with a dot",
        "{kind: Proxy, spec: {provider: lab, port: 3128, placement: {zone: h1.lan, machineType: small, image: debian-13}}}",
        "spec.placement.zone in body should match",
    ),
    (
        "an empty zone",
        "{kind: Proxy, spec: {provider: lab, port: 3128, placement: {zone: '', machineType: small, image: debian-13}}}",
        "spec.placement.zone",
    ),
    ("a field misspelt", "{kind: Proxy, spec: {SPEC, cloudinit: x}}", "unknown field \"spec.cloudinit\""),
    ("a mode that is none", "{kind: Proxy, spec: {mode: Sometimes, SPEC}}", "Unsupported value: \"Sometimes\""),
    (
        "user-data twice",
        "{kind: Proxy, spec: {SPEC, cloudInit: '#cloud-config', cloudInitFrom: {secretKeyRef: {name: a, key: b}}}}",
        "leave one of the two",
    ),
    (
        "user-data from nowhere",
        "{kind: Proxy, spec: {SPEC, cloudInitFrom: {}}}",
        "secretKeyRef: this field is required",
    ),
    (
        "a secret without a key",
        "{kind: Proxy, spec: {SPEC, cloudInitFrom: {secretKeyRef: {name: a}}}}",
        "key: Required",
    ),
    (
        "a secret's name with a slash",
        "{kind: Proxy, spec: {SPEC, cloudInitFrom: {secretKeyRef: {name: a/b, key: c}}}}",
        "secretKeyRef.name in body should match",
    ),
    ("user-data that is a map", "{kind: Proxy, spec: {SPEC, cloudInit: {packages: [squid]}}}", "spec.cloudInit"),
    ("no address", "{kind: Proxy, spec: {SPEC, network: {addresses: []}}}", "should have at least 1 items"),
    (
        "an address without its prefix",
        "{kind: Proxy, spec: {SPEC, network: {addresses: [192.0.2.17]}}}",
        "this is no address with a prefix length",
    ),
    (
        "a loopback address",
        "{kind: Proxy, spec: {SPEC, network: {addresses: [127.0.0.1/8]}}}",
        "cannot be the address of a machine",
    ),
    (
        "an address twice",
        "{kind: Proxy, spec: {SPEC, network: {addresses: [192.0.2.17/24, 192.0.2.17/24]}}}",
        "Duplicate value",
    ),
    (
        "a gateway elsewhere",
        "{kind: Proxy, spec: {SPEC, network: {addresses: [192.0.2.17/24], gateway: 198.51.100.1}}}",
        "so it cannot be reached",
    ),
    (
        "a gateway that it is itself",
        "{kind: Proxy, spec: {SPEC, network: {addresses: [192.0.2.17/24], gateway: 192.0.2.17}}}",
        "the machine's own address",
    ),
    (
        "a name server by name",
        "{kind: Proxy, spec: {SPEC, network: {addresses: [192.0.2.17/24], nameservers: [dns.example]}}}",
        "this is no address of a host",
    ),
    (
        "managed with an endpoint",
        "{kind: Proxy, spec: {SPEC, endpoint: {host: a.example, port: 80}}}",
        "set mode: External",
    ),
    (
        "external without one",
        "{kind: Proxy, spec: {mode: External}}",
        "endpoint: this field is required for an External proxy",
    ),
    (
        "external and a machine",
        "{kind: Proxy, spec: {mode: External, SPEC, endpoint: {host: a.example, port: 80}}}",
        "remove the other fields",
    ),
    (
        "external by URL",
        "{kind: Proxy, spec: {mode: External, endpoint: {host: 'http://a.example', port: 80}}}",
        "without scheme, user or port",
    ),
    ("a set without replicas", "{kind: ProxySet, spec: {template: {spec: {SPEC}}}}", "replicas: Required"),
    (
        "a set below nothing",
        "{kind: ProxySet, spec: {replicas: -1, template: {spec: {SPEC}}}}",
        "greater than or equal to 0",
    ),
    (
        "a set of externals",
        "{kind: ProxySet, spec: {replicas: 1, template: {spec: {mode: External, endpoint: {host: a.example, port: 80}}}}}",
        "a set is of Managed proxies",
    ),
    (
        "a set with zones and a zone",
        "{kind: ProxySet, spec: {replicas: 2, zones: [h1, h2], template: {spec: {SPEC}}}}",
        "leave one of the two",
    ),
    (
        "a set with a zone twice",
        "{kind: ProxySet, spec: {replicas: 2, zones: [h1, h1], template: {spec: {provider: lab, port: 3128, placement: {machineType: small, image: debian-13}}}}}",
        "Duplicate value",
    ),
    (
        "a set with one address",
        "{kind: ProxySet, spec: {replicas: 2, template: {spec: {SPEC, network: {addresses: [192.0.2.17/24]}}}}}",
        "static addresses are of one machine",
    ),
];

pub fn both_refuse(api: &Api) {
    let fleet = Fleet::new(api, "refused");
    assert!(WRONG.len() >= 30);
    for (what, document, says) in WRONG {
        let document = document.replace("SPEC", MANAGED);
        let head = "{apiVersion: egress-plan.dev/v1alpha1, metadata: {name: wrong, namespace: refused}, ";
        let document = document.replacen('{', head, 1);
        let said = api.kubectl_with("apply --dry-run=server --validate=strict -f -", &document);
        assert_ne!(said.code, Some(0), "{what}: the API server takes it");
        assert!(said.err.contains(says), "{what}: {says}: {}", said.err);
        fleet.write("wrong.yaml", &document);
        let validate = Command::new(assert_cmd::cargo::cargo_bin!("egress-plan"))
            .env_clear()
            .current_dir(fleet.folder.path())
            .args("validate -c config.yaml -f wrong.yaml --secrets-dir .".split(' '))
            .output()
            .expect("starts");
        let text = String::from_utf8_lossy(&validate.stderr);
        assert_eq!(validate.status.code(), Some(1), "{what}: {text}");
        assert!(text.contains("wrong.yaml:1:"), "{what}: {text}");
    }
}

pub fn both_take_the_example(api: &Api) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/kubernetes");
    api.namespace("crawlers", "");
    api.kubectl(&format!("apply --dry-run=server -f {folder}/proxies.yaml")).ok();
    let validate = Command::new(assert_cmd::cargo::cargo_bin!("egress-plan"))
        .env_clear()
        .current_dir(folder)
        .args("validate -c config.yaml -f proxies.yaml --secrets-dir secrets".split(' '))
        .output()
        .expect("starts");
    assert_eq!(validate.status.code(), Some(0), "{}", String::from_utf8_lossy(&validate.stderr));
}

/// What may not change, and what may.
pub fn a_mode_stays(api: &Api) {
    let fleet = Fleet::new(api, "modes");
    fleet.want(&fleet.proxy("p", "h1", 3128));
    fleet.want(&fleet.proxy("p", "h2", 3129));
    let external = "apiVersion: egress-plan.dev/v1alpha1\nkind: Proxy\nmetadata: {name: p, namespace: modes}\nspec: {mode: External, endpoint: {host: a.example, port: 80}}\n";
    let said = api.kubectl_with("replace -f -", external);
    assert!(said.err.contains("mode: it cannot be changed"), "{}", said.err);
}
