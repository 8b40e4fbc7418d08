//! The whole program and a real API server. Needs what `tests/cluster/lab` provides, and is ignored
//! without.

#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod access;
mod api;
mod chart;
mod crowd;
mod fleet;
mod guide;
mod pod;
mod refused;
mod release;
mod runs;
mod story;
mod tries;

use std::sync::{Arc, OnceLock};

use libtest_mimic::{Arguments, Trial};

use api::Api;

type Test = (&'static str, fn(&Api));

const TESTS: &[Test] = &[
    // First, since it begins with a cluster in which nothing of the program is.
    ("the_guide_leads_from_the_installation_to_the_removal", guide::followed),
    ("thirty_wrong_objects_are_refused_by_the_server_and_as_files_by_validate", refused::both_refuse),
    ("the_example_is_taken_by_the_server_and_as_files_by_validate", refused::both_take_the_example),
    ("a_mode_cannot_be_changed_and_everything_else_can", refused::a_mode_stays),
    ("objects_become_machines_and_kubectl_shows_how_far_they_are", story::from_manifest_to_status),
    ("what_happens_again_is_counted_and_old_reports_go", story::repeated),
    ("c23_of_two_runs_one_works_and_one_names_it", story::two_runs),
    ("c23_the_lease_of_a_killed_run_is_taken_over_when_its_time_is_over", story::killed_holder),
    ("c23_of_two_runs_that_wait_for_a_dead_ones_lease_one_gets_it", story::two_heirs),
    ("each_value_set_is_taken_without_a_word_and_its_pods_are_restricted_ones", chart::sets_are_taken),
    ("a_release_is_changed_from_set_to_set_and_leaves_nothing_but_definitions", release::changed),
    ("helm_test_ends_as_its_pod_does", release::tested),
    ("runs_in_one_namespace_are_allowed_all_that_they_ask_and_use_all_that_they_may", runs::least),
    ("runs_of_two_namespaces_are_allowed_all_that_they_ask_and_use_all_that_they_may", runs::namespaces),
    ("runs_of_every_namespace_are_allowed_all_that_they_ask_and_use_all_that_they_may", runs::everywhere),
    ("runs_on_a_checkout_are_allowed_all_that_they_ask_and_use_all_that_they_may", runs::git),
    ("runs_without_secrets_are_allowed_all_else_and_tell_of_one_that_is_named", runs::without_secrets),
    ("whatever_the_table_does_not_list_is_refused_by_the_server", tries::refused),
    ("two_thousand_objects_cost_six_lists_and_a_write_for_each_that_changed", crowd::two_thousand),
];

/// Installs the definitions as `egress-plan crd` prints them.
fn define(api: &Api) {
    let definitions = std::process::Command::new(assert_cmd::cargo::cargo_bin!("egress-plan")).arg("crd").output();
    let definitions = String::from_utf8(definitions.expect("starts").stdout).expect("text");
    api.kubectl_with("apply --server-side -f -", &definitions).ok();
    api.kubectl(
        "wait --for=condition=Established --timeout=30s crd/proxies.egress-plan.dev crd/proxysets.egress-plan.dev",
    )
    .ok();
}

fn main() -> std::process::ExitCode {
    let mut arguments = Arguments::from_args();
    // They share one API server, whose process this one ends.
    arguments.test_threads = Some(1);
    let there = std::env::var_os("EGRESS_PLAN_KUBE").is_some();
    let api: Arc<OnceLock<Api>> = Arc::default();
    let trials = TESTS.iter().map(|(name, test)| {
        let (api, test) = (Arc::clone(&api), *test);
        let trial = Trial::test(*name, move || {
            test(api.get_or_init(|| {
                let api = Api::start();
                define(&api);
                api
            }));
            Ok(())
        });
        trial.with_ignored_flag(!there)
    });
    let conclusion = libtest_mimic::run(&arguments, trials.collect());
    drop(api);
    conclusion.exit_code()
}
