//! Selection: takes actions out of a plan that is otherwise whole.
//!
//! Everything is planned first, so that leaving one proxy out makes room for no other: what is done
//! with a selection is a part of what is done without one (L52).

use std::collections::BTreeSet;

use super::change::{Action, ActionId, ActionKind, Held, Verdict};
use super::draft::Draft;
use super::hold::Hold;
use super::name::{HostRef, ProxyKey};
use super::reason::Reason;

impl Draft<'_> {
    /// Holds every action that `--selector`, `--target` or `--exclude` leave out, and then every
    /// action that goes with one of those. What is held already and left out is not blocked: nobody
    /// asked for it.
    pub fn withhold(&mut self) {
        let (out, within) = std::mem::take(&mut self.actions).into_iter().partition(|action| !self.selects(action));
        self.actions = within;
        for action in out {
            let message = match action.kind {
                ActionKind::Delete { .. } => {
                    "not selected, since no --target names it; the delete is withheld".to_owned()
                }
                _ => format!("not selected; the {} is withheld", action.kind.verb()),
            };
            self.hold_action(&action, Hold::kept(Reason::NotSelected, message));
        }
        while let Some((action, other)) = self.take_stranded() {
            let message = format!("it goes with another action, which is withheld: {}", other.0);
            self.hold_action(&action, Hold::waiting(Reason::WaitsForOther, message));
        }
        let held = std::mem::take(&mut self.held);
        self.held = held.into_iter().map(|held| self.excuse(held)).collect();
    }

    fn hold_action(&mut self, action: &Action, hold: Hold) {
        let there = action.kind.expect().map(|_| action.instance.as_str());
        self.hold(&action.place, Some(&action.key), there, hold);
    }

    /// Takes out an action whose other half is not planned any more: one that waits for it, or one
    /// that would free a static address for nobody.
    fn take_stranded(&mut self) -> Option<(Action, ActionId)> {
        let planned: BTreeSet<&ActionId> = self.actions.iter().map(|action| &action.id).collect();
        let missing = |action: &Action| {
            action.after.iter().chain(self.followers.get(&action.id)).find(|other| !planned.contains(other)).cloned()
        };
        let (at, other) = self.actions.iter().enumerate().find_map(|(at, action)| Some((at, missing(action)?)))?;
        Some((self.actions.remove(at), other))
    }

    fn selects(&self, action: &Action) -> bool {
        match action.kind {
            ActionKind::Delete { .. } => self.policy.selection.selects_orphan(&action.key, &action.place),
            _ => self.selects_held(&action.key, &action.place),
        }
    }

    fn selects_held(&self, key: &ProxyKey, place: &HostRef) -> bool {
        match self.wanted(key) {
            Some((proxy, managed)) if managed.place == *place => {
                self.policy.selection.selects(key, Some(place), Some(&proxy.labels))
            }
            _ => self.policy.selection.selects_orphan(key, place),
        }
    }

    fn excuse(&self, held: Held) -> Held {
        match (&held.key, &held.place) {
            (Some(key), Some(place)) if held.verdict != Verdict::Kept && !self.selects_held(key, place) => Held {
                verdict: Verdict::Kept,
                reason: Reason::NotSelected,
                message: format!("left as it is, since it is not selected: {}", held.message),
                ..held
            },
            _ => held,
        }
    }
}
