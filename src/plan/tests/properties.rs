//! What holds for every plan, whatever is wanted, seen and allowed.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::model::carry_out;
use crate::plan::change::{ActionKind, Guard, HostSummary, Plan};
use crate::plan::fixture::{GIB, Seen, WantedProxy, World, host, image, instance_name, key, seen, wanted};
use crate::plan::observed::{HostState, Instance, LockHolder, MarkState, Power};
use crate::plan::policy::{Bound, OnCatalogueChange};
use crate::plan::reason::Reason;
use crate::plan::saved::{read, still_stands};

const HOSTS: [&str; 3] = ["h1", "h2", "h3"];
const NAMES: [&str; 6] = ["p1", "p2", "p3", "p4", "p5", "p6"];
/// A static address each, and one that two of them had once.
const ADDRESSES: [&str; 3] = ["192.0.2.1/24", "192.0.2.2/24", "192.0.2.3/24"];

fn one_of<T: Clone + std::fmt::Debug + 'static>(values: &'static [T]) -> impl Strategy<Value = T> {
    select(values)
}

fn wanted_proxy() -> impl Strategy<Value = WantedProxy> {
    let what = (one_of(&HOSTS), one_of(&["debian", "alpine"]), one_of(&["squid", "new"]), one_of(&["small", "large"]));
    let flags = (prop::bool::weighted(0.1), prop::bool::weighted(0.1), prop::bool::weighted(0.1));
    (one_of(&NAMES), what, option::weighted(0.3, Just(())), one_of(&[3128, 8080]), flags).prop_map(
        |(name, (place, image, data, size), fixed, port, (protect, unresolved, external))| {
            let mut proxy = wanted(name).on(place).with_image(image).with_user_data(data).of_size(size).on_port(port);
            // No two desired proxies have one address: loading refuses that.
            if fixed.is_some() {
                proxy = proxy.at(&format!("192.0.2.{}/24", &name[1..]));
            }
            proxy = if protect { proxy.protected() } else { proxy };
            proxy = if unresolved { proxy.unresolved() } else { proxy };
            if external { proxy.external() } else { proxy }
        },
    )
}

fn power() -> impl Strategy<Value = Power> {
    prop_oneof![
        8 => Just(Power::Running),
        2 => Just(Power::Off("shutdown".to_owned())),
        1 => Just(Power::ShuttingDown),
        1 => Just(Power::Saved),
        1 => Just(Power::Paused { why: "ioerror".to_owned(), hint: "resume it".to_owned() }),
        1 => Just(Power::InTransition("migration".to_owned())),
        1 => Just(Power::Unknown("42".to_owned())),
    ]
}

fn machine() -> impl Strategy<Value = Seen> {
    let what = (one_of(&HOSTS), one_of(&["debian", "alpine"]), one_of(&["squid", "new"]), one_of(&["small", "large"]));
    let state = prop_oneof![
        6 => Just(MarkState::Ready),
        1 => Just(MarkState::Creating),
        1 => Just(MarkState::Deleting),
    ];
    let blocked = option::weighted(0.1, one_of(&[Reason::CopiedMark, Reason::Misplaced, Reason::NewerTool]));
    let rare = prop::bool::weighted(0.1);
    let flags = (
        rare,
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.1),
    );
    let address = option::weighted(0.3, one_of(&ADDRESSES));
    (one_of(&NAMES), what, (power(), state, blocked), address, one_of(&[0_i64, 5, 60, -600, 100_000]), flags).prop_map(
        |(name, (place, image, data, size), (power, state, blocked), address, age, flags)| {
            let (protect, other_source, no_disk, transient, alias) = flags;
            let mut machine =
                seen(name).on(place).with_image(image).with_user_data(data).of_size(size).being(power).left(state);
            machine = machine.minutes_old(age);
            machine = match address {
                Some(address) => machine.at(address),
                None => machine,
            };
            machine = match blocked {
                Some(reason) => machine.blocked(reason),
                None => machine,
            };
            machine = if protect { machine.protected() } else { machine };
            machine = if other_source { machine.of_source("cluster") } else { machine };
            machine = if no_disk { machine.without_its_disk() } else { machine };
            machine = if transient { machine.undefined() } else { machine };
            if alias { machine.named_after_a_former_host_name() } else { machine }
        },
    )
}

#[derive(Debug, Clone, Copy)]
struct HostSays {
    unknown: bool,
    stopped: bool,
    retired: bool,
    locked: bool,
    available: u64,
    max: Option<u32>,
    has_alpine: bool,
    taken: Option<&'static str>,
}

fn host_says() -> impl Strategy<Value = HostSays> {
    let rare = || prop::bool::weighted(0.1);
    (
        (prop::bool::weighted(0.15), rare(), rare(), rare()),
        one_of(&[0_u64, 16, 30, 500]),
        option::weighted(0.3, 0_u32..4),
        any::<bool>(),
        option::weighted(0.1, one_of(&NAMES)),
    )
        .prop_map(|((unknown, stopped, retired, locked), available, max, has_alpine, taken)| HostSays {
            unknown,
            stopped,
            retired,
            locked,
            available,
            max,
            has_alpine,
            taken,
        })
}

type Allowed = ((bool, bool, bool, bool), Bound, bool, BTreeSet<&'static str>, i64);

fn allowed() -> impl Strategy<Value = Allowed> {
    let flags =
        (prop::bool::weighted(0.85), prop::bool::weighted(0.2), prop::bool::weighted(0.2), prop::bool::weighted(0.1));
    let bound = prop_oneof![(0_u32..4).prop_map(Bound::Count), (0_u32..=100).prop_map(Bound::Percent)];
    let asked = prop::collection::btree_set(one_of(&NAMES), 0..2);
    (flags, bound, prop::bool::weighted(0.9), asked, one_of(&[0_i64, 10]))
}

/// A world, its machines in the order in which hosts list them.
fn world() -> impl Strategy<Value = World> {
    (vec(wanted_proxy(), 0..6), vec(machine(), 0..8), vec(host_says(), 3..=3), allowed()).prop_map(build)
}

fn build((proxies, machines, says, allowed): (Vec<WantedProxy>, Vec<Seen>, Vec<HostSays>, Allowed)) -> World {
    let mut world = World::of(&HOSTS);
    for proxy in proxies {
        world = world.wants(proxy);
    }
    for machine in machines {
        world = world.has(machine);
    }
    for (name, says) in HOSTS.iter().zip(says) {
        world = settle(world, name, says);
    }
    let ((prune, allow_empty, take_over, replace), bound, complete, asked, min_age) = allowed;
    world.desired.complete = complete;
    world.under(|policy| {
        policy.prune = prune;
        policy.allow_empty = allow_empty;
        policy.take_over = take_over;
        policy.max_deletions = bound;
        policy.min_age = jiff::SignedDuration::from_mins(min_age);
        policy.replace = asked.into_iter().map(key).collect();
        if replace {
            policy.on_catalogue_change = OnCatalogueChange::Replace;
        }
    })
}

/// Makes what was drawn for a host something that a host can show: one machine a name.
fn settle(world: World, name: &str, says: HostSays) -> World {
    let world = world
        .seeing(name, |view| {
            let mut names = BTreeSet::new();
            view.instances.retain(|instance| names.insert(instance.name.clone()));
            view.store.active = !says.stopped;
            view.store.available = says.available * GIB;
            if says.locked {
                view.lock = Some(LockHolder { run: "r7".to_owned(), until: None, removal: None });
            }
            if says.has_alpine {
                view.images.insert(image("alpine").id, crate::plan::fixture::base_image());
            }
            let taken = says.taken.map(|proxy| instance_name(proxy, name));
            view.names_taken.extend(taken.filter(|taken| !names.contains(taken)));
        })
        .configured(name, |settings| {
            settings.retired = says.retired;
            settings.max_instances = says.max;
        });
    if says.unknown { world.unknown(name) } else { world }
}

fn bytes(plan: &Plan) -> String {
    serde_json::to_string(plan).expect("serialises")
}

fn actions(plan: &Plan) -> BTreeSet<String> {
    plan.actions.iter().map(|action| serde_json::to_string(action).expect("serialises")).collect()
}

fn seen_machine<'a>(world: &'a World, place: &crate::plan::HostRef, name: &str) -> Option<&'a Instance> {
    match world.observed.hosts.get(place)? {
        HostState::Known(view) => view.instances.iter().find(|instance| instance.name == name),
        HostState::Unknown(_) => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    /// The linter is asked for every plan that a world makes; planning twice gives the same bytes.
    #[test]
    fn every_plan_is_without_fault_and_the_same_when_made_again(world in world()) {
        let plan = world.plan();
        prop_assert_eq!(bytes(&plan), bytes(&world.plan()));
        prop_assert_eq!(read(&bytes(&plan)).expect("a plan"), plan.clone());
        prop_assert_eq!(still_stands(&plan, plan.clone()), Ok(plan));
    }

    #[test]
    fn the_order_of_listings_does_not_show(world in world(), turn in 0_usize..8) {
        let mut turned = world.clone();
        for state in turned.observed.hosts.values_mut() {
            if let HostState::Known(view) = state {
                let by = turn % view.instances.len().max(1);
                view.instances.rotate_left(by);
                if turn % 2 == 1 {
                    view.instances.reverse();
                }
                for instance in &mut view.instances {
                    instance.removes.reverse();
                }
            }
        }
        prop_assert_eq!(bytes(&world.plan()), bytes(&turned.plan()));
    }

    #[test]
    fn foreign_and_blocked_machines_and_unknown_hosts_are_never_touched(world in world()) {
        for action in world.plan().actions {
            prop_assert!(matches!(world.observed.hosts.get(&action.place), Some(HostState::Known(_))));
            let there = seen_machine(&world, &action.place, &action.instance);
            match action.kind {
                ActionKind::Create { .. } => prop_assert!(there.is_none()),
                _ => prop_assert!(there.is_some_and(|instance| instance.mark().is_some())),
            }
        }
    }

    #[test]
    fn growing_the_set_never_deletes(world in world(), more in vec(wanted_proxy(), 1..4)) {
        let deletions = |world: &World| -> BTreeSet<String> {
            let plan = world.plan();
            let deletes = plan.actions.iter().filter(|action| matches!(action.kind, ActionKind::Delete { .. }));
            deletes.map(|action| format!("{} {}", action.place, action.instance)).collect()
        };
        let mut grown = world.clone();
        for proxy in more {
            let with = world.clone().wants(proxy);
            for (key, proxy) in with.desired.proxies {
                grown.desired.proxies.entry(key).or_insert(proxy);
            }
        }
        prop_assert!(deletions(&grown).is_subset(&deletions(&world)));
    }

    #[test]
    fn limits_hold_or_the_plan_is_refused(world in world()) {
        let plan = world.plan();
        let refused = |guard| plan.refusals.iter().any(|refusal| refusal.guard == guard);
        let deletions = plan.counts().delete;
        if let Bound::Count(most) = world.policy.max_deletions {
            prop_assert!(deletions <= usize::try_from(most).expect("small") || refused(Guard::MaxDeletions));
        }
        prop_assert!(deletions == 0 || world.desired.complete || refused(Guard::EmptySet));
        for (place, summary) in &plan.hosts {
            let HostSummary::Known { available_bytes, .. } = summary else { continue };
            let creates = plan.actions.iter().filter(|action| {
                action.place == *place && matches!(action.kind, ActionKind::Create { .. })
            });
            let creates = u32::try_from(creates.count()).expect("few");
            prop_assert!(creates == 0 || u64::from(creates) * 10 * GIB + 5 * GIB <= *available_bytes);
            let HostState::Known(view) = &world.observed.hosts[place] else { continue };
            if let Some(max) = world.desired.hosts[place].max_instances {
                let there = u32::try_from(view.instances.len()).expect("few");
                prop_assert!(creates == 0 || there + creates <= max);
            }
        }
    }

    #[test]
    fn l52_selection_only_withholds(
        world in world(),
        targets in vec(one_of(&["t/p1", "t/p2", "t/p3", "lab/h1", "lab/h2"]), 0..3),
        excludes in vec(one_of(&["t/p1", "t/p4", "lab/h3"]), 0..2),
    ) {
        let selected = world.clone().under(|policy| {
            policy.selection.targets = targets.iter().map(|text| text.parse().expect("a target")).collect();
            policy.selection.excludes = excludes.iter().map(|text| text.parse().expect("a target")).collect();
        });
        let (all, some) = (world.plan(), selected.plan());
        prop_assert!(actions(&some).is_subset(&actions(&all)));
        prop_assert!(some.counts().blocked <= all.counts().blocked);
    }

    /// What was held may follow in the next run, since room and names get free; nothing else may.
    /// And it comes to an end.
    #[test]
    fn after_a_plan_was_carried_out_there_is_nothing_left_to_do(world in world()) {
        // What was asked for by name was asked for once; what is young is not made older here.
        let mut plan = world.plan();
        let mut world = world;
        for round in 0.. {
            prop_assert!(round < 6, "it does not end: {:#?}", plan.actions);
            let done: BTreeSet<_> = plan.actions.iter().map(|action| action.key.clone()).collect();
            let held: BTreeSet<_> = plan.held.iter().filter_map(|held| held.key.clone()).collect();
            world = carry_out(&world, &plan);
            world.policy.replace.clear();
            let again = world.plan();
            for action in &again.actions {
                prop_assert!(held.contains(&action.key), "{} again: {:#?}", action.id.0, plan.actions);
            }
            if !again.has_changes() {
                break;
            }
            prop_assert!(!done.is_empty(), "nothing was done, and now there is something to do");
            plan = again;
        }
    }

    #[test]
    fn protected_machines_are_never_deleted_and_destroy_is_no_exception(world in world(), destroy: bool) {
        let mut world = world.under(|policy| policy.destroy = destroy);
        if destroy {
            world.desired.proxies.clear();
        }
        for action in world.plan().actions {
            if matches!(action.kind, ActionKind::Delete { .. }) {
                let mark = seen_machine(&world, &action.place, &action.instance).and_then(Instance::mark);
                prop_assert!(mark.is_some_and(|mark| !mark.protect));
            }
        }
    }

    #[test]
    fn r27_a_host_that_gets_unknown_is_left_alone_and_orphans_elsewhere_go_all_the_same(
        world in world(),
        which in one_of(&HOSTS),
    ) {
        let (all, some) = (world.plan(), world.clone().unknown(which).plan());
        prop_assert!(some.actions.iter().all(|action| action.place != host(which)));
        let unwanted = |plan: &Plan| -> BTreeSet<String> {
            let elsewhere = plan.actions.iter().filter(|action| action.place != host(which));
            let unwanted = elsewhere.filter(|action| !world.desired.proxies.contains_key(&action.key));
            unwanted.map(|action| action.id.0.clone()).collect()
        };
        prop_assert_eq!(unwanted(&some), unwanted(&all));
    }
}
