//! What may stand where in a scenario and in a workload file, as one table: readers refuse what is not in it, and `set` finds
//! its way by it.

use model::scenario;

use super::fault::Fault;
use super::tree::{EVIDENCE, Node, Value};

/// What may stand at a place.
pub(super) enum Schema {
    /// A text, number, flag, or a list of them.
    Value,
    /// A number, bare or as a table of [`FIGURE`].
    Figure,
    /// A time that varies, bare or as a table of [`LAW`].
    Law,
    /// A table with these keys.
    Table(&'static [(&'static str, Self)]),
    /// A table whose keys are names.
    Named(&'static Self),
    /// A list of tables; the word is the key that names them. With the flag, tables named after them may stand there instead.
    List(&'static Self, &'static str, bool),
    /// A `[[vm]]`.
    Vm,
}

/// Keys of a figure.
pub(super) const FIGURE: [&str; 4] = ["value", "evidence", "source", "range"];
/// Keys of a time that varies.
pub(super) const LAW: [&str; 8] = [
    "value", "law", "cv", "from", "to", "evidence", "source", "range",
];

/// A scenario.
pub(super) static SCENARIO: Schema = Schema::Table(&[
    ("host", Schema::Value),
    ("hosts", Schema::Value),
    ("reserve", Schema::Value),
    ("policy", Schema::Value),
    ("run", Schema::Table(&RUN)),
    ("tiles", Schema::Table(&[("count", Schema::Value)])),
    ("network", Schema::Table(&NETWORK)),
    ("vm", Schema::List(&Schema::Vm, "name", false)),
    ("workload", Schema::Named(&WORKLOAD)),
    ("qos", Schema::List(&QOS, "workload", false)),
    ("sweep", Schema::List(&SWEEP, "key", false)),
]);

const RUN: [(&str, Schema); 5] = [
    ("duration", Schema::Value),
    ("warmup", Schema::Value),
    ("seeds", Schema::Value),
    ("seed", Schema::Value),
    ("timeline", Schema::Value),
];

const NETWORK: [(&str, Schema); 5] = [
    ("moderation", Schema::Value),
    ("queues", Schema::Value),
    ("coalescing", Schema::Value),
    ("path", Schema::Value),
    ("wire", Schema::Value),
];

static QOS: Schema = Schema::Table(&[
    ("workload", Schema::Value),
    ("metric", Schema::Value),
    ("limit", Schema::Value),
]);

static SWEEP: Schema = Schema::Table(&[
    ("key", Schema::Value),
    ("values", Schema::Value),
    ("from", Schema::Value),
    ("to", Schema::Value),
    ("step", Schema::Value),
]);

/// A workload.
pub(super) static WORKLOAD: Schema = Schema::Table(&[
    ("like", Schema::Value),
    ("summary", Schema::Value),
    ("threads", Schema::Figure),
    ("vector", Schema::Table(&VECTOR)),
    ("clients", Schema::Table(&CLIENTS)),
    ("device", Schema::Named(&DEVICE)),
    ("step", Schema::List(&STEP, "name", true)),
]);

const VECTOR: [(&str, Schema); 9] = [
    ("smt", Schema::Figure),
    ("instructions_per_us", Schema::Figure),
    ("llc_mpki", Schema::Figure),
    ("alpha", Schema::Figure),
    ("floor", Schema::Figure),
    ("working_set", Schema::Figure),
    ("mlp", Schema::Figure),
    ("shared_lines_per_us", Schema::Figure),
    ("sharing_mlp", Schema::Figure),
];

const CLIENTS: [(&str, Schema); 8] = [
    ("kind", Schema::Value),
    ("users", Schema::Figure),
    ("think", Schema::Law),
    ("rate", Schema::Figure),
    ("arrivals", Schema::Value),
    ("burst_factor", Schema::Figure),
    ("burst_on", Schema::Figure),
    ("burst_off", Schema::Figure),
];

static DEVICE: Schema = Schema::Table(&[("latency", Schema::Law), ("parallel", Schema::Figure)]);

static STEP: Schema = Schema::Table(&[
    ("name", Schema::Value),
    ("times", Schema::Figure),
    ("cpu", Schema::Law),
    ("io", Schema::Value),
    ("sleep", Schema::Law),
    ("hold", Schema::Law),
    ("lock", Schema::Value),
    ("handoff", Schema::Law),
    ("call", Schema::Value),
    ("packets", Schema::Figure),
    ("bytes", Schema::Figure),
]);

/// Refuses keys that are not in the schema, and tables where none may be; the first one in the text.
pub(super) fn check(node: &Node, schema: &Schema, what: &str) -> Result<(), Fault> {
    match schema {
        // What its keys are, the reader of VMs knows better.
        Schema::Vm => match node.find("with") {
            Some(with) => check(with, &WORKLOAD, "key of a workload"),
            None => Ok(()),
        },
        Schema::Value => check_value(node),
        Schema::Figure => check_figure(node, &FIGURE),
        Schema::Law => check_figure(node, &LAW),
        Schema::Table(keys) => {
            need_table(node, what)?;
            for entry in node.entries() {
                let known = keys.iter().find(|(name, _)| *name == entry.key);
                let Some((name, schema)) = known else {
                    let names = keys.iter().map(|(name, _)| *name);
                    let place = entry.key_span.clone();
                    return Err(Fault::unknown(what, &entry.key, names, place));
                };
                check(&entry.node, schema, &format!("key of `{name}`"))?;
            }
            Ok(())
        }
        Schema::Named(each) => {
            need_table(node, what)?;
            let word = what.trim_start_matches("key of `").trim_end_matches('`');
            let what = format!("key of a {word}");
            node.entries()
                .iter()
                .try_for_each(|entry| check(&entry.node, each, &what))
        }
        Schema::List(each, _, has_names) => {
            if *has_names && matches!(node.value, Value::Table(_)) {
                let mut entries = node.entries().iter();
                return entries.try_for_each(|entry| check(&entry.node, each, what));
            }
            let is_list = matches!(node.value, Value::List(_));
            let is_table = |item: &&Node| !matches!(item.value, Value::Table(_));
            match node.items().iter().find(is_table) {
                None if is_list => node
                    .items()
                    .iter()
                    .try_for_each(|item| check(item, each, what)),
                odd => {
                    let word = what.trim_start_matches("key of ");
                    let message = format!("{word} is written as tables in double brackets");
                    Err(Fault::at(message, odd.unwrap_or(node).span.clone()))
                }
            }
        }
    }
}

/// The names of a `[[vm]]`'s keys with their schema.
pub(super) fn vm_key(typed: &str) -> Option<(&'static str, &'static Schema)> {
    let name = scenario::vm_key(typed)?;
    let schema = if name == "with" {
        &WORKLOAD
    } else {
        &Schema::Value
    };
    Some((name, schema))
}

fn need_table(node: &Node, what: &str) -> Result<(), Fault> {
    if matches!(node.value, Value::Table(_)) {
        return Ok(());
    }
    let word = what.trim_start_matches("key of ");
    Err(Fault::at(format!("{word} is a table"), node.span.clone()))
}

fn check_value(node: &Node) -> Result<(), Fault> {
    match &node.value {
        Value::Text(_) => Ok(()),
        Value::List(items) => items.iter().try_for_each(|item| item.text().map(|_| ())),
        Value::Table(_) => node.text().map(|_| ()),
    }
}

fn check_figure(node: &Node, keys: &[&'static str]) -> Result<(), Fault> {
    if matches!(node.value, Value::Text(_)) {
        return Ok(());
    }
    need_table(node, "a number, or its value with `evidence` and `source`,")?;
    for entry in node.entries() {
        if !keys.contains(&entry.key.as_str()) {
            let (known, place) = (keys.iter().copied(), entry.key_span.clone());
            return Err(Fault::unknown("key of a number", &entry.key, known, place));
        }
        let is_range = entry.key == EVIDENCE[2];
        if !is_range || !matches!(entry.node.value, Value::List(_)) {
            entry.node.text()?;
        }
    }
    Ok(())
}
