//! Manifests as they are written. Every field is optional here; what is required is checked when a
//! manifest becomes part of what is desired. The doc comments are the descriptions of the schemas.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::provider::document::{Ignored, Located};

/// The group of our API.
pub const API_GROUP: &str = "egress-plan.dev";

/// The version that this program reads.
pub const API_VERSION: &str = "egress-plan.dev/v1alpha1";

type Field<T> = Option<Located<T>>;

/// One egress proxy.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Proxy")]
pub struct RawProxy {
    /// Version of the API.
    #[schemars(required, extend("const" = "egress-plan.dev/v1alpha1"))]
    pub api_version: Field<String>,
    /// What is described.
    #[schemars(required, extend("const" = "Proxy"))]
    pub kind: Field<String>,
    /// Name, namespace and labels.
    #[schemars(required)]
    pub metadata: Field<RawMetadata>,
    /// What is wanted.
    #[schemars(required)]
    pub spec: Field<RawSpec>,
    /// What a cluster reports; not looked at.
    pub status: Option<Ignored>,
}

/// Several egress proxies of one template, named `<name>-<index>`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "ProxySet")]
pub struct RawProxySet {
    /// Version of the API.
    #[schemars(required, extend("const" = "egress-plan.dev/v1alpha1"))]
    pub api_version: Field<String>,
    /// What is described.
    #[schemars(required, extend("const" = "ProxySet"))]
    pub kind: Field<String>,
    /// Name, namespace and labels.
    #[schemars(required)]
    pub metadata: Field<RawMetadata>,
    /// What is wanted.
    #[schemars(required)]
    pub spec: Field<RawSetSpec>,
    /// What a cluster reports; not looked at.
    pub status: Option<Ignored>,
}

/// Name, namespace and labels. What a cluster adds is accepted and not looked at.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Metadata")]
pub struct RawMetadata {
    /// A DNS-1123 label.
    #[schemars(required)]
    pub name: Field<String>,
    /// A DNS-1123 label; default `default`.
    pub namespace: Field<String>,
    /// Labels, as Kubernetes has them.
    pub labels: Field<BTreeMap<String, Located<String>>>,
    /// Not looked at.
    pub annotations: Option<Ignored>,
    /// Not looked at.
    pub creation_timestamp: Option<Ignored>,
    /// Not looked at.
    pub deletion_grace_period_seconds: Option<Ignored>,
    /// Not looked at.
    pub deletion_timestamp: Option<Ignored>,
    /// Not looked at.
    pub finalizers: Option<Ignored>,
    /// Not looked at.
    pub generation: Option<Ignored>,
    /// Not looked at.
    pub managed_fields: Option<Ignored>,
    /// Not looked at.
    pub owner_references: Option<Ignored>,
    /// Not looked at.
    pub resource_version: Option<Ignored>,
    /// Not looked at.
    pub self_link: Option<Ignored>,
    /// Not looked at.
    pub uid: Option<Ignored>,
}

/// What is wanted of a set.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "ProxySetSpec")]
pub struct RawSetSpec {
    /// How many.
    #[schemars(required, range(min = 0, max = 10_000))]
    pub replicas: Field<i64>,
    /// Zones to spread over. A member keeps its zone while the zone is listed.
    #[schemars(
        length(min = 1, max = 1_000),
        inner(length(min = 1, max = 40), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))
    )]
    pub zones: Field<Vec<Located<String>>>,
    /// What each member is.
    #[schemars(required)]
    pub template: Field<RawTemplate>,
}

/// What each member of a set is.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "ProxyTemplate")]
pub struct RawTemplate {
    /// Labels of the members.
    pub metadata: Field<RawTemplateMetadata>,
    /// What is wanted of each member.
    #[schemars(required)]
    pub spec: Field<RawSpec>,
}

/// Labels of a set's members.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "TemplateMetadata")]
pub struct RawTemplateMetadata {
    /// Labels, as Kubernetes has them.
    pub labels: Field<BTreeMap<String, Located<String>>>,
    /// Not looked at.
    pub annotations: Option<Ignored>,
}

/// What is wanted of a proxy.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "ProxySpec")]
pub struct RawSpec {
    /// `Managed` (default): a machine that is made. `External`: an endpoint that is probed and listed.
    pub mode: Field<RawMode>,
    /// Name of the provider entry. Managed only, required.
    #[schemars(length(min = 1, max = 40), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub provider: Field<String>,
    /// TCP port that the proxy listens on. Managed only, required.
    #[schemars(range(min = 1, max = 65_535))]
    pub port: Field<i64>,
    /// Where the machine goes and what it is. Managed only, required.
    pub placement: Field<RawPlacement>,
    /// User-data, delivered byte for byte.
    #[schemars(length(max = 1_048_576))]
    pub cloud_init: Field<String>,
    /// Where user-data is read from.
    pub cloud_init_from: Field<RawCloudInitFrom>,
    /// Static addresses; DHCP when absent.
    pub network: Field<RawNetwork>,
    /// No run replaces or deletes the machine; default false.
    pub protect: Field<bool>,
    /// Where an External proxy listens.
    pub endpoint: Field<RawEndpoint>,
}

/// The two kinds of proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(inline)]
#[allow(missing_docs, reason = "the schema describes them at the field")]
pub enum RawMode {
    Managed,
    External,
}

/// Where a machine goes and what it is.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Placement")]
pub struct RawPlacement {
    /// A host of the provider entry. May be left out when the entry has one.
    #[schemars(length(min = 1, max = 40), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub zone: Field<String>,
    /// Accepted and not looked at.
    #[schemars(length(max = 253))]
    pub region: Field<String>,
    /// A key of the entry's machine types.
    #[schemars(required, length(min = 1, max = 40), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub machine_type: Field<String>,
    /// A key of the entry's images, or a URL where the entry allows that.
    #[schemars(required, length(min = 1, max = 2_048))]
    pub image: Field<String>,
}

/// Where user-data is read from: one of the two.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "CloudInitFrom")]
pub struct RawCloudInitFrom {
    /// A file beside or below the manifest.
    #[schemars(length(min = 1, max = 4_096))]
    pub file: Field<String>,
    /// A key of a Secret in the proxy's namespace.
    pub secret_key_ref: Field<RawSecretKeyRef>,
}

/// A key of a Secret.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "SecretKeyRef")]
pub struct RawSecretKeyRef {
    /// Name of the Secret.
    #[schemars(
        required,
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
    )]
    pub name: Field<String>,
    /// Key within it.
    #[schemars(required, length(min = 1, max = 253), regex(pattern = r"^[-._a-zA-Z0-9]+$"))]
    pub key: Field<String>,
}

/// Static addresses of a machine.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Network")]
pub struct RawNetwork {
    /// Addresses with their prefix lengths: `192.0.2.17/24`.
    #[schemars(required, length(min = 1, max = 16), inner(length(max = 49)))]
    pub addresses: Field<Vec<Located<String>>>,
    /// The default gateway.
    #[schemars(length(max = 45))]
    pub gateway: Field<String>,
    /// Name servers.
    #[schemars(length(max = 16), inner(length(max = 45)))]
    pub nameservers: Field<Vec<Located<String>>>,
}

/// Where an External proxy listens.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Endpoint")]
pub struct RawEndpoint {
    /// Host name or address.
    #[schemars(required, length(min = 1, max = 253))]
    pub host: Field<String>,
    /// TCP port.
    #[schemars(required, range(min = 1, max = 65_535))]
    pub port: Field<i64>,
}
