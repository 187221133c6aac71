//! Numbers as people write them.

/// A size in the largest unit that leaves no more than two decimals, one from 100 on: `1.25 MiB`, `503.7 GiB`.
pub(super) fn bytes(size: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if size < 1024 {
        return format!("{size} B");
    }
    let mut unit = 0;
    while unit + 1 < UNITS.len() && size >> (10 * (unit + 2)) > 0 {
        unit += 1;
    }
    let shift = 10 * (unit + 1);
    let (scale, digits) = if size >> shift >= 100 {
        (10, 1)
    } else {
        (100, 2)
    };
    let scaled = (u128::from(size) * scale + (1 << (shift - 1))) >> shift;
    let decimals = format!("{:0digits$}", scaled % scale);
    let number = format!("{}.{decimals}", scaled / scale);
    format!(
        "{} {}",
        number.trim_end_matches('0').trim_end_matches('.'),
        UNITS[unit]
    )
}

/// A size given in MiB.
pub(crate) fn mib(size: u64) -> String {
    bytes(size.saturating_mul(1 << 20))
}

/// A size given in KiB.
pub(super) fn kib(size: u64) -> String {
    bytes(size.saturating_mul(1 << 10))
}

/// Ascending numbers as Linux writes them: `0-3,8`. Unlike a [`model::CpuSet`] it has no upper bound.
pub(super) fn ranges(numbers: &[u32]) -> String {
    let runs = numbers.chunk_by(|a, b| a.checked_add(1) == Some(*b));
    let texts: Vec<String> = runs
        .map(|run| match run {
            [one] => one.to_string(),
            _ => format!("{}-{}", run[0], run[run.len() - 1]),
        })
        .collect();
    texts.join(",")
}

/// A count with its noun: `1 LLC`, `16 LLCs`.
pub(crate) fn plural(count: usize, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    }
}

/// The smallest and the largest of some figures, as `25`, `101-140` or nothing.
pub(super) fn span(figures: impl Iterator<Item = f64>) -> Option<String> {
    let known = figures.filter(|figure| figure.is_finite());
    let (least, most) = known.fold(
        (f64::INFINITY, f64::NEG_INFINITY),
        |(least, most), figure| (least.min(figure), most.max(figure)),
    );
    if least > most {
        return None;
    }
    let (least, most) = (round(least), round(most));
    Some(if least == most {
        least
    } else {
        format!("{least}-{most}")
    })
}

/// Three digits are what a latency is worth: `7.4`, `135`.
pub(super) fn round(figure: f64) -> String {
    if figure.abs() < 9.95 {
        let text = format!("{figure:.1}");
        text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
    } else {
        format!("{figure:.0}")
    }
}

/// A text from outside, safe for a terminal and for XML: control characters and line breaks become blanks, and it ends
/// after `most` characters.
pub(crate) fn clean(text: &str, most: usize) -> String {
    // U+FFFE and U+FFFF are no XML characters; the directional marks could reorder what stands beside them.
    let bad = |c: char| {
        c.is_control()
            || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fffe}' | '\u{ffff}')
    };
    let text: String = text.chars().map(|c| if bad(c) { ' ' } else { c }).collect();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.chars().count() <= most {
        return text;
    }
    text.chars()
        .take(most.saturating_sub(1))
        .chain(['…'])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_take_the_largest_unit_with_one_decimal() {
        for (size, text) in [
            (0, "0 B"),
            (512 << 10, "512 KiB"),
            (16 << 20, "16 MiB"),
            (1280 << 10, "1.25 MiB"),
            (39_424 << 10, "38.5 MiB"),
            (5118 << 10, "5 MiB"),
            (515_834 << 20, "503.7 GiB"),
            (1 << 40, "1 TiB"),
            (1008 << 30, "1008 GiB"),
            (3 << 39, "1.5 TiB"),
            (u64::MAX, "16 EiB"),
        ] {
            assert_eq!(bytes(size), text);
        }
    }

    #[test]
    fn figures_are_joined_and_rounded() {
        assert_eq!(ranges(&[0, 1, 2, 8, u32::MAX]), "0-2,8,4294967295");
        assert_eq!(span([25.0].into_iter()).as_deref(), Some("25"));
        assert_eq!(
            span([139.6, 7.43, f64::NAN].into_iter()).as_deref(),
            Some("7.4-140")
        );
        assert_eq!(span(std::iter::empty()), None);
        assert_eq!(
            (plural(1, "LLC"), plural(2, "LLC")),
            ("1 LLC".into(), "2 LLCs".into())
        );
    }

    #[test]
    fn texts_from_outside_lose_what_could_move_the_cursor() {
        assert_eq!(clean("a\u{1b}[2J\nb\u{202e}c\u{0}", 80), "a [2J b c");
        assert_eq!(clean("abcdef", 4), "abc…");
    }
}
