//! Asking a person whether the plan is to be carried out.

use std::io::Write as _;

use super::{Context, Failure, Signals};

/// Asks whether the plan is to be carried out.
///
/// # Errors
/// Without a terminal nobody can be asked.
pub async fn confirm(context: &Context, signals: &Signals) -> Result<bool, Failure> {
    if !context.terminal.interactive {
        return Err(Failure::world("nobody can be asked for approval, since this is not a terminal; nothing was done")
            .hint("pass --auto-approve when the plan was looked at before"));
    }
    print_question()?;
    // A thread that waits for a person may outlive the question; leaving the runtime does not wait.
    let read = tokio::task::spawn_blocking(|| {
        let mut answer = String::new();
        std::io::stdin().read_line(&mut answer).map(|_| answer)
    });
    tokio::select! {
        answer = read => match answer {
            Ok(Ok(answer)) => Ok(answer.trim() == "yes"),
            Ok(Err(error)) => Err(Failure::world("the answer cannot be read").cause(error.to_string())),
            Err(error) => Err(Failure::bug("reading the answer ended").cause(error.to_string())),
        },
        () = signals.first.cancelled() => Ok(false),
    }
}

/// Why nothing is done without an approval: a signal came, or the answer was no.
#[must_use]
pub fn not_approved(signals: &Signals) -> Failure {
    if signals.interrupted() { Failure::interrupted() } else { Failure::world("not approved; nothing was done") }
}

fn print_question() -> Result<(), Failure> {
    let mut stderr = std::io::stderr();
    stderr
        .write_all(b"\nDo this? Only \"yes\" is taken: ")
        .and_then(|()| stderr.flush())
        .map_err(|error| Failure::world("stderr cannot be written").cause(error.to_string()))
}
