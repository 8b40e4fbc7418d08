//! How the provider looks at a host: which calls go over which connection, and in what order. Changes
//! nothing but what libvirt knows of a pool's folder.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::{StreamExt as _, stream};
use uuid::Uuid;

use super::host::calls::{Calls, Which};
use super::observe::{self, MarkText, Survey, Unread, survey};
use super::provider::LibvirtProvider;
use super::session::Session;
use super::view::view;
use super::{address, classify::classify};
use crate::plan::{Address, HostTrouble, HostView, Power, Reason};

/// From so many domains on, marks are read over two connections.
const SPREAD_FROM: usize = 32;
/// Machines whose addresses are read at a time.
const ADDRESSES_AT_A_TIME: usize = 4;
impl LibvirtProvider {
    /// The survey and every domain's mark. Where there are many, a second connection reads marks while
    /// the first still waits for bulk figures, and both share the rest; what the second one could not
    /// read is read over the first.
    async fn look(
        &self,
        session: &Arc<Session>,
        refresh: bool,
    ) -> Result<(Survey, Vec<(Uuid, MarkText)>), HostTrouble> {
        let listed = session.with(&self.stop, |calls| Ok(observe::listing(calls))).await;
        let listing = listed.map_err(observe::unknown)??;
        let many = listing.domains.len() >= SPREAD_FROM;
        // Only the first connection has handles of transient domains, which are few.
        let (shared, own) =
            listing.domains.iter().cloned().partition::<Vec<_>, _>(|(_, which)| *which == Which::Persistent);
        let unread = Arc::new(Unread::new(shared.clone()));
        let (site, left) = (session.site.clone(), Arc::clone(&unread));
        let first = session.with(&self.stop, move |calls| {
            Ok(survey(calls, &site, listing, refresh).and_then(|survey| {
                let mut marks = observe::read_marks(calls, own)?;
                marks.extend(observe::read_marks(calls, left.rest())?);
                Ok((survey, marks))
            }))
        });
        let second = async {
            if !many {
                return Ok(Ok(Vec::new()));
            }
            let read = move |calls: &mut dyn Calls| {
                // The listing gives this connection handles of its own.
                let listed = calls.list_domains(Which::Persistent);
                listed.map_err(|error| classify("list the domains", "", &error))?;
                Ok(observe::read_marks(calls, unread.rest()))
            };
            session.with(&self.stop, read).await
        };
        let (first, second) = futures::future::join(first, second).await;
        let (survey, mut marks) = first.map_err(observe::unknown)??;
        match second.map_err(observe::unknown).flatten() {
            Ok(read) => marks.extend(read),
            Err(trouble) => {
                tracing::debug!(host = %session.site.place, why = trouble.message, "one connection reads all marks");
                let read: BTreeSet<Uuid> = marks.iter().map(|(uuid, _)| *uuid).collect();
                let left: Vec<_> = shared.into_iter().filter(|(row, _)| !read.contains(&row.uuid)).collect();
                let rest = session.with(&self.stop, move |calls| Ok(observe::read_marks(calls, left))).await;
                marks.extend(rest.map_err(observe::unknown)??);
            }
        }
        Ok((survey, marks))
    }

    /// What a look comes to.
    pub(super) async fn judge(&self, session: &Arc<Session>, refresh: bool) -> Result<HostView, HostTrouble> {
        let (survey, marks) = self.look(session, refresh).await?;
        view(&session.site, &survey, &marks, jiff::Timestamp::now()).map_err(|message| HostTrouble {
            reason: Reason::PoolLooksUnmounted,
            message,
            hint: Some(format!(
                "mount the pool's file system on the host, then: virsh -c qemu:///system pool-refresh {}",
                session.site.pool
            )),
        })
    }

    pub(super) async fn refresh(&self, session: &Arc<Session>) -> Result<(), HostTrouble> {
        session.with(&self.stop, |calls| observe::refresh_pool(calls, "")).await.map_err(observe::unknown)
    }

    /// Looks each disk up that a listing did not show.
    pub(super) async fn confirm_missing_disks(
        &self,
        session: &Arc<Session>,
        view: &mut HostView,
    ) -> Result<(), HostTrouble> {
        let names: Vec<String> = view.instances.iter().flat_map(|instance| instance.missing_disks.clone()).collect();
        if names.is_empty() {
            return Ok(());
        }
        let there: BTreeSet<String> = session
            .with(&self.stop, move |calls| {
                let mut there = BTreeSet::new();
                for name in names {
                    let found = calls.volume(&name).map_err(|error| classify("look at the disk", &name, &error))?;
                    there.extend(found.map(|volume| volume.name));
                }
                Ok(there)
            })
            .await
            .map_err(observe::unknown)?;
        for instance in &mut view.instances {
            instance.missing_disks.retain(|name| !there.contains(name));
        }
        Ok(())
    }

    pub(super) async fn read_addresses(&self, session: &Arc<Session>, view: &mut HostView) {
        let running =
            view.instances.iter_mut().filter(|instance| instance.mark().is_some() && instance.power == Power::Running);
        stream::iter(running)
            .for_each_concurrent(ADDRESSES_AT_A_TIME, |instance| async move {
                instance.address = self.address_of(session, &instance.uuid).await;
            })
            .await;
    }

    pub(super) async fn address_of(&self, session: &Arc<Session>, uuid: &str) -> Address {
        let Ok(uuid) = Uuid::parse_str(uuid) else { return Address::Unknown("not a UUID".to_owned()) };
        let read = session.with(&self.stop, move |calls| Ok(address::read(calls, uuid))).await;
        read.unwrap_or_else(|failure| Address::Unknown(failure.to_string()))
    }
}
