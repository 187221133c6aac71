//! QEMU command lines, as a user writes them, a script holds them or `ps` shows them.
//!
//! Every option we do not know is kept and ignored. Behaviour is that of QEMU 10.0.2; for older versions
//! [`Target::qemu_major`] decides what can be said.

mod edit;
mod lint;
mod options;
mod parse;
mod read;
mod words;
mod write;

use super::{ParseError, Target, Written};
use crate::finding::Finding;
use crate::vm::Spec;

pub(super) use options::Options;
pub(super) use parse::Machine;

/// Reads a command line: shell words with quotes and continued lines, or one word per line; the name of the program may
/// be missing. Omitted `-smp` values are filled as QEMU does; the topology is `None` when there is neither `-smp` nor
/// `-numa`, the LLCs are empty when neither `smp-cache` nor `l3-cache` is stated.
///
/// # Errors
/// A quote is not closed, no option is found, or a number we need is none or beyond QEMU's limits.
pub fn read(text: &str) -> Result<Spec, ParseError> {
    read::read(text)
}

/// Writes a command line, one option per line, that starts a guest once a disk or a kernel is added.
pub fn write(spec: &Spec, target: &Target) -> Written {
    let (arguments, findings) = arguments(spec, target);
    let mut text = "qemu-system-x86_64".to_owned();
    for option in arguments.chunks(2) {
        let words: Vec<String> = option
            .iter()
            .map(|word| words::quoted(word, words::Style::Shell))
            .collect();
        text.push_str(" \\\n  ");
        text.push_str(&words.join(" "));
    }
    text.push('\n');
    Written { text, findings }
}

/// The arguments for QEMU, without the program's name: options and their values alternate. The guest has no disk, no
/// network and no console yet. For software emulation they differ where emulation does, so that the guest still sees
/// the shape.
pub fn arguments(spec: &Spec, target: &Target) -> (Vec<String>, Vec<Finding>) {
    write::arguments(spec, *target)
}

/// Changes what concerns topology and memory (`-smp`, `-numa`, their memory backends, `-m`, the parts of `-machine` and
/// `-cpu` that state levels and caches) where `spec` differs from what the text says, and keeps every other byte. The
/// name and the devices are left alone.
///
/// # Errors
/// As [`read`].
pub fn edit(text: &str, spec: &Spec, target: &Target) -> Result<Written, ParseError> {
    edit::edit(text, spec, *target)
}

/// What is wrong with a command line by itself.
///
/// # Errors
/// As [`read`].
pub fn lint(text: &str) -> Result<Vec<Finding>, ParseError> {
    lint::lint(text)
}

#[cfg(test)]
mod tests;
