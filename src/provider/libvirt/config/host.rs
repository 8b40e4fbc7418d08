//! Hosts: how each is reached, and where its machines go.

use std::path::PathBuf;

use super::address::Address;
use super::amount::PoolReserve;
use super::raw::{RawCpu, RawCpuMode, RawDomainType, RawHost};
use crate::plan::Label;
use crate::provider::document::check::{parsed, required, within};
use crate::provider::document::{Findings, Folders, Located, Location};

/// One hypervisor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// How it is reached.
    pub access: Access,
    /// The pool for disks and images.
    pub pool: String,
    /// Bridge of the machines' network card.
    pub bridge: String,
    /// How it runs machines.
    pub domain_type: DomainType,
    /// CPU of the machines.
    pub cpu: Cpu,
    /// Nothing is wanted here any more.
    pub retired: bool,
    /// The most machines of this fleet.
    pub max_instances: Option<u32>,
    /// Former names.
    pub aliases: Vec<Label>,
    /// Space that is never planned away; the entry's where the host has none.
    pub pool_reserve: PoolReserve,
}

/// How a host is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// Over SSH.
    Ssh(Ssh),
    /// By this machine's own socket.
    Local {
        /// The socket, when it is not one of the usual ones.
        socket: Option<String>,
    },
    /// A recorded host file answers.
    Recorded(PathBuf),
}

/// An SSH server before a host's libvirt socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ssh {
    /// Where it listens.
    pub address: Address,
    /// Who logs in.
    pub user: String,
    /// The socket, when it is not one of the usual ones.
    pub socket: Option<String>,
    /// The name to look up in known_hosts, when it is not the address.
    pub host_key_alias: Option<String>,
}

/// How a host runs machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DomainType {
    /// By the CPU's own virtualization.
    Kvm,
    /// In software.
    Qemu,
}

impl DomainType {
    /// The type as libvirt spells it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Qemu => "qemu",
        }
    }
}

/// How a CPU is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CpuMode {
    /// The host's own.
    HostPassthrough,
    /// The nearest model that libvirt knows.
    HostModel,
    /// All that the emulator can do.
    Maximum,
    /// A named model.
    Custom,
}

impl CpuMode {
    /// The mode as libvirt spells it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::HostPassthrough => "host-passthrough",
            Self::HostModel => "host-model",
            Self::Maximum => "maximum",
            Self::Custom => "custom",
        }
    }
}

/// CPU of the machines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cpu {
    /// How it is chosen.
    pub mode: CpuMode,
    /// The model; there exactly when the mode is custom.
    pub model: Option<String>,
    /// Features to take away, sorted.
    pub disable: Vec<String>,
}

impl Host {
    /// One text for one daemon and pool, as far as the config tells: two hosts with one identity
    /// would list one set of machines twice (L48). A port is part of it, since one name may stand
    /// for many hosts behind a relay (C07); the user is not.
    pub(super) fn identity(&self) -> String {
        let place = match &self.access {
            Access::Ssh(ssh) => format!("ssh {} {}", ssh.address, ssh.socket.as_deref().unwrap_or_default()),
            Access::Local { socket } => format!("local {}", socket.as_deref().unwrap_or_default()),
            Access::Recorded(path) => format!("recorded {}", path.display()),
        };
        format!("{place} {}", self.pool)
    }

    /// Reads one host. `at` is the item of the list.
    pub(super) fn read(
        raw: &Located<RawHost>,
        reserve: PoolReserve,
        folders: &Folders,
        findings: &mut Findings,
    ) -> Option<Self> {
        let at = &raw.at;
        let raw = raw.get()?;
        let before = findings.errors();
        let access = access(raw, at, folders, findings);
        let pool = match &raw.pool {
            Some(field) => object_name(field, findings),
            None => Some("default".to_owned()),
        };
        let bridge = "this field is required: the bridge of the machines' network card";
        let bridge = required(raw.bridge.as_ref(), at, "bridge", bridge, findings);
        let bridge = bridge.and_then(|field| object_name(field, findings));
        if let Some(field) = &raw.bridge
            && bridge.as_ref().is_some_and(|name| name.len() > 15)
        {
            findings.error(&field.at, "an interface of Linux has a name of at most 15 characters");
        }
        let domain_type = match raw.domain_type.as_ref().map(|field| field.value) {
            None | Some(Some(RawDomainType::Kvm)) => Some(DomainType::Kvm),
            Some(Some(RawDomainType::Qemu)) => Some(DomainType::Qemu),
            Some(None) => None,
        };
        let cpu = domain_type.and_then(|domain_type| cpu(raw.cpu.as_ref(), domain_type, findings));
        let max_instances = raw.max_instances.as_ref().and_then(|field| within(field, 1..=10_000, findings));
        let aliases = raw.aliases.as_ref().and_then(Located::get).map(Vec::as_slice).unwrap_or_default();
        let aliases = aliases.iter().filter_map(|alias| parsed(alias, findings)).collect();
        let pool_reserve = raw.pool_reserve.as_ref().and_then(|field| field.value).unwrap_or(reserve);
        let host = Self {
            access: access?,
            pool: pool?,
            bridge: bridge?,
            domain_type: domain_type?,
            cpu: cpu?,
            retired: raw.retired.as_ref().and_then(|field| field.value).unwrap_or(false),
            max_instances,
            aliases,
            pool_reserve,
        };
        (findings.errors() == before).then_some(host)
    }
}

fn access(raw: &RawHost, at: &Location, folders: &Folders, findings: &mut Findings) -> Option<Access> {
    let address = raw.address.as_ref().map(|field| (field, parsed::<Address>(field, findings)));
    let user = raw.user.as_ref().map(|field| user_name(field, findings));
    let alias = raw.host_key_alias.as_ref().map(|field| alias(field, findings));
    let socket = raw.socket.as_ref().map(|field| socket(field, findings));
    let local = raw.local.as_ref().is_some_and(|field| field.value == Some(true));
    if let Some(field) = &raw.recorded {
        if local {
            findings.error(&field.at, "a host is either recorded or local; leave one");
        }
        return match folders.resolve(field.get()?) {
            Ok(path) => Some(Access::Recorded(path)),
            Err(error) => {
                findings.error(&field.at, error.to_string());
                None
            }
        };
    }
    if local {
        for (field, name) in [(&raw.address, "address"), (&raw.user, "user"), (&raw.host_key_alias, "hostKeyAlias")] {
            if let Some(field) = field {
                findings.error(&field.at, format!("a local host is not reached over SSH; remove {name} or local"));
            }
        }
        return match socket {
            Some(None) => None,
            Some(socket) => Some(Access::Local { socket }),
            None => Some(Access::Local { socket: None }),
        };
    }
    let message = "this field is required, unless the host is local or recorded";
    required(raw.address.as_ref(), at, "address", message, findings);
    required(raw.user.as_ref(), at, "user", message, findings);
    let (socket_given, alias_given) = (socket.is_some(), alias.is_some());
    let (socket, host_key_alias) = (socket.flatten(), alias.flatten());
    if (socket_given && socket.is_none()) || (alias_given && host_key_alias.is_none()) {
        return None;
    }
    Some(Access::Ssh(Ssh { address: address?.1?, user: user??, socket, host_key_alias }))
}

/// Names of pools, bridges and the like, which become part of XML and of printed commands.
fn object_name(field: &Located<String>, findings: &mut Findings) -> Option<String> {
    let name = field.get()?;
    let inner = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    let first = name.chars().next().is_some_and(|c| c.is_ascii_alphanumeric());
    if first && name.chars().all(inner) && name.len() <= 255 {
        return Some(name.clone());
    }
    findings.error(&field.at, "use letters, digits, '_', '.' and '-', with a letter or digit first");
    None
}

fn user_name(field: &Located<String>, findings: &mut Findings) -> Option<String> {
    let name = field.get()?;
    let bad = |c: char| c.is_whitespace() || c.is_control() || "@:/\\\"'".contains(c);
    if name.is_empty() || name.starts_with('-') || name.chars().any(bad) {
        findings.error(&field.at, "this is no user name");
        return None;
    }
    Some(name.clone())
}

fn alias(field: &Located<String>, findings: &mut Findings) -> Option<String> {
    let name = field.get()?;
    if name.is_empty() || name.chars().any(|c| c.is_whitespace() || c.is_control() || ",|*?!@".contains(c)) {
        findings.error(&field.at, "this is no name that known_hosts could hold");
        return None;
    }
    Some(name.clone())
}

/// A socket's path has at most 107 bytes (`sockaddr_un` of Linux).
fn socket(field: &Located<String>, findings: &mut Findings) -> Option<String> {
    let path = field.get()?;
    if !path.starts_with('/') || path.len() > 107 || path.chars().any(char::is_control) {
        findings.error(&field.at, "expected the absolute path of a socket on the host, at most 107 bytes");
        return None;
    }
    Some(path.clone())
}

fn cpu(raw: Option<&Located<RawCpu>>, domain_type: DomainType, findings: &mut Findings) -> Option<Cpu> {
    let usual = match domain_type {
        DomainType::Kvm => CpuMode::HostPassthrough,
        DomainType::Qemu => CpuMode::Maximum,
    };
    let Some(located) = raw else { return Some(Cpu { mode: usual, model: None, disable: Vec::new() }) };
    let raw = located.get()?;
    let mode = match (&raw.mode, &raw.model) {
        (Some(field), _) => match field.value? {
            RawCpuMode::HostPassthrough => CpuMode::HostPassthrough,
            RawCpuMode::HostModel => CpuMode::HostModel,
            RawCpuMode::Maximum => CpuMode::Maximum,
            RawCpuMode::Custom => CpuMode::Custom,
        },
        (None, Some(_)) => CpuMode::Custom,
        (None, None) => usual,
    };
    if domain_type == DomainType::Qemu && matches!(mode, CpuMode::HostPassthrough | CpuMode::HostModel) {
        let at = raw.mode.as_ref().map_or(&located.at, |field| &field.at);
        findings.error(at, format!("{} needs domainType kvm; use maximum, or a model", mode.as_str()));
    }
    match (&raw.model, mode) {
        (None, CpuMode::Custom) => findings.missing(&located.at, "model", "a custom CPU needs a model"),
        (Some(field), mode) if mode != CpuMode::Custom => {
            findings.error(&field.at, format!("a model goes with mode custom, not with {}", mode.as_str()));
        }
        _ => {}
    }
    let model = raw.model.as_ref().map(|field| object_name(field, findings));
    let features = raw.disable.as_ref().and_then(Located::get).map(Vec::as_slice).unwrap_or_default();
    let mut disable: Vec<String> = features.iter().filter_map(|field| object_name(field, findings)).collect();
    disable.sort();
    disable.dedup();
    match model {
        Some(None) => None,
        model => Some(Cpu { mode, model: model.flatten(), disable }),
    }
}
