//! The whole story with real parts on both sides: an API server, a libvirt host, and between them runs
//! that are started from the chart's `CronJob` as a node would start them.
//!
//! Runs inside `tests/incluster/lab`; anywhere else every trial reports itself as ignored. The trials are
//! one story and run in order. What is typed in it is what docs/guide/kubernetes.md says to type.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

#[allow(dead_code, reason = "this suite uses a part of what that of the API server needs")]
#[path = "../cluster/api.rs"]
mod api;
mod away;
mod guide;
#[allow(dead_code, reason = "this suite uses a part of what the story of the real host needs")]
#[path = "../realhost/lab.rs"]
mod lab;
mod manifest;
mod node;
#[path = "../realhost/proxy.rs"]
mod proxy;
mod scene;
mod story;
mod volumes;

use std::sync::{Arc, OnceLock};

use libtest_mimic::{Arguments, Trial};

use scene::Scene;

type Test = (&'static str, fn(&Scene));

const STORY: &[Test] = &[
    ("the_guide_installs_the_chart_and_a_pod_without_keys_says_what_it_lacks", story::install),
    ("a_pod_with_a_field_that_this_node_does_not_know_is_not_started", story::unknown_fields),
    ("the_cron_jobs_pod_makes_five_machines_within_its_limits_while_a_second_one_names_it", story::first_proxies),
    ("kubectl_shows_each_machine_and_where_it_answers", story::what_kubectl_shows),
    ("an_edit_and_a_deletion_change_exactly_these_two", story::one_changed_one_deleted),
    ("a_run_by_hand_finds_nothing_to_do_and_writes_to_no_object", story::nothing_to_do),
    ("a_run_whose_api_server_goes_silent_makes_its_machine_and_the_next_one_tells_of_it", away::in_a_create),
    ("what_the_guide_says_about_removing_leaves_base_images_alone", story::remove),
];

fn main() -> std::process::ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let there = std::env::var_os("POD_CGROUP").is_some();
    let scene: Arc<OnceLock<Scene>> = Arc::default();
    let trials = STORY.iter().map(|(name, test)| {
        let (scene, test) = (Arc::clone(&scene), *test);
        let trial = Trial::test(*name, move || {
            test(scene.get_or_init(Scene::new));
            Ok(())
        });
        trial.with_ignored_flag(!there)
    });
    let conclusion = libtest_mimic::run(&arguments, trials.collect());
    drop(scene);
    conclusion.exit_code()
}
