//! The kinds of plan, each as a story: what is there, what changes, and which command sets it right.

use egress_plan::load::Loaded;
use egress_plan::provider::libvirt::host::calls::state;
use egress_plan::provider::libvirt::host::recorded::{DomainState, RecordedDomain, World};
use jiff::SignedDuration;

use crate::ground::{FLEET, Foreign, Ground, Hosts, Proxy, SQUATTED, STAYS, instance};
use crate::run::{Line, whole};

/// A kind of plan.
pub struct Kind {
    pub name: &'static str,
    zones: &'static [&'static str],
    drain: &'static str,
    /// Proxies besides the one that stays.
    before: &'static [Proxy],
    after: &'static [Proxy],
    meddle: fn(&Hosts),
    line: fn() -> Line,
    /// Reads are not struck: they are those of the other kinds.
    pub changes_only: bool,
}

const ONE: &[&str] = &["h1"];
const TWO: &[&str] = &["h1", "h2"];

const A: Proxy = Proxy::new("a", "h1", "blank");
const OTHER_PORT: Proxy = Proxy { port: 8080, more: ("{site: prague}", true), ..A };
/// Two machines cannot have its address, so that the old one goes first.
const STATIC: Proxy = Proxy { network: "{addresses: [192.0.2.17/24], gateway: 192.0.2.1}", ..A };

pub const KINDS: &[Kind] = &[
    Kind { name: "create, without a base image there", before: &[], after: &[A], ..PLAIN },
    Kind {
        name: "create, with one there",
        before: &[Proxy::new("b", "h1", "blank")],
        after: &[Proxy::new("b", "h1", "blank"), A],
        ..PLAIN
    },
    Kind {
        name: "start",
        before: &[A],
        after: &[Proxy { port: 8080, ..A }],
        meddle: |hosts| switch_off(hosts, "h1", "a"),
        ..PLAIN
    },
    Kind { name: "update of a mark", before: &[A], after: &[OTHER_PORT], ..PLAIN },
    Kind { name: "replace", before: &[A], after: &[Proxy { user_data: "two", ..A }], drain: "0s", ..PLAIN },
    Kind {
        name: "replace, with a drain",
        before: &[A],
        after: &[Proxy { user_data: "two", ..A }],
        // Its guest obeys at once; a longer time would change nothing but how long a broken test takes.
        drain: "1s",
        ..PLAIN
    },
    Kind { name: "delete", before: &[A], after: &[], ..PLAIN },
    Kind {
        name: "delete of a machine that is defined no more",
        before: &[A],
        after: &[],
        meddle: |hosts| undefine(hosts, "h1", "a"),
        ..PLAIN
    },
    Kind { name: "move to another host", zones: TWO, before: &[A], after: &[Proxy { zone: "h2", ..A }], ..PLAIN },
    Kind {
        name: "move with a static address",
        zones: TWO,
        before: &[STATIC],
        after: &[Proxy { zone: "h2", ..STATIC }],
        ..PLAIN
    },
    Kind { name: "prune of a base image", before: &[A], after: &[], meddle: unused, line: Line::prune, ..PLAIN },
    Kind {
        name: "everything at once, on two hosts",
        zones: TWO,
        before: &[
            Proxy::new("changed", "h2", "blank"),
            Proxy::new("unwanted", "h2", "blank"),
            Proxy::new("relabelled", "h1", "blank"),
            Proxy::new("moved", "h1", "blank"),
        ],
        after: &[
            Proxy::new("fresh", "h1", "blank"),
            Proxy { user_data: "two", ..Proxy::new("changed", "h2", "blank") },
            Proxy { more: ("{site: brno}", false), ..Proxy::new("relabelled", "h1", "blank") },
            Proxy::new("moved", "h2", "blank"),
        ],
        changes_only: true,
        ..PLAIN
    },
];

const PLAIN: Kind = Kind {
    name: "",
    zones: ONE,
    drain: "60s",
    before: &[],
    after: &[],
    meddle: |_| (),
    line: Line::apply,
    changes_only: false,
};

/// A kind, told up to the moment at which its run begins.
pub struct Story {
    pub wanted: Loaded,
    pub line: Line,
    /// Every proxy that the fleet ever had.
    pub proxies: Vec<&'static str>,
    /// Keeps the files of the hosts.
    _ground: Ground,
    /// The hosts as the run finds them.
    pub begin: Vec<World>,
}

impl Kind {
    /// Makes everything that is there before.
    pub fn tell(&self) -> Story {
        let ground = Ground::new(self.zones, self.drain);
        let with_those_that_stay = |proxies: &[Proxy]| {
            let stay = self.zones.iter().zip([STAYS, "stays-too"]).map(|(zone, name)| Proxy::new(name, zone, "other"));
            stay.chain(proxies.iter().copied()).collect::<Vec<_>>()
        };
        let before = ground.load(FLEET, &with_those_that_stay(self.before));
        let hosts = Hosts::of(&before);
        let settled =
            |loaded: &Loaded| assert_eq!(whole(&Line::apply(), loaded, &hosts).code(), Ok(0), "{}", self.name);
        // Another fleet on the same hosts, whose machine is made from the same base image.
        settled(&ground.load("others", &[Proxy::new("theirs", "h1", "other")]));
        settled(&before);
        Foreign::plant(&hosts);
        let mut after = with_those_that_stay(self.after);
        after.push(Proxy::new(SQUATTED, "h1", "other"));
        let wanted = ground.load(FLEET, &after);
        if matches!((self.line)(), Line::Prune(_)) {
            // Machines were deleted before; what is to be pruned is what they leave.
            assert_eq!(whole(&Line::apply(), &wanted, &hosts).code(), Ok(3), "{}", self.name);
        }
        (self.meddle)(&hosts);
        let proxies = self.before.iter().map(|proxy| proxy.name).chain(after.iter().map(|proxy| proxy.name)).collect();
        Story { wanted, line: (self.line)(), proxies, _ground: ground, begin: hosts.snapshot() }
    }
}

pub fn switch_off(hosts: &Hosts, zone: &str, proxy: &str) {
    let name = instance(FLEET, zone, proxy);
    hosts.each(|at, world| {
        if at == zone {
            world.edit(|host| {
                let domain = host.domains.iter_mut().find(|domain| domain.name == name).expect("the machine");
                *domain = RecordedDomain {
                    state: DomainState(state::SHUTOFF),
                    reason: Some(2),
                    live_xml: None,
                    ..domain.clone()
                };
            });
        }
    });
}

/// Somebody undefines a machine while it runs: it is gone once it is off, and its mark with it.
fn undefine(hosts: &Hosts, zone: &str, proxy: &str) {
    let name = instance(FLEET, zone, proxy);
    hosts.each(|at, world| {
        if at == zone {
            world.edit(|host| {
                let domain = host.domains.iter_mut().find(|domain| domain.name == name).expect("the machine");
                (domain.persistent, domain.autostart, domain.nvram) = (false, false, false);
            });
        }
    });
}

/// The base image that nothing needs any more has lain there for a day.
fn unused(hosts: &Hosts) {
    hosts.pass(SignedDuration::from_hours(24));
}
