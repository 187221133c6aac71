//! A table as one line of TOML, however it was written.

use toml::Spanned;
use toml::de::DeValue;

use super::ScenarioError;
use super::file::{in_order, scalar};

/// Deepest nesting that is kept; a workload needs four levels.
const DEEPEST: usize = 8;

/// A table as an inline table: `{ a = 1, b = { c = "x" } }`. Its own answer gives itself.
///
/// # Errors
/// No table, dates, more than [`DEEPEST`] levels.
pub(super) fn table(value: &Spanned<DeValue<'_>>) -> Result<String, ScenarioError> {
    if value.get_ref().is_table() {
        return text(value, 0);
    }
    let message = "a table is needed here, such as { clients.users = 80 }";
    Err(ScenarioError::new(message, value.span()))
}

fn text(value: &Spanned<DeValue<'_>>, depth: usize) -> Result<String, ScenarioError> {
    if depth > DEEPEST {
        let message = format!("tables are nested more than {DEEPEST} deep");
        return Err(ScenarioError::new(message, value.span()));
    }
    match value.get_ref() {
        DeValue::Table(entries) => {
            let entry = |(key, value): (&Spanned<_>, _)| {
                let key: &toml::de::DeString<'_> = key.get_ref();
                Ok(format!("{} = {}", key_text(key), text(value, depth + 1)?))
            };
            let entries: Result<Vec<String>, ScenarioError> =
                in_order(entries).into_iter().map(entry).collect();
            let entries = entries?.join(", ");
            Ok(match entries.as_str() {
                "" => "{}".to_owned(),
                entries => format!("{{ {entries} }}"),
            })
        }
        DeValue::Array(items) => {
            let items: Result<Vec<String>, ScenarioError> =
                items.iter().map(|item| text(item, depth + 1)).collect();
            Ok(format!("[{}]", items?.join(", ")))
        }
        DeValue::String(text) => Ok(quoted(text)),
        _ => scalar(value),
    }
}

fn key_text(key: &str) -> String {
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if !key.is_empty() && key.bytes().all(is_bare) {
        key.to_owned()
    } else {
        quoted(key)
    }
}

/// A basic string; keys cannot have the other forms in all places.
fn quoted(text: &str) -> String {
    let escaped: String = text
        .chars()
        .map(|c| match c {
            '"' => "\\\"".to_owned(),
            '\\' => "\\\\".to_owned(),
            c if c.is_control() => format!("\\u{:04X}", u32::from(c)),
            c => c.to_string(),
        })
        .collect();
    format!("\"{escaped}\"")
}
