//! No limit is broken: deletions of a run, machines and bytes of a host.

use super::Inputs;
use crate::plan::change::{Action, ActionKind, Guard};
use crate::plan::guard::allowed_deletions;
use crate::plan::name::HostRef;
use crate::plan::observed::HostView;
use crate::plan::room::{SEED_BYTES, spare};

impl Inputs<'_> {
    pub(super) fn limits(&self, say: &mut impl FnMut(String)) {
        self.guards(say);
        for place in self.observed.hosts.keys() {
            if let Some(view) = self.view(place) {
                self.host(place, view, say);
            }
        }
    }

    fn guards(&self, say: &mut impl FnMut(String)) {
        let deletions = self.deletions().count();
        if self.policy.destroy || deletions == 0 {
            return;
        }
        let refused = |guard: Guard| self.plan.refusals.iter().any(|refusal| refusal.guard == guard);
        let views = self.observed.hosts.keys().filter_map(|place| self.view(place));
        let present = views.flat_map(|view| &view.instances).filter(|instance| instance.mark().is_some()).count();
        let wanted = self.desired.proxies.keys().filter(|key| self.managed(key).is_some()).count();
        if deletions > allowed_deletions(self.policy.max_deletions, present, wanted) && !refused(Guard::MaxDeletions) {
            say(format!("{deletions} deletions are more than maxDeletions allows, and the plan is not refused"));
        }
        let empty = self.desired.proxies.is_empty() && !self.policy.allow_empty;
        if (empty || !self.desired.complete) && !refused(Guard::EmptySet) {
            say("deletions are planned from an empty or partial set, and the plan is not refused".to_owned());
        }
    }

    fn host(&self, place: &HostRef, view: &HostView, say: &mut impl FnMut(String)) {
        let here = || self.plan.actions.iter().filter(|action| action.place == *place);
        let creates = here().filter(|action| matches!(action.kind, ActionKind::Create { .. })).count();
        let max = self.desired.hosts.get(place).and_then(|host| host.max_instances);
        let after = view.instances.len().saturating_add(creates);
        if creates > 0 && max.is_some_and(|max| u32::try_from(after).is_ok_and(|after| after > max)) {
            say(format!("{place}: {after} machines are more than maxInstances"));
        }
        let needed = here().map(|action| self.bytes(action)).fold(0_u64, u64::saturating_add);
        if needed > spare(&view.store) {
            say(format!("{place}: {needed} bytes are planned, and {} are there", spare(&view.store)));
        }
    }

    fn bytes(&self, action: &Action) -> u64 {
        let reserve = match self.managed(&action.key).map(|managed| &managed.resolved) {
            Some(Ok(resolved)) => resolved.reserve_bytes,
            _ => 0,
        };
        match action.kind {
            ActionKind::Create { .. } => reserve.saturating_add(SEED_BYTES),
            ActionKind::Replace { .. } => reserve.saturating_sub(self.there(action).map_or(0, |it| it.disk_bytes)),
            ActionKind::Start { .. } | ActionKind::Update { .. } | ActionKind::Delete { .. } => 0,
        }
    }
}
