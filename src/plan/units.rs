//! Sizes, ages and numbers for people.

/// A size in GiB with one decimal, rounded down.
pub(super) fn gib(bytes: u64) -> String {
    let tenths = u128::from(bytes) * 10 / (1 << 30);
    format!("{}.{} GiB", tenths / 10, tenths % 10)
}

/// A size that is not rounded: in GiB where it is a whole number of them, else in bytes.
pub(super) fn exact(bytes: u64) -> String {
    const GIB: u64 = 1 << 30;
    if bytes.is_multiple_of(GIB) { format!("{} GiB", bytes / GIB) } else { format!("{bytes} bytes") }
}

/// An age: the largest unit that fits, rounded down.
pub(super) fn age(seconds: i64) -> String {
    let (count, unit) = match seconds {
        ..60 => (seconds.max(0), "second"),
        60..3_600 => (seconds / 60, "minute"),
        3_600..86_400 => (seconds / 3_600, "hour"),
        86_400.. => (seconds / 86_400, "day"),
    };
    format!("{count} {unit}{}", if count == 1 { "" } else { "s" })
}

/// `1 machine`, `2 machines`.
pub(super) fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_ages_are_rounded_down_to_the_largest_unit_that_fits() {
        assert_eq!((count(1, "machine"), count(0, "machine")), ("1 machine".to_owned(), "0 machines".to_owned()));
        for (bytes, shown) in
            [(0, "0.0 GiB"), (1 << 30, "1.0 GiB"), ((3 << 30) - 1, "2.9 GiB"), (u64::MAX, "17179869183.9 GiB")]
        {
            assert_eq!(gib(bytes), shown);
        }
        for (bytes, shown) in [(0, "0 GiB"), (3 << 30, "3 GiB"), ((3 << 30) + 1, "3221225473 bytes")] {
            assert_eq!(exact(bytes), shown);
        }
        for (seconds, shown) in [
            (-5, "0 seconds"),
            (1, "1 second"),
            (119, "1 minute"),
            (7_200, "2 hours"),
            (86_399, "23 hours"),
            (86_400 * 3, "3 days"),
        ] {
            assert_eq!(age(seconds), shown);
        }
    }
}
