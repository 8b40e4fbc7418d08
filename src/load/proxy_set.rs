//! Which zone each member of a set goes to.
//!
//! A member keeps its zone while the zone is listed; growing a set or appending a zone moves
//! nobody. No function of the manifest alone can do that and use an appended zone at all, so what
//! the hosts show decides first, and only a member that is nowhere is given the emptiest zone.

use std::collections::{BTreeMap, BTreeSet};

use crate::plan::{HostRef, HostState, Label, Observed, ProxyKey, Standing};

/// A set of the manifests, as far as placing its members goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetPlacement {
    /// The provider entry.
    pub entry: Label,
    /// The zones to spread over, in the order of the manifest; retired hosts are left out.
    pub zones: Vec<Label>,
    /// The members, by index.
    pub members: Vec<ProxyKey>,
}

impl SetPlacement {
    /// The zone of each member, by index, given what the hosts show.
    #[must_use]
    pub fn spread(&self, observed: &Observed) -> Vec<Label> {
        let mut current = BTreeMap::new();
        let mut unknown = BTreeSet::new();
        for zone in &self.zones {
            let place = HostRef { entry: self.entry.clone(), host: zone.clone() };
            match observed.hosts.get(&place) {
                Some(HostState::Known(view)) => {
                    for instance in &view.instances {
                        // A machine that is not quite ours holds its member's place as well:
                        // nothing is built beside it.
                        let key = match &instance.standing {
                            Standing::Ours(mark) => Some(&mark.proxy),
                            Standing::Blocked { key, .. } => key.as_ref(),
                        };
                        if let Some(index) = key.and_then(|key| self.members.iter().position(|member| member == key)) {
                            current.entry(index).or_insert_with(|| zone.clone());
                        }
                    }
                }
                Some(HostState::Unknown(_)) => drop(unknown.insert(zone.clone())),
                None => {}
            }
        }
        spread(&self.zones, self.members.len(), &current, &unknown)
    }
}

/// The zone of each of `members`. `current` holds where members are; one that is nowhere goes to
/// the zone with the fewest, the first of several. Once any member has been seen, one that has not
/// may be on a zone that did not answer, and is given such a zone, where nothing is planned: a
/// twin is worse than a wait.
fn spread(zones: &[Label], members: usize, current: &BTreeMap<usize, Label>, unknown: &BTreeSet<Label>) -> Vec<Label> {
    let mut loads: Vec<(usize, &Label)> = zones.iter().map(|zone| (0, zone)).collect();
    let settled: BTreeMap<usize, &Label> = current
        .iter()
        .filter(|(index, _)| **index < members)
        .filter_map(|(index, zone)| Some((*index, zones.iter().find(|other| *other == zone)?)))
        .collect();
    for zone in settled.values() {
        loads.iter_mut().filter(|(_, other)| other == zone).for_each(|(load, _)| *load += 1);
    }
    let in_doubt = !settled.is_empty() && zones.iter().any(|zone| unknown.contains(zone));
    let mut out = Vec::with_capacity(members);
    for index in 0..members {
        if let Some(zone) = settled.get(&index) {
            out.push((*zone).clone());
            continue;
        }
        let allowed = loads.iter_mut().filter(|(_, zone)| !in_doubt || unknown.contains(*zone));
        if let Some(least) = allowed.min_by_key(|(load, _)| *load) {
            least.0 += 1;
            out.push(least.1.clone());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn zones(names: &str) -> Vec<Label> {
        names.split_whitespace().map(|name| name.parse().expect("a label")).collect()
    }

    fn shown(zones: &[Label]) -> String {
        zones.iter().map(Label::as_str).collect::<Vec<_>>().join(" ")
    }

    fn placed(zones: &[Label]) -> BTreeMap<usize, Label> {
        zones.iter().cloned().enumerate().collect()
    }

    #[test]
    fn a_new_set_is_spread_evenly() {
        let fresh = spread(&zones("a b c"), 7, &BTreeMap::new(), &BTreeSet::new());
        assert_eq!(shown(&fresh), "a b c a b c a");
    }

    #[test]
    fn appending_a_zone_and_growing_move_nobody() {
        let before = zones("a b a b");
        let after = spread(&zones("a b c"), 6, &placed(&before), &BTreeSet::new());
        assert_eq!(shown(&after), "a b a b c c");
    }

    #[test]
    fn a_zone_that_goes_moves_its_members_alone() {
        let after = spread(&zones("a c"), 4, &placed(&zones("a b c b")), &BTreeSet::new());
        assert_eq!(shown(&after), "a a c c");
    }

    #[test]
    fn shrinking_removes_the_highest_indexes() {
        let after = spread(&zones("a b"), 2, &placed(&zones("b a b a")), &BTreeSet::new());
        assert_eq!(shown(&after), "b a");
    }

    #[test]
    fn a_member_that_may_be_on_a_silent_zone_is_not_built_elsewhere() {
        let current = BTreeMap::from([(0, zones("a")[0].clone()), (2, zones("a")[0].clone())]);
        let silent = zones("b").into_iter().collect();
        assert_eq!(shown(&spread(&zones("a b c"), 4, &current, &silent)), "a b a b");
        assert_eq!(shown(&spread(&zones("a b"), 2, &BTreeMap::new(), &silent)), "a b");
    }

    proptest! {
        #[test]
        fn growing_and_appending_never_move(count in 1_usize..5, more in 0_usize..3, members in 0_usize..12, grown in 0_usize..12) {
            let names: Vec<Label> = (0..count + more).map(|i| format!("z{i}").parse().expect("a label")).collect();
            let before = spread(&names[..count], members, &BTreeMap::new(), &BTreeSet::new());
            let after = spread(&names, members + grown, &placed(&before), &BTreeSet::new());
            prop_assert_eq!(&after[..members], &before[..]);
            prop_assert_eq!(after.len(), members + grown);
            prop_assert_eq!(spread(&names, members + grown, &placed(&after), &BTreeSet::new()), after);
        }
    }
}
