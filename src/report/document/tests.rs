//! One fact each, from a fleet of one machine that the test changes.

use jiff::SignedDuration;

use super::super::fixture::{
    Fleet, ago, create, delete, done, everything, external, failed, host, instance, instance_name, ip, key, known,
    label, managed, mark, now, outcome, paused, replace, start, update, uuid,
};
use super::super::json;
use super::*;
use crate::apply::{ActionOutcome, StepResult};
use crate::plan::{HostState, MarkState, Mode, Network, Power, Standing};

fn one(report: &Report) -> &ProxyReport {
    report.proxy(&key("a/b")).expect("the proxy is in the report")
}

fn provisioned(report: &Report) -> (ConditionStatus, Reason) {
    let condition = one(report).condition(ConditionType::Provisioned).expect("it has the condition");
    (condition.status, condition.reason)
}

/// A fleet of one whose last report found it well.
fn after_a_good_run() -> Fleet {
    let mut fleet = Fleet::of_one();
    fleet.run.ended_at = ago(100);
    mark(fleet.machine("a/b")).started_at = Some(ago(110));
    fleet.previous = Some(fleet.report());
    fleet.run.ended_at = now();
    fleet
}

#[test]
fn a_machine_as_wanted_is_running_provisioned_and_not_probed() {
    let report = Fleet::of_one().report();
    let proxy = one(&report);
    assert_eq!((proxy.phase, proxy.usable), (Phase::Running, true));
    assert_eq!((proxy.ip, proxy.address_state), (Some(ip("192.0.2.18")), AddressState::Known));
    assert_eq!(provisioned(&report), (ConditionStatus::True, Reason::AsWanted));
    let healthy = proxy.condition(ConditionType::Healthy).expect("it has the condition");
    assert_eq!((healthy.status, healthy.reason), (ConditionStatus::Unknown, Reason::NotProbed));
}

#[test]
fn l10_an_address_that_cannot_be_read_stays_the_last_known_one() {
    let unread = [Address::Unknown("the agent does not answer".to_owned()), Address::NotAsked];
    for address in unread {
        let mut fleet = after_a_good_run();
        fleet.machine("a/b").address = address.clone();
        let report = fleet.report();
        let proxy = one(&report);
        assert_eq!((proxy.ip, proxy.address_state), (Some(ip("192.0.2.18")), AddressState::Stale), "{address:?}");
        assert_eq!((proxy.phase, proxy.usable), (Phase::Running, true), "{address:?}");
        assert_eq!(provisioned(&report), (ConditionStatus::True, Reason::AsWanted), "{address:?}");
        let moved = proxy.condition(ConditionType::Provisioned).expect("it has the condition").last_transition_time;
        assert_eq!(moved, ago(100), "{address:?}");
    }
}

#[test]
fn l10_a_stale_address_outlives_many_runs() {
    let mut fleet = after_a_good_run();
    fleet.machine("a/b").address = Address::Unknown("no answer".to_owned());
    for _ in 0..3 {
        fleet.previous = Some(fleet.report());
    }
    assert_eq!(one(&fleet.report()).ip, Some(ip("192.0.2.18")));
}

#[test]
fn l10_the_address_of_another_machine_is_not_kept() {
    let mut fleet = after_a_good_run();
    fleet.machine("a/b").uuid = "ffffffff-0000-4000-8000-000000000000".to_owned();
    fleet.machine("a/b").address = Address::Unknown("no answer".to_owned());
    let report = fleet.report();
    assert_eq!((one(&report).ip, one(&report).address_state), (None, AddressState::Unknown));
    assert_eq!(provisioned(&report), (ConditionStatus::Unknown, Reason::AddressUnknown));
    assert!(!one(&report).usable);
}

#[test]
fn l10_a_host_that_does_not_answer_takes_nothing_out_of_use() {
    let mut fleet = after_a_good_run();
    fleet.lose("lab/h1");
    let report = fleet.report();
    let proxy = one(&report);
    assert_eq!((proxy.phase, proxy.usable), (Phase::Unknown, true));
    assert_eq!((proxy.ip, proxy.address_state), (Some(ip("192.0.2.18")), AddressState::Stale));
    assert_eq!(provisioned(&report), (ConditionStatus::Unknown, Reason::HostUnknown));
    assert_eq!(proxy.uuid, Some(uuid("a/b")), "the next run still knows which machine it was");
    assert_eq!(report.summary.unknown_hosts, 1);
}

fn edited(fleet: &mut Fleet, address: &str) {
    let proxy = fleet.desired.proxies.get_mut(&key("a/b")).expect("wanted");
    let Mode::Managed(managed) = &mut proxy.mode else { panic!("managed") };
    let addresses = vec![address.parse().expect("an address")];
    managed.spec.network = Some(Network { addresses, gateway: None, nameservers: Vec::new() });
}

#[test]
fn l10_an_address_that_only_the_manifest_has_is_nobodys_on_a_silent_host() {
    let mut fleet = after_a_good_run();
    let before = one(&fleet.report()).ip;
    edited(&mut fleet, "192.0.2.99/24");
    fleet.lose("lab/h1");
    let report = fleet.report();
    assert_eq!((one(&report).ip, one(&report).address_state), (before, AddressState::Stale));
}

#[test]
fn a_machine_that_is_not_replaced_yet_has_the_addresses_of_its_mark() {
    let mut fleet = after_a_good_run();
    mark(fleet.machine("a/b")).addresses = vec!["192.0.2.98/24".to_owned()];
    fleet.machine("a/b").address = Address::Unknown("no agent".to_owned());
    edited(&mut fleet, "192.0.2.99/24");
    let report = fleet.report();
    assert_eq!((one(&report).ip, one(&report).address_state), (Some(ip("192.0.2.98")), AddressState::Configured));
}

#[test]
fn l10_a_proxy_that_moves_to_a_silent_host_is_remembered_while_its_machine_runs() {
    let mut fleet = after_a_good_run();
    fleet.want(managed("a/b", "lab/h2"));
    fleet.lose("lab/h2");
    let report = fleet.report();
    assert_eq!((one(&report).usable, one(&report).address_state), (true, AddressState::Stale));

    fleet.machine("a/b").power = Power::Off("shut off".to_owned());
    assert!(!one(&fleet.report()).usable, "its old host answers, and nothing runs there");
}

#[test]
fn a_proxy_that_was_not_in_use_is_not_put_in_use_by_a_lost_host() {
    let mut fleet = after_a_good_run();
    fleet.machine("a/b").power = Power::Off("crashed".to_owned());
    fleet.previous = Some(fleet.report());
    fleet.lose("lab/h1");
    assert!(!one(&fleet.report()).usable);
}

#[test]
fn l10_a_mark_in_doubt_takes_no_running_machine_out_of_use() {
    let mut fleet = after_a_good_run();
    fleet.plan.unchanged.clear();
    let machine = fleet.machine("a/b");
    machine.standing = Standing::Blocked {
        key: Some(key("a/b")),
        reason: Reason::MarkDiffers,
        message: "its live and its persistent mark differ".to_owned(),
    };
    let report = fleet.report();
    assert_eq!((one(&report).phase, one(&report).usable), (Phase::Blocked, true));
    assert!(report.orphans.is_empty());

    fleet.previous = None;
    assert!(!one(&fleet.report()).usable, "a machine that nobody vouched for is not put in use");
}

#[test]
fn l14_a_machine_without_an_address_fails_after_the_boot_deadline() {
    let mut fleet = Fleet::of_one();
    fleet.machine("a/b").address = Address::Known(Vec::new());
    mark(fleet.machine("a/b")).started_at = Some(ago(15));
    let report = fleet.report();
    assert_eq!((one(&report).phase, one(&report).address_state), (Phase::Provisioning, AddressState::Pending));
    assert_eq!(provisioned(&report), (ConditionStatus::False, Reason::InTransition));

    mark(fleet.machine("a/b")).started_at = Some(ago(16));
    let report = fleet.report();
    assert_eq!(one(&report).phase, Phase::Failed);
    assert_eq!(provisioned(&report), (ConditionStatus::False, Reason::BootDeadlineExceeded));
    let hint = one(&report).hint.clone().expect("it says what to do");
    for part in [
        "DHCP",
        &format!("virsh -c qemu:///system console {}", instance_name("a/b")),
        "cloud-init status --long",
        "/var/log/cloud-init-output.log",
    ] {
        assert!(hint.contains(part), "{hint}");
    }

    fleet.boot_deadlines.insert(label("lab"), SignedDuration::from_mins(30));
    assert_eq!(one(&fleet.report()).phase, Phase::Provisioning);
}

#[test]
fn l14_a_machine_started_in_this_run_has_its_whole_deadline_before_it() {
    let mut fleet = Fleet::of_one();
    fleet.machine("a/b").power = Power::Off("shutdown".to_owned());
    fleet.machine("a/b").address = Address::Known(Vec::new());
    mark(fleet.machine("a/b")).started_at = Some(ago(10_000));
    let what = ActionOutcome { address: Some(Address::Known(Vec::new())), ..done(3.0) };
    fleet.act(start("a/b", "lab/h1"), Some(what));
    let report = fleet.report();
    assert_eq!((one(&report).phase, one(&report).started_at), (Phase::Provisioning, Some(now())));
}

#[test]
fn a_static_address_is_the_manifests_where_nobody_can_give_it() {
    for address in [Address::NotAsked, Address::Known(Vec::new()), Address::Unknown("no answer".to_owned())] {
        let mut fleet = Fleet::of_one();
        fleet.network("a/b", "192.0.2.99/24");
        fleet.machine("a/b").address = address;
        let report = fleet.report();
        assert_eq!((one(&report).ip, one(&report).address_state), (Some(ip("192.0.2.99")), AddressState::Configured));
    }
    let mut fleet = Fleet::of_one();
    fleet.network("a/b", "192.0.2.99/24");
    fleet.machine("a/b").address = Address::NotAsked;
    fleet.act(replace("a/b", "lab/h1"), None);
    assert_eq!(one(&fleet.report()).ip, None, "the machine that is there may have another one");
}

#[test]
fn a_created_machine_has_what_the_run_learnt_of_it() {
    let mut fleet = Fleet::new();
    fleet.want(managed("a/b", "lab/h1"));
    let what = ActionOutcome { address: Some(known(&["2001:db8::7", "192.0.2.7"])), ..done(41.2344) };
    fleet.act(create("a/b", "lab/h1"), Some(what));
    let report = fleet.report();
    let proxy = one(&report);
    assert_eq!((proxy.phase, proxy.usable, proxy.ip), (Phase::Running, true, Some(ip("192.0.2.7"))));
    assert_eq!(proxy.uuid.as_deref(), Some("00000000-0000-4000-8000-0000000000ff"));
    assert_eq!((proxy.created_at, proxy.started_at), (Some(now()), Some(now())));
    let action = proxy.action.as_ref().expect("it was acted on");
    assert_eq!((action.outcome, action.seconds), (Some(StepResult::Done), Some(41.234)));
    assert_eq!((report.summary.done, report.summary.failed), (1, 0));

    fleet.addresses.insert(key("a/b"), known(&["192.0.2.8"]));
    assert_eq!(one(&fleet.report()).ip, Some(ip("192.0.2.8")), "what was read last counts");
}

#[test]
fn a_planned_create_is_pending() {
    let mut fleet = Fleet::new();
    fleet.want(managed("a/b", "lab/h1"));
    fleet.act(create("a/b", "lab/h1"), None);
    let report = fleet.report();
    assert_eq!((one(&report).phase, one(&report).usable), (Phase::Pending, false));
    assert_eq!(provisioned(&report), (ConditionStatus::False, Reason::Planned));
    assert_eq!(one(&report).instance, Some(instance_name("a/b")));
    assert!(report.instances().is_empty(), "what is not there cannot vanish");
}

#[test]
fn l15_a_failure_is_in_the_condition_and_every_attempt_in_the_report() {
    for (class, phase, reason) in [
        ("transient", Phase::Failed, Reason::Timeout),
        ("permanent", Phase::Failed, Reason::PermanentError),
        ("quota", Phase::Blocked, Reason::QuotaExceeded),
    ] {
        let mut fleet = Fleet::new();
        fleet.want(managed("a/b", "lab/h1"));
        let mut what = failed(class, reason, "start the domain: no answer");
        what.failures.insert(0, what.failures[0].clone());
        fleet.act(create("a/b", "lab/h1"), Some(what));
        let report = fleet.report();
        assert_eq!(one(&report).phase, phase, "{class}");
        assert_eq!(provisioned(&report), (ConditionStatus::False, reason), "{class}");
        let action = one(&report).action.as_ref().expect("it was acted on");
        assert_eq!((action.failures.len(), action.class.as_deref()), (2, Some(class)));
        assert_eq!(report.summary.failed, 1);
    }
}

#[test]
fn a_failed_mark_update_leaves_a_running_machine_running() {
    let mut fleet = Fleet::of_one();
    fleet.act(update("a/b", "lab/h1"), Some(failed("transient", Reason::Timeout, "write the mark: no answer")));
    let report = fleet.report();
    assert_eq!((one(&report).phase, one(&report).usable), (Phase::Running, true));
    assert_eq!(provisioned(&report), (ConditionStatus::True, Reason::Timeout));
}

#[test]
fn a_replace_that_was_not_tried_leaves_the_old_machine_in_use() {
    for what in [None, Some(ActionOutcome::skipped(Reason::MaxUnavailable, "another one is being replaced"))] {
        let mut fleet = Fleet::of_one();
        fleet.act(replace("a/b", "lab/h1"), what);
        let report = fleet.report();
        assert_eq!((one(&report).phase, one(&report).usable), (Phase::Running, true));
        assert_eq!(provisioned(&report).0, ConditionStatus::True);
    }
}

#[test]
fn a_failed_replace_is_in_use_only_when_its_address_was_read_again() {
    let mut fleet = after_a_good_run();
    fleet.act(replace("a/b", "lab/h1"), Some(failed("transient", Reason::Timeout, "no answer")));
    assert_eq!((one(&fleet.report()).usable, one(&fleet.report()).ip), (false, None));
    fleet.addresses.insert(key("a/b"), known(&["192.0.2.18"]));
    assert_eq!((one(&fleet.report()).usable, one(&fleet.report()).phase), (true, Phase::Failed));
}

#[test]
fn l12_a_paused_machine_is_blocked_with_the_command_that_resumes_it() {
    let mut fleet = Fleet::of_one();
    fleet.plan.unchanged.clear();
    fleet.plan.held.push(paused("a/b", "lab/h1"));
    let hint = "virsh -c qemu:///system resume x".to_owned();
    fleet.machine("a/b").power = Power::Paused { why: "ioerror".to_owned(), hint };
    let report = fleet.report();
    assert_eq!((one(&report).phase, one(&report).usable), (Phase::Blocked, false));
    assert_eq!(provisioned(&report), (ConditionStatus::False, Reason::Paused));
    assert!(one(&report).hint.as_ref().is_some_and(|hint| hint.contains("virsh -c qemu:///system resume")));
}

#[test]
fn a_machine_on_its_way_out_is_not_in_use() {
    for state in [MarkState::Draining, MarkState::Deleting] {
        let mut fleet = Fleet::of_one();
        mark(fleet.machine("a/b")).state = state;
        assert_eq!((one(&fleet.report()).phase, one(&fleet.report()).usable), (Phase::Deleting, false));
    }
    let mut fleet = Fleet::of_one();
    mark(fleet.machine("a/b")).state = MarkState::Creating;
    assert_eq!((one(&fleet.report()).phase, one(&fleet.report()).usable), (Phase::Pending, false));
}

#[test]
fn a_transition_time_moves_with_the_status_alone() {
    let mut fleet = after_a_good_run();
    let moved = |fleet: &Fleet| {
        let report = fleet.report();
        one(&report).condition(ConditionType::Provisioned).expect("it has the condition").last_transition_time
    };
    fleet.act(replace("a/b", "lab/h1"), None);
    assert_eq!(provisioned(&fleet.report()), (ConditionStatus::True, Reason::Planned));
    assert_eq!(moved(&fleet), ago(100), "another reason does not move it");
    fleet.machine("a/b").power = Power::Off("crashed".to_owned());
    assert_eq!(moved(&fleet), now());
}

#[test]
fn a_generation_is_carried_along() {
    let mut fleet = Fleet::of_one();
    assert!(!json::text(&fleet.report()).expect("JSON").contains("observedGeneration"));
    fleet.generations.insert(key("a/b"), 7);
    let report = fleet.report();
    assert!(one(&report).conditions.iter().all(|condition| condition.observed_generation == Some(7)));
}

#[test]
fn an_endpoint_is_listed_as_it_is() {
    let mut fleet = Fleet::new();
    fleet.want(external("a/b", "proxy.example"));
    fleet.want(external("a/six", "2001:db8::1"));
    fleet.want(external("a/bad", "u:p@host"));
    let report = fleet.report();
    assert_eq!((one(&report).phase, one(&report).usable), (Phase::Running, true));
    assert_eq!(one(&report).endpoint.as_deref(), Some("proxy.example"));
    assert_eq!(report.proxy(&key("a/six")).expect("there").ip, Some(ip("2001:db8::1")));
    assert!(!report.proxy(&key("a/bad")).expect("there").usable);
}

#[test]
fn a_placement_that_cannot_be_resolved_blocks_that_proxy_alone() {
    let mut fleet = Fleet::of_one();
    let mut lost = managed("a/lost", "lab/h1");
    if let Mode::Managed(managed) = &mut lost.mode {
        managed.resolved = Err("the config has no image debian-14".to_owned());
    }
    fleet.want(lost);
    let report = fleet.report();
    let lost = report.proxy(&key("a/lost")).expect("there");
    assert_eq!((lost.phase, lost.message.as_deref()), (Phase::Blocked, Some("the config has no image debian-14")));
    assert_eq!(one(&report).phase, Phase::Running);
}

#[test]
fn a_machine_at_another_place_is_an_orphan() {
    let mut fleet = Fleet::of_one();
    fleet.view("lab/h2").instances.push(instance("a/b", "lab/h2"));
    fleet.view("lab/h2").instances.push(instance("a/old", "lab/h2"));
    fleet.act(delete("a/old", "lab/h2"), Some(done(9.0)));
    let report = fleet.report();
    let orphans: Vec<_> = report.orphans.iter().map(|orphan| (orphan.key.clone(), orphan.phase)).collect();
    assert_eq!(orphans, [(Some(key("a/b")), Phase::Pending), (Some(key("a/old")), Phase::Deleting)]);
    assert!(report.orphans[1].is_gone() && !report.orphans[0].is_gone());
    assert_eq!(report.summary.orphans, 1);
    assert_eq!(report.instances()[&host("lab/h2")].len(), 1, "what this run deleted has not vanished");
}

#[test]
fn l18_a_copy_of_a_machine_is_told_apart_from_it() {
    let mut fleet = Fleet::of_one();
    let mut copy = instance("a/b", "lab/h1");
    copy.name = "a-clone".to_owned();
    copy.uuid = "ffffffff-0000-4000-8000-000000000000".to_owned();
    copy.standing = Standing::Blocked {
        key: Some(key("a/b")),
        reason: Reason::CopiedMark,
        message: "its mark was written for another machine".to_owned(),
    };
    fleet.view("lab/h1").instances.insert(0, copy);
    let report = fleet.report();
    assert_eq!((one(&report).phase, one(&report).uuid.clone()), (Phase::Running, Some(uuid("a/b"))));
    assert_eq!((report.orphans.len(), report.orphans[0].phase), (1, Phase::Blocked));
}

#[test]
fn l22_hosts_that_the_config_lacks_are_listed() {
    let mut fleet = Fleet::of_one();
    fleet.view("lab/h2").instances.push(instance("a/c", "lab/h2"));
    fleet.want(managed("a/c", "lab/h2"));
    fleet.lose("lab/h3");
    fleet.view("lab/h4");
    fleet.previous = Some(fleet.report());
    for gone in ["lab/h2", "lab/h3", "lab/h4"] {
        fleet.desired.hosts.remove(&host(gone));
        fleet.observed.hosts.remove(&host(gone));
    }
    fleet.desired.proxies.remove(&key("a/c"));
    fleet.view("lab/h1").strangers.insert(("old/h1".to_owned(), "egress-x-aaaaaaaa".to_owned()));
    let missing = |fleet: &Fleet| -> Vec<(String, usize)> {
        fleet.report().missing_hosts.iter().map(|host| (host.host.clone(), host.instances.len())).collect()
    };
    let listed = [("lab/h2".to_owned(), 1), ("lab/h3".to_owned(), 0), ("old/h1".to_owned(), 1)];
    assert_eq!(missing(&fleet), listed, "h4 was reachable and empty: nobody misses it");

    fleet.previous = Some(fleet.report());
    assert_eq!(missing(&fleet), listed, "they are listed for as long as they are missing");

    fleet.desired.hosts.get_mut(&host("lab/h1")).expect("there").aliases.push(label("h2"));
    assert_eq!(missing(&fleet).len(), 2, "a former name of a host is not missing");
}

#[test]
fn hosts_carry_what_they_are_and_how_they_were_met() {
    let mut fleet = Fleet::of_one();
    fleet.figures.insert(host("lab/h1"), HostFigures { observe_seconds: Some(0.123_456), calls: 17 });
    fleet.lose("lab/h2");
    let report = fleet.report();
    let facts = report.hosts[0].facts.as_ref().expect("it answered");
    assert_eq!((facts.software.as_str(), facts.ours), ("libvirt 11.6.0", 1));
    assert_eq!(report.hosts[0].figures, HostFigures { observe_seconds: Some(0.123), calls: 17 });
    assert_eq!((report.hosts[1].reachable, report.hosts[1].reason), (false, Reason::Unreachable));
}

#[test]
fn a_report_reads_back_as_it_was_written() {
    let mut fleet = after_a_good_run();
    fleet.plan = everything();
    fleet.outcome = Some(outcome());
    let report = fleet.report();
    let text = json::text(&report).expect("JSON");
    assert!(text.ends_with("}\n"));
    assert_eq!(json::read_report(&text).expect("a report"), report);
    assert_eq!(json::text(&fleet.report()).expect("JSON"), text, "the same input gives the same bytes");
}

#[test]
fn a_report_of_another_format_is_refused_by_name() {
    let text = json::text(&Fleet::of_one().report()).expect("JSON").replace("report/v1", "report/v9");
    let error = json::read_report(&text).expect_err("refused");
    assert!(error.to_string().contains("egress-plan.dev/report/v9"), "{error}");
    assert!(matches!(json::read_report("{}"), Err(json::ReportError::Malformed { .. })));
}

#[test]
fn a_later_field_of_the_same_format_is_passed_over() {
    let text = json::text(&Fleet::of_one().report()).expect("JSON").replacen('{', "{\"later\": 1,", 1);
    assert!(json::read_report(&text).is_ok());
}

#[test]
fn l42_no_control_character_reaches_the_report() {
    let evil = "a\u{1b}[31mb\r\n";
    let mut fleet = Fleet::of_one();
    fleet.machine("a/b").power = Power::Paused { why: evil.to_owned(), hint: evil.to_owned() };
    fleet.view("lab/h1").software = evil.to_owned();
    if let Some(HostState::Known(view)) = fleet.observed.hosts.get_mut(&host("lab/h1")) {
        view.strangers.insert((evil.to_owned(), evil.to_owned()));
    }
    fleet.plan.notes.push(evil.to_owned());
    let text = json::text(&fleet.report()).expect("JSON");
    assert!(!text.contains("\\u001b") && !text.contains("\\r"), "{text}");
}

#[test]
fn the_report_as_json() {
    let mut fleet = Fleet::of_one();
    fleet.want(managed("a/c", "lab/h1"));
    fleet.act(
        create("a/c", "lab/h1"),
        Some(failed("quota", Reason::QuotaExceeded, "create the overlay x: No space left")),
    );
    fleet.view("lab/h1").leftovers.push(crate::plan::Leftover { name: "egress-gone.qcow2".to_owned(), bytes: Some(1) });
    insta::assert_snapshot!(json::text(&fleet.report()).expect("JSON"));
}
