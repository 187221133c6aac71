//! QEMU's option values: `key=value,key=value` or JSON, and the numbers in them.

use serde_json::Value;

/// Keys and values of one option, in the order of the text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in super::super) struct Options {
    items: Vec<Item>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Item {
    key: String,
    value: String,
    /// As it stands in the text, commas doubled.
    raw: String,
}

impl Options {
    /// Reads an option's value. The first part without `=` gets the implied key; later ones are switches, `off` when
    /// they start with `no` or `-`. A comma inside a value is doubled. JSON comes out as QEMU's dotted keys.
    pub(in super::super) fn parse(text: &str, implied: &str) -> Self {
        let mut options = Self::default();
        if text.starts_with('{')
            && let Ok(value) = serde_json::from_str(text)
        {
            options.flatten("", &value);
            return options;
        }
        for (index, raw) in raw_parts(text)
            .enumerate()
            .filter(|(_, raw)| !raw.is_empty())
        {
            let part = raw.replace(",,", ",");
            let (key, value) = match part.split_once('=') {
                Some((key, value)) => (key, value),
                None if index == 0 => (implied, part.as_str()),
                None => match part.strip_prefix("no").or_else(|| part.strip_prefix('-')) {
                    Some(key) if !key.is_empty() => (key, "off"),
                    _ => (part.strip_prefix('+').unwrap_or(&part), "on"),
                },
            };
            let (key, value, raw) = (key.to_owned(), value.to_owned(), raw.to_owned());
            options.items.push(Item { key, value, raw });
        }
        options
    }

    /// An option that begins with the value of its implied key.
    pub(in super::super) fn new(implied: &str, value: &str) -> Self {
        let raw = value.replace(',', ",,");
        let (key, value) = (implied.to_owned(), value.to_owned());
        Self {
            items: vec![Item { key, value, raw }],
        }
    }

    /// Keys with their values.
    pub(in super::super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.items
            .iter()
            .map(|item| (item.key.as_str(), item.value.as_str()))
    }

    /// The last value of a key.
    pub(in super::super) fn value(&self, key: &str) -> Option<&str> {
        self.values(key).last()
    }

    /// All values of a key.
    pub(in super::super) fn values(&self, key: &str) -> impl Iterator<Item = &str> {
        self.iter()
            .filter(move |(own, _)| *own == key)
            .map(|(_, value)| value)
    }

    /// Whether a switch is on.
    pub(in super::super) fn is_on(&self, key: &str) -> bool {
        self.value(key)
            .is_some_and(|value| ["on", "yes", "true", "y"].contains(&value))
    }

    /// Whether a switch is off.
    pub(in super::super) fn is_off(&self, key: &str) -> bool {
        self.value(key)
            .is_some_and(|value| ["off", "no", "false", "n"].contains(&value))
    }

    /// Sets a key where it stands, or adds it at the end. The implied key keeps its short form.
    pub(in super::super) fn set(&mut self, key: &str, value: &str) {
        let escaped = value.replace(',', ",,");
        let found = self.items.iter().rposition(|item| item.key == key);
        let short = found.is_some_and(|index| index == 0 && !self.items[0].raw.contains('='));
        let raw = if short {
            escaped
        } else {
            format!("{key}={escaped}")
        };
        let item = Item {
            key: key.to_owned(),
            value: value.to_owned(),
            raw,
        };
        match found {
            Some(index) => self.items[index] = item,
            None => self.items.push(item),
        }
    }

    /// Adds a key at the end, also when it is there already.
    pub(in super::super) fn push(&mut self, key: &str, value: &str) {
        let raw = format!("{key}={}", value.replace(',', ",,"));
        self.items.push(Item {
            key: key.to_owned(),
            value: value.to_owned(),
            raw,
        });
    }

    /// Keeps the keys that the predicate likes.
    pub(in super::super) fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.items.retain(|item| keep(&item.key));
    }

    /// The text; what was not changed is as it was.
    pub(in super::super) fn to_text(&self) -> String {
        let raws: Vec<&str> = self.items.iter().map(|item| item.raw.as_str()).collect();
        raws.join(",")
    }

    /// Objects by name, lists of objects by index, lists of plain values by repetition.
    fn flatten(&mut self, prefix: &str, value: &Value) {
        let within = |key: &str| match prefix {
            "" => key.to_owned(),
            prefix => format!("{prefix}.{key}"),
        };
        match value {
            Value::Object(members) => {
                for (key, member) in members {
                    self.flatten(&within(key), member);
                }
            }
            Value::Array(elements) => {
                for (index, element) in elements.iter().enumerate() {
                    let indexed = within(&index.to_string());
                    self.flatten(
                        if element.is_object() {
                            &indexed
                        } else {
                            prefix
                        },
                        element,
                    );
                }
            }
            Value::Bool(on) => self.push(prefix, if *on { "on" } else { "off" }),
            Value::String(text) => self.push(prefix, text),
            other => self.push(prefix, &other.to_string()),
        }
    }
}

/// A size in bytes: decimal digits, a fraction, a suffix b, k, M, G, T, P or E of either case; `unit` is the bytes of
/// a number without suffix.
pub(in super::super) fn size_bytes(text: &str, unit: u64) -> Option<u64> {
    let digits_end = text
        .find(|char: char| !char.is_ascii_digit() && char != '.')
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits_end);
    let unit = match suffix.to_ascii_lowercase().as_str() {
        "" => unit,
        "b" => 1,
        suffix => {
            let power = ["k", "m", "g", "t", "p", "e"]
                .iter()
                .position(|known| *known == suffix)?;
            1 << (10 * (power + 1))
        }
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || fraction.contains('.') {
        return None;
    }
    let whole = whole.parse::<u64>().ok()?.checked_mul(unit)?;
    // Nine digits of a fraction are exact enough for bytes of a GiB.
    let fraction = &fraction[..fraction.len().min(9)];
    let scale = 10u128.pow(u32::try_from(fraction.len()).ok()?);
    let part = fraction.parse::<u128>().unwrap_or(0) * u128::from(unit) / scale;
    whole.checked_add(u64::try_from(part).ok()?)
}

/// A whole number as C's `strtoull` with base 0 reads it: decimal, `0x` hexadecimal, `0` octal.
pub(in super::super) fn number(text: &str) -> Option<u64> {
    let digits = |text: &str, radix| {
        let first = text.bytes().next()?;
        first
            .is_ascii_alphanumeric()
            .then(|| u64::from_str_radix(text, radix).ok())?
    };
    if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        return digits(hex, 16);
    }
    match text.strip_prefix('0') {
        Some(octal) if !octal.is_empty() => digits(octal, 8),
        _ => digits(text, 10),
    }
}

/// The parts between single commas; a doubled comma belongs to a value.
fn raw_parts(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let (bytes, mut at) = (text.as_bytes(), 0);
        while at < bytes.len() && (bytes[at] != b',' || bytes.get(at + 1) == Some(&b',')) {
            at += if bytes[at] == b',' { 2 } else { 1 };
        }
        rest = text.get(at + 1..);
        Some(&text[..at])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_keys_values_and_switches() {
        let options = Options::parse(
            "q35,accel=kvm,usb,nosmm,x=a,,b,host-nodes=0,host-nodes=1",
            "type",
        );
        let expected = [
            ("type", "q35"),
            ("accel", "kvm"),
            ("usb", "on"),
            ("smm", "off"),
            ("x", "a,b"),
            ("host-nodes", "0"),
            ("host-nodes", "1"),
        ];
        assert_eq!(options.iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn changes_keep_the_rest_as_it_is() {
        let text = "EPYC,+svm,-xsaves,x=a,,b,topoext=off";
        let mut options = Options::parse(text, "model");
        assert_eq!(options.to_text(), text);
        assert!(options.is_on("svm") && options.is_off("xsaves") && options.is_off("topoext"));
        options.set("model", "host");
        options.set("topoext", "on");
        options.set("y", "1,2");
        options.retain(|key| key != "svm");
        assert_eq!(options.to_text(), "host,-xsaves,x=a,,b,topoext=on,y=1,,2");
    }

    #[test]
    fn reads_what_libvirt_writes_as_json() {
        let text = r#"{"qom-type":"memory-backend-ram","id":"ram-node0","size":536870912,"host-nodes":[0,2],"prealloc":true}"#;
        let options = Options::parse(text, "qom-type");
        assert_eq!(options.value("qom-type"), Some("memory-backend-ram"));
        assert_eq!(options.value("size"), Some("536870912"));
        assert_eq!(options.values("host-nodes").collect::<Vec<_>>(), ["0", "2"]);
        assert!(options.is_on("prealloc"));
    }

    #[test]
    fn sizes_have_suffixes_fractions_and_limits() {
        for (text, bytes) in [
            ("4G", Some(4 << 30)),
            ("4g", Some(4 << 30)),
            ("512", Some(512 << 20)),
            ("1.5G", Some(3 << 29)),
            ("1024b", Some(1024)),
            ("8k", Some(8192)),
            ("16E", None),
            ("99999999999999999999", None),
            ("-1", None),
            (".5G", None),
            ("1.2.3", None),
            ("1X", None),
            ("", None),
        ] {
            assert_eq!(size_bytes(text, 1 << 20), bytes, "{text:?}");
        }
    }

    #[test]
    fn numbers_are_decimal_octal_or_hexadecimal() {
        for (text, value) in [
            ("8", Some(8)),
            ("010", Some(8)),
            ("0x10", Some(16)),
            ("0", Some(0)),
            ("08", None),
            ("-1", None),
            ("+1", None),
            ("1k", None),
            ("", None),
            ("0x", None),
            ("18446744073709551616", None),
        ] {
            assert_eq!(number(text), value, "{text:?}");
        }
    }
}
