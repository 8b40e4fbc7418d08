//! Saved plans: what stands in the file and still stands.

use std::collections::{BTreeMap, BTreeSet};

use super::change::{Action, ActionId, Plan};
use super::units::count;

/// A saved plan that can no longer be carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the saved plan is stale: {}", stale.join("; "))]
pub struct Stale {
    /// What changed, an item each.
    pub stale: Vec<String>,
}

/// A file that is not a saved plan of this version.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Not the JSON that this program writes.
    #[error("not a saved plan")]
    Json {
        /// The parser's word for it.
        source: serde_json::Error,
    },
    /// Another format.
    #[error("a plan of format {found:?}; this version reads {:?}", Plan::FORMAT)]
    Format {
        /// The format in the file.
        found: String,
    },
}

/// Reads a saved plan.
///
/// # Errors
/// When the text is not a plan of [`Plan::FORMAT`].
pub fn read(text: &str) -> Result<Plan, ReadError> {
    #[derive(serde::Deserialize)]
    struct Head {
        format: String,
    }
    let head: Head = serde_json::from_str(text).map_err(|source| ReadError::Json { source })?;
    if head.format != Plan::FORMAT {
        return Err(ReadError::Format { found: head.format });
    }
    serde_json::from_str(text).map_err(|source| ReadError::Json { source })
}

/// Reduces `fresh` to the actions that `saved` holds as well.
///
/// Two plans' actions are the same when they do the same thing to the same machine with the same
/// preconditions; what is said for people does not count, so that a day's age makes no plan stale.
///
/// # Errors
/// When an action of `saved` no longer stands, with each of those named.
pub fn still_stands(saved: &Plan, mut fresh: Plan) -> Result<Plan, Stale> {
    let mut stale = Vec::new();
    if saved.fleet != fresh.fleet {
        stale.push(format!("it is for fleet {}, not {}", saved.fleet, fresh.fleet));
    }
    if saved.recorded != fresh.recorded {
        stale.push("it was made on recorded hosts and these are live ones, or the other way round".to_owned());
    }
    let now: BTreeMap<&ActionId, &Action> = fresh.actions.iter().map(|action| (&action.id, action)).collect();
    for action in &saved.actions {
        match now.get(&action.id) {
            None => stale.push(format!("{} ({}) no longer stands", action.id.0, action.instance)),
            Some(current) if !same(action, current) => {
                stale.push(format!("{} ({}) is not the same any more", action.id.0, action.instance));
            }
            Some(_) => {}
        }
        // Only an edited file holds an action without those that it waits for.
        for before in action.after.iter().filter(|before| !saved.actions.iter().any(|other| other.id == **before)) {
            stale.push(format!("{} waits for {}, which the file does not hold", action.id.0, before.0));
        }
    }
    // Nor a deletion without the action that takes over its static address.
    for follower in fresh.actions.iter().filter(|action| !saved.actions.iter().any(|other| other.id == action.id)) {
        let freed = |action: &&Action| action.key == follower.key && follower.after.contains(&action.id);
        if let Some(action) = saved.actions.iter().find(freed) {
            stale.push(format!("{} is followed by {}, which the file does not hold", action.id.0, follower.id.0));
        }
    }
    if !stale.is_empty() {
        return Err(Stale { stale });
    }
    let kept: BTreeSet<&ActionId> = saved.actions.iter().map(|action| &action.id).collect();
    let later = fresh.actions.iter().filter(|action| !kept.contains(&action.id)).count();
    if later > 0 {
        fresh
            .notes
            .push(format!("left for another run, since the saved plan does not hold them: {}", count(later, "change")));
        fresh.notes.sort();
    }
    fresh.actions.retain(|action| kept.contains(&action.id));
    fresh.drop_needless_images();
    Ok(fresh)
}

fn same(saved: &Action, fresh: &Action) -> bool {
    saved.place == fresh.place
        && saved.key == fresh.key
        && saved.instance == fresh.instance
        && saved.kind == fresh.kind
        && saved.after == fresh.after
}
