//! `images`: the base images on the hosts.

mod list;
mod prefetch;
pub mod prune;

use std::collections::{BTreeMap, BTreeSet};

use super::{CommandResult, Context};
use crate::cli::ImagesCommand;
use crate::plan::{Desired, HostRef, HostState, ImageNeed, Mode, Observed};

/// Runs the command.
///
/// # Errors
/// Problems of the input; what ended the run before anything was done.
pub async fn run(command: &ImagesCommand, context: &Context) -> CommandResult {
    match command {
        ImagesCommand::List(args) => list::run(args, context).await,
        ImagesCommand::Prefetch(args) => prefetch::run(args, context).await,
        ImagesCommand::Prune(args) => prune::run(args, context).await,
    }
}

/// The images that the manifests want, by host. A host without any is left out.
fn needs(desired: &Desired) -> BTreeMap<HostRef, BTreeSet<ImageNeed>> {
    let mut needs: BTreeMap<HostRef, BTreeSet<ImageNeed>> = BTreeMap::new();
    for proxy in desired.proxies.values() {
        if let Mode::Managed(managed) = &proxy.mode
            && let Ok(resolved) = &managed.resolved
        {
            needs.entry(managed.place.clone()).or_default().insert(resolved.image.clone());
        }
    }
    needs
}

/// Says of each host with which nothing can be done why; how many they are, and whether that is all.
fn tell_of_left_out(observed: &Observed, context: &Context) -> (usize, bool) {
    let mut left_out = 0;
    for (place, state) in &observed.hosts {
        let why = match state {
            HostState::Unknown(trouble) => format!("it is unknown: {}", trouble.message),
            HostState::Known(view) if !view.store.active => {
                format!("{} is not running. {}", view.store.name, view.store.start_hint)
            }
            HostState::Known(_) => continue,
        };
        left_out += 1;
        context.terminal.say(&format!("{place} is left out, since {why}"));
    }
    (left_out, left_out == observed.hosts.len())
}
