//! A command line cut into words, each with its place in the text.

use std::ops::Range;

use super::super::ParseError;

/// A word of a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    /// The word as QEMU gets it, without quotes and escapes.
    pub(super) value: String,
    /// Where it stands, quotes included.
    pub(super) span: Range<usize>,
}

/// How the words of a text are separated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// As a shell reads it: blanks and newlines separate, quotes and backslashes protect.
    Shell,
    /// One word per line, nothing is special (`tr '\0' '\n' </proc/PID/cmdline`).
    Lines,
}

/// The words of a text.
///
/// # Errors
/// A quote is not closed.
pub(super) fn split(text: &str) -> Result<(Style, Vec<Word>), ParseError> {
    match style(text) {
        Style::Lines => Ok((Style::Lines, lines(text))),
        Style::Shell => Ok((Style::Shell, shell_words(text)?)),
    }
}

/// A word as it must be written in a style, quoted where a shell would change it.
pub(super) fn quoted(word: &str, style: Style) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_=+,./:@%".contains(&byte);
    if style == Style::Lines || (!word.is_empty() && word.bytes().all(plain)) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// One word per line when there are several lines, none is continued, and no line that is an option has a blank.
fn style(text: &str) -> Style {
    let mut lines = text
        .lines()
        .map(str::trim_end)
        .filter(|line| !line.is_empty())
        .peekable();
    let first_is_word = lines
        .peek()
        .is_some_and(|first| !first.contains(char::is_whitespace));
    let mut count = 0;
    let words = lines.all(|line| {
        count += 1;
        let option = line.starts_with('-');
        !(line.ends_with('\\') || option && line.contains(char::is_whitespace))
    });
    if first_is_word && words && count > 1 {
        Style::Lines
    } else {
        Style::Shell
    }
}

fn lines(text: &str) -> Vec<Word> {
    let mut words = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let value = line.trim_end_matches(['\n', '\r']);
        if !value.trim().is_empty() {
            let span = start..start + value.len();
            words.push(Word {
                value: value.to_owned(),
                span,
            });
        }
        start += line.len();
    }
    words
}

fn shell_words(text: &str) -> Result<Vec<Word>, ParseError> {
    let mut words = Vec::new();
    let mut at = 0;
    while let Some(start) = next_word(text, at) {
        let word = match json_word(text, start) {
            Some(word) => word,
            None => shell_word(text, start)?,
        };
        at = word.span.end;
        words.push(word);
    }
    Ok(words)
}

/// Start of the next word from `at`, past blanks, continued lines and comments.
fn next_word(text: &str, mut at: usize) -> Option<usize> {
    loop {
        let rest = &text[at..];
        let first = rest.chars().next()?;
        if first == '\\' && (rest.starts_with("\\\n") || rest.starts_with("\\\r\n")) {
            at += rest.find('\n').map_or(rest.len(), |end| end + 1);
        } else if first == '#' {
            at += rest.find('\n').unwrap_or(rest.len());
        } else if first.is_whitespace() {
            at += first.len_utf8();
        } else {
            return Some(at);
        }
    }
}

/// A JSON object standing bare in the text: `ps` shows libvirt's `-object {"qom-type":…}` without quotes, and a shell
/// reading of it would lose the ones inside.
fn json_word(text: &str, start: usize) -> Option<Word> {
    let rest = &text[start..];
    if !rest.starts_with("{\"") {
        return None;
    }
    let (mut depth, mut in_string, mut escaped) = (0u32, false, false);
    for (offset, byte) in rest.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' if !in_string => depth += 1,
            b'}' if !in_string => {
                depth -= 1;
                if depth == 0 {
                    let span = start..start + offset + 1;
                    return Some(Word {
                        value: text[span.clone()].to_owned(),
                        span,
                    });
                }
            }
            _ => {}
        }
    }
    None
}

fn shell_word(text: &str, start: usize) -> Result<Word, ParseError> {
    let mut value = String::new();
    let mut chars = text[start..].char_indices().peekable();
    // The quote we are in, with its place.
    let mut quote: Option<(char, usize)> = None;
    while let Some((offset, char)) = chars.next() {
        match (quote.map(|(quote, _)| quote), char) {
            (Some(open), close) if open == close => quote = None,
            (None, '\'' | '"') => quote = Some((char, start + offset)),
            (None | Some('"'), '\\') => {
                let newline = |chars: &mut std::iter::Peekable<std::str::CharIndices>| {
                    chars.next_if(|&(_, next)| next == '\n').is_some()
                };
                let continued = newline(&mut chars)
                    || (text[start + offset..].starts_with("\\\r\n") && {
                        chars.next();
                        newline(&mut chars)
                    });
                if continued {
                    continue;
                }
                let special =
                    |&(_, next): &(usize, char)| quote.is_none() || "$`\"\\".contains(next);
                value.push(chars.next_if(special).map_or('\\', |(_, next)| next));
            }
            (None, char) if char.is_whitespace() => {
                return Ok(Word {
                    value,
                    span: start..start + offset,
                });
            }
            (_, char) => value.push(char),
        }
    }
    match quote {
        Some((quote, at)) => {
            let message = format!("the quote {quote} is not closed; close it or take it out");
            Err(ParseError::new(message, at..at + 1))
        }
        None => Ok(Word {
            value,
            span: start..text.len(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<String> {
        split(text)
            .unwrap()
            .1
            .into_iter()
            .map(|word| word.value)
            .collect()
    }

    #[test]
    fn reads_words_as_a_shell_does() {
        for (text, words) in [
            ("qemu -m 4G", vec!["qemu", "-m", "4G"]),
            (
                "qemu \\\n  -m  4G \\\r\n -S\n",
                vec!["qemu", "-m", "4G", "-S"],
            ),
            (
                "qemu -name 'my vm' -x \"a\\\"b c\"",
                vec!["qemu", "-name", "my vm", "-x", "a\"b c"],
            ),
            ("a'b'\"c\"\\ d", vec!["abc d"]),
            ("qemu '' x", vec!["qemu", "", "x"]),
            ("# note\nqemu -m 1 # end", vec!["qemu", "-m", "1"]),
            ("a\\\nb c", vec!["ab", "c"]),
            (
                "qemu -object {\"a\":\"b c}\",\"d\":{}} -S",
                vec!["qemu", "-object", "{\"a\":\"b c}\",\"d\":{}}", "-S"],
            ),
            ("", vec![]),
            ("\u{a0}q\u{fc}mu\u{2003}x", vec!["q\u{fc}mu", "x"]),
        ] {
            assert_eq!(values(text), words, "{text:?}");
        }
        assert_eq!(split("qemu -name 'x").unwrap_err().span, 11..12);
    }

    #[test]
    fn one_word_per_line_is_taken_as_it_is() {
        let text = "qemu-system-x86_64\n-name\nguest=it's me\n-m\n4G\n";
        assert_eq!(
            values(text),
            ["qemu-system-x86_64", "-name", "guest=it's me", "-m", "4G"]
        );
        assert_eq!(split(text).unwrap().0, Style::Lines);
        assert_eq!(values("-smp 4\n-m 1G"), ["-smp", "4", "-m", "1G"]);
    }

    #[test]
    fn spans_cover_the_quotes() {
        let text = "qemu -name 'a b' -m 1";
        let words = split(text).unwrap().1;
        assert_eq!(&text[words[2].span.clone()], "'a b'");
    }

    #[test]
    fn quoting_is_undone_by_reading() {
        for word in [
            "plain,a=b",
            "",
            "a b",
            "it's",
            "{\"a\":1}",
            "$x",
            "back\\slash",
            "new\nline",
        ] {
            assert_eq!(
                values(&format!("q {}", quoted(word, Style::Shell)))[1],
                word
            );
        }
    }
}
