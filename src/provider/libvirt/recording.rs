//! Records a host over a way of its own. Changes and refreshes nothing.

use std::sync::{Arc, PoisonError};

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::classify::classify;
use super::config::LibvirtConfig;
use super::host::link::Purpose;
use super::host::recorded::{self, RecordedHost};
use super::host::traced::{Labels, Traced};
use super::links::Links;
use super::observe::unknown;
use super::provider::budgets;
use super::session::{dial_failure, on_thread};
use crate::plan::{HostTrouble, Label, Reason};

/// The kinds of domain that a host is asked about.
const DOMAIN_TYPES: [&str; 2] = ["kvm", "qemu"];

/// Takes `host` down. Recording a recorded host gives what was recorded, its time included.
///
/// # Errors
/// The host cannot be reached, or something was not answered: a file that holds a part would look
/// like the whole.
pub async fn record(config: &LibvirtConfig, host: &Label) -> Result<RecordedHost, HostTrouble> {
    let missing = |message: String| HostTrouble { reason: Reason::Unresolved, message, hint: None };
    let Some(settings) = config.hosts.get(host).cloned() else {
        return Err(missing(format!("{host} is not in the config")));
    };
    // Files of the entry's other hosts are nothing to this one.
    let mut alone = config.clone();
    alone.hosts.retain(|name, _| name == host);
    let links = Links::new(Arc::new(alone)).map_err(missing)?;
    let clock = links.worlds().get(host).map(|world| world.lock().unwrap_or_else(PoisonError::into_inner).now());
    let link = links.link(host, &settings);
    let opened = match link.open(Purpose::Calls, config.budgets.dial).await {
        Ok(opened) => opened,
        Err(error) => return Err(unknown(dial_failure(&error))),
    };
    let labels = Labels { provider: config.entry.to_string(), host: host.to_string(), pool: settings.pool.clone() };
    let connection = Traced::new(opened, labels, budgets(config), CancellationToken::new(), Arc::default());
    let now = clock.unwrap_or_else(Timestamp::now);
    let bridge = settings.bridge.clone();
    let result = on_thread(connection, move |calls| {
        recorded::record(calls, &bridge, &DOMAIN_TYPES, now).map_err(|error| classify("record the host", "", &error))
    })
    .await;
    link.close().await;
    let recorded = result.and_then(|(recorded, connection)| {
        drop(connection);
        recorded
    });
    let mut recorded = recorded.map_err(unknown)?;
    recorded.pool.name = settings.pool;
    Ok(recorded)
}
