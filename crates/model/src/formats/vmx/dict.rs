//! The grammar of a `.vmx`, after VMware's own reader (open-vm-tools, `lib/dict/dictll.c`): blanks, a name without blanks,
//! `=` or `#`, an equals sign, a value in double quotes or without blanks and `#`, and a comment.

use std::fmt::Write;

use crate::formats::ParseError;
use crate::formats::lines::{Setting, Settings, Style, lines};

/// How a `.vmx` writes settings.
pub(super) const STYLE: Style = Style {
    value: |value, quoted| {
        let value = escape(value);
        let bare = !value.is_empty() && !value.contains([' ', '\t', '#', '"']);
        if quoted || bare {
            value
        } else {
            format!("\"{value}\"")
        }
    },
    line: |key, value| format!("{key} = \"{}\"", escape(value)),
    key: str::to_ascii_lowercase,
};

const BLANKS: [char; 2] = [' ', '\t'];

/// Reads the settings of a text; a line that VMware could not read is noted and skipped.
pub(super) fn parse(text: &str) -> Settings {
    let mut file = Settings::ending_at(text.len());
    for line in lines(text) {
        let body = line.body.trim_start_matches(BLANKS);
        if body.is_empty() || body.starts_with('#') {
            continue;
        }
        let Some((key, value, quoted)) = split(body) else {
            file.unreadable.push(line.span);
            continue;
        };
        let start = line.start + (value.as_ptr() as usize - line.body.as_ptr() as usize);
        file.push(Setting {
            key: key.to_ascii_lowercase(),
            value: unescape(value),
            span: start..start + value.len(),
            quoted,
            line: line.span,
        });
    }
    file
}

/// The truth value a key holds; `None` when absent or blank.
pub(super) fn flag(file: &Settings, key: &str) -> Result<Option<bool>, ParseError> {
    let Some(value) = file.text(key) else {
        return Ok(None);
    };
    match value.to_ascii_lowercase().as_str() {
        "true" | "t" | "yes" | "y" | "on" | "1" => Ok(Some(true)),
        "false" | "f" | "no" | "n" | "off" | "0" => Ok(Some(false)),
        _ => Err(file
            .of(key)
            .expect("the key has a value")
            .error("TRUE or FALSE")),
    }
}

/// Key, raw value and whether it is quoted.
fn split(body: &str) -> Option<(&str, &str, bool)> {
    let end = body.find([' ', '\t', '#', '='])?;
    let (key, rest) = body.split_at(end);
    let rest = rest
        .trim_start_matches(BLANKS)
        .strip_prefix('=')?
        .trim_start_matches(BLANKS);
    let (value, rest, quoted) = if let Some(rest) = rest.strip_prefix('"') {
        let (value, rest) = rest.split_once('"')?;
        (value, rest, true)
    } else {
        let (value, rest) = rest.split_at(rest.find([' ', '\t', '#']).unwrap_or(rest.len()));
        (value, rest, false)
    };
    let rest = rest.trim_start_matches(BLANKS);
    (!key.is_empty() && (rest.is_empty() || rest.starts_with('#'))).then_some((key, value, quoted))
}

/// Turns `|22` into `"`: a bar and two hexadecimal digits stand for a byte.
fn unescape(value: &str) -> String {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let digit = |at: usize| char::from(*tail.get(at)?).to_digit(16);
        if let (b'|', Some(high), Some(low)) = (byte, digit(0), digit(1)) {
            bytes.push(u8::try_from(high * 16 + low).expect("two hexadecimal digits"));
            rest = &tail[2..];
        } else {
            bytes.push(byte);
            rest = tail;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Writes as `|XX` what VMware does: the double quote, the bar, and control characters but the tab.
fn escape(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for char in value.chars() {
        if matches!(char, '"' | '|' | '\x7f') || (char < ' ' && char != '\t') {
            write!(out, "|{:02X}", u32::from(char)).expect("a String takes every write");
        } else {
            out.push(char);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_are_read_as_vmware_reads_them() {
        for (line, read) in [
            ("numvcpus = \"8\"", Some(("numvcpus", "8", "8"))),
            ("  NumVcpus=8 # eight", Some(("numvcpus", "8", "8"))),
            ("a = \"\"", Some(("a", "", ""))),
            ("a =", Some(("a", "", ""))),
            ("a = # nothing", Some(("a", "", ""))),
            ("a = \"x # y\" # z", Some(("a", "x # y", "x # y"))),
            (
                "a = \"|22x|22 |7C |zz |4\"",
                Some(("a", "\"x\" | |zz |4", "|22x|22 |7C |zz |4")),
            ),
            ("a = \"caf|C3|A9\"", Some(("a", "café", "caf|C3|A9"))),
            ("a = \"open", None),
            ("a = \"x\" y", None),
            ("a = x y", None),
            ("a b = \"c\"", None),
            ("= \"x\"", None),
            ("no equals sign", None),
            ("word", None),
        ] {
            let file = parse(line);
            let found = file.list.first();
            let found = found.map(|s| (s.key.as_str(), s.value.as_str(), &line[s.span.clone()]));
            assert_eq!(found, read, "{line}");
            assert_eq!(file.unreadable.len(), usize::from(read.is_none()), "{line}");
        }
        assert!(parse(" \t\n# a = \"b\"\n\r\n").unreadable.is_empty());
    }

    proptest! {
        #[test]
        fn escaping_is_undone_by_unescaping(value in any::<String>()) {
            let escaped = escape(&value);
            prop_assert!(!escaped.contains(['"', '\n', '\0']));
            prop_assert_eq!(unescape(&escaped), value);
        }
    }
}
