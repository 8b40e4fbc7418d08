//! Guards: what refuses a plan as a whole, before anything is touched.

use std::collections::{BTreeMap, BTreeSet};

use super::change::{ActionKind, Guard, Refusal};
use super::desired::Mode;
use super::draft::Draft;
use super::name::ProxyKey;
use super::observed::HostView;
use super::policy::Bound;
use super::units::count;

/// A percentage always allows so many deletions, or half of what is present where that is less: a
/// small fleet could not lose a single machine otherwise.
const ALWAYS_ALLOWED: usize = 5;

/// How many machines a run may delete, of `present` ones and `wanted` ones.
pub(super) fn allowed_deletions(bound: Bound, present: usize, wanted: usize) -> usize {
    match bound {
        Bound::Count(_) => bound.of(present),
        Bound::Percent(_) => bound.of(present.max(wanted)).max(ALWAYS_ALLOWED.min(present / 2)),
    }
}

impl Draft<'_> {
    pub fn refusals(&self) -> Vec<Refusal> {
        let deletions = self.actions.iter().filter(|action| matches!(action.kind, ActionKind::Delete { .. })).count();
        [self.empty_set(deletions), self.max_deletions(deletions), self.fleet_renamed(), self.vanished()]
            .into_iter()
            .flatten()
            .collect()
    }

    fn empty_set(&self, deletions: usize) -> Option<Refusal> {
        if deletions == 0 || self.policy.destroy {
            return None;
        }
        let message = if !self.desired.complete {
            format!("The list of proxies is incomplete, so {} cannot be trusted.", count(deletions, "planned deletion"))
        } else if self.desired.proxies.is_empty() && !self.policy.allow_empty {
            format!("There are no manifests at all, and {} would be deleted.", count(deletions, "machine"))
        } else {
            return None;
        };
        let hint = if self.desired.complete {
            "if that is meant, pass --allow-empty"
        } else {
            "run again when the whole list can be read"
        };
        Some(Refusal { guard: Guard::EmptySet, message, hint: hint.to_owned() })
    }

    fn max_deletions(&self, deletions: usize) -> Option<Refusal> {
        if self.policy.destroy {
            return None;
        }
        let present = self.ours().count();
        let wanted = self.desired.proxies.values().filter(|proxy| matches!(proxy.mode, Mode::Managed(_))).count();
        let bound = self.policy.max_deletions;
        let allowed = allowed_deletions(bound, present, wanted);
        (deletions > allowed).then(|| Refusal {
            guard: Guard::MaxDeletions,
            message: format!(
                "{deletions} of {} would be deleted, and maxDeletions ({bound}) allows {allowed}.",
                count(present, "machine")
            ),
            hint: format!("if that is meant, pass --max-deletions {deletions}"),
        })
    }

    fn fleet_renamed(&self) -> Option<Refusal> {
        // Blocked machines and those of hosts that the config lost prove the fleet as well.
        let bears = |view: &HostView| !view.instances.is_empty() || !view.strangers.is_empty();
        if self.policy.new_fleet || self.policy.destroy || self.views().any(|(_, view)| bears(view)) {
            return None;
        }
        let wanted: BTreeSet<&ProxyKey> = self
            .desired
            .proxies
            .values()
            .filter(|proxy| matches!(proxy.mode, Mode::Managed(_)))
            .map(|proxy| &proxy.key)
            .collect();
        let mut keys: BTreeMap<&str, BTreeSet<&ProxyKey>> = BTreeMap::new();
        for (fleet, marked) in self.views().flat_map(|(_, view)| &view.other_fleets) {
            keys.entry(fleet).or_default().extend(marked.iter().filter(|key| wanted.contains(key)));
        }
        let (fleet, shared) =
            keys.into_iter().map(|(fleet, keys)| (fleet, keys.len())).max_by_key(|(_, shared)| *shared)?;
        (shared > 0 && shared * 2 >= wanted.len()).then(|| Refusal {
            guard: Guard::FleetRenamed,
            message: format!(
                "Fleet {} has no machine anywhere, while fleet {fleet} has machines for {shared} of the {} wanted proxies. Was the fleet renamed?",
                self.desired.fleet,
                wanted.len()
            ),
            hint: format!("give the config its former fleet name {fleet}, or pass --new-fleet if both are meant to exist"),
        })
    }

    fn vanished(&self) -> Option<Refusal> {
        // A destroy makes nothing anew.
        if self.policy.destroy || !self.policy.guard_vanished {
            return None;
        }
        let mut known = 0_usize;
        let mut gone = 0_usize;
        for (place, view) in self.views() {
            let Some(names) = self.policy.previously.get(place) else { continue };
            // A machine that lost its mark is still there.
            let there: BTreeSet<&String> =
                view.instances.iter().map(|instance| &instance.name).chain(&view.names_taken).collect();
            known += names.len();
            gone += names.iter().filter(|name| !there.contains(name)).count();
        }
        (gone * 2 > known).then(|| Refusal {
            guard: Guard::Vanished,
            message: format!(
                "{gone} of the {known} machines that the previous report knew are gone, and this program did not delete them."
            ),
            hint: "find out what happened to them; to have them made anew, run without --previous-report".to_owned(),
        })
    }
}
