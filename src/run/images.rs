//! `images`: the base images on the hosts.

mod list;
mod prefetch;
mod prune;

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

/// Says of each host that is unknown why; whether every host is.
fn tell_of_unknown(observed: &Observed, context: &Context) -> (usize, bool) {
    let mut unknown = 0;
    for (place, state) in &observed.hosts {
        if let HostState::Unknown(trouble) = state {
            unknown += 1;
            context.terminal.say(&format!("{place} is left out, since it is unknown: {}", trouble.message));
        }
    }
    (unknown, unknown == observed.hosts.len())
}
