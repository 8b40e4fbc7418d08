//! Makes the way to each host of an entry: over SSH, to this machine's own socket, or to a file.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use super::config::{Access, Host, LibvirtConfig};
use super::host::link::Link;
use super::host::recorded::{RecordedHost, RecordedLink, World};
use crate::plan::{HostRef, Label};

/// The ways to the hosts of one entry. Recorded hosts keep one world each, however many ways to it
/// are made.
pub struct Links {
    config: Arc<LibvirtConfig>,
    worlds: BTreeMap<Label, Arc<Mutex<World>>>,
}

impl Links {
    /// Reads the files of recorded hosts.
    ///
    /// # Errors
    /// A file that is missing or wrong, with its place.
    pub fn new(config: Arc<LibvirtConfig>) -> Result<Self, String> {
        let mut worlds = BTreeMap::new();
        for (name, host) in &config.hosts {
            if let Access::Recorded(path) = &host.access {
                let recorded = RecordedHost::load(path).map_err(|error| error.to_string())?;
                worlds.insert(name.clone(), Arc::new(Mutex::new(World::new(recorded))));
            }
        }
        Ok(Self { config, worlds })
    }

    /// The worlds of recorded hosts.
    #[must_use]
    pub fn worlds(&self) -> &BTreeMap<Label, Arc<Mutex<World>>> {
        &self.worlds
    }

    /// The recorded hosts: where each is, the file that it was read from, and its world.
    pub fn recorded(&self) -> impl Iterator<Item = (HostRef, &Path, &Arc<Mutex<World>>)> {
        self.config.hosts.iter().filter_map(|(name, host)| {
            let Access::Recorded(path) = &host.access else { return None };
            let place = HostRef { entry: self.config.entry.clone(), host: name.clone() };
            self.worlds.get(name).map(|world| (place, path.as_path(), world))
        })
    }

    /// A way of its own to a host.
    #[must_use]
    pub fn link(&self, name: &Label, host: &Host) -> Arc<dyn Link> {
        match &host.access {
            Access::Recorded(_) => match self.worlds.get(name) {
                Some(world) => Arc::new(RecordedLink::new(Arc::clone(world))),
                None => Arc::new(NoLink),
            },
            #[cfg(feature = "libvirt")]
            Access::Ssh(ssh) => Arc::new(super::host::live::SshLink::new(self.ssh_target(ssh, host))),
            #[cfg(feature = "libvirt")]
            Access::Local { socket } => {
                use super::host::target::{DEFAULT_SOCKETS, LocalTarget};
                let sockets =
                    socket.clone().map_or_else(|| DEFAULT_SOCKETS.map(str::to_owned).to_vec(), |socket| vec![socket]);
                Arc::new(super::host::live::LocalLink::new(LocalTarget { sockets, pool: host.pool.clone() }))
            }
            #[cfg(not(feature = "libvirt"))]
            Access::Ssh(_) | Access::Local { .. } => Arc::new(NoLink),
        }
    }

    #[cfg(feature = "libvirt")]
    fn ssh_target(&self, ssh: &super::config::Ssh, host: &Host) -> super::host::target::SshTarget {
        use super::host::target::{DEFAULT_SOCKETS, SshTarget};
        SshTarget {
            host: ssh.address.host.clone(),
            port: ssh.address.port,
            host_key_alias: ssh.host_key_alias.clone(),
            user: ssh.user.clone(),
            key_file: self.config.ssh_key_file.clone().unwrap_or_default(),
            known_hosts: if self.config.insecure_ignore_host_key { None } else { self.config.known_hosts_file.clone() },
            sockets: ssh
                .socket
                .clone()
                .map_or_else(|| DEFAULT_SOCKETS.map(str::to_owned).to_vec(), |socket| vec![socket]),
            pool: host.pool.clone(),
            keepalive: self.config.budgets.keepalive,
        }
    }
}

/// A host that this build cannot reach: the C client library was left out.
struct NoLink;

#[async_trait::async_trait]
impl Link for NoLink {
    async fn open(
        &self,
        _: super::host::link::Purpose,
        _: std::time::Duration,
    ) -> Result<super::host::link::Opened, super::host::link::DialError> {
        Err(super::host::link::DialError {
            stage: super::host::link::Stage::Libvirt,
            class: crate::provider::Class::Permanent,
            reason: crate::plan::Reason::APIError,
            message: "this build serves recorded hosts only".to_owned(),
            hint: Some("build with the cargo feature libvirt to reach real hosts".to_owned()),
        })
    }

    async fn close(&self) {}
}
