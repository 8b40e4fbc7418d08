//! The linter finds what is wrong with a plan: each row breaks a good one by hand.

use crate::plan::change::{ActionId, ActionKind, Plan};
use crate::plan::fixture::{GIB, World, host, image, key, seen, wanted};
use crate::plan::lint::lint;
use crate::plan::observed::{HostState, HostTrouble, MarkState, Power};
use crate::plan::reason::Reason;

/// A world in which something of everything is planned.
fn busy() -> World {
    World::of(&["h1", "h2"])
        .wants(wanted("new").with_image("alpine"))
        .wants(wanted("changed").with_user_data("new"))
        .wants(wanted("stopped"))
        .wants(wanted("moved").on("h2"))
        .wants(wanted("fixed").on("h2").at("192.0.2.9/24"))
        .wants(wanted("ported").on_port(8080))
        .has(seen("changed"))
        .has(seen("stopped").off())
        .has(seen("moved"))
        .has(seen("fixed").at("192.0.2.9/24"))
        .has(seen("ported"))
        .has(seen("old"))
}

type Breaks = fn(&mut World, &mut Plan);

fn find(plan: &mut Plan, start: &str) -> usize {
    plan.actions.iter().position(|action| action.id.0.starts_with(start)).expect("planned")
}

fn instance(world: &mut World, name: &str, change: impl FnOnce(&mut crate::plan::Instance)) {
    let Some(HostState::Known(view)) = world.observed.hosts.get_mut(&host("h1")) else { panic!() };
    change(view.instances.iter_mut().find(|instance| instance.name == name).expect("seen"));
}

fn mark(world: &mut World, name: &str, change: impl FnOnce(&mut crate::plan::Mark)) {
    instance(world, name, |instance| {
        let crate::plan::Standing::Ours(mark) = &mut instance.standing else { panic!() };
        change(mark);
    });
}

fn view(world: &mut World, change: impl FnOnce(&mut crate::plan::HostView)) {
    let Some(HostState::Known(view)) = world.observed.hosts.get_mut(&host("h1")) else { panic!() };
    change(view);
}

/// What is broken, and words of what the linter must say of it.
const BROKEN: &[(&str, &str, Breaks)] = &[
    ("twice", "planned twice", |_, plan| plan.actions.push(plan.actions[0].clone())),
    ("two on one machine", "a second action on machine", |_, plan| {
        let mut twin = plan.actions[0].clone();
        twin.id = ActionId("twin".to_owned());
        plan.actions.push(twin);
    }),
    ("no reason", "no reason is given", |_, plan| plan.actions[0].why = " ".to_owned()),
    ("an unknown host", "the host is unknown", |world, _| {
        let trouble = HostTrouble { reason: Reason::Timeout, message: "t".to_owned(), hint: None };
        world.observed.hosts.insert(host("h1"), HostState::Unknown(trouble));
    }),
    ("a host that nobody configured", "is not a host of the config", |world, _| {
        world.desired.hosts.remove(&host("h1"));
    }),
    ("a foreign machine", "no machine of ours", |world, _| {
        instance(world, "egress-old-h1", |instance| {
            instance.standing =
                crate::plan::Standing::Blocked { key: None, reason: Reason::CopiedMark, message: "copied".to_owned() };
        });
    }),
    ("a machine that nobody saw", "no machine of ours", |_, plan| {
        let at = find(plan, "delete t/old");
        plan.actions[at].instance = "egress-nobody-h1".to_owned();
    }),
    ("another machine's proxy", "the machine is t/old's", |_, plan| {
        let at = find(plan, "delete t/old");
        plan.actions[at].key = key("else");
    }),
    ("another UUID", "what it expects is not what was seen", |world, _| {
        instance(world, "egress-ported-h1", |instance| "other".clone_into(&mut instance.uuid));
    }),
    ("another spec", "what it expects is not what was seen", |world, _| {
        mark(world, "egress-old-h1", |mark| "0".clone_into(&mut mark.spec.hash));
    }),
    ("paused", "the machine is Paused", |world, _| {
        instance(world, "egress-changed-h1", |instance| {
            instance.power = Power::Paused { why: "user".to_owned(), hint: String::new() };
        });
    }),
    ("forced by nobody", "nobody asked for it", |_, plan| {
        let at = find(plan, "delete t/old");
        if let ActionKind::Delete { forced, .. } = &mut plan.actions[at].kind {
            *forced = true;
        }
    }),
    ("a start of what runs", "it is not off", |world, _| {
        instance(world, "egress-stopped-h1", |instance| instance.power = Power::Running);
    }),
    ("l32 a start without a disk", "it is not off with its disks there", |world, _| {
        instance(world, "egress-stopped-h1", |instance| instance.missing_disks = vec!["disk".to_owned()]);
    }),
    ("an update of what is half made", "not a finished machine", |world, _| {
        mark(world, "egress-ported-h1", |mark| mark.state = MarkState::Creating);
    }),
    ("files that nobody saw", "what it removes is not what was seen", |_, plan| {
        let at = find(plan, "delete t/old");
        if let ActionKind::Delete { removes, .. } = &mut plan.actions[at].kind {
            removes.push("somebody-elses.qcow2".to_owned());
        }
    }),
    ("a deletion of what is wanted", "it is wanted there", |world, _| {
        *world = world.clone().wants(wanted("old"));
    }),
    ("a deletion of what is protected", "it is protected", |world, _| {
        mark(world, "egress-old-h1", |mark| mark.protect = true);
    }),
    ("a replacement of what is protected", "it is protected", |world, _| {
        *world = world.clone().wants(wanted("changed").with_user_data("new").protected());
    }),
    ("another source", "another source made it", |world, _| {
        mark(world, "egress-old-h1", |mark| mark.source = Some("cluster".to_owned()));
    }),
    ("prune is off", "prune is off", |world, _| world.policy.prune = false),
    ("too young", "it is too young", |world, plan| {
        mark(world, "egress-old-h1", |mark| mark.created_at = plan.made_at);
    }),
    ("a name that is there", "a machine of that name is there", |_, plan| {
        let at = find(plan, "create t/new");
        plan.actions[at].instance = "egress-old-h1".to_owned();
    }),
    ("c10e a name that is taken", "a machine without our mark is named", |world, _| {
        view(world, |view| {
            view.names_taken.insert("egress-new-h1".to_owned());
        });
    }),
    ("a machine that nobody wants", "no machine is wanted there", |world, _| {
        world.desired.proxies.remove(&key("new"));
    }),
    ("a machine on a retired host", "no machine is wanted there", |world, _| {
        *world = world.clone().configured("h1", |host| host.retired = true);
    }),
    ("another spec than wanted", "what it makes is not what is wanted", |world, _| {
        *world = world.clone().wants(wanted("new").with_image("alpine").with_user_data("x"));
    }),
    ("l29 a short disk", "its disk is shorter than its image", |_, plan| {
        let at = find(plan, "replace t/changed");
        if let ActionKind::Replace { make, .. } = &mut plan.actions[at].kind {
            make.disk_bytes = GIB;
        }
    }),
    ("a stopped pool", "pool default is not running", |world, _| view(world, |view| view.store.active = false)),
    ("an image that is not there", "is not on lab/h1 and is not brought", |_, plan| plan.images.clear()),
    ("an image that nobody needs", "nothing needs it there", |world, _| {
        view(world, |view| {
            view.images.insert(image("alpine").id, crate::plan::fixture::base_image());
        });
    }),
    ("waiting for nothing", "which is not planned", |_, plan| {
        plan.actions[0].after.push(ActionId("nothing".to_owned()));
    }),
    ("waiting in a circle", "in a circle", |_, plan| {
        let (first, second) = (plan.actions[0].id.clone(), plan.actions[1].id.clone());
        plan.actions[0].after = vec![second];
        plan.actions[1].after = vec![first];
    }),
    ("waiting for itself", "in a circle", |_, plan| {
        let itself = plan.actions[0].id.clone();
        plan.actions[0].after = vec![itself];
    }),
    ("a move out of order", "not in order", |_, plan| {
        let at = find(plan, "delete t/moved");
        plan.actions[at].after.clear();
    }),
    ("a move without its second half", "its successor is not there", |_, plan| {
        plan.actions.retain(|action| !action.id.0.starts_with("create t/moved"));
    }),
    ("two machines on one address", "still has its static address", |_, plan| {
        let at = find(plan, "create t/fixed");
        plan.actions[at].after.clear();
    }),
    ("an address that an unknown host may hold", "may be in use on lab/h3", |world, _| {
        *world = world.clone();
        let settings = world.desired.hosts[&host("h1")].clone();
        world.desired.hosts.insert(host("h3"), settings);
    }),
    ("more than maxDeletions", "more than maxDeletions allows", |world, _| {
        world.policy.max_deletions = crate::plan::Bound::Count(1);
    }),
    ("deletions from a partial list", "empty or partial set", |world, _| world.desired.complete = false),
    ("more than maxInstances", "more than maxInstances", |world, _| {
        *world = world.clone().configured("h1", |host| host.max_instances = Some(6));
    }),
    ("more than there is room for", "bytes are planned", |world, _| view(world, |view| view.store.available = 0)),
    ("held without a word", "held without a word", |world, plan| {
        *plan = world.clone().unknown("h2").plan();
        *world = world.clone().unknown("h2");
        plan.held[0].message.clear();
    }),
];

#[test]
fn a_good_plan_has_nothing_to_find() {
    let world = busy();
    assert_eq!(world.plan().counts().create + world.plan().counts().delete, 6);
}

#[test]
fn every_broken_promise_is_found() {
    for (what, words, breaks) in BROKEN {
        let mut world = busy();
        let mut plan = world.plan();
        breaks(&mut world, &mut plan);
        let found = lint(&plan, &world.desired, &world.observed, &world.policy);
        assert!(found.iter().any(|broken| broken.0.contains(words)), "{what}: {found:#?}");
    }
}
