//! `vtopo convert`.

use std::path::{Path, PathBuf};

use model::formats::{Format, Written};
use serde::Serialize;

use super::{Answer, shape};
use crate::args::{ConvertCommand, FirmwareArgs};
use crate::draw::Style;
use crate::failure::Failure;
use crate::{files, hosts, say, shaping, vms};

#[derive(Serialize)]
struct ConvertDocument<'a> {
    from: &'static str,
    to: &'static str,
    text: &'a str,
    findings: &'a [model::Finding],
}

pub(super) fn run(command: &ConvertCommand) -> Result<Answer, Failure> {
    let vm = vms::read(&command.file)?;
    let from = vm.file.as_ref().map_or(Format::Vmx, |file| file.format);
    let to = Format::from(command.to);
    let same = |output: &PathBuf| {
        std::fs::canonicalize(output).ok() == std::fs::canonicalize(&command.file).ok()
    };
    if from != to
        && command.file != Path::new("-")
        && command
            .output_file
            .as_ref()
            .is_some_and(|output| output.exists() && same(output))
    {
        return Err(Failure::new(
            "the output is the input, which is in another format and would be lost",
        )
        .help("give another --output"));
    }
    let mut spec = vm.spec.clone();
    let mut findings = Vec::new();
    let mut target = model::formats::Target {
        qemu_major: command.qemu,
        ..Default::default()
    };
    if let Some(rule) = command.shape {
        let host = hosts::host(&command.host, &no_what_ifs())?;
        match shaping::shape(&vm, &host, rule, &shaping::no_decisions(), &[])? {
            Ok(shape) => {
                spec = shaping::shaped(&spec, &shape);
                findings.extend(shape.findings);
            }
            Err(refusal) => return shape::refused(&refusal, command.output.json),
        }
        target = shaping::target(&host, command.qemu);
    }
    if spec.topology.is_none() && command.shape.is_none() && from != to {
        findings.push(model::Finding::info(
            "topology-unstated",
            format!(
                "the {} file leaves the topology to its hypervisor, so {} will use its own default; \
                 `--shape auto` (or esxi-8.0) decides one for a host",
                from.as_str(),
                to.as_str()
            ),
        ));
    }
    let written = shaping::emit(&vm, &spec, to, target).map_err(|error| {
        vms::parse_failure(&command.file.display().to_string(), "", from, error)
    })?;
    findings.extend(written.findings.iter().cloned());
    show(
        command,
        from,
        to,
        &Written {
            findings,
            ..written
        },
    )
}

fn show(
    command: &ConvertCommand,
    from: Format,
    to: Format,
    written: &Written,
) -> Result<Answer, Failure> {
    if let Some(path) = &command.output_file {
        files::write_text(path, &written.text)?;
        say::remark(&format!(
            "{} file written to {}",
            to.as_str(),
            path.display()
        ));
    }
    let findings = &written.findings;
    if command.output.json {
        say::json(&ConvertDocument {
            from: from.as_str(),
            to: to.as_str(),
            text: &written.text,
            findings,
        })?;
    } else {
        if !findings.is_empty() {
            let style = Style {
                colour: false,
                ..say::style()
            };
            say::remark(say::findings(findings, style).trim_end());
        }
        if command.output_file.is_none() {
            files::write_text(Path::new("-"), &written.text)?;
        }
    }
    Ok(Answer::yes_if(
        !(command.output.strict && say::has_problem(findings)),
    ))
}

fn no_what_ifs() -> FirmwareArgs {
    FirmwareArgs {
        nps: None,
        ccx_as_numa: false,
        snc: None,
        smt: None,
        node_interleaving: false,
    }
}
