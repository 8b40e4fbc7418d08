//! `validate`: manifests and config, without asking any host.

use std::collections::BTreeSet;
use std::io::Read as _;

use serde_json::{Value, json};

use super::fleet::sources;
use super::{CommandResult, Context, ExitCode, Failure, cluster, planning};
use crate::cli::{DataFormat, ValidateArgs};
use crate::load::{Loaded, Problem, Problems, load};
use crate::plan::{HostRef, Mode};
use crate::provider::document::Severity;
use crate::report::words;

/// Runs the command.
///
/// # Errors
/// Every problem of every file, in one go.
pub async fn run(args: &ValidateArgs, context: &Context) -> CommandResult {
    let objects = cluster::objects(&args.manifests.cluster, &args.config, context).await?;
    let result = load(&sources(&args.manifests, &args.config, objects), &mut std::io::stdin().lock().by_ref());
    match args.output {
        DataFormat::Human => human(result, context),
        DataFormat::Json => {
            let code = if result.is_ok() { ExitCode::Success } else { ExitCode::Failed };
            context.terminal.data(planning::json_text(&document(&result))?.as_bytes())?;
            Ok(code)
        }
    }
}

fn human(result: Result<Loaded, Problems>, context: &Context) -> CommandResult {
    let loaded = result.map_err(|problems| {
        let errors = problems.as_slice().iter().filter(|problem| problem.severity == Severity::Error).count();
        let found = if errors == 1 { "problem was found" } else { "problems were found" };
        Failure::input(format!("{errors} {found}")).causes(problems.as_slice().iter().map(ToString::to_string))
    })?;
    for warning in &loaded.warnings {
        context.terminal.say(&warning.to_string());
    }
    for note in &loaded.notes {
        context.terminal.say(note);
    }
    context.terminal.data(summary(&loaded).as_bytes())?;
    Ok(ExitCode::Success)
}

/// `3 proxies on 2 hosts are valid.`
fn summary(loaded: &Loaded) -> String {
    let proxies = loaded.desired.proxies.len();
    let verb = if proxies == 1 { "is" } else { "are" };
    let (proxies, hosts) = (words::count(proxies, "proxy", "proxies"), words::count(places(loaded), "host", "hosts"));
    format!("{proxies} on {hosts} {verb} valid.\n")
}

/// How many hosts the proxies are on. Endpoints of somebody else's are on none.
fn places(loaded: &Loaded) -> usize {
    let places: BTreeSet<&HostRef> = loaded
        .desired
        .proxies
        .values()
        .filter_map(|proxy| match &proxy.mode {
            Mode::Managed(managed) => Some(&managed.place),
            Mode::External { .. } => None,
        })
        .collect();
    places.len()
}

fn document(result: &Result<Loaded, Problems>) -> Value {
    let all = |problems: &[Problem]| problems.iter().map(problem).collect::<Vec<_>>();
    match result {
        Ok(loaded) => json!({
            "valid": true,
            "proxies": loaded.desired.proxies.len(),
            "hosts": places(loaded),
            "problems": all(&loaded.warnings),
            "notes": loaded.notes,
        }),
        Err(problems) => json!({"valid": false, "problems": all(problems.as_slice())}),
    }
}

fn problem(problem: &Problem) -> Value {
    let severity = match problem.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    json!({
        "file": problem.file,
        "line": problem.line,
        "column": problem.column,
        "severity": severity,
        "message": problem.message,
    })
}
