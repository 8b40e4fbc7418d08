//! Who asked the API server for what: as the table `tests/chart/rbac` allows it, and as the server's audit
//! log has it.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::api::Api;

const TABLE: &str = include_str!("../chart/rbac");
/// How long the server may take to write down what it answered.
const WRITTEN: Duration = Duration::from_secs(30);

/// One thing asked for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Access {
    pub verb: String,
    pub group: String,
    /// With its subresource, as `proxies/status`.
    pub resource: String,
    /// Empty for the whole cluster.
    pub namespace: String,
    /// Empty where none is named.
    pub name: String,
}

/// A row of the table.
#[derive(Debug)]
pub struct Rule {
    /// Empty for every namespace.
    namespace: String,
    group: String,
    resources: BTreeSet<String>,
    verbs: BTreeSet<String>,
    /// Empty for every name.
    pub names: BTreeSet<String>,
}

/// What a value set may do in a namespace of its own.
pub fn rules(set: &str, namespace: &str) -> Vec<Rule> {
    let list = |text: &str| text.split(',').filter(|it| *it != "-").map(str::to_owned).collect();
    let rows =
        TABLE.lines().filter(|line| !line.starts_with('#')).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let of_set = rows.filter(|row| row.first() == Some(&set));
    of_set
        .map(|row| Rule {
            namespace: match row[1] {
                "*" => String::new(),
                "proxies" => namespace.to_owned(),
                other => other.to_owned(),
            },
            group: row[2].trim_matches('-').to_owned(),
            resources: list(row[3]),
            verbs: list(row[4]),
            names: list(row[5]),
        })
        .collect()
}

impl Rule {
    pub fn is_of(&self, group: &str, resource: &str) -> bool {
        self.group == group && self.resources.contains(resource)
    }

    pub fn allows(&self, access: &Access) -> bool {
        self.is_of(&access.group, &access.resource)
            && self.verbs.contains(&access.verb)
            && (self.namespace.is_empty() || self.namespace == access.namespace)
            && (self.names.is_empty() || self.names.contains(&access.name))
    }

    /// Each of its rights, of which none was used.
    pub fn unused(&self, used: &[Access]) -> Vec<String> {
        let pairs = self.resources.iter().flat_map(|resource| self.verbs.iter().map(move |verb| (resource, verb)));
        pairs
            .filter(|(resource, verb)| {
                !used.iter().any(|it| self.allows(it) && it.resource == **resource && it.verb == **verb)
            })
            .map(|(resource, verb)| format!("{verb} {resource} in {:?}", self.namespace))
            .collect()
    }
}

/// All that a user asked for until now, and the code of each answer.
pub fn asked(api: &Api, user: &str) -> Vec<(Access, u64)> {
    let begun = Instant::now();
    loop {
        let log = std::fs::read_to_string(api.path("audit.log")).unwrap_or_default();
        // The last line may be half written.
        let entries = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let entries: Vec<Value> = entries.filter(|entry| entry["user"]["username"] == user).collect();
        let (answered, received): (Vec<_>, Vec<_>) =
            entries.iter().partition(|entry| entry["stage"] == "ResponseComplete");
        let ids = |entries: &[&Value]| entries.iter().map(|it| it["auditID"].to_string()).collect::<BTreeSet<_>>();
        // A request is written down before it is answered, and its answer afterwards.
        if !log.is_empty() && ids(&received).is_subset(&ids(&answered)) {
            let code = |entry: &Value| entry["responseStatus"]["code"].as_u64().expect("a code");
            return answered.into_iter().filter_map(|entry| Some((access(entry)?, code(entry)))).collect();
        }
        assert!(begun.elapsed() < WRITTEN, "{received:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What an entry is about; nothing when it is about no resource.
fn access(entry: &Value) -> Option<Access> {
    let of = entry.get("objectRef")?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let resource = match of["subresource"].as_str() {
        Some(subresource) => format!("{}/{subresource}", text(&of["resource"])),
        None => text(&of["resource"]),
    };
    let (verb, group) = (text(&entry["verb"]), text(&of["apiGroup"]));
    Some(Access { verb, group, resource, namespace: text(&of["namespace"]), name: text(&of["name"]) })
}
