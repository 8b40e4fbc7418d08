//! Checks whether a host is ready, stage by stage. Changes and refreshes nothing.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::classify::classify;
use super::config::{Firmware, GIB, Host, LibvirtConfig};
use super::host::calls::{CallError, CallResult, Calls, code};
use super::host::link::{Link, Purpose, Stage};
use super::host::traced::{Budgets, Labels, Traced};
use super::observe::{self, OLDEST_LIBVIRT, listing, survey, version_text};
use super::session::on_thread;
use super::site::Site;
use super::view::view;
use crate::plan::{HostRef, Power, Reason};
use crate::provider::check::STORE;
use crate::provider::error::{ProviderError, clean};
use crate::provider::{CheckReport, CheckStage};

/// The most characters of a host's name that are shown (RFC 1035).
const HOSTNAME_MAX: usize = 253;

/// A check under way: stages that passed, facts so far.
struct Findings {
    report: CheckReport,
}

/// What stopped a check.
struct Stop {
    stage: &'static str,
    reason: Reason,
    message: String,
    hint: Option<String>,
}

impl Stop {
    fn new(stage: &'static str, reason: Reason, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { stage, reason, message: message.into(), hint: Some(hint.into()) }
    }

    fn call(stage: &'static str, operation: &'static str, error: &CallError) -> Self {
        let failure = classify(operation, "", error);
        let reason = match failure.reason {
            Reason::PermanentError | Reason::TransientError => Reason::APIError,
            reason => reason,
        };
        Self { stage, reason, message: failure.to_string(), hint: failure.hint }
    }
}

/// A check that could not even begin.
pub(super) fn failed(host: HostRef, failure: ProviderError) -> CheckReport {
    CheckReport {
        host,
        reason: failure.reason,
        message: failure.to_string(),
        hint: failure.hint,
        stages: Vec::new(),
        facts: BTreeMap::new(),
    }
}

/// Checks a host over a way of its own, within `budget`.
pub(super) async fn check(
    config: &LibvirtConfig,
    host: &Host,
    site: &Site,
    link: Arc<dyn Link>,
    budgets: Budgets,
    budget: Duration,
) -> CheckReport {
    let begun = Instant::now();
    let mut findings = Findings::new(site, host);
    let within = config.budgets.dial.min(budget);
    match link.open(Purpose::Calls, within).await {
        Err(error) => {
            for stage in [Stage::Credentials, Stage::Tcp, Stage::Ssh, Stage::Socket, Stage::Libvirt] {
                if stage < error.stage {
                    findings.passed(stage.as_str());
                }
            }
            findings.stopped(Stop {
                stage: error.stage.as_str(),
                reason: error.reason,
                message: error.message,
                hint: error.hint,
            });
        }
        Ok(opened) => {
            for stage in [Stage::Credentials, Stage::Tcp, Stage::Ssh, Stage::Socket, Stage::Libvirt] {
                findings.passed(stage.as_str());
            }
            let kill = Arc::clone(&opened.kill);
            let labels = Labels {
                provider: site.place.entry.to_string(),
                host: site.place.host.to_string(),
                pool: site.pool.clone(),
            };
            let connection = Traced::new(opened, labels, budgets, CancellationToken::new(), Arc::default());
            let (site, settings) = (site.clone(), host.clone());
            let wants_uefi = config.images.values().any(|image| image.firmware == Firmware::Uefi);
            let work = on_thread(connection, move |calls| {
                let stop = look(calls, &site, &settings, wants_uefi, &mut findings).err();
                Ok((findings, stop))
            });
            let watch = tokio::time::sleep(budget.saturating_sub(begun.elapsed()));
            tokio::pin!(work);
            let (result, timed_out) = tokio::select! {
                result = &mut work => (result, false),
                // The time is over: the call in flight fails at once and the stage it was in is told.
                () = watch => { kill(); (work.await, true) }
            };
            findings = match result.and_then(|(result, connection)| {
                drop(connection);
                result
            }) {
                Ok((mut findings, stop)) => {
                    match stop {
                        Some(stop) if timed_out => findings.stopped(Stop {
                            reason: Reason::Timeout,
                            message: format!("the time ran out after {} s at this stage", budget.as_secs()),
                            hint: None,
                            ..stop
                        }),
                        Some(stop) => findings.stopped(stop),
                        None => findings.ready(begun.elapsed()),
                    }
                    findings
                }
                Err(failure) => {
                    return failed(
                        HostRef { entry: config.entry.clone(), host: Findings::name(host, config) },
                        failure,
                    );
                }
            };
        }
    }
    link.close().await;
    findings.report
}

impl Findings {
    fn new(site: &Site, host: &Host) -> Self {
        let mut facts = BTreeMap::from([("pool".to_owned(), site.pool.clone())]);
        if let super::config::Access::Ssh(ssh) = &host.access {
            facts.insert("user".to_owned(), ssh.user.clone());
        }
        Self {
            report: CheckReport {
                host: site.place.clone(),
                reason: Reason::Reachable,
                message: "ready".to_owned(),
                hint: None,
                stages: Vec::new(),
                facts,
            },
        }
    }

    fn name(host: &Host, config: &LibvirtConfig) -> crate::plan::Label {
        config
            .hosts
            .iter()
            .find(|(_, other)| *other == host)
            .map_or_else(|| config.entry.clone(), |(name, _)| name.clone())
    }

    fn passed(&mut self, stage: &str) {
        self.report.stages.push(CheckStage { name: stage.to_owned(), passed: true });
    }

    fn fact(&mut self, name: &str, value: impl Display) {
        self.report.facts.insert(name.to_owned(), value.to_string());
    }

    fn stopped(&mut self, stop: Stop) {
        self.report.stages.push(CheckStage { name: stop.stage.to_owned(), passed: false });
        self.report.reason = stop.reason;
        self.report.message = clean(&stop.message);
        self.report.hint = stop.hint;
    }

    fn ready(&mut self, took: Duration) {
        self.fact("latencyMs", took.as_millis());
    }
}

fn look(
    calls: &mut dyn Calls,
    site: &Site,
    host: &Host,
    wants_uefi: bool,
    findings: &mut Findings,
) -> Result<(), Stop> {
    let version = calls.libvirt_version().map_err(|error| Stop::call("version", "ask for the version", &error))?;
    findings.fact("libvirtVersion", version_text(version));
    if let Some(hypervisor) = optional(calls.hypervisor_version(), "ask for the hypervisor's version")? {
        findings.fact("hypervisorVersion", version_text(hypervisor));
    }
    if let Some(name) = optional(calls.hostname(), "ask for the host's name")? {
        findings.fact("hostname", clean(&name).chars().take(HOSTNAME_MAX).collect::<String>());
    }
    if version < OLDEST_LIBVIRT {
        return Err(Stop::new(
            "version",
            Reason::VersionUnsupported,
            format!("libvirt {} is too old", version_text(version)),
            "7.2 or later is needed on the host",
        ));
    }
    findings.passed("version");
    look_at_pool(calls, site, findings)?;
    look_at_machines(calls, host, wants_uefi, findings)
}

/// A fact that a host need not give. A failure that cost the connection is told all the same: whatever is
/// asked next would be blamed for it (L44).
fn optional<T>(answer: CallResult<T>, operation: &'static str) -> Result<Option<T>, Stop> {
    match answer {
        Ok(fact) => Ok(Some(fact)),
        Err(error) if error.dead => Err(Stop::call("version", operation, &error)),
        Err(_) => Ok(None),
    }
}

fn look_at_pool(calls: &mut dyn Calls, site: &Site, findings: &mut Findings) -> Result<(), Stop> {
    let pool = calls.pool().map_err(|error| Stop::call("pool", "look at the pool", &error))?;
    let active = if pool.active { "running" } else { "inactive" };
    findings.fact(STORE, &pool.uuid);
    findings.fact("poolState", active);
    findings.fact("poolCapacityGiB", pool.capacity / GIB);
    findings.fact("poolAvailableGiB", pool.available / GIB);
    if !pool.active {
        return Err(Stop::new(
            "pool",
            Reason::PoolNotActive,
            format!("pool {} is not running", site.pool),
            format!(
                "virsh -c qemu:///system pool-start {0}, and virsh -c qemu:///system pool-autostart {0}",
                site.pool
            ),
        ));
    }
    let seen = listing(calls).and_then(|listing| survey(calls, site, listing, false)).and_then(|survey| {
        let marks = observe::read_marks(calls, survey.domains.clone())?;
        Ok((survey, marks))
    });
    let (survey, marks) = seen.map_err(|trouble| Stop {
        stage: "pool",
        reason: trouble.reason,
        message: trouble.message,
        hint: trouble.hint,
    })?;
    let view = view(site, &survey, &marks, jiff::Timestamp::now()).map_err(|message| {
        Stop::new("pool", Reason::PoolLooksUnmounted, message, "mount the pool's file system on the host")
    })?;
    let ours = view.instances.iter().filter(|instance| instance.mark().is_some());
    let running = ours.clone().filter(|instance| instance.power == Power::Running).count();
    findings.fact("instances", ours.clone().count());
    findings.fact("instancesRunning", running);
    findings.fact("otherMachines", view.others);
    let store = view.store;
    if store.available < store.reserve {
        return Err(Stop::new(
            "pool",
            Reason::LowSpace,
            format!("{} GiB are free, and {} GiB are kept in reserve", store.available / GIB, store.reserve / GIB),
            "free space in the pool, or lower poolReserve",
        ));
    }
    findings.passed("pool");
    Ok(())
}

fn look_at_machines(calls: &mut dyn Calls, host: &Host, wants_uefi: bool, findings: &mut Findings) -> Result<(), Stop> {
    match calls.interface_exists(&host.bridge).map_err(|error| Stop::call("bridge", "look for the bridge", &error))? {
        Some(false) => {
            return Err(Stop::new(
                "bridge",
                Reason::BridgeNotFound,
                format!("there is no interface {}", host.bridge),
                "ip link on the host shows its bridges; hosts[].bridge names the one to use",
            ));
        }
        Some(true) => findings.passed("bridge"),
        // The daemon has no interface driver; a start would tell.
        None => findings.fact("bridge", "not told by this host"),
    }
    let kind = host.domain_type.as_str();
    let capabilities = match calls.domain_capabilities(kind) {
        Ok(capabilities) => capabilities,
        Err(error) if matches!(error.code, code::INVALID_ARG | code::CONFIG_UNSUPPORTED) => {
            return Err(Stop::new(
                "emulation",
                Reason::VirtualizationUnavailable,
                format!("the host cannot run domains of type {kind}"),
                "look for /dev/kvm on the host, or set domainType: qemu",
            ));
        }
        Err(error) => return Err(Stop::call("emulation", "ask for the capabilities", &error)),
    };
    findings.passed("emulation");
    if wants_uefi && !offers_efi(&capabilities) {
        return Err(Stop::new(
            "firmware",
            Reason::FirmwareNotFound,
            "the host offers no UEFI firmware",
            "install the OVMF package on the host, or set firmware: bios for the images",
        ));
    }
    findings.passed("firmware");
    Ok(())
}

/// Whether domain capabilities list `efi` among the firmwares to choose from.
fn offers_efi(capabilities: &str) -> bool {
    let Ok(root) = super::xml::Element::read(capabilities) else { return false };
    let Some(os) = root.first("os") else { return false };
    os.all("enum")
        .filter(|choice| choice.attribute("name") == Some("firmware"))
        .flat_map(|choice| choice.all("value"))
        .any(|value| value.value().trim() == "efi")
}
