//! Runs of the program in this process: what `apply` and `images prune` do, on hosts in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use egress_plan::cli::{ApplyArgs, Cli, Command, ImagesCommand, ImagesPruneArgs};
use egress_plan::load::Loaded;
use egress_plan::plan::{Observed, Plan};
use egress_plan::provider::{CheckReport, Depth};
use egress_plan::run::fleet::Fleet;
use egress_plan::run::{self, CommandResult, Context, Kind, Signals, Terminal, command_line, planning};
use tokio::runtime::Runtime;
use tokio::sync::Notify;

use crate::ground::Hosts;

/// A command with its arguments, as it is typed.
#[derive(Clone)]
pub enum Line {
    Apply(Box<ApplyArgs>),
    Prune(Box<ImagesPruneArgs>),
}

impl Line {
    pub fn apply() -> Self {
        // Read once: a command line takes longer to read than a look at a host.
        static LINE: LazyLock<Line> =
            LazyLock::new(|| Line::typed("apply --auto-approve --simulate --lock-timeout 0s"));
        LINE.clone()
    }

    pub fn prune() -> Self {
        static LINE: LazyLock<Line> =
            LazyLock::new(|| Line::typed("images prune --auto-approve --simulate --lock-timeout 0s"));
        LINE.clone()
    }

    /// The command that somebody types. Its files are not looked at: what they come to is given.
    pub fn typed(text: &str) -> Self {
        use clap::FromArgMatches as _;
        let line = format!("egress-plan {text} -f manifests.yaml -c config.yaml");
        let matches = command_line().try_get_matches_from(line.split(' ')).expect("a command line");
        match Cli::from_arg_matches(&matches).expect("a command line").command {
            Command::Apply(args) => Self::Apply(Box::new((*args).clone())),
            Command::Images(images) => match images.command {
                ImagesCommand::Prune(args) => Self::Prune(args),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }
}

/// How a run ended.
#[derive(Debug)]
pub enum End {
    Ended(CommandResult),
    Killed,
}

impl End {
    /// The exit code; a broken promise of the program's own has none.
    pub fn code(&self) -> Result<u8, String> {
        match self {
            Self::Ended(Ok(code)) => Ok(code.number()),
            Self::Ended(Err(failure)) if failure.kind == Kind::Bug => Err(format!("{failure:?}")),
            Self::Ended(Err(failure)) => Ok(failure.exit.number()),
            Self::Killed => Err("it was killed".to_owned()),
        }
    }
}

fn context() -> Context {
    let run: Arc<str> = Arc::from(&uuid::Uuid::new_v4().simple().to_string()[..16]);
    Context { terminal: Terminal::silent(&run), run }
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// Runs a command to its end, as a process of its own would, or until it is killed. When this returns,
/// nothing of the run is at work any more.
pub fn run(line: &Line, loaded: &Loaded, hosts: &[Hosts], killed: &Notify) -> End {
    let runtime = runtime();
    let signals = Signals::default();
    let end = runtime.block_on(async {
        tokio::select! {
            result = command(line, loaded, hosts, &signals) => End::Ended(result),
            () = killed.notified() => End::Killed,
        }
    });
    // Calls of a killed run are cut by the time it is killed, so that their threads end at once.
    runtime.shutdown_timeout(Duration::from_mins(1));
    end
}

/// Runs a command to its end, with signals that a fault may send, and says how long it took.
pub fn signalled(line: &Line, loaded: &Loaded, hosts: &Hosts, signals: &Signals) -> (End, Duration) {
    let runtime = runtime();
    let begun = Instant::now();
    let result = runtime.block_on(command(line, loaded, std::slice::from_ref(hosts), signals));
    let took = begun.elapsed();
    runtime.shutdown_background();
    (End::Ended(result), took)
}

/// Runs a command to its end.
pub fn whole(line: &Line, loaded: &Loaded, hosts: &Hosts) -> End {
    run(line, loaded, std::slice::from_ref(hosts), &Notify::new())
}

async fn command(line: &Line, loaded: &Loaded, hosts: &[Hosts], signals: &Signals) -> CommandResult {
    let context = context();
    let links = hosts.iter().map(|hosts| Arc::clone(&hosts.0)).collect();
    let fleet = match line {
        Line::Apply(args) => Fleet::over(&run::apply::setup(args, loaded, signals), links, &context)?,
        Line::Prune(args) => Fleet::over(&run::images::prune::setup(args, loaded, signals), links, &context)?,
    };
    let result = match line {
        Line::Apply(args) => {
            run::apply::on(args, loaded.clone(), &fleet, None, jiff::Timestamp::now(), signals, &context).await
        }
        Line::Prune(args) => run::images::prune::on(args, loaded.clone(), &fleet, signals, &context).await,
    };
    fleet.close().await;
    result
}

/// What `check` says of the first host.
pub fn check(loaded: &Loaded, hosts: &Hosts) -> CheckReport {
    let Line::Apply(args) = Line::apply() else { panic!("another command") };
    let (signals, context) = (Signals::default(), context());
    let fleet = Fleet::over(&run::apply::setup(&args, loaded, &signals), vec![Arc::clone(&hosts.0)], &context);
    let fleet = fleet.unwrap_or_else(|failure| panic!("{failure:?}"));
    let place = fleet.places.first().expect("a host");
    let provider = fleet.providers.of(place).expect("a provider");
    let report = runtime().block_on(provider.check(&place.host, Duration::from_secs(15)));
    runtime().block_on(fleet.close());
    report
}

/// What a run sees of its hosts when it looks that deep.
pub fn observe(loaded: &Loaded, hosts: &Hosts, depth: Depth) -> Observed {
    let Line::Apply(args) = Line::apply() else { panic!("another command") };
    let (signals, context) = (Signals::default(), context());
    let fleet = Fleet::over(&run::apply::setup(&args, loaded, &signals), vec![Arc::clone(&hosts.0)], &context);
    let fleet = fleet.unwrap_or_else(|failure| panic!("{failure:?}"));
    runtime().block_on(async {
        let observed = fleet.observe(depth, &BTreeMap::new()).await;
        fleet.close().await;
        observed
    })
}

/// What `diff` sees and plans. It takes no lock and changes nothing.
pub fn look(loaded: &Loaded, hosts: &Hosts) -> (Observed, Plan) {
    let Line::Apply(args) = Line::apply() else { panic!("another command") };
    let observed = observe(loaded, hosts, Depth::Plan);
    let mut loaded = loaded.clone();
    loaded.settle(&observed);
    let policy = planning::policy(loaded.policy, &args.planning, args.selection.selection(), &loaded.desired, None)
        .expect("a policy");
    let plan = planning::make(&loaded.desired, &observed, &policy).unwrap_or_else(|failure| panic!("{failure:?}"));
    (observed, plan)
}
