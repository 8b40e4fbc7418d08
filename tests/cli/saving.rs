//! Recorded hosts as a simulated run leaves them.

use super::lab::Lab;

#[test]
fn a_saved_host_takes_the_place_of_the_one_that_was_read() {
    let lab = Lab::new();
    lab.edit("proxies.yaml", "name: crawl-1,", "name: crawl-9,");
    let ended = lab.run_with_manifests("apply --simulate --auto-approve --save-recorded .");
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    let again = lab.run_with_manifests("diff");
    assert!(again.stdout.ends_with("No changes.\n"), "{}", again.stdout);
}

#[test]
fn hosts_that_give_one_host_name_are_saved_apart() {
    let lab = Lab::new();
    lab.edit("h1.yaml", "hostname: beelink", "hostname: localhost");
    lab.edit("h2.yaml", "hostname: h2", "hostname: localhost");
    let ended = lab.run_with_manifests("apply --simulate --auto-approve --save-recorded out");
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    assert!(lab.read("out/h1.yaml").contains("- name: egress-crawl-1-"));
    assert!(lab.read("out/h2.yaml").contains("- name: egress-crawl-2-"));
}

#[test]
fn hosts_that_were_read_from_files_of_one_name_are_saved_apart() {
    let lab = Lab::new();
    std::fs::create_dir(lab.path("other")).expect("made");
    std::fs::rename(lab.path("h2.yaml"), lab.path("other/h1.yaml")).expect("moved");
    lab.edit("config.yaml", "recorded: h2.yaml", "recorded: other/h1.yaml");
    let ended = lab.run_with_manifests("apply --simulate --auto-approve --save-recorded out");
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    assert!(lab.read("out/lab/h1.yaml").contains("- name: egress-crawl-1-"));
    assert!(lab.read("out/lab/h2.yaml").contains("- name: egress-crawl-2-"));
}
