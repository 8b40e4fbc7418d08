//! 2,000 objects: what a run asks of the API server, and how much memory it takes.

#![allow(clippy::print_stdout, reason = "the figures are what the trial is for")]

use std::process::Command;

use super::api::Api;
use super::fleet::Fleet;

const OBJECTS: usize = 2_000;
const CHANGED: usize = 100;
/// The container's limit, less room for images.
const MOST_MIB: u64 = 96;

pub fn two_thousand(api: &Api) {
    let fleet = Fleet::new(api, "crowd");
    let object = |number: usize, port: u16| {
        format!(
            "---\napiVersion: egress-plan.dev/v1alpha1\nkind: Proxy\nmetadata: {{name: p-{number}, namespace: crowd}}\n\
             spec: {{mode: External, endpoint: {{host: p-{number}.example, port: {port}}}}}\n"
        )
    };
    let all: String = (0..OBJECTS).map(|number| object(number, 3128)).collect();
    api.kubectl_with("create -f -", &all).ok();
    let run = |what: &str| {
        let output = Command::new("time")
            .args(["-f", "%M KiB"])
            .arg(assert_cmd::cargo::cargo_bin!("egress-plan"))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("KUBECONFIG", api.path("kubeconfig"))
            .current_dir(fleet.folder.path())
            .args(
                "apply --simulate --auto-approve -c config.yaml --from-cluster -n crowd --cluster-namespace crowd"
                    .split(' '),
            )
            .args(["--log-format", "json", "-v"])
            .output()
            .expect("starts");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{what}: {text}");
        let peak =
            text.lines().find_map(|line| line.strip_suffix(" KiB")?.trim().parse::<u64>().ok()).expect("a figure")
                / 1024;
        let calls = |kind: &str| text.lines().filter(|line| line.contains("\"api\"") && line.contains(kind)).count();
        let figures = (calls("list"), calls("status"), calls("event"), peak);
        println!("{what}: {} lists, {} statuses, {} events, peak {} MiB", figures.0, figures.1, figures.2, figures.3);
        figures
    };
    let first = run("2,000 new ones");
    assert_eq!((first.0, first.1), (6, OBJECTS), "four pages of Proxies, and sets before and after");
    let second = run("2,000 unchanged ones");
    assert_eq!((second.0, second.1, second.2), (6, 0, 0));
    let changed: String = (0..CHANGED).map(|number| object(number, 3129)).collect();
    api.kubectl_with("apply --server-side --force-conflicts -f -", &changed).ok();
    let third = run("100 changed ones");
    assert_eq!((third.0, third.1), (6, CHANGED));
    assert!(first.3.max(second.3).max(third.3) <= MOST_MIB, "{first:?} {second:?} {third:?}");
}
