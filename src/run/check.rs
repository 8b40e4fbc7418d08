//! `check`: whether each host is ready, and if not, what to do.

use futures::StreamExt as _;
use futures::stream;

use super::exit::{ExitCode, Facts, pick};
use super::fleet::{Fleet, Setup, load_config_alone, nothing_wanted};
use super::look::{bounded, signals};
use super::{CommandResult, Context, planning};
use crate::cli::{CheckArgs, DataFormat};
use crate::provider::check::refuse_shared_stores;
use crate::report::check;

/// Facts that tell of a fleet's machines, which mean nothing where no fleet is named.
const OF_A_FLEET: [&str; 3] = ["instances", "instancesRunning", "otherMachines"];

/// Runs the command.
///
/// # Errors
/// Problems of the config; a host that is named and is not in it.
pub async fn run(args: &CheckArgs, context: &Context) -> CommandResult {
    let loaded = load_config_alone(&args.config, context)?;
    let desired = nothing_wanted(&loaded)?;
    let signals = signals()?;
    let mut fleet = Fleet::new(
        &Setup {
            providers: &loaded.providers,
            desired: &desired,
            hosts_at_a_time: args.parallelism.map_or(loaded.concurrency.hosts, usize::from),
            downloads: loaded.concurrency.downloads,
            cache_dir: None,
            stop: signals.first.clone(),
            wait_running: false,
        },
        context,
    )?;
    fleet.narrow(&args.hosts)?;
    let checks = stream::iter(&fleet.places)
        .filter_map(|place| {
            let provider = fleet.providers.of(place).cloned();
            async move { provider.map(|provider| (place, provider)) }
        })
        .map(|(place, provider)| async move { provider.check(&place.host, args.timeout).await })
        .buffer_unordered(fleet.hosts_at_a_time)
        .collect::<Vec<_>>();
    // Each host has a budget of its own, so that the whole needs none.
    let Some(mut reports) = bounded(&fleet, &signals, None, checks).await? else { return Ok(ExitCode::Interrupted) };
    reports.sort_by(|a, b| a.host.cmp(&b.host));
    refuse_shared_stores(&mut reports);
    if loaded.fleet.is_none() {
        for report in &mut reports {
            report.facts.retain(|name, _| !OF_A_FLEET.contains(&name.as_str()));
        }
    }
    let text = match args.output {
        DataFormat::Human => check::lines(&reports, planning::style(context.terminal.color_out)),
        DataFormat::Json => planning::json_text(&reports)?,
    };
    context.terminal.data(text.as_bytes())?;
    let ready = reports.iter().filter(|report| report.ready()).count();
    Ok(pick(&Facts { failed: ready == 0, incomplete: ready < reports.len(), ..Facts::default() }))
}
