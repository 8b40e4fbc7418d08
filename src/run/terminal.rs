//! What stdout and stderr are, and how a command talks to people.
//!
//! stdout carries data alone. Everything else that is said goes to stderr, in the format that
//! `--log-format` asks for.

use std::io::{ErrorKind, IsTerminal as _, Write as _};
use std::sync::Arc;

use clap::builder::styling::{AnsiColor, Style};

use super::exit::ExitCode;
use super::failure::{Failure, Kind};
use super::line::{self, Head};
use crate::cli::{ColorChoice, LogFormat};

/// How a command prints.
#[derive(Debug, Clone)]
pub struct Terminal {
    /// How messages on stderr are written.
    pub format: LogFormat,
    /// Whether stdout takes colour.
    pub color_out: bool,
    /// Whether stderr takes colour.
    pub color_err: bool,
    /// Whether somebody can be asked: stdin and stderr are terminals and messages are text.
    pub interactive: bool,
    /// Whether progress may be drawn: somebody can be asked, and this is no CI job.
    pub progress: bool,
    /// Nothing is printed at all.
    silent: bool,
    /// Id of the run, in every JSON line.
    pub run: Arc<str>,
}

/// What of the surroundings decides how a command prints.
#[derive(Debug, Clone, Copy, Default)]
struct Surroundings {
    stdin_terminal: bool,
    stdout_terminal: bool,
    stderr_terminal: bool,
    no_color: bool,
    dumb: bool,
    ci: bool,
}

impl Terminal {
    /// Looks at the streams and the environment: `NO_COLOR`, `TERM` and `CI`.
    #[must_use]
    pub fn detect(color: ColorChoice, format: LogFormat, run: &Arc<str>) -> Self {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let around = Surroundings {
            stdin_terminal: std::io::stdin().is_terminal(),
            stdout_terminal: std::io::stdout().is_terminal(),
            stderr_terminal: std::io::stderr().is_terminal(),
            no_color: set("NO_COLOR"),
            dumb: std::env::var_os("TERM").is_some_and(|term| term == "dumb"),
            ci: set("CI"),
        };
        Self::of(color, format, run, around)
    }

    /// Prints nothing and asks nobody: for commands that are run inside of another program.
    #[must_use]
    pub fn silent(run: &Arc<str>) -> Self {
        Self { silent: true, ..Self::of(ColorChoice::Never, LogFormat::Json, run, Surroundings::default()) }
    }

    fn of(color: ColorChoice, format: LogFormat, run: &Arc<str>, around: Surroundings) -> Self {
        let colored = |terminal: bool| match color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => terminal && !around.no_color && !around.dumb,
        };
        let text = format == LogFormat::Text;
        let interactive = text && around.stdin_terminal && around.stderr_terminal;
        Self {
            format,
            color_out: colored(around.stdout_terminal),
            color_err: text && colored(around.stderr_terminal),
            interactive,
            progress: interactive && !around.ci && !around.dumb,
            silent: false,
            run: Arc::clone(run),
        }
    }

    /// Says something to people: a line of text, or a JSON line of level `info`.
    pub fn say(&self, text: &str) {
        if self.silent {
            return;
        }
        match self.format {
            LogFormat::Text => line::to_stderr(&format!("{}\n", line::printable(text))),
            LogFormat::Json => {
                line::to_stderr(&line::json(Head { level: "info", message: text, run: &self.run }, &[]));
            }
        }
    }

    /// Writes data to stdout. A reader that went away (`| head`) is no failure.
    ///
    /// # Errors
    /// When stdout cannot be written for another reason.
    pub fn data(&self, bytes: &[u8]) -> Result<(), Failure> {
        if self.silent {
            return Ok(());
        }
        let mut stdout = std::io::stdout().lock();
        match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                Err(Failure::new(Kind::World, ExitCode::Failed, "stdout cannot be written").cause(error.to_string()))
            }
            _ => Ok(()),
        }
    }
}

/// The style of the word that opens a line of this level.
#[must_use]
pub fn level_style(level: tracing::Level) -> Style {
    let color = match level {
        tracing::Level::ERROR => AnsiColor::Red,
        tracing::Level::WARN => AnsiColor::Yellow,
        tracing::Level::INFO => AnsiColor::Green,
        tracing::Level::DEBUG | tracing::Level::TRACE => AnsiColor::BrightBlack,
    };
    color.on_default().bold()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCREEN: Surroundings = Surroundings {
        stdin_terminal: true,
        stdout_terminal: true,
        stderr_terminal: true,
        no_color: false,
        dumb: false,
        ci: false,
    };

    fn terminal(color: ColorChoice, format: LogFormat, around: Surroundings) -> Terminal {
        Terminal::of(color, format, &Arc::from("r1"), around)
    }

    #[test]
    fn r39_colour_needs_a_terminal_or_an_explicit_wish() {
        use ColorChoice::{Always, Auto, Never};
        let piped = Surroundings { stdout_terminal: false, ..SCREEN };
        for (color, around, out) in [
            (Auto, SCREEN, true),
            (Auto, piped, false),
            (Auto, Surroundings { no_color: true, ..SCREEN }, false),
            (Auto, Surroundings { dumb: true, ..SCREEN }, false),
            (Never, SCREEN, false),
            (Always, piped, true),
            (Always, Surroundings { no_color: true, ..SCREEN }, true),
        ] {
            assert_eq!(terminal(color, LogFormat::Text, around).color_out, out, "{color:?} {around:?}");
        }
    }

    #[test]
    fn l41_json_messages_have_no_colour_and_nobody_to_ask() {
        let json = terminal(ColorChoice::Always, LogFormat::Json, SCREEN);
        assert!(!json.color_err && !json.interactive && !json.progress);
    }

    #[test]
    fn progress_is_for_people_at_a_screen() {
        assert!(terminal(ColorChoice::Never, LogFormat::Text, SCREEN).progress);
        for around in [
            Surroundings { ci: true, ..SCREEN },
            Surroundings { stderr_terminal: false, ..SCREEN },
            Surroundings { stdin_terminal: false, ..SCREEN },
            Surroundings { dumb: true, ..SCREEN },
        ] {
            assert!(!terminal(ColorChoice::Never, LogFormat::Text, around).progress, "{around:?}");
        }
    }
}
