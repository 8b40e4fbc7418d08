//! The table in `docs/reliability.md`: what was found of each kind, written between two marks.

use std::path::{Path, PathBuf};

use libtest_mimic::Failed;

use crate::kinds::KINDS;
use crate::matrix::{Row, row};

const BEGIN: &str = "<!-- recorded: written by UPDATE_DOCS=1 cargo test --test faults -->\n";
const END: &str = "<!-- end of recorded -->\n";

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reliability.md")
}

fn table() -> String {
    let mut text = String::from(
        "| Kind of plan | Remote calls | Faults tried | Objects lost | Objects leaked | Foreign objects touched | Runs to converge | Images left for `images prune` |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    let mut line = |name: &str, row: &Row| {
        let Row { calls, faults, lost, leaked, touched, runs, spare, .. } = row;
        text.push_str(&format!("| {name} | {calls} | {faults} | {lost} | {leaked} | {touched} | {runs} | {spare} |\n"));
    };
    let mut total = Row::default();
    for (at, kind) in KINDS.iter().enumerate() {
        let row = row(at);
        line(kind.name, row);
        total.calls += row.calls;
        total.faults += row.faults;
        total.lost += row.lost;
        total.leaked += row.leaked;
        total.touched += row.touched;
        total.spare += row.spare;
        total.runs = total.runs.max(row.runs);
    }
    line("**in all**", &total);
    text
}

/// Demands that the table says what was found, or writes it.
pub fn current() -> Result<(), Failed> {
    let text = std::fs::read_to_string(path()).map_err(|error| error.to_string())?;
    let parts = text.split_once(BEGIN).and_then(|(before, rest)| Some((before, rest.split_once(END)?)));
    let Some((before, (_, after))) = parts else { return Err("docs/reliability.md has lost its marks".into()) };
    let now = [before, BEGIN, &table(), END, after].concat();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        return std::fs::write(path(), now).map_err(|error| error.to_string().into());
    }
    if text == now {
        return Ok(());
    }
    Err(format!("docs/reliability.md is not current; run UPDATE_DOCS=1 cargo test --test faults\n{}", table()).into())
}
