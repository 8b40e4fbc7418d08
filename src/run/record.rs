//! `record`: what one host answers, as a file that a recorded host can serve.

use super::fleet::{load_config_alone, not_a_host, nothing_wanted};
use super::look::{deadline, over, signals};
use super::{CommandResult, Context, ExitCode, Failure, planning};
use crate::cli::RecordArgs;
use crate::load::ProviderConfig;
use crate::provider::libvirt::record;

/// Runs the command.
///
/// # Errors
/// Problems of the config; a host that is not in it, that cannot be reached or did not answer all.
pub async fn run(args: &RecordArgs, context: &Context) -> CommandResult {
    let loaded = load_config_alone(&args.config, context)?;
    let found = loaded.providers.iter().find(|provider| *provider.entry() == args.host.entry);
    let config = match found {
        Some(ProviderConfig::Libvirt(config)) if config.hosts.contains_key(&args.host.host) => config,
        _ => return Err(not_a_host(&args.host, nothing_wanted(&loaded)?.hosts.keys())),
    };
    let signals = signals()?;
    let until = deadline(args.timeout);
    let ended = tokio::select! {
        recorded = record(config, &args.host.host) => Ok(Some(recorded)),
        () = signals.first.cancelled() => Ok(None),
        () = over(until) => Err(Failure::world("the host did not answer within --timeout")),
    };
    let Some(recorded) = ended? else { return Ok(ExitCode::Interrupted) };
    let recorded = recorded.map_err(|trouble| {
        let failure = Failure::world(format!("{} could not be recorded", args.host)).cause(trouble.message);
        trouble.hint.into_iter().fold(failure, Failure::hint)
    })?;
    let text = recorded
        .to_yaml()
        .map_err(|error| Failure::bug("the recorded host cannot be written as YAML").cause(error.to_string()))?;
    match &args.out {
        Some(path) => planning::write_file(path, &text)?,
        None => context.terminal.data(text.as_bytes())?,
    }
    Ok(ExitCode::Success)
}
