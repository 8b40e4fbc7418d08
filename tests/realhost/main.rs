//! The whole program against a real host: libvirtd, QEMU, sshd, DHCP, a Debian guest and its Squid.
//!
//! Runs inside `tests/realhost/lab --guest`, which names what it has set up in `LAB_*` variables;
//! anywhere else every trial reports itself as ignored. The trials are one story and run in order,
//! one at a time. Each works on a fleet of its own as far as it can, so that one that fails hides
//! little. At the end the suite says where the time went.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr
)]

mod blanks;
mod fleet;
mod foreign;
mod guests;
mod interrupts;
mod lab;
mod proxy;
mod secrets;
mod strikes;

use std::process::ExitCode;
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Trial};

type Story = (&'static str, fn());

const STORY: &[Story] = &[
    ("things_of_others_are_there_before_the_first_run", foreign::plant),
    ("check_names_both_hosts_ready_with_their_facts", guests::check),
    ("from_nothing_diff_says_that_there_is_something_to_do", guests::diff_before),
    ("three_debian_guests_on_two_hosts_get_their_addresses_from_their_agents", guests::apply),
    ("three_machines_of_one_image_cost_one_download_and_one_upload_a_host", guests::transfers),
    ("get_and_connect_work_through_each_guests_squid", guests::proxies),
    ("a_second_diff_has_no_changes", guests::diff_after),
    ("a_domain_with_a_copied_mark_is_blocked_with_its_reason", foreign::plant_copy),
    ("an_unmarked_domain_with_one_of_our_names_is_blocked_with_its_reason", foreign::squatter_is_blocked),
    ("one_changed_line_of_user_data_replaces_exactly_that_machine", guests::replace_one),
    ("a_removed_manifest_deletes_exactly_that_machine_its_overlay_seed_and_nvram", guests::remove_one),
    ("a_paused_machine_is_blocked_with_its_reason_and_not_touched", guests::paused),
    ("a_machine_that_is_shut_off_is_started", guests::shut_off),
    ("after_destroy_each_pool_holds_its_base_image_and_proof_and_nothing_else_of_ours", guests::destroy),
    ("a_saved_plan_is_carried_out_and_a_stale_one_is_refused", blanks::saved_plan),
    ("a_machine_moves_from_one_host_to_the_other", blanks::moves),
    ("l33_r3_a_machine_with_snapshots_or_saved_memory_deletes_cleanly", blanks::snapshots),
    ("a_stopped_pool_blocks_what_needs_it_and_says_how_to_start_it", blanks::pool_stopped),
    ("a_host_that_cannot_be_reached_is_named_and_the_other_one_planned", blanks::host_away),
    ("of_two_runs_at_once_one_waits_or_exits_6", interrupts::two_runs),
    ("a_run_that_was_killed_in_a_create_is_finished_by_the_next_one", interrupts::killed),
    ("l31_r02_a_run_that_is_struck_at_any_moment_is_finished_by_the_next_one", strikes::any_moment),
    ("an_interrupted_image_upload_leaves_no_base_image", interrupts::interrupted_upload),
    ("traces_reach_a_collector", secrets::traces),
    ("a_password_in_an_image_url_is_refused_without_being_shown", secrets::password_in_url),
    ("things_of_others_are_byte_for_byte_as_they_were", foreign::untouched),
    ("no_secret_is_in_any_output_log_report_or_trace", secrets::nowhere),
    ("l41_every_line_of_the_json_logs_is_an_object", secrets::every_line_is_json),
];

static TIMES: LazyLock<Mutex<Vec<(&str, Duration)>>> = LazyLock::new(Mutex::default);

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let ignored = std::env::var_os("EGRESS_PLAN_LAB").is_none();
    if ignored {
        eprintln!("The real-host suite needs root and the lab: make test");
    }
    let trial = |(name, story): &Story| {
        let (name, story) = (*name, *story);
        Trial::test(name, move || {
            let begun = Instant::now();
            let result = std::panic::catch_unwind(story);
            TIMES.lock().unwrap().push((name, begun.elapsed()));
            match result {
                // Each trial answers for what it did to others.
                Ok(()) => foreign::check().map_err(Into::into),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
        .with_ignored_flag(ignored)
    };
    let conclusion = libtest_mimic::run(&arguments, STORY.iter().map(trial).collect());
    let times = TIMES.lock().unwrap();
    if !times.is_empty() {
        println!("where the time went:");
        for (name, time) in times.iter() {
            println!("{:7.1} s  {name}", time.as_secs_f64());
        }
        println!("{:7.1} s  in all", times.iter().map(|(_, time)| time.as_secs_f64()).sum::<f64>());
    }
    conclusion.exit_code()
}
