//! Durations as people write them: `20s`, `1.5h`, `50ms`.

/// Longest duration that is read: a leap year. Sums of a few of them are far from overflow.
pub const LONGEST_NS: u64 = 366 * 86_400 * 1_000_000_000;

/// Units with their nanoseconds, shortest first.
const UNITS: [(&str, u64); 7] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

/// Nanoseconds of a text such as `20s` or `1.5h`; `0s` is 0.
///
/// # Errors
/// No number, no unit, a negative number, more than [`LONGEST_NS`], less than a nanosecond but not 0. The message says what
/// is allowed.
///
/// ```
/// use model::duration;
/// assert_eq!(duration::read("1.5ms"), Ok(1_500_000));
/// assert!(duration::read("-1s").unwrap_err().contains("negative"));
/// ```
pub fn read(text: &str) -> Result<u64, String> {
    let shown = format!("{:?}", text.chars().take(60).collect::<String>());
    let text = text.trim();
    if text.starts_with('-') {
        return Err(format!("{shown} is negative; a duration is at least 0"));
    }
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit() && c != '.');
    let unit = match text[digits.len()..].trim_start() {
        // Both signs that look like a micro sign.
        "\u{b5}s" | "\u{3bc}s" => "us",
        unit => unit,
    };
    let wrong =
        || format!("{shown} is no duration; write it as 20s, with ns, us, ms, s, min, h or d");
    let (_, unit_ns) = UNITS
        .iter()
        .find(|(name, _)| *name == unit)
        .ok_or_else(wrong)?;
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_digits(whole) || !is_digits(part) || part.len() > 9 {
        return Err(wrong());
    }
    let too_long = || format!("{shown} is longer than a year; that is the most");
    let whole: u64 = whole.parse().map_err(|_| too_long())?;
    let billionths: u64 = format!("{part:0<9}").parse().map_err(|_| wrong())?;
    let ns = u128::from(whole) * u128::from(*unit_ns)
        + u128::from(billionths) * u128::from(*unit_ns) / 1_000_000_000;
    match u64::try_from(ns) {
        Ok(0) if billionths > 0 => Err(format!("{shown} is less than a nanosecond")),
        Ok(ns) if ns <= LONGEST_NS => Ok(ns),
        _ => Err(too_long()),
    }
}

/// The shortest text that [`read`] reads as so many nanoseconds.
pub fn text(ns: u64) -> String {
    let (unit, unit_ns) = UNITS
        .iter()
        .rev()
        .find(|(_, unit_ns)| ns.is_multiple_of(*unit_ns) && ns > 0)
        .unwrap_or(&("s", 1));
    format!("{}{unit}", ns / unit_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_with_their_unit() {
        for (text, expected) in [
            ("20s", 20_000_000_000),
            ("0s", 0),
            ("1ns", 1),
            ("2.5us", 2_500),
            ("2.5 µs", 2_500),
            ("50ms", 50_000_000),
            ("1.5min", 90_000_000_000),
            ("2h", 7_200_000_000_000),
            ("366d", LONGEST_NS),
            ("0.000000001s", 1),
        ] {
            assert_eq!(read(text), Ok(expected), "{text}");
        }
        for (bad, words) in [
            ("", "no duration"),
            ("20", "with ns, us"),
            ("s", "no duration"),
            (".5s", "no duration"),
            ("1e9s", "no duration"),
            ("5 parsecs", "no duration"),
            ("-5s", "negative"),
            ("0.1ns", "less than a nanosecond"),
            ("0.0000000001s", "no duration"),
            ("367d", "longer than a year"),
            ("99999999999999999999999s", "longer than a year"),
            ("18446744073709551615d", "longer than a year"),
        ] {
            let error = read(bad).expect_err(bad);
            assert!(error.contains(words), "{bad}: {error}");
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        for ns in [
            0,
            1,
            999,
            1_500,
            90_000_000_000,
            86_400_000_000_000,
            LONGEST_NS - 1,
        ] {
            assert_eq!(read(&text(ns)), Ok(ns));
        }
        assert_eq!(
            (text(7_200_000_000_000), text(1_500_000)),
            ("2h".to_owned(), "1500us".to_owned())
        );
    }
}
