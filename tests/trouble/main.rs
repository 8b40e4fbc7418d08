//! The built program against a real host whose network, daemons or storage misbehave.
//!
//! Runs inside `tests/realhost/lab`, which names what it has set up in `LAB_*` variables; anywhere
//! else every trial reports itself as ignored. One trial at a time: some take the daemons down. Each
//! has a fleet of its own (L45) and sweeps it away.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout
)]

#[allow(dead_code, reason = "this suite uses a part of what the story of the real host needs")]
#[path = "../realhost/fleet.rs"]
mod fleet;
#[allow(dead_code, reason = "this suite uses a part of what the story of the real host needs")]
#[path = "../realhost/lab.rs"]
mod lab;

mod connections;
mod daemons;
mod ends;
mod network;
mod ports;
mod refused;
mod relay;
mod rivals;
mod road;
mod sandbox;
mod scene;
mod storage;
mod swapped;
mod twice;

use std::time::Duration;

use libtest_mimic::{Arguments, Trial};

/// Closing has a second; a loaded machine gets three times that.
const CLOSING: Duration = Duration::from_secs(3);

type Test = (&'static str, fn());

const TESTS: &[Test] = &[
    ("r10_r28_traffic_lost_in_the_middle_of_a_listing_costs_that_host_alone", network::swallowed_listing),
    ("r10_r28_traffic_lost_in_the_middle_of_an_upload_costs_that_host_alone", network::swallowed_upload),
    (
        "l01_r10_packets_lost_between_two_namespaces_in_the_middle_of_an_upload_cost_that_host_alone",
        network::dropped_upload,
    ),
    ("l02_a_run_that_is_told_to_stop_ends_although_a_host_loses_every_packet", network::dropped_and_told_to_stop),
    ("r10_r28_traffic_lost_in_the_middle_of_a_start_costs_that_host_alone", network::swallowed_start),
    ("l05_an_idle_connection_that_is_lost_holds_nobody_up", network::swallowed_idle),
    ("l03_r36_a_lock_is_given_back_although_its_idle_connection_was_reset", network::reset_idle),
    ("l03_a_reset_in_the_middle_of_a_listing_is_met_by_the_next_run_at_the_latest", network::reset_listing),
    ("l03_a_reset_in_the_middle_of_an_upload_is_got_over", network::reset_upload),
    ("with_200_ms_of_delay_a_whole_apply_succeeds", network::late),
    ("with_bursts_of_loss_a_whole_apply_succeeds", network::bursts),
    ("l08_a_peer_that_is_silent_talks_garbage_or_hangs_up_costs_that_host_alone", network::strange_peers),
    ("r24_l43_an_sshd_that_starts_one_connection_at_a_time_is_enough", daemons::max_startups),
    ("l03_an_sshd_that_is_restarted_in_an_upload_is_got_over", daemons::sshd_restarted),
    ("l03_r2_a_libvirtd_that_is_restarted_in_a_start_leaves_what_the_next_run_finishes", daemons::libvirtd_restarted),
    ("l09_l27_r24_an_upload_and_a_check_need_nothing_of_the_connection_for_calls", connections::upload_has_its_own),
    ("c14_an_upload_lives_through_new_keys_at_every_megabyte", connections::rekeying),
    ("c14_an_idle_connection_lives_through_new_keys", connections::rekeying_while_idle),
    ("c07_each_port_of_a_name_has_its_own_host_keys_and_ipv6_is_known_in_any_form", ports::each_port_has_its_own_keys),
    ("r22_r26_check_tells_what_is_wrong_and_where", connections::check_tells_apart),
    ("r22_check_names_the_remedy_for_a_user_whom_libvirt_refuses", refused::user_whom_libvirt_refuses),
    ("l24_r6_a_pool_that_fills_in_an_upload_leaves_no_image", storage::full_in_an_upload),
    ("a_pool_that_fills_before_the_disks_leaves_what_the_next_run_finishes", storage::full_at_the_overlay),
    ("r9_a_busy_pool_is_waited_for", storage::busy),
    ("l24_a_base_that_somebody_removed_cut_short_or_left_unproven_is_not_used", storage::meddled_bases),
    ("l49_a_pool_that_is_not_mounted_makes_its_host_unknown", storage::unmounted),
    ("a_disk_that_an_admin_attached_is_left_behind_and_listed", storage::attached_disk),
    ("c19_l31_a_machine_that_somebody_undefined_goes_with_its_disks", storage::undefined_while_running),
    ("l18_a_disk_below_an_overlay_that_somebody_made_by_hand_stays", storage::overlay_by_hand),
    ("l23_a_machine_whose_disk_is_an_overlay_of_another_image_is_not_started", swapped::overlay_of_another_image),
    ("l25_another_fleets_prune_takes_nothing_from_a_create", storage::prune_beside_a_create),
    ("c16_one_folder_behind_two_hosts_is_refused_by_name", twice::one_folder_behind_two_hosts),
    ("l24_of_rivals_with_one_image_each_leaves_a_whole_one", rivals::rivals),
    ("l02_a_run_that_gets_sigterm_in_an_upload_has_ended_before_the_sigkill", ends::in_an_upload),
    ("l02_a_run_that_gets_sigterm_in_a_drain_has_ended_before_the_sigkill", ends::in_a_drain),
    ("an_ordinary_user_with_a_read_only_root_and_a_small_tmp_is_enough", sandbox::ordinary_user),
    ("l45_every_trial_has_swept_away_what_it_made", scene::nothing_is_left),
];

/// Whether this is the long form of those trials that have one.
fn is_soak() -> bool {
    std::env::var_os("EGRESS_PLAN_SOAK").is_some()
}

fn main() -> std::process::ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let ignored = std::env::var_os("EGRESS_PLAN_LAB").is_none();
    let trial = |(name, test): &Test| {
        let test = *test;
        Trial::test(*name, move || {
            test();
            Ok(())
        })
        .with_ignored_flag(ignored)
    };
    libtest_mimic::run(&arguments, TESTS.iter().map(trial).collect()).exit_code()
}
