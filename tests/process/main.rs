//! What belongs to a whole process: signals, the global logger, the panic hook. This binary starts
//! itself again, as a child that plays the part named by an environment variable.

#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod child;

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};

use libtest_mimic::{Arguments, Failed, Trial};

fn main() -> ExitCode {
    if let Ok(part) = std::env::var(child::PART) {
        return child::play(&part);
    }
    let trials = vec![
        Trial::test("the_third_signal_ends_the_process_at_once", three_signals),
        Trial::test("the_end_of_the_grace_is_the_second_stage", grace),
        Trial::test("l41_lines_of_libraries_and_panics_are_json_too", library_lines),
        Trial::test("l41_default_prints_warnings_alone", quiet_by_default),
        Trial::test("lines_in_a_span_bear_the_remote_trace", trace_ids),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// A child that plays `part`, with its stdout to be read line by line.
fn start(part: &str) -> (Child, BufReader<ChildStdout>) {
    let mut child = command(part).stdout(Stdio::piped()).spawn().expect("starts");
    let stdout = BufReader::new(child.stdout.take().expect("piped"));
    (child, stdout)
}

fn command(part: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("has a path"));
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env(child::PART, part);
    command.stdin(Stdio::null()).stderr(Stdio::null());
    command
}

fn send(child: &Child, signal: &str) {
    let kill = Command::new("kill").arg(signal).arg(child.id().to_string()).status().expect("kill starts");
    assert!(kill.success());
}

fn expect_line(stdout: &mut BufReader<ChildStdout>, expected: &str) -> Result<(), Failed> {
    let mut line = String::new();
    stdout.read_line(&mut line)?;
    if line.trim_end() == expected { Ok(()) } else { Err(format!("expected {expected:?}, got {line:?}").into()) }
}

fn three_signals() -> Result<(), Failed> {
    let (mut child, mut stdout) = start("signals");
    expect_line(&mut stdout, "ready")?;
    send(&child, "-INT");
    expect_line(&mut stdout, "first")?;
    send(&child, "-TERM");
    expect_line(&mut stdout, "second")?;
    send(&child, "-INT");
    assert_eq!(child.wait()?.code(), Some(130));
    Ok(())
}

fn grace() -> Result<(), Failed> {
    let (mut child, mut stdout) = start("no grace");
    expect_line(&mut stdout, "ready")?;
    send(&child, "-TERM");
    expect_line(&mut stdout, "first")?;
    expect_line(&mut stdout, "second")?;
    send(&child, "-TERM");
    assert_eq!(child.wait()?.code(), Some(130));
    Ok(())
}

/// The lines of a child's stderr, each of which must be a JSON object.
fn json_lines(command: &mut Command) -> Result<Vec<serde_json::Value>, Failed> {
    let output = command.stderr(Stdio::piped()).output()?;
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stderr)?.lines().map(|line| serde_json::from_str(line).map_err(Failed::from)).collect()
}

fn library_lines() -> Result<(), Failed> {
    let lines = json_lines(&mut command("lines -vv"))?;
    let found: Vec<(&str, &str, &str)> = lines
        .iter()
        .map(|line| {
            let text = |name: &str| line[name].as_str().unwrap_or_default();
            (text("level"), text("target"), text("message"))
        })
        .collect();
    assert_eq!(
        found,
        [
            ("warn", "russh::client", "a library's warning"),
            ("info", "russh::client", "a library's news"),
            ("warn", "somebody::else", "another library's warning"),
            ("trace", "egress_plan::apply", "a step"),
            ("error", "", "a part of the program panicked"),
        ]
    );
    for line in &lines {
        assert_eq!(line["run"], "c0ffee");
        assert!(line["ts"].is_string());
        assert!(line["trace_id"].is_null());
    }
    assert_eq!(lines[4]["kind"], "bug");
    let cause = lines[4]["causes"][0].as_str().unwrap_or_default();
    assert!(cause.starts_with("on purpose (tests/process/child.rs:"), "{cause}");
    Ok(())
}

fn quiet_by_default() -> Result<(), Failed> {
    let messages: Vec<String> = json_lines(&mut command("lines"))?
        .iter()
        .map(|line| line["message"].as_str().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(messages, ["a library's warning", "another library's warning", "a part of the program panicked"]);
    Ok(())
}

fn trace_ids() -> Result<(), Failed> {
    let mut child = command("span");
    child.env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1");
    child.env("TRACEPARENT", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    let lines = json_lines(&mut child)?;
    assert_eq!(lines[0]["message"], "inside");
    assert_eq!(lines[0]["trace_id"], "0af7651916cd43dd8448eb211c80319c");
    let span = lines[0]["span_id"].as_str().unwrap_or_default();
    assert!(span.len() == 16 && span != "b7ad6b7169203331", "{span}");
    assert_eq!(lines[1]["message"], "outside");
    assert!(lines[1]["trace_id"].is_null());
    Ok(())
}
