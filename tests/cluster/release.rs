//! What Helm does with a release: it installs, changes and removes it, and runs its test.

use std::collections::BTreeSet;

use serde_json::Value;

use super::api::{Api, Said};
use super::chart::Release;

/// Everything in the cluster with a label, as `namespace/kind/name`. What is only waiting for a controller
/// to let go of it, as a claim is, is on its way out.
fn labelled(api: &Api, label: &str) -> BTreeSet<String> {
    let kinds = api.kubectl("api-resources --verbs=list -o name").ok();
    let kinds: Vec<&str> = kinds.lines().collect();
    let there = api.get(&format!("{} --all-namespaces -l {label}", kinds.join(",")));
    let items = there["items"].as_array().expect("items").iter();
    let stays = items.filter(|it| it["metadata"].get("deletionTimestamp").is_none());
    stays.map(named).collect()
}

fn named(object: &Value) -> String {
    let of = &object["metadata"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    format!("{}/{}/{}", text(&of["namespace"]), text(&object["kind"]), text(&of["name"]))
}

/// What a release has by Helm's own records.
fn recorded(release: &Release<'_>) -> BTreeSet<String> {
    let manifest = release.api.helm(&format!("get manifest {} -n {}", release.name, release.name)).ok();
    let there = release.api.kubectl_with("get -o json -f -", &manifest).ok();
    let there: Value = serde_json::from_str(&there).expect("JSON");
    there["items"].as_array().expect("items").iter().map(named).collect()
}

pub fn changed(api: &Api) {
    // Together they have every kind of object, and each lacks some of the one before.
    let sets = ["everywhere", "namespaces", "least"];
    let mut release = Release::new(api, sets[0], "changed");
    let instance = "app.kubernetes.io/instance=changed";
    let mut verb = "install";
    for set in sets {
        set.clone_into(&mut release.set);
        let said = api.helm(&format!("{verb} {}", release.arguments()));
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{set}: {}", said.out);
        verb = "upgrade";
        // Nothing of the set before is left, and everything of this one is there.
        assert_eq!(labelled(api, instance), recorded(&release), "{set}");
    }
    // What somebody did to the CronJob by hand is taken back when that is said, as the guide has it.
    let by_hand = r#"changed-egress-plan -n changed -p {"spec":{"suspend":true}}"#;
    api.kubectl(&format!("patch cronjob {by_hand}")).ok();
    let upgrade = format!("upgrade {}", release.arguments());
    let said = api.helm(&upgrade);
    assert!(said.code == Some(1) && said.err.contains("conflict with \"kubectl-patch\""), "{}", said.err);
    api.helm(&format!("{upgrade} --force-conflicts")).ok();
    assert_eq!(release.object("cronjob", "")["spec"]["suspend"], false);
    api.helm("uninstall changed -n changed").ok();
    assert_eq!(labelled(api, instance), BTreeSet::new());
    assert_eq!(labelled(api, "owner=helm,name=changed"), BTreeSet::new());
    api.get("crd proxies.egress-plan.dev proxysets.egress-plan.dev");
}

/// Runs the release's test, and lets its pod end in this phase: nothing else runs pods here.
fn test(api: &Api, phase: &str) -> Said {
    let pod = "pod/tested-egress-plan-test -n tested";
    let helm = api.command("helm", "test tested -n tested --timeout 60s").spawn().expect("starts");
    api.kubectl(&format!("wait --for=create --timeout=30s {pod}")).ok();
    let status = format!(r#"{{"status":{{"phase":"{phase}"}}}}"#);
    api.kubectl(&format!("patch {pod} --subresource=status --type=merge -p {status}")).ok();
    helm.wait_with_output().expect("ends").into()
}

pub fn tested(api: &Api) {
    let release = Release::new(api, "least", "tested");
    api.helm(&format!("install {}", release.arguments())).ok();
    let pods = || api.get("pods -n tested")["items"].as_array().expect("items").len();
    test(api, "Succeeded").ok();
    assert_eq!(pods(), 0, "one that succeeded is not kept");
    let said = test(api, "Failed");
    assert!(said.code == Some(1) && said.err.contains("tested-egress-plan-test"), "{}", said.err);
    assert_eq!(pods(), 1, "one that failed is there to be looked at");
    api.helm("uninstall tested -n tested").ok();
}
