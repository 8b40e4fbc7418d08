//! What blocks, what waits and what is kept, each with its reason and with something to do.

use crate::plan::change::Verdict;
use crate::plan::fixture::{GIB, World, host, key, seen, wanted};
use crate::plan::observed::{LockHolder, MarkState, Power};
use crate::plan::reason::Reason;

fn h1() -> World {
    World::of(&["h1"])
}

fn another_run() -> LockHolder {
    LockHolder { run: "r7".to_owned(), until: None, removal: None }
}

#[test]
fn a_machine_that_cannot_be_acted_on_has_its_own_reason() {
    for (what, world, expected) in [
        ("l12 paused", h1().wants(wanted("p1")).has(seen("p1").paused()), "t/p1 on lab/h1 blocked: Paused"),
        (
            "l12 paused and changed",
            h1().wants(wanted("p1").with_user_data("new")).has(seen("p1").paused()),
            "t/p1 on lab/h1 blocked: Paused",
        ),
        (
            "l12 a paused orphan",
            h1().wants(wanted("p1").external()).has(seen("p1").paused()),
            "t/p1 on lab/h1 blocked: Paused",
        ),
        ("saved", h1().wants(wanted("p1")).has(seen("p1").being(Power::Saved)), "t/p1 on lab/h1 blocked: ManagedSave"),
        (
            "c19d a state without a name",
            h1().wants(wanted("p1")).has(seen("p1").being(Power::Unknown("42".to_owned()))),
            "t/p1 on lab/h1 blocked: StateUnknown",
        ),
        (
            "migrating",
            h1().wants(wanted("p1")).has(seen("p1").being(Power::InTransition("migration".to_owned()))),
            "t/p1 on lab/h1 waits: InTransition",
        ),
        (
            "c10e our name without our mark",
            h1().wants(wanted("p1")).seeing("h1", |view| {
                view.names_taken.insert("egress-p1-h1".to_owned());
            }),
            "t/p1 on lab/h1 blocked: NameTaken",
        ),
        ("unresolved", h1().wants(wanted("p1").unresolved()), "t/p1 on lab/h1 blocked: Unresolved"),
        (
            "an unresolved proxy's machine stays",
            h1().wants(wanted("p1").unresolved()).has(seen("p1")),
            "t/p1 on lab/h1 blocked: Unresolved",
        ),
        ("no such host", h1().wants(wanted("p1").on("h9")), "t/p1 on lab/h9 blocked: Unresolved"),
        (
            "a retired host takes nothing",
            h1().wants(wanted("p1")).configured("h1", |host| host.retired = true),
            "t/p1 on lab/h1 blocked: Unresolved",
        ),
    ] {
        assert_eq!(world.story(), [expected], "{what}");
    }
}

#[test]
fn what_is_not_done_for_another_cause_has_its_own_reason() {
    for (what, world, expected) in [
        (
            "a stopped pool",
            h1().wants(wanted("p1")).seeing("h1", |view| view.store.active = false),
            "t/p1 on lab/h1 blocked: PoolNotActive",
        ),
        (
            "a stopped pool holds a start",
            h1().wants(wanted("p1")).has(seen("p1").off()).seeing("h1", |view| view.store.active = false),
            "t/p1 on lab/h1 blocked: PoolNotActive",
        ),
        (
            "a stopped pool holds an update, since the lock would lie in it",
            h1().wants(wanted("p1").on_port(8080)).has(seen("p1")).seeing("h1", |view| view.store.active = false),
            "t/p1 on lab/h1 blocked: PoolNotActive",
        ),
        (
            "a stopped pool hides no machine",
            h1().wants(wanted("p1")).has(seen("p1")).seeing("h1", |view| view.store.active = false),
            "t/p1 unchanged",
        ),
        (
            "l29 an overlay shorter than its base",
            h1().wants(wanted("p1").with_disk_of(1)),
            "t/p1 on lab/h1 blocked: OverlayTooShort",
        ),
        (
            "half made, and another run is at it",
            h1().wants(wanted("p1"))
                .has(seen("p1").left(MarkState::Creating))
                .seeing("h1", |view| view.lock = Some(another_run())),
            "t/p1 on lab/h1 waits: InProgress",
        ),
        (
            "half made and not wanted, and another run is at it",
            h1().wants(wanted("p1").external())
                .has(seen("p1").left(MarkState::Deleting))
                .seeing("h1", |view| view.lock = Some(another_run())),
            "t/p1 on lab/h1 waits: InProgress",
        ),
        (
            "a young orphan",
            h1().wants(wanted("p1").external()).has(seen("p1").minutes_old(9)),
            "t/p1 on lab/h1 waits: TooYoung",
        ),
        (
            "prune is off",
            h1().wants(wanted("p1").external()).has(seen("p1")).under(|policy| policy.prune = false),
            "t/p1 on lab/h1 kept: PruneDisabled",
        ),
        (
            "r31 a protected machine whose manifest went",
            h1().wants(wanted("p1").external()).has(seen("p1").protected()),
            "t/p1 on lab/h1 kept: Protected",
        ),
        (
            "l19 an orphan of another source",
            h1().wants(wanted("p1").external()).has(seen("p1").of_source("cluster")),
            "t/p1 on lab/h1 blocked: OtherSource",
        ),
        (
            "c19b it runs and is defined no more",
            h1().wants(wanted("p1")).has(seen("p1").undefined()),
            "t/p1 on lab/h1 kept: NotPersistent",
        ),
    ] {
        assert_eq!(world.story(), [expected], "{what}");
    }
}

#[test]
fn whatever_blocks_says_what_to_do() {
    let worlds = [
        h1().wants(wanted("p1")).has(seen("p1").paused()),
        h1().wants(wanted("p1")).has(seen("p1").being(Power::Saved)),
        h1().wants(wanted("p1")).has(seen("p1").being(Power::Unknown("42".to_owned()))),
        h1().wants(wanted("p1")).has(seen("p1").blocked(Reason::CopiedMark)),
        h1().wants(wanted("p1")).has(seen("p1").by_version(9)),
        h1().wants(wanted("p1").unresolved()),
        h1().wants(wanted("p1").on("h9")),
        h1().wants(wanted("p1")).configured("h1", |host| host.retired = true),
        h1().wants(wanted("p1")).configured("h1", |host| host.max_instances = Some(0)),
        h1().wants(wanted("p1")).seeing("h1", |view| view.store.active = false),
        h1().wants(wanted("p1")).seeing("h1", |view| view.store.available = 6 * GIB),
        h1().wants(wanted("p1").with_disk_of(1)),
        h1().has(seen("p1").of_source("cluster")),
    ];
    for world in worlds {
        let plan = world.plan();
        let blocked: Vec<_> = plan.held.iter().filter(|held| held.verdict == Verdict::Blocked).collect();
        assert_eq!(blocked.len(), 1, "{:?}", plan.held);
        let hint = blocked[0].hint.as_deref().unwrap_or_default();
        assert!(!hint.is_empty(), "{:?}", blocked[0]);
        assert!(!hint.contains("virsh") || hint.contains("virsh -c qemu:///system "), "c06: {hint}");
        assert!(plan.is_incomplete());
    }
}

#[test]
fn what_waits_or_is_kept_makes_no_run_red() {
    for world in [
        h1().wants(wanted("p1").external()).has(seen("p1").minutes_old(1)),
        h1().wants(wanted("p1").external()).has(seen("p1").protected()),
        h1().wants(wanted("p1").external()).has(seen("p1")).under(|policy| policy.prune = false),
    ] {
        let plan = world.plan();
        assert_eq!(plan.held.len(), 1);
        assert!(!plan.is_incomplete() && !plan.has_changes(), "{:?}", plan.held);
    }
}

#[test]
fn l17_l18_no_twin_is_built_beside_a_blocked_machine() {
    for reason in [Reason::CopiedMark, Reason::Misplaced, Reason::Renamed, Reason::MarkDiffers, Reason::NewerTool] {
        let world = h1().wants(wanted("p1")).has(seen("p1").blocked(reason));
        assert_eq!(world.story(), [format!("t/p1 on lab/h1 blocked: {reason:?}")]);
    }
    let world = h1().wants(wanted("p1")).has(seen("p1").unreadable());
    assert_eq!(world.story(), ["t/p1 on lab/h1 blocked: UnreadableMark"], "its name says whose it is");
}

#[test]
fn a_machine_that_somebody_moved_to_another_host_gets_no_twin() {
    // The two would have one name, and so one MAC address.
    let moved = |world: World| {
        world.seeing("h2", |view| {
            let mut instance = World::of(&["h1"]).has(seen("p1").blocked(Reason::Misplaced)).observed;
            let Some(crate::plan::HostState::Known(from)) = instance.hosts.remove(&host("h1")) else { panic!() };
            view.instances.extend(from.instances);
        })
    };
    let world = moved(World::of(&["h1", "h2"]).wants(wanted("p1")));
    assert_eq!(world.story(), ["t/p1 on lab/h2 blocked: Misplaced"]);
}

#[test]
fn l18_a_copy_does_not_hide_the_original() {
    for order in [0, 1] {
        let world = h1().wants(wanted("p1")).has(seen("p1")).seeing("h1", |view| {
            let mut copies = World::of(&["h1"])
                .has(seen("p1").named_after_a_former_host_name().blocked(Reason::CopiedMark))
                .observed;
            let Some(crate::plan::HostState::Known(from)) = copies.hosts.remove(&host("h1")) else { panic!() };
            for copy in from.instances {
                view.instances.insert(order, copy);
            }
        });
        assert_eq!(world.story(), ["t/p1 on lab/h1 blocked: CopiedMark", "t/p1 unchanged"]);
    }
}

#[test]
fn a_protected_machine_is_not_replaced_and_is_still_looked_after() {
    let changed = || wanted("p1").with_user_data("new").protected();
    let world = h1().wants(changed()).has(seen("p1").protected());
    assert_eq!(world.story(), ["t/p1 on lab/h1 kept: Protected"]);
    let world = h1().wants(changed()).has(seen("p1"));
    assert_eq!(world.story(), ["update t/p1 on lab/h1", "t/p1 on lab/h1 kept: Protected"], "the mark learns of it");
    let world = h1().wants(changed()).has(seen("p1").protected().off());
    assert_eq!(world.story(), ["start t/p1 on lab/h1", "t/p1 on lab/h1 kept: Protected"]);
    let world = h1().wants(changed()).has(seen("p1").protected().off().without_its_disk());
    assert_eq!(world.story(), ["t/p1 on lab/h1 kept: Protected"], "what has no disk is not started");
    let world = h1().wants(wanted("p1").protected()).has(seen("p1").protected()).under(|policy| {
        policy.replace.insert(key("p1"));
    });
    assert_eq!(world.story(), ["t/p1 on lab/h1 kept: Protected"], "not even when asked for by name");
}

#[test]
fn c19c_a_transient_orphan_is_deleted_and_a_changed_one_replaced() {
    let world = h1().wants(wanted("p1").external()).wants(wanted("p2")).has(seen("p2")).has(seen("p1").undefined());
    assert_eq!(world.story(), ["delete t/p1 on lab/h1", "t/p2 unchanged"]);
    let world = h1().wants(wanted("p1").with_user_data("new")).has(seen("p1").undefined());
    assert_eq!(world.story(), ["replace t/p1 on lab/h1"]);
}

#[test]
fn l20_a_time_stamp_of_the_future_counts_as_now() {
    let future = |minutes: i64| {
        h1().wants(wanted("p1").external()).wants(wanted("p2")).has(seen("p2")).has(seen("p1").minutes_old(-minutes))
    };
    let held = |world: &World| world.plan().held[0].clone();
    assert_eq!(held(&future(5)).reason, Reason::TooYoung);
    assert_eq!(held(&future(5)).hint, None, "a clock may be a little ahead");
    let far = held(&future(60 * 24 * 365));
    assert!(far.hint.is_some_and(|hint| hint.contains("minAge: 0s")), "it must not wait for ever in silence");
    let world = future(60 * 24 * 365).under(|policy| policy.min_age = jiff::SignedDuration::ZERO);
    assert_eq!(world.story(), ["delete t/p1 on lab/h1", "t/p2 unchanged"]);
}

#[test]
fn l19_take_over_accepts_the_orphans_of_another_source() {
    let world = h1().wants(wanted("p2")).has(seen("p2")).has(seen("p1").of_source("cluster"));
    assert_eq!(world.story(), ["t/p1 on lab/h1 blocked: OtherSource", "t/p2 unchanged"]);
    let world = world.under(|policy| policy.take_over = true);
    assert_eq!(world.story(), ["delete t/p1 on lab/h1", "t/p2 unchanged"]);
}

#[test]
fn l22_machines_under_a_name_that_the_config_lost_are_listed() {
    let world = h1()
        .seeing("h1", |view| {
            view.strangers.insert(("lab/old".to_owned(), "egress-p9-old".to_owned()));
        })
        .under(|policy| {
            policy.previously.insert(host("gone"), ["egress-p8-gone".to_owned()].into());
        });
    let notes = world.plan().notes;
    assert!(
        notes.iter().any(|note| note.starts_with("egress-p9-old on lab/h1 is of this fleet, for lab/old")),
        "{notes:?}"
    );
    assert!(notes.iter().any(|note| note.starts_with("lab/gone had 1 machine before")), "{notes:?}");
}

#[test]
fn l22_the_machines_of_a_retired_host_are_orphans() {
    let world = World::of(&["h1", "h2"])
        .configured("h1", |host| host.retired = true)
        .wants(wanted("p1").on("h2"))
        .wants(wanted("p2").on("h2"))
        .has(seen("p1").on("h1"))
        .has(seen("p2").on("h2"));
    assert_eq!(
        world.story(),
        ["delete t/p1 on lab/h1 after create t/p1 on lab/h2", "create t/p1 on lab/h2", "t/p2 unchanged"]
    );
}
