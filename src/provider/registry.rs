//! The providers of a run, by entry, and what is asked of all their hosts at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream;

use super::{Depth, Provider};
use crate::plan::{HostRef, HostState, HostTrouble, Label, Observed, Reason};

/// Every provider entry of the config.
#[derive(Clone, Default)]
pub struct Providers {
    by_entry: BTreeMap<Label, Arc<dyn Provider>>,
}

impl Providers {
    /// Joins the providers of a config.
    #[must_use]
    pub fn new(providers: impl IntoIterator<Item = Arc<dyn Provider>>) -> Self {
        Self { by_entry: providers.into_iter().map(|provider| (provider.entry().clone(), provider)).collect() }
    }

    /// The provider of a host's entry.
    #[must_use]
    pub fn of(&self, place: &HostRef) -> Option<&Arc<dyn Provider>> {
        self.by_entry.get(&place.entry)
    }

    /// Every host of every entry, sorted.
    #[must_use]
    pub fn places(&self) -> Vec<HostRef> {
        let mut places: Vec<HostRef> = self
            .by_entry
            .values()
            .flat_map(|provider| {
                provider.hosts().into_iter().map(|host| HostRef { entry: provider.entry().clone(), host })
            })
            .collect();
        places.sort();
        places
    }

    /// Observes `places`, at most `limit` at a time. Hosts that are one store, and machines that are
    /// not where their marks say, are told apart here, since only all hosts together show them.
    pub async fn observe(&self, places: &[HostRef], depth: Depth, limit: usize) -> Observed {
        let hosts = stream::iter(places.iter().cloned())
            .map(|place| async move {
                let state = match self.of(&place) {
                    Some(provider) => match provider.observe(&place.host, depth).await {
                        Ok(view) => HostState::Known(Box::new(view)),
                        Err(trouble) => HostState::Unknown(trouble),
                    },
                    None => HostState::Unknown(HostTrouble {
                        reason: Reason::Unresolved,
                        message: format!("{} is not an entry of the config", place.entry),
                        hint: None,
                    }),
                };
                (place, state)
            })
            .buffer_unordered(limit.max(1))
            .collect::<BTreeMap<_, _>>()
            .await;
        let mut observed = Observed { hosts };
        observed.refuse_shared_stores();
        observed.settle_neighbours();
        observed
    }

    /// Ends all connections of all entries.
    pub async fn close(&self) {
        futures::future::join_all(self.by_entry.values().map(|provider| provider.close())).await;
    }
}
