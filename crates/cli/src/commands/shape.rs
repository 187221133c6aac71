//! `vtopo shape`.

use std::path::Path;

use model::formats::{Format, Written};
use model::{Host, Spec};
use policy::shape::{Refusal, Shape};

use super::Answer;
use crate::args::ShapeCommand;
use crate::draw::{Style, guest_text, notes};
use crate::failure::Failure;
use crate::json::{EmittedDocument, RefusedDocument, ShapeDocument};
use crate::{files, hosts, say, shaping, vms};

pub(super) fn run(command: &ShapeCommand) -> Result<Answer, Failure> {
    let vm = vms::vm(&command.vm)?;
    let host = hosts::host(&command.host, &command.firmware)?;
    let shape = match shaping::shape(
        &vm,
        &host,
        command.rule,
        &command.decisions,
        &command.vm.licence,
    )? {
        Ok(shape) => shape,
        Err(refusal) => return refused(&refusal, command.output.json),
    };
    let spec = shaping::shaped(&vm.spec, &shape);
    let emitted = match command.emit {
        Some(format) => {
            let format = Format::from(format);
            let target = shaping::target(&host, command.qemu);
            let written = shaping::emit(&vm, &spec, format, target)
                .map_err(|error| vms::parse_failure("the VM file", "", format, error))?;
            Some((format, written))
        }
        None => None,
    };
    let mut findings = shape.findings.clone();
    findings.extend(
        emitted
            .iter()
            .flat_map(|(_, written)| written.findings.clone()),
    );
    show(command, (&spec, &host, &shape), emitted)?;
    Ok(Answer::yes_if(
        !(command.output.strict && say::has_problem(&findings)),
    ))
}

/// Says that the VM may not power on.
pub(super) fn refused(refusal: &Refusal, json: bool) -> Result<Answer, Failure> {
    if json {
        say::json(&RefusedDocument::new(refusal))?;
    } else {
        say::remark(&format!("power-on refused: {}", refusal.text));
    }
    Ok(Answer::No)
}

fn show(
    command: &ShapeCommand,
    (spec, host, shape): (&Spec, &Host, &Shape),
    emitted: Option<(Format, Written)>,
) -> Result<(), Failure> {
    let document = || ShapeDocument::new(spec, host, command.rule.name(), shape);
    match (emitted, &command.output_file) {
        (Some((format, written)), Some(path)) => {
            files::write_text(path, &written.text)?;
            say::remark(&format!(
                "{} file written to {}",
                format.as_str(),
                path.display()
            ));
            if command.output.json {
                let emitted = EmittedDocument {
                    format: format.as_str(),
                    text: written.text,
                };
                return say::json(&document().with_emitted(emitted, &written.findings));
            }
            remark_findings(shape, &written);
        }
        (Some((format, written)), None) if command.output.json => {
            let emitted = EmittedDocument {
                format: format.as_str(),
                text: written.text,
            };
            return say::json(&document().with_emitted(emitted, &written.findings));
        }
        (Some((_, written)), None) => {
            remark_findings(shape, &written);
            return files::write_text(Path::new("-"), &written.text);
        }
        (None, _) if command.output.json => return say::json(&document()),
        (None, _) => say::out(&describe(command, (spec, host, shape), say::style()))?,
    }
    Ok(())
}

/// A file goes to standard output alone; what there is to say about it goes to standard error.
fn remark_findings(shape: &Shape, written: &Written) {
    let mut findings = shape.findings.clone();
    findings.extend(written.findings.iter().cloned());
    let style = Style {
        colour: false,
        ..say::style()
    };
    if !findings.is_empty() {
        say::remark(say::findings(&findings, style).trim_end());
    }
}

fn describe(
    command: &ShapeCommand,
    (spec, host, shape): (&Spec, &Host, &Shape),
    style: Style,
) -> String {
    let topology = &shape.topology;
    let mut text = format!(
        "{}: {} vCPUs, {} on {} by rule {}\n\n",
        spec.name,
        spec.vcpus,
        memory(spec.memory_mib),
        host.name,
        command.rule.name()
    );
    text += &guest_text(topology, style);
    if !shape.numa_clients.is_empty() {
        let clients: Vec<String> = shape
            .numa_clients
            .iter()
            .map(|client| client.vcpus.to_string())
            .collect();
        text += &format!(
            "\nNUMA clients (the host places each on one node): {}\n",
            clients.join(" | ")
        );
    }
    for (name, node) in &shape.device_nodes {
        text += &format!("\ndevice {name} is shown on vNUMA node {node}\n");
    }
    if command.explain {
        text += &say::reasons("\nWhy", &shape.reasons, style);
        text += &say::reasons("\nWhat lost", &shape.rejected, style);
    } else if let Some(reason) = shape.reasons.first() {
        text.push('\n');
        text += &notes::paragraph(&format!("{} (`--explain` tells all)", reason.text), style);
    }
    if !shape.findings.is_empty() {
        text.push('\n');
        text += &say::findings(&shape.findings, style);
    }
    text
}

/// Memory in GiB where that is whole.
pub(in crate::commands) fn memory(mib: u64) -> String {
    if mib.is_multiple_of(1024) {
        format!("{} GiB", mib / 1024)
    } else {
        format!("{mib} MiB")
    }
}
