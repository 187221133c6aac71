//! Command-line words as Perl's `shellwords` splits them, which is what Proxmox VE uses.

use std::ops::Range;

/// A word of a command line.
#[derive(Debug, Clone)]
pub(super) struct Word {
    /// Its bytes, quotes and backslashes included.
    pub(super) span: Range<usize>,
    /// Its meaning.
    pub(super) text: String,
}

/// What becomes of an option and its value.
pub(super) enum Fate {
    /// Both stay, byte for byte.
    Keep,
    /// The value becomes this one.
    Change(String),
    /// Both go, with the blanks after them.
    Remove,
}

/// The words of a command line: blanks separate, quotes and backslashes protect. `None` when a quote stays open.
pub(super) fn words(args: &str) -> Option<Vec<Word>> {
    let mut words = Vec::new();
    let mut word: Option<Word> = None;
    let mut quote: Option<char> = None;
    let mut chars = args.char_indices();
    while let Some((at, char)) = chars.next() {
        if quote.is_none() && char.is_whitespace() {
            words.extend(word.take());
            continue;
        }
        let word = word.get_or_insert_with(|| Word {
            span: at..at,
            text: String::new(),
        });
        match (quote, char) {
            (Some(open), _) if char == open => quote = None,
            (None, '"' | '\'') => quote = Some(char),
            (None | Some('"'), '\\') => word.text.extend(chars.next().map(|(_, next)| next)),
            _ => word.text.push(char),
        }
        word.span.end = chars.offset();
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

/// A word that is read as `text`.
pub(super) fn quoted(text: &str) -> String {
    let special = |char: char| char.is_whitespace() || "\"'\\".contains(char);
    if text.is_empty() || text.contains(special) {
        format!("'{}'", text.replace('\'', "'\\''"))
    } else {
        text.to_owned()
    }
}

/// The options of a command line with their values: each word that starts with a dash, and the word after it.
pub(super) fn options(words: &[Word]) -> impl Iterator<Item = (&Word, &Word)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while at + 1 < words.len() {
            let (option, value) = (&words[at], &words[at + 1]);
            if option.text.starts_with('-') && !value.text.starts_with('-') {
                at += 2;
                return Some((option, value));
            }
            at += 1;
        }
        None
    })
}

/// The command line with the fate of each option carried out; `None` when a quote stays open.
pub(super) fn rewrite(args: &str, fate: impl Fn(&str, &str) -> Fate) -> Option<String> {
    let words = words(args)?;
    let (mut out, mut at) = (String::new(), 0);
    for (option, value) in options(&words) {
        match fate(&option.text, &value.text) {
            Fate::Keep => {}
            Fate::Change(new) => {
                out.push_str(&args[at..value.span.start]);
                out.push_str(&quoted(&new));
                at = value.span.end;
            }
            Fate::Remove => {
                out.push_str(&args[at..option.span.start]);
                let rest = &args[value.span.end..];
                at = args.len() - rest.trim_start().len();
            }
        }
    }
    out.push_str(&args[at..]);
    let kept = if at == args.len() {
        out.trim_end().len()
    } else {
        out.len()
    };
    out.truncate(kept);
    Some(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn texts(args: &str) -> Option<Vec<String>> {
        Some(words(args)?.into_iter().map(|word| word.text).collect())
    }

    #[test]
    fn words_are_split_as_perl_splits_them() {
        for (args, expected) in [
            ("-a  -b c", Some(vec!["-a", "-b", "c"])),
            (
                "-smbios 'type=0,vendor=A B'",
                Some(vec!["-smbios", "type=0,vendor=A B"]),
            ),
            ("a\"b c\"'d e'f", Some(vec!["ab cd ef"])),
            (r#"a\ b "c\"d" 'e\f'"#, Some(vec!["a b", "c\"d", "e\\f"])),
            ("'' x", Some(vec!["", "x"])),
            ("  ", Some(vec![])),
            ("-a 'open", None),
        ] {
            let expected = expected.map(|words| words.into_iter().map(str::to_owned).collect());
            assert_eq!(texts(args), expected, "{args}");
        }
    }

    proptest! {
        #[test]
        fn a_quoted_word_is_one_word(text in "[ -~]{0,20}") {
            prop_assert_eq!(texts(&quoted(&text)), Some(vec![text]));
        }

        #[test]
        fn keeping_everything_keeps_every_byte(args in "[-a-z'\"\\\\ =,]{0,40}") {
            if let Some(same) = rewrite(args.trim(), |_, _| Fate::Keep) {
                prop_assert_eq!(same, args.trim());
            }
        }
    }
}
