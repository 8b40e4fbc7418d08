//! Where the story happens: an API server, the folder of somebody who follows the guide, and two hosts
//! under the guide's names.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use egress_plan::plan::ProxyKey;
use egress_plan::provider::libvirt::naming::instance_name;
use serde_json::Value;
use tempfile::TempDir;

use super::api::Api;
use super::guide::Reader;
use super::lab::{domains, lab, sha256, tool, virsh};
use super::manifest::JobSpec;
use super::node::Pod;

/// The guide's host, and a second one.
pub const ZONES: [&str; 2] = ["beelink", "nuc"];

pub struct Scene {
    pub api: Api,
    pub folder: TempDir,
}

impl Scene {
    /// What the guide takes as given: keys, user-data, values, and the chart.
    pub fn new() -> Self {
        let (api, folder) = (Api::start(), tempfile::tempdir().expect("a folder"));
        let at = folder.path();
        symlink(Path::new(env!("CARGO_MANIFEST_DIR")).join("charts"), at.join("charts")).expect("a link");
        fs::create_dir(at.join("keys")).expect("a folder");
        fs::copy(lab("LAB_KEY"), at.join("keys/id_ed25519")).expect("copied");
        fs::copy(lab("LAB_KNOWN_HOSTS"), at.join("keys/known_hosts")).expect("copied");
        fs::write(at.join("squid.yaml"), include_str!("../realhost/squid.yaml")).expect("written");
        let scene = Self { api, folder };
        scene.values("cronJob: {suspend: true}\n");
        scene
    }

    /// Writes `values.yaml`: the guide's, with these hosts and images, and more.
    pub fn values(&self, more: &str) {
        let (web, image) = (lab("LAB_WEB"), lab("LAB_IMAGE"));
        let blank = Path::new(&lab("LAB_WEB_DIR")).join("blank.qcow2");
        if !blank.exists() {
            tool("qemu-img", &["create", "-q", "-f", "qcow2", blank.to_str().expect("a path"), "1M"]);
        }
        let guest = Path::new(&lab("LAB_WEB_DIR")).join(&image);
        let host = |name: &str, address: &str, pool: &str| {
            format!(
                "          - {{name: {name}, address: '{}', user: {}, pool: {}, bridge: {}, domainType: qemu}}\n",
                lab(address),
                lab("LAB_USER"),
                lab(pool),
                lab("LAB_BRIDGE")
            )
        };
        let text = format!(
            "image: {{repository: registry.example/egress-plan}}
config:
  fleet: home
  policy: {{minAge: 0s}}
  providers:
    - name: home
      type: libvirt
      libvirt:
        sshKeyFile: /etc/egress-plan/ssh/id_ed25519
        knownHostsFile: /etc/egress-plan/ssh/known_hosts
        diskSizeGb: 2
        poolReserve: 1GiB
        images:
          debian-13: {{url: {web}/{image}, checksum: 'sha256:{}', format: qcow2, firmware: uefi}}
          blank: {{url: {web}/blank.qcow2, checksum: 'sha256:{}', format: qcow2, firmware: bios}}
        machineTypes:
          small: {{vcpus: 1, memoryMiB: 512}}
          tiny: {{vcpus: 1, memoryMiB: 64}}
        hosts:
{}{}manifests:
  namespaces: [crawlers]
rbac: {{secretNames: [squid]}}
run: {{wait: address, extraArgs: [--wait-timeout=25m]}}
spool: {{sizeLimit: 1Gi}}
resources: {{limits: {{memory: 128Mi, cpu: \"1\"}}}}
{more}",
            sha256(&guest),
            sha256(&blank),
            host(ZONES[0], "LAB_SSH_A", "LAB_POOL_A"),
            host(ZONES[1], "LAB_SSH_B", "LAB_POOL_B"),
        );
        fs::write(self.folder.path().join("values.yaml"), text).expect("written");
    }

    pub fn reader(&self) -> Reader<'_> {
        Reader { api: &self.api, folder: self.folder.path() }
    }

    /// A run as the schedule would start it.
    pub fn start(&self) -> Pod {
        let job = JobSpec::of_cron_job(&self.api, "egress-plan", "egress-plan");
        Pod::start(&self.api, "egress-plan", "egress-plan-29000000", &job)
    }

    pub fn proxy(&self, name: &str, placement: &str, user_data: &str) {
        let text = format!(
            "apiVersion: egress-plan.dev/v1alpha1\nkind: Proxy\nmetadata: {{name: {name}, namespace: crawlers}}\nspec:\n  \
             provider: home\n  port: 3128\n  placement: {{{placement}}}\n  cloudInit: \"{user_data}\"\n"
        );
        self.api.kubectl_with("apply -f -", &text).ok();
    }

    /// Proxies and sets by kind and name.
    pub fn objects(&self) -> BTreeMap<String, Value> {
        let all = self.api.get("px,pxs -n crawlers");
        let name = |item: &Value| {
            let text = |value: &Value| value.as_str().expect("text").to_owned();
            format!("{}/{}", text(&item["kind"]), text(&item["metadata"]["name"]))
        };
        all["items"].as_array().expect("items").iter().map(|item| (name(item), item.clone())).collect()
    }

    /// How many events there are of each reason, of one object each.
    pub fn events(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for event in self.api.get("events.events.k8s.io -n crawlers")["items"].as_array().expect("items") {
            *counts.entry(event["reason"].as_str().expect("a reason").to_owned()).or_default() += 1;
        }
        counts
    }
}

/// The name that the machine of a proxy has.
pub fn instance(proxy: &str, zone: &str) -> String {
    let place = format!("home/{zone}").parse().expect("a place");
    let key = ProxyKey::new("crawlers", proxy).expect("a key");
    instance_name(&"home".parse().expect("a fleet"), &place, &key)
}

/// UUIDs of all domains that there are.
pub fn uuids() -> BTreeMap<String, String> {
    domains().into_iter().map(|name| (name.clone(), virsh(&["domuuid", &name]))).collect()
}

/// The status of one of an object's conditions, and why it is so.
pub fn condition(object: &Value, kind: &str) -> (String, String) {
    let all = object["status"]["conditions"].as_array().expect("conditions");
    let found = all.iter().find(|it| it["type"] == kind).unwrap_or_else(|| panic!("no {kind}: {object}"));
    let text = |field: &str| found[field].as_str().expect("text").to_owned();
    (text("status"), text("reason"))
}

/// How often a trial looks.
pub const PAUSE: Duration = Duration::from_millis(100);
