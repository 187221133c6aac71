//! The grammar of the main part: `key: value` lines, `#` lines (the VM's description), and whatever follows a `[section]`.

use crate::formats::lines::{Line, Setting, Settings, Style, lines};

/// How Proxmox VE writes settings.
pub(super) const STYLE: Style = Style {
    value: |value, _| value.to_owned(),
    line: |key, value| format!("{key}: {value}"),
    key: str::to_owned,
};

/// Reads the settings of the main part; a line that Proxmox VE could not read is noted and skipped.
pub(super) fn parse(text: &str) -> Settings {
    let main: Vec<Line> = lines(text)
        .take_while(|line| !is_section(line.body))
        .collect();
    let last = main.iter().rfind(|line| !line.body.trim().is_empty());
    let mut file = Settings::ending_at(last.map_or(0, |line| line.span.end));
    for line in main {
        if line.body.trim().is_empty() || line.body.starts_with('#') {
            continue;
        }
        let Some((key, value)) = split(line.body) else {
            file.unreadable.push(line.span);
            continue;
        };
        let start = line.start + (value.as_ptr() as usize - line.body.as_ptr() as usize);
        file.push(Setting {
            key: key.to_owned(),
            value: value.to_owned(),
            span: start..start + value.len(),
            quoted: false,
            line: line.span,
        });
    }
    file
}

/// A part of a property string: `cpus` of `cpus=0-3,memory=1024`, or the first part when it has no name and `default`
/// says that this key may stand without its name.
pub(super) fn property<'a>(text: &'a str, key: &str, default: bool) -> Option<&'a str> {
    let mut parts = text.split(',').map(str::trim);
    let named = parts
        .clone()
        .find_map(|part| part.strip_prefix(key)?.strip_prefix('='));
    named.or_else(|| parts.find(|part| default && !part.is_empty() && !part.contains('=')))
}

fn is_section(line: &str) -> bool {
    let inner = line
        .trim_end()
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    inner.is_some_and(|name| !name.contains(']'))
}

/// Key and value of a line: letters, `_` and `-`, digits at the end, a colon and a value that is not blank.
fn split(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once(':')?;
    let word = key.trim_end_matches(|char: char| char.is_ascii_digit());
    let letters = |byte: u8| byte.is_ascii_lowercase() || b"_-".contains(&byte);
    let is_key =
        word.starts_with(|char: char| char.is_ascii_lowercase()) && word.bytes().all(letters);
    let value = value.trim();
    (is_key && !value.is_empty()).then_some((key, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_main_part_ends_at_the_first_section() {
        let text =
            "#cores: 9\n\ncores: 4\nnet0: virtio=AA:BB,bridge=vmbr0\n\n[PENDING]\ncores: 8\n";
        let file = parse(text);
        let keys: Vec<&str> = file
            .list
            .iter()
            .map(|setting| setting.key.as_str())
            .collect();
        assert_eq!(keys, ["cores", "net0"]);
        assert_eq!(&text[file.end..], "\n[PENDING]\ncores: 8\n");
        assert_eq!(file.text("net0"), Some("virtio=AA:BB,bridge=vmbr0"));
    }

    #[test]
    fn lines_are_read_as_proxmox_reads_them() {
        for (line, read) in [
            ("cores: 4", Some(("cores", "4"))),
            ("cores:4  ", Some(("cores", "4"))),
            ("numa0: cpus=0-3", Some(("numa0", "cpus=0-3"))),
            ("allow-ksm: 0", Some(("allow-ksm", "0"))),
            ("Cores: 4", None),
            (" cores: 4", None),
            ("cores 4", None),
            ("cores:", None),
            ("1cores: 4", None),
            ("co1res: 4", None),
        ] {
            let file = parse(line);
            let found = file
                .list
                .first()
                .map(|s| (s.key.as_str(), s.value.as_str()));
            assert_eq!(found, read, "{line:?}");
            assert_eq!(
                file.unreadable.len(),
                usize::from(read.is_none()),
                "{line:?}"
            );
        }
    }

    #[test]
    fn properties_are_found_by_name_and_by_default() {
        for (text, key, default, found) in [
            ("host,flags=+aes", "cputype", true, Some("host")),
            ("flags=+aes,cputype=EPYC", "cputype", true, Some("EPYC")),
            ("cpus=0-3;8,memory=1024", "memory", false, Some("1024")),
            ("cpus=0-3", "hostnodes", false, None),
            ("", "cputype", true, None),
        ] {
            assert_eq!(property(text, key, default), found, "{text}");
        }
    }
}
