//! The parts that the child plays.

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use egress_plan::cli::{ColorChoice, LogFormat};
use egress_plan::run::{Signals, Telemetry, Terminal, report_panics};

/// The variable that names the part.
pub const PART: &str = "EGRESS_PLAN_TEST_PART";

/// Plays a part; ends with 0 unless the part itself ends the process.
pub fn play(part: &str) -> ExitCode {
    match part {
        "signals" => signals(Duration::from_hours(1)),
        "no grace" => signals(Duration::ZERO),
        "lines" => lines(0),
        "lines -vv" => lines(2),
        "span" => span(),
        other => panic!("no such part: {other}"),
    }
    ExitCode::SUCCESS
}

fn tell(word: &str) {
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{word}").and_then(|()| stdout.flush()).expect("the parent reads");
}

fn signals(grace: Duration) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("starts");
    runtime.block_on(async {
        let signals = Signals::install(grace).expect("installs");
        tell("ready");
        signals.first.cancelled().await;
        tell("first");
        signals.second.cancelled().await;
        tell("second");
        std::future::pending::<()>().await;
    });
}

fn terminal() -> Terminal {
    Terminal::detect(ColorChoice::Auto, LogFormat::Json, &Arc::from("c0ffee"))
}

fn lines(verbosity: u8) {
    let terminal = terminal();
    report_panics(&terminal);
    let telemetry = Telemetry::start(&terminal, verbosity);
    log::warn!(target: "russh::client", "a library's warning");
    log::info!(target: "russh::client", "a library's news");
    log::debug!(target: "russh::client", "a library's whole request");
    tracing::warn!(target: "somebody::else", "another library's warning");
    tracing::debug!(target: "somebody::else", "another library's whole request");
    tracing::trace!(target: "egress_plan::apply", "a step");
    std::thread::spawn(|| panic!("on purpose")).join().expect_err("panics");
    telemetry.stop();
}

fn span() {
    let telemetry = Telemetry::start(&terminal(), 0);
    telemetry.root_span("test", "c0ffee").in_scope(|| tracing::warn!(target: "egress_plan", "inside"));
    tracing::warn!(target: "egress_plan", "outside");
    telemetry.stop();
}
