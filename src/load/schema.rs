//! JSON Schemas of what this program reads, for editors: `# yaml-language-server: $schema=FILE`.

use std::collections::{BTreeMap, BTreeSet};

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, json_schema};
use serde_json::Value;

use super::config::RawConfig;
use super::manifest::{RawProxy, RawProxySet};

/// The schemas by name, each as JSON text that ends with a line break:
///
/// - `manifest`: a `Proxy` or a `ProxySet`
/// - `proxy`, `proxyset`: one of the two
/// - `config`: the providers config
#[must_use]
pub fn schemas() -> BTreeMap<&'static str, String> {
    let all = [
        ("config", of::<RawConfig>("config", "egress-plan providers config")),
        ("manifest", manifest()),
        ("proxy", of::<RawProxy>("proxy", "egress-plan Proxy")),
        ("proxyset", of::<RawProxySet>("proxyset", "egress-plan ProxySet")),
    ];
    all.into_iter().map(|(name, schema)| (name, format!("{:#}\n", schema.to_value()))).collect()
}

fn head(schema: &mut Schema, name: &str, title: &str) {
    schema.insert("$id".to_owned(), Value::String(format!("https://egress-plan.dev/schema/{name}.json")));
    schema.insert("title".to_owned(), Value::String(title.to_owned()));
}

fn of<T: JsonSchema>(name: &str, title: &str) -> Schema {
    let mut schema = SchemaSettings::draft07().into_generator().into_root_schema_for::<T>();
    head(&mut schema, name, title);
    schema
}

/// One of the two kinds, told apart by `kind`: an editor then shows the faults of the right one.
fn manifest() -> Schema {
    let mut generator = SchemaSettings::draft07().into_generator();
    let proxy = generator.subschema_for::<RawProxy>();
    let set = generator.subschema_for::<RawProxySet>();
    let definitions = generator.take_definitions(true);
    let mut schema = json_schema!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "required": ["apiVersion", "kind"],
        "properties": {"kind": {"enum": ["Proxy", "ProxySet"]}},
        "if": {"properties": {"kind": {"const": "ProxySet"}}},
        "then": set,
        "else": proxy,
        "definitions": definitions,
    });
    head(&mut schema, "manifest", "egress-plan manifest");
    schema
}

/// The names of all fields of manifests and configs.
pub(super) fn field_names() -> BTreeSet<String> {
    let mut names: BTreeSet<String> = ["items".to_owned()].into();
    for schema in [of::<RawConfig>("config", ""), manifest()] {
        collect(&schema.to_value(), &mut names);
    }
    names
}

fn collect(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            if let Some(Value::Object(properties)) = object.get("properties") {
                names.extend(properties.keys().cloned());
            }
            object.values().for_each(|value| collect(value, names));
        }
        Value::Array(items) => items.iter().for_each(|value| collect(value, names)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(name: &str) -> Value {
        serde_json::from_str(&schemas()[name]).expect("JSON")
    }

    /// Every object of the schemas refuses unknown fields, as the readers do.
    fn open_objects(value: &Value, path: &str, open: &mut Vec<String>) {
        match value {
            Value::Object(object) => {
                if object.contains_key("properties")
                    && !object.contains_key("if")
                    && !path.ends_with("/if")
                    && object.get("additionalProperties") != Some(&Value::Bool(false))
                {
                    open.push(path.to_owned());
                }
                object.iter().for_each(|(key, value)| open_objects(value, &format!("{path}/{key}"), open));
            }
            Value::Array(items) => items.iter().for_each(|value| open_objects(value, path, open)),
            _ => {}
        }
    }

    #[test]
    fn schemas_refuse_unknown_fields_as_the_readers_do() {
        for name in schemas().keys() {
            let mut open = Vec::new();
            open_objects(&schema(name), name, &mut open);
            assert_eq!(open, Vec::<String>::new());
        }
    }

    #[test]
    fn required_fields_and_bounds_are_in_the_schemas() {
        let proxy = schema("proxy");
        assert_eq!(proxy["required"], serde_json::json!(["apiVersion", "kind", "metadata", "spec"]));
        assert_eq!(proxy["properties"]["kind"]["const"], "Proxy");
        assert_eq!(proxy["properties"]["spec"]["properties"]["port"]["maximum"], 65_535);
        assert_eq!(proxy["definitions"]["Placement"]["required"], serde_json::json!(["machineType", "image"]));
        let config = schema("config");
        assert_eq!(config["definitions"]["LibvirtMachineType"]["properties"]["memoryMiB"]["minimum"], 64);
    }

    #[test]
    fn every_reference_of_a_schema_leads_somewhere() {
        for (name, text) in schemas() {
            let value = schema(name);
            for reference in text.split("\"$ref\": \"").skip(1).filter_map(|rest| rest.split('"').next()) {
                let pointer = reference.strip_prefix('#').expect("within the schema");
                assert!(value.pointer(pointer).is_some(), "{name}: {reference}");
            }
        }
    }
}
