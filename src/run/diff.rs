//! `diff`: look, plan, print. Changes nothing and takes no lock.

use std::collections::BTreeMap;

use super::cluster::Looked;
use super::exit::{ExitCode, Facts, pick};
use super::fleet::{Fleet, Setup, load_all};
use super::look::{bounded, deadline, signals};
use super::{CommandResult, Context, cluster, planning};
use crate::cli::DiffArgs;
use crate::provider::Depth;

/// Runs the command.
///
/// # Errors
/// Problems of the input; a plan that breaks a promise.
pub async fn run(args: &DiffArgs, context: &Context) -> CommandResult {
    let until = deadline(args.limits.timeout);
    let mut looked = cluster::look(&args.manifests.cluster, &args.config, until, context).await?;
    let memory = looked.as_ref().and_then(Looked::memory);
    let objects = looked.as_mut().and_then(Looked::take_objects);
    let mut loaded = load_all(&args.manifests, &args.config, objects, context)?;
    let before = planning::before(args.planning.previous_report.as_deref(), memory)?;
    let policy = planning::policy(
        loaded.policy.clone(),
        &args.planning,
        args.selection.selection(),
        &loaded.desired,
        before.as_ref(),
    )?;
    let signals = signals()?;
    let fleet = Fleet::new(
        &Setup {
            providers: &loaded.providers,
            desired: &loaded.desired,
            hosts_at_a_time: args.limits.parallelism.map_or(loaded.concurrency.hosts, usize::from),
            downloads: loaded.concurrency.downloads,
            cache_dir: None,
            stop: signals.first.clone(),
            wait_running: true,
        },
        context,
    )?;
    let none = BTreeMap::new();
    let looking = fleet.observe(Depth::Plan, &none);
    let Some(observed) = bounded(&fleet, &signals, until, looking).await? else {
        return Ok(ExitCode::Interrupted);
    };
    loaded.settle(&observed);
    for target in planning::unmatched(&policy.selection, &loaded.desired, &observed) {
        context.terminal.say(&target);
    }
    let plan = planning::make(&loaded.desired, &observed, &policy)?;
    planning::json_into(&args.output, &plan)?;
    if let Some(path) = &args.out {
        planning::write_file(path, &planning::json_text(&plan)?)?;
    }
    let text = planning::render(&plan, args.output.output, context.terminal.color_out)?;
    context.terminal.data(text.as_bytes())?;
    Ok(pick(&Facts {
        failed: planning::every_host_lost(&plan),
        refused: !plan.refusals.is_empty(),
        incomplete: plan.is_incomplete() || loaded.desired.broke_off(),
        changes_to_tell: args.detailed_exitcode && plan.has_changes(),
        ..Facts::default()
    }))
}
