//! `destroy`: a plan in which nothing is wanted.

use std::time::Duration;

use jiff::Timestamp;

use super::execution::{Execution, Order, check_simulation};
use super::fleet::{Fleet, Setup, load_config_alone};
use super::locking::Deadline;
use super::{CommandResult, Context, Failure, Signals};
use crate::apply::{Limits, Wait};
use crate::cli::DestroyArgs;
use crate::plan::Policy;

/// Runs the command.
///
/// # Errors
/// Whatever ended the run before anything was done.
pub async fn run(args: &DestroyArgs, context: &Context) -> CommandResult {
    let started_at = Timestamp::now();
    let loaded = load_config_alone(&args.config, context)?;
    let mut desired = loaded.nothing_desired().ok_or_else(|| {
        Failure::input("destroy needs to know the fleet").hint("set fleet in the config, or pass --fleet")
    })?;
    // That nothing is wanted is the whole of what is wanted here.
    desired.complete = true;
    check_simulation(args.simulation.simulate, &desired)?;
    let signals = Signals::install(args.lock.grace)
        .map_err(|error| Failure::world("signals cannot be taken over").cause(error.to_string()))?;
    let _deadline = Deadline::after(args.limits.timeout, &signals);
    let fleet = Fleet::new(
        &Setup {
            providers: &loaded.providers,
            desired: &desired,
            hosts_at_a_time: args.limits.parallelism.map_or(loaded.concurrency.hosts, usize::from),
            downloads: loaded.concurrency.downloads,
            cache_dir: None,
            stop: signals.first.clone(),
            wait_running: true,
        },
        context,
    )?;
    let order = Order {
        command: "destroy",
        policy: Policy {
            destroy: true,
            take_over: args.take_over,
            selection: args.what.selection(),
            min_age: Duration::ZERO.try_into().unwrap_or_default(),
            ..loaded.policy.clone()
        },
        limits: Limits {
            hosts: fleet.hosts_at_a_time,
            per_host: loaded.concurrency.per_host,
            downloads: loaded.concurrency.downloads,
            unavailable: 1,
        },
        wait: Wait::None,
        lock_timeout: args.lock.lock_timeout,
        approved: args.auto_approve,
        output: &args.output,
        report: args.report.as_deref(),
        inventory: None,
        before: None,
        cluster: None,
        saved: None,
        started_at,
    };
    let execution = Execution { order: &order, fleet: &fleet, signals: &signals, context };
    let result = execution.carry_out(&mut |_| desired.clone()).await;
    fleet.end(&args.simulation, result).await
}
