//! The custom resource definitions, made from the types that manifests in files are read into.
//!
//! Bounds and patterns come with those types. What a schema cannot say is a rule here, in the language
//! of the API server (CEL), so that it refuses what `validate` refuses. Servers from 1.31 on know all
//! functions that the rules use.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::status::{ProxySetStatus, ProxyStatus};
use crate::load::manifest::{API_GROUP, RawSetSpec, RawSpec};

/// A rule and what the API server says where it does not hold.
type Rule = (&'static str, &'static str);

/// A place in the schema of a spec, and the rules that hold there.
type Rules = (&'static str, &'static [Rule]);

const SPEC: &[Rule] = &[
    ("self.mode == oldSelf.mode", "mode: it cannot be changed; delete the object and make another"),
    ("self.mode == 'External' || has(self.provider)", "provider: this field is required: the name of a provider entry"),
    (
        "self.mode == 'External' || has(self.port)",
        "port: this field is required: the TCP port that the proxy listens on",
    ),
    ("self.mode == 'External' || has(self.placement)", "placement: this field is required"),
    ("self.mode == 'Managed' || has(self.endpoint)", "endpoint: this field is required for an External proxy"),
    (
        "self.mode == 'External' || !has(self.endpoint)",
        "endpoint: a Managed proxy listens where its machine is; remove this field, or set mode: External",
    ),
    (
        "self.mode == 'Managed' || !(has(self.provider) || has(self.port) || has(self.placement) || \
         has(self.cloudInit) || has(self.cloudInitFrom) || has(self.network) || has(self.protect))",
        "an External proxy is no machine and has an endpoint alone; remove the other fields",
    ),
    (
        "!(has(self.cloudInit) && has(self.cloudInitFrom))",
        "cloudInitFrom: user-data is given by cloudInit already; leave one of the two",
    ),
];

/// By JSON pointer within the schema of a Proxy's spec.
const PROXY: &[Rules] = &[
    ("", SPEC),
    (
        "/properties/cloudInitFrom",
        &[
            ("!has(self.file)", "file: a cluster has no files; use secretKeyRef"),
            ("has(self.secretKeyRef)", "secretKeyRef: this field is required"),
        ],
    ),
    (
        "/properties/endpoint/properties/host",
        &[(
            "isIP(self) || self.matches('^[A-Za-z0-9_][-A-Za-z0-9._]*$')",
            "expected the name or address of a host, without scheme, user or port",
        )],
    ),
    (
        "/properties/network",
        &[
            ("!has(self.gateway) || isIP(self.gateway)", "gateway: this is no address of a host"),
            (
                "!has(self.gateway) || !isIP(self.gateway) || \
                 self.addresses.exists(a, isCIDR(a) && cidr(a).containsIP(self.gateway))",
                "gateway: it is in none of the addresses' networks, so it cannot be reached",
            ),
            (
                "!has(self.gateway) || !self.addresses.exists(a, a.startsWith(self.gateway + '/'))",
                "gateway: it is the machine's own address",
            ),
        ],
    ),
    (
        "/properties/network/properties/addresses/items",
        &[
            ("isCIDR(self)", "this is no address with a prefix length; expected one such as 192.0.2.17/24"),
            (
                "!isCIDR(self) || (cidr(self).prefixLength() > 0 && !cidr(self).ip().isLoopback() && \
                 !cidr(self).ip().isUnspecified())",
                "this cannot be the address of a machine",
            ),
        ],
    ),
    ("/properties/network/properties/nameservers/items", &[("isIP(self)", "this is no address of a host")]),
];

const SET: &[Rules] = &[(
    "",
    &[
        (
            "self.template.spec.mode == 'Managed'",
            "template: a set is of Managed proxies; an External one has one endpoint",
        ),
        (
            "!has(self.zones) || !has(self.template.spec.placement) || !has(self.template.spec.placement.zone)",
            "zones: a set has zones, or its template has a zone; leave one of the two",
        ),
        (
            "!has(self.template.spec.network) || self.replicas <= 1",
            "template: static addresses are of one machine, and this set has several",
        ),
    ],
)];

const PROXY_ROOT: &[Rule] = &[(
    "size(self.metadata.name) <= 63 && !self.metadata.name.contains('.')",
    "metadata.name: use lower-case letters, digits and '-', at most 63 of them",
)];

const SET_ROOT: &[Rule] = &[(
    "!self.metadata.name.contains('.') && \
     size(self.metadata.name) + 1 + size(string(self.spec.replicas > 0 ? self.spec.replicas - 1 : 0)) <= 63",
    "metadata.name: the names of the members, NAME-INDEX, may have at most 63 lower-case letters, digits and '-'",
)];

/// The definitions of Proxy and ProxySet as YAML, as `kubectl apply` takes it.
///
/// # Errors
/// What YAML cannot carry: a fault of this program.
pub fn yaml() -> Result<String, serde_saphyr::ser::Error> {
    let head = "# Made by `egress-plan crd`; not to be edited by hand.\n";
    let (proxy, set) = (serde_saphyr::to_string(&proxy())?, serde_saphyr::to_string(&proxy_set())?);
    Ok(format!("{head}{proxy}---\n{set}"))
}

fn proxy() -> Value {
    let mut spec = schema_of::<RawSpec>();
    complete_spec(&mut spec);
    add(&mut spec, "", PROXY);
    let columns = json!([
        column("Mode", "string", ".spec.mode"),
        column("Provider", "string", ".spec.provider"),
        column("Zone", "string", ".spec.placement.zone"),
        column("Phase", "string", ".status.phase"),
        column("IP", "string", ".status.ip"),
        column("Healthy", "string", ".status.conditions[?(@.type==\"Healthy\")].status"),
        column("Age", "date", ".metadata.creationTimestamp"),
    ]);
    let names = json!({
        "kind": "Proxy", "listKind": "ProxyList", "plural": "proxies", "singular": "proxy",
        "shortNames": ["px"], "categories": ["egress"],
    });
    let root = root("One egress proxy.", &spec, &schema_of::<ProxyStatus>(), PROXY_ROOT);
    definition(&names, &root, &columns, &json!({"status": {}}))
}

fn proxy_set() -> Value {
    let mut spec = schema_of::<RawSetSpec>();
    let template = "/properties/template/properties/spec";
    if let Some(template) = spec.pointer_mut(template) {
        complete_spec(template);
    }
    // What says how many of a label are meant, for the API server's estimate of a rule's cost.
    set(&mut spec, "/properties/zones", "x-kubernetes-list-type", json!("set"));
    if let Some(labels) = spec.pointer_mut("/properties/template/properties/metadata/properties") {
        *labels = json!({"labels": {
            "type": "object", "maxProperties": 64, "additionalProperties": {"type": "string", "maxLength": 63},
            "description": "Labels, as Kubernetes has them.",
        }});
    }
    add(&mut spec, template, PROXY);
    add(&mut spec, "", SET);
    let columns = json!([
        column("Replicas", "integer", ".spec.replicas"),
        column("Ready", "integer", ".status.readyReplicas"),
        column("Provider", "string", ".spec.template.spec.provider"),
        column("Provisioned", "string", ".status.conditions[?(@.type==\"Provisioned\")].status"),
        column("Age", "date", ".metadata.creationTimestamp"),
    ]);
    let names = json!({
        "kind": "ProxySet", "listKind": "ProxySetList", "plural": "proxysets", "singular": "proxyset",
        "shortNames": ["pxs"], "categories": ["egress"],
    });
    let about = "Several egress proxies of one template, named NAME-INDEX.";
    let root = root(about, &spec, &schema_of::<ProxySetStatus>(), SET_ROOT);
    let scale = json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"});
    definition(&names, &root, &columns, &json!({"status": {}, "scale": scale}))
}

fn definition(names: &Value, root: &Value, columns: &Value, subresources: &Value) -> Value {
    let plural = names["plural"].as_str().unwrap_or_default();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{API_GROUP}")},
        "spec": {
            "group": API_GROUP,
            "scope": "Namespaced",
            "names": names,
            "versions": [{
                "name": "v1alpha1",
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": root},
                "subresources": subresources,
                "additionalPrinterColumns": columns,
            }],
        },
    })
}

fn column(name: &str, kind: &str, path: &str) -> Value {
    json!({"name": name, "type": kind, "jsonPath": path})
}

fn root(description: &str, spec: &Value, status: &Value, rules: &[Rule]) -> Value {
    let mut status = status.clone();
    set(&mut status, "/properties/conditions", "x-kubernetes-list-type", json!("map"));
    set(&mut status, "/properties/conditions", "x-kubernetes-list-map-keys", json!(["type"]));
    json!({
        "type": "object",
        "description": description,
        "required": ["spec"],
        "properties": {"spec": spec, "status": status},
        "x-kubernetes-validations": rules.iter().map(rule).collect::<Vec<_>>(),
    })
}

/// What a spec has in a cluster beside its rules.
fn complete_spec(spec: &mut Value) {
    set(spec, "/properties/mode", "default", json!("Managed"));
    set(spec, "/properties/network/properties/addresses", "x-kubernetes-list-type", json!("set"));
}

fn rule((rule, message): &Rule) -> Value {
    json!({"rule": rule, "message": message})
}

fn add(schema: &mut Value, below: &str, rules: &[Rules]) {
    for (pointer, rules) in rules {
        let Some(Value::Object(place)) = schema.pointer_mut(&format!("{below}{pointer}")) else { continue };
        let there = place.entry("x-kubernetes-validations").or_insert_with(|| json!([]));
        if let Value::Array(there) = there {
            there.extend(rules.iter().map(rule));
        }
    }
}

fn set(schema: &mut Value, pointer: &str, key: &str, value: Value) {
    if let Some(Value::Object(place)) = schema.pointer_mut(pointer) {
        place.insert(key.to_owned(), value);
    }
}

/// The schema of a type as a structural one.
fn schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    make_structural(&mut schema);
    schema
}

/// Takes out what a structural schema does not have. A field that may be left out is no field that may
/// be null: the server drops nulls by itself.
fn make_structural(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            object.remove("title");
            if object.get("additionalProperties") == Some(&Value::Bool(false)) {
                object.remove("additionalProperties");
            }
            unwrap_nullable(object);
            object.values_mut().for_each(make_structural);
        }
        Value::Array(items) => items.iter_mut().for_each(make_structural),
        _ => {}
    }
}

fn unwrap_nullable(object: &mut Map<String, Value>) {
    let is_null = |value: &Value| value["type"] == "null" || *value == json!("null") || value.is_null();
    if let Some(Value::Array(kinds)) = object.get_mut("type") {
        kinds.retain(|kind| !is_null(kind));
        if let [kind] = kinds.as_slice() {
            let kind = kind.clone();
            object.insert("type".to_owned(), kind);
        }
    }
    if let Some(Value::Array(values)) = object.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    let Some(Value::Array(any)) = object.get("anyOf") else { return };
    let other = any.iter().find(|schema| !is_null(schema)).cloned();
    if let (true, Some(Value::Object(other))) = (any.iter().any(is_null), other) {
        object.remove("anyOf");
        for (key, value) in other {
            object.entry(key).or_insert(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

    use super::*;

    #[test]
    fn every_rule_has_its_place_and_the_definitions_are_some() {
        let [proxies, sets] = [proxy(), proxy_set()]
            .map(|value| serde_json::from_value::<CustomResourceDefinition>(value).expect("a definition"));
        assert_eq!((proxies.spec.names.plural, sets.spec.names.plural), ("proxies".to_owned(), "proxysets".to_owned()));
        for (_, rules) in PROXY.iter().chain(SET) {
            for (_, message) in *rules {
                let there = [proxy(), proxy_set()].map(|it| it.to_string().matches(message).count());
                assert!(there[1] > 0, "{message}: {there:?}");
            }
        }
    }

    #[test]
    fn nothing_in_the_schemas_is_foreign_to_a_structural_one() {
        fn walk(value: &Value, path: &str) {
            match value {
                Value::Object(object) => {
                    for key in ["$ref", "anyOf", "oneOf", "const", "nullable", "$defs"] {
                        assert!(!object.contains_key(key), "{path}: {key}");
                    }
                    assert_ne!(object.get("additionalProperties"), Some(&Value::Bool(false)), "{path}");
                    object.iter().for_each(|(key, value)| walk(value, &format!("{path}/{key}")));
                }
                Value::Array(items) => items.iter().for_each(|value| walk(value, path)),
                _ => {}
            }
        }
        walk(&proxy()["spec"]["versions"][0]["schema"], "proxy");
        walk(&proxy_set()["spec"]["versions"][0]["schema"], "set");
    }
}
