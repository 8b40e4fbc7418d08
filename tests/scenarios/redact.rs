//! What differs from run to run, made the same: the time of a plan, and ages.
//!
//! An age is counted from a time stamp of a recorded host to now, so it grows from day to day. It
//! becomes `N days`, whatever its unit was. An age that the config gives (`goes when it is 10
//! minutes old`) stays.

const UNITS: [&str; 4] = ["second", "minute", "hour", "day"];

/// `text` without what differs.
pub fn redact(text: &str) -> String {
    let text = made_at(text);
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let end = from.find(|c: char| !c.is_ascii_digit()).unwrap_or(from.len());
        let (number, after) = from.split_at(end);
        rest = match unit(after) {
            Some(after) if !out.ends_with("goes when it is ") => {
                out.push_str("N days");
                after
            }
            _ => {
                out.push_str(number);
                after
            }
        };
    }
    out.push_str(rest);
    out
}

/// What follows ` days` or another unit.
fn unit(text: &str) -> Option<&str> {
    let text = text.strip_prefix(' ')?;
    let after = UNITS.iter().find_map(|unit| text.strip_prefix(unit))?;
    Some(after.strip_prefix('s').unwrap_or(after)).filter(|after| !after.starts_with(char::is_alphanumeric))
}

/// The plan's time, in JSON.
fn made_at(text: &str) -> String {
    const FIELD: &str = "\"madeAt\": \"";
    match text.split_once(FIELD).and_then(|(before, after)| Some((before, after.split_once('"')?.1))) {
        Some((before, after)) => format!("{before}{FIELD}NOW\"{after}"),
        None => text.to_owned(),
    }
}
