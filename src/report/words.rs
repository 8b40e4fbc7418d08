//! Small texts that every page uses alike: cleaned lines, sizes, times, counts and addresses.

use std::net::Ipv6Addr;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// `text` as one line that no terminal takes for a command: control characters, line ends and marks
/// that turn the direction of writing become spaces. Nothing is cut; remote text was cut where it
/// came in.
#[must_use]
pub fn line(text: &str) -> String {
    let unsafe_char = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
    };
    let spaced: String = text.chars().map(|c| if unsafe_char(c) { ' ' } else { c }).collect();
    spaced.trim().to_owned()
}

/// A size in the largest binary unit that leaves a number of at least 1: `1.4 GiB`, `512 B`.
#[must_use]
pub fn bytes(count: u64) -> String {
    const UNITS: [(&str, u64); 4] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    for (unit, size) in UNITS {
        if count >= size {
            let tenths = u128::from(count) * 10 / u128::from(size);
            return if tenths >= 1000 || tenths % 10 == 0 {
                format!("{} {unit}", tenths / 10)
            } else {
                format!("{}.{} {unit}", tenths / 10, tenths % 10)
            };
        }
    }
    format!("{count} B")
}

/// `done` out of `total` as a whole percentage, at most 100; nothing when the total is not known.
#[must_use]
pub fn percent(done: u64, total: Option<u64>) -> Option<u64> {
    let total = total.filter(|total| *total > 0)?;
    u64::try_from(u128::from(done) * 100 / u128::from(total)).ok().map(|percent| percent.min(100))
}

/// A time that passed, as progress lines show it: `20s`, `1m10s`, `2h05m`.
#[must_use]
pub fn elapsed(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, seconds) => format!("{minutes}m{seconds:02}s"),
        (hours, minutes, _) => format!("{hours}h{minutes:02}m"),
    }
}

/// Seconds as [`elapsed`] writes them, with a tenth below ten: `3.2s`, `41s`.
#[must_use]
pub fn seconds(count: f64) -> String {
    let time = Duration::try_from_secs_f64(count.max(0.0)).unwrap_or_default();
    if time.as_secs() < 10 { format!("{}.{}s", time.as_secs(), time.subsec_millis() / 100) } else { elapsed(time) }
}

/// An age as `kubectl` writes it: its two largest units while it is young, one when it is old. A
/// time to come has the age 0.
#[must_use]
pub fn age(since: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(since).max(SignedDuration::ZERO).as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match () {
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 120 => format!("{minutes}m"),
        () if hours < 48 => format!("{hours}h"),
        () => format!("{days}d"),
    }
}

/// `1 host`, `2 hosts`.
#[must_use]
pub fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// `host:port` as URLs and lists write it, an IPv6 address in brackets. Nothing when `host` is
/// neither an address nor a plain host name, so that no text of a manifest can break out of a list.
#[must_use]
pub fn authority(host: &str, port: u16) -> Option<String> {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    if let Ok(address) = bare.parse::<Ipv6Addr>() {
        return Some(format!("[{address}]:{port}"));
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    (!host.is_empty() && host.chars().all(plain)).then(|| format!("{host}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_holds_nothing_that_a_terminal_obeys() {
        assert_eq!(line("a\u{1b}[2Jb\r\nc\u{9b}d\u{202e}e\u{7}\n"), "a [2Jb  c d e");
    }

    #[test]
    fn sizes_have_one_decimal_at_most() {
        for (given, wanted) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            (242 << 30, "242 GiB"),
            ((1 << 30) * 14 / 10, "1.3 GiB"),
            (u64::MAX, "16777215 TiB"),
        ] {
            assert_eq!(bytes(given), wanted);
        }
    }

    #[test]
    fn a_percentage_needs_a_total_and_stays_within_it() {
        assert_eq!(percent(1, Some(3)), Some(33));
        assert_eq!(percent(9, Some(3)), Some(100));
        assert_eq!(percent(1, Some(0)), None);
        assert_eq!(percent(1, None), None);
    }

    #[test]
    fn times_are_short() {
        for (given, wanted) in [(0, "0s"), (59, "59s"), (70, "1m10s"), (7500, "2h05m")] {
            assert_eq!(elapsed(Duration::from_secs(given)), wanted);
        }
        assert_eq!(seconds(3.25), "3.2s");
        assert_eq!(seconds(41.9), "41s");
        assert_eq!(seconds(f64::NAN), "0.0s");
        let then: Timestamp = "2026-01-01T00:00:00Z".parse().expect("time");
        for (later, wanted) in [(-5, "0s"), (119, "119s"), (120, "2m"), (7200, "2h"), (172_800, "2d")] {
            assert_eq!(age(then, then + SignedDuration::from_secs(later)), wanted);
        }
    }

    #[test]
    fn an_authority_brackets_ipv6_and_refuses_what_is_no_host() {
        assert_eq!(authority("192.0.2.1", 3128).as_deref(), Some("192.0.2.1:3128"));
        assert_eq!(authority("2001:db8:0::1", 80).as_deref(), Some("[2001:db8::1]:80"));
        assert_eq!(authority("[2001:db8::1]", 80).as_deref(), Some("[2001:db8::1]:80"));
        assert_eq!(authority("proxy-1.example", 80).as_deref(), Some("proxy-1.example:80"));
        for bad in ["", "a b", "a\nb", "u:p@h", "h/x", "h?q", "a:b"] {
            assert_eq!(authority(bad, 80), None, "{bad:?}");
        }
    }
}
