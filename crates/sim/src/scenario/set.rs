//! Single values of a scenario, changed in its text.

use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike, Value};

use super::fault::{Fault, ScenarioError, shown};
use super::schema::{self, FIGURE, LAW, SCENARIO, Schema};
use super::tree::EVIDENCE;

/// Changes values of a scenario by their keys, such as `run.duration`, `tiles.count`, `vm.db.count` or
/// `workload.oltp.clients.users`, and gives the new text; the rest of it stays, comments too. Items of lists go by name, by
/// number from 1, or by `*` for all. What may stand in a scenario and is not there is made; a VM or a step is not. Whether
/// the value is possible, [`read`](super::read) says.
///
/// # Errors
/// Text that is no TOML, keys that do not exist (with those that do). Where a key is wrong, the span is in the key, and
/// [`ScenarioError::key`] names it.
pub fn set(text: &str, assignments: &[(String, String)]) -> Result<String, ScenarioError> {
    if text.len() > model::scenario::MAX_FILE_BYTES {
        let message = format!("the text has {} bytes, too many for a scenario", text.len());
        return Err(Fault::at(message, None).or_at(0..0));
    }
    let mut document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| {
        Fault::at(error.message().trim(), error.span()).or_at(0..0)
    })?;
    for (key, value) in assignments {
        assign(&mut document, key, value).map_err(|fault| ScenarioError {
            key: Some(key.clone()),
            message: format!("{}: {}", shown(key), fault.message),
            ..fault.or_at(0..key.len())
        })?;
    }
    Ok(document.to_string())
}

fn assign(document: &mut DocumentMut, key: &str, value: &str) -> Result<(), Fault> {
    let path = path(key)?;
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let root: &mut Table = document.as_table_mut();
    let walk = Walk { value, depth: 0 };
    // Both say where to run; the last word counts. One name may stand for a list, but no list for a name.
    match path.as_slice() {
        ["host"] if root.contains_key("hosts") => walk.table(root, &SCENARIO, &["hosts"]),
        ["hosts"] => {
            root.remove("host");
            walk.table(root, &SCENARIO, &path)
        }
        _ => walk.table(root, &SCENARIO, &path),
    }
}

/// The parts of a key; one in quotes may hold points.
fn path(key: &str) -> Result<Vec<String>, Fault> {
    let mut parts = Vec::new();
    let mut rest = key;
    loop {
        let (part, after) = match rest.strip_prefix('"') {
            Some(quoted) => {
                let Some((part, after)) = quoted.split_once('"') else {
                    return Err(Fault::at("a quote is not closed", None));
                };
                (
                    part,
                    after.strip_prefix('.').or(after.is_empty().then_some("")),
                )
            }
            None => match rest.split_once('.') {
                Some((part, after)) => (part, Some(after)),
                None => (rest, Some("")),
            },
        };
        let is_last =
            rest.len() == part.len() || rest.len() == part.len() + 2 && rest.starts_with('"');
        let Some(after) = after.filter(|_| !part.is_empty()) else {
            return Err(Fault::at(
                "write a key as run.duration or vm.\"my db\".count",
                None,
            ));
        };
        parts.push(part.to_owned());
        if is_last {
            return Ok(parts);
        }
        rest = after;
    }
}

/// A value on its way to its place.
#[derive(Clone, Copy)]
struct Walk<'a> {
    value: &'a str,
    depth: usize,
}

impl Walk<'_> {
    fn deeper(self) -> Self {
        Self {
            depth: self.depth + 1,
            ..self
        }
    }

    /// Sets a value in a table whose keys the schema has.
    fn table(self, table: &mut dyn TableLike, schema: &Schema, path: &[&str]) -> Result<(), Fault> {
        let [first, rest @ ..] = path else {
            return Err(Fault::at(ends_early(schema), None));
        };
        let (key, child) = find(table, schema, first)?;
        let key = key.as_str();
        match (child, rest) {
            (Schema::Value, []) => put(table, key, parse(self.value)),
            (Schema::Value, _) => {
                return Err(Fault::at(
                    format!("{} has no keys of its own", shown(key)),
                    None,
                ));
            }
            (Schema::Figure | Schema::Law, []) => self.figure(table, key),
            (Schema::Figure | Schema::Law, _) => {
                let inner = figure_table(table, key)?;
                let keys: &[&str] = if matches!(child, Schema::Law) {
                    &LAW
                } else {
                    &FIGURE
                };
                let [name] = rest else {
                    return Err(Fault::at(format!("{} is one value", shown(rest[0])), None));
                };
                if !keys.contains(name) {
                    let known = keys.iter().copied();
                    return Err(Fault::unknown("key of a number", name, known, None));
                }
                put(inner, name, parse(self.value));
            }
            (Schema::Table(_) | Schema::Named(_) | Schema::Vm, _) => {
                if rest.is_empty() {
                    return Err(Fault::at(ends_early(child), None));
                }
                let inner = make_table(table, key, self.depth)?;
                return self.deeper().table(inner, child, rest);
            }
            (Schema::List(each, name, has_names), _) => {
                return self.list(table, key, (each, name, *has_names), rest);
            }
        }
        Ok(())
    }

    /// The value of a figure, bare or with its evidence, which is no longer true.
    fn figure(self, table: &mut dyn TableLike, key: &str) {
        let figure = table.get_mut(key).and_then(Item::as_table_like_mut);
        let Some(figure) = figure.filter(|figure| figure.contains_key("value")) else {
            put(table, key, parse(self.value));
            return;
        };
        for evidence in EVIDENCE {
            figure.remove(evidence);
        }
        put(figure, "value", parse(self.value));
    }

    /// Items of a list.
    fn list(
        self,
        table: &mut dyn TableLike,
        key: &str,
        (each, name, has_names): (&Schema, &str, bool),
        path: &[&str],
    ) -> Result<(), Fault> {
        let [first, rest @ ..] = path else {
            let message = format!("say which {key}: by {name}, by number from 1, or * for all");
            return Err(Fault::at(message, None));
        };
        let is_absent = table.get(key).is_none_or(Item::is_none);
        let is_table = table.get(key).is_some_and(Item::is_table_like);
        if has_names && (is_absent || is_table) {
            // Changes of what the library's list has: tables named after its items.
            let inner = make_table(table, key, self.depth)?;
            let item = make_table(inner, first, self.depth + 1)?;
            return self.deeper().deeper().table(item, each, rest);
        }
        let mut items = items_of(table, key);
        let names: Vec<String> = items.iter().map(|item| name_of(*item, name)).collect();
        for at in select(key, first, &names)? {
            self.deeper().deeper().table(items[at], each, rest)?;
        }
        Ok(())
    }
}

/// The key under which the table has it or gets it, and what may stand there.
fn find<'s>(
    table: &dyn TableLike,
    schema: &'s Schema,
    typed: &str,
) -> Result<(String, &'s Schema), Fault> {
    match schema {
        Schema::Table(keys) => {
            let names = || keys.iter().map(|(name, _)| *name);
            let found = keys.iter().find(|(name, _)| *name == typed);
            let (name, child) =
                found.ok_or_else(|| Fault::unknown("key here", typed, names(), None))?;
            Ok(((*name).to_owned(), child))
        }
        Schema::Vm => {
            let (name, child) = schema::vm_key(typed).ok_or_else(|| {
                Fault::unknown("key of a VM", typed, model::scenario::vm_keys(), None)
            })?;
            // The text may have it under its short name.
            let same = |key: &str| model::scenario::vm_key(key) == Some(name);
            let there = table.iter().map(|(key, _)| key).find(|key| same(key));
            Ok((there.unwrap_or(name).to_owned(), child))
        }
        Schema::Named(each) => Ok((typed.to_owned(), each)),
        Schema::Value | Schema::Figure | Schema::Law | Schema::List(..) => Err(Fault::at(
            format!("{} has no place here", shown(typed)),
            None,
        )),
    }
}

fn ends_early(schema: &Schema) -> String {
    match schema {
        Schema::Table(keys) => {
            let names: Vec<&str> = keys.iter().map(|(name, _)| *name).collect();
            format!(
                "this is a table; say which of its keys: {}",
                names.join(", ")
            )
        }
        Schema::Vm => "say which key of the VM".to_owned(),
        _ => "this is a table; say which of its keys".to_owned(),
    }
}

/// The tables of a list, however it is written.
fn items_of<'t>(table: &'t mut dyn TableLike, key: &str) -> Vec<&'t mut dyn TableLike> {
    match table.get_mut(key) {
        Some(Item::ArrayOfTables(tables)) => tables
            .iter_mut()
            .map(|table| table as &mut dyn TableLike)
            .collect(),
        Some(Item::Value(Value::Array(values))) => values
            .iter_mut()
            .filter_map(Value::as_inline_table_mut)
            .map(|table| table as &mut dyn TableLike)
            .collect(),
        _ => Vec::new(),
    }
}

fn name_of(item: &dyn TableLike, name: &str) -> String {
    match item.get(name).and_then(Item::as_value) {
        Some(Value::String(text)) => text.value().clone(),
        Some(other) => other.to_string().trim().to_owned(),
        None => String::new(),
    }
}

/// Indices of the items that a word means.
fn select(list: &str, word: &str, names: &[String]) -> Result<Vec<usize>, Fault> {
    if word == "*" && !names.is_empty() {
        return Ok((0..names.len()).collect());
    }
    let by_name = names.iter().position(|name| name == word);
    let number = word
        .parse::<usize>()
        .ok()
        .and_then(|number| number.checked_sub(1));
    if let Some(at) = by_name.or(number.filter(|&at| at < names.len())) {
        return Ok(vec![at]);
    }
    if names.is_empty() {
        return Err(Fault::at(format!("the scenario has no [[{list}]]"), None));
    }
    if number.is_some() || word == "0" {
        let message = format!(
            "there is no {list} {word}, for the scenario has {} of them",
            names.len()
        );
        return Err(Fault::at(message, None));
    }
    let known = names.iter().filter(|name| !name.is_empty()).cloned();
    let mut fault = Fault::unknown(list, word, known, None);
    fault.message += &format!(
        "; the scenario has {} of them, by number from 1",
        names.len()
    );
    Err(fault)
}

/// The table under a key, made if it is not there.
fn make_table<'t>(
    table: &'t mut dyn TableLike,
    key: &str,
    depth: usize,
) -> Result<&'t mut dyn TableLike, Fault> {
    if table.get(key).is_none_or(Item::is_none) {
        // Tables of their own up to [workload.NAME], below it they are short enough for a line.
        let made = if depth <= 1 {
            let mut made = Table::new();
            made.set_implicit(depth == 0 && key == "workload");
            Item::Table(made)
        } else {
            Item::Value(Value::InlineTable(InlineTable::new()))
        };
        table.insert(key, made);
    }
    table
        .get_mut(key)
        .and_then(Item::as_table_like_mut)
        .ok_or_else(|| Fault::at(format!("{} is no table in the scenario", shown(key)), None))
}

/// The table of a figure, made of its bare value if need be.
fn figure_table<'t>(
    table: &'t mut dyn TableLike,
    key: &str,
) -> Result<&'t mut dyn TableLike, Fault> {
    if let Some(Item::Value(value)) = table.get_mut(key)
        && !value.is_inline_table()
    {
        let mut made = InlineTable::new();
        let mut bare = value.clone();
        bare.decor_mut().clear();
        made.insert("value", bare);
        *value = Value::InlineTable(made);
    }
    // Inline, whatever the depth: it is one value.
    make_table(table, key, usize::MAX)
}

/// Puts a value at a key; what stands around the old one (blanks, a comment) stays.
fn put(table: &mut dyn TableLike, key: &str, mut value: Value) {
    match table.get_mut(key) {
        Some(Item::Value(old)) => {
            std::mem::swap(value.decor_mut(), old.decor_mut());
            *old = value;
        }
        _ => drop(table.insert(key, Item::Value(value))),
    }
}

/// A value as it was typed: a number, flag, list or quoted text of TOML, or else a text.
fn parse(typed: &str) -> Value {
    let is_flat = |array: &Array| {
        array
            .iter()
            .all(|item| !item.is_array() && !item.is_inline_table())
    };
    match typed.trim().parse::<Value>() {
        Ok(Value::Array(array)) if is_flat(&array) => Value::Array(array),
        Ok(
            value @ (Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::String(_)),
        ) => value,
        _ => Value::from(typed),
    }
}
