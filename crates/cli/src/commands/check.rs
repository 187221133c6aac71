//! `vtopo check`.

use model::formats::Format;
use model::{Finding, GuestTopology, Host};
use policy::check::{self, Subject};
use policy::shape::Limit;
use serde::Serialize;

use super::Answer;
use crate::args::{CheckCommand, RuleArg};
use crate::failure::Failure;
use crate::vms::{self, Vm};
use crate::{hosts, say, shaping};

#[derive(Serialize)]
struct CheckDocument<'a> {
    vm: &'a str,
    format: &'static str,
    host: &'a str,
    ok: bool,
    findings: &'a [Finding],
}

pub(super) fn run(command: &CheckCommand) -> Result<Answer, Failure> {
    let vm = vms::read(&command.file)?;
    let host = hosts::host(&command.host, &command.firmware)?;
    let (limits, mut findings) = vms::limits(&command.licence, &vm.spec)?;
    findings.extend(shaping::lint(&vm, &command.file.display().to_string())?);
    match effective_topology(&vm, &host)? {
        Ok(topology) => {
            // What the file's own lint has said already is not said again.
            let known: Vec<&str> = findings.iter().map(|finding| finding.code).collect();
            let mut more = against_host(&vm, &host, &limits, &topology)?;
            more.retain(|finding| !known.contains(&finding.code));
            findings.append(&mut more);
        }
        Err(refused) if findings.iter().any(|finding| finding.code == refused.code) => {}
        Err(refused) => findings.push(refused),
    }
    show(command, &vm, &host, &findings)
}

/// What the guest will get: the file's topology, what ESXi makes of a `.vmx`, or one core per socket.
fn effective_topology(vm: &Vm, host: &Host) -> Result<Result<GuestTopology, Finding>, Failure> {
    let is_vmx = vm
        .file
        .as_ref()
        .is_some_and(|file| file.format == Format::Vmx);
    if is_vmx {
        let shape = shaping::shape(vm, host, RuleArg::Esxi8_0, &shaping::no_decisions(), &[])?;
        return Ok(shape.map(|shape| shape.topology).map_err(|refusal| {
            Finding::error(
                refusal.code,
                format!("ESXi 8.0 refuses to power on: {}", refusal.text),
            )
        }));
    }
    let flat = || {
        GuestTopology::uniform(
            vm.spec.vcpus,
            [vm.spec.max_vcpus.unwrap_or(vm.spec.vcpus), 1, 1, 1, 1],
        )
    };
    Ok(Ok(vm.spec.topology.clone().unwrap_or_else(flat)))
}

fn against_host(
    vm: &Vm,
    host: &Host,
    limits: &[&'static Limit],
    topology: &GuestTopology,
) -> Result<Vec<Finding>, Failure> {
    let mut findings = check::check(&Subject {
        vm: &vm.spec,
        topology,
        host,
        limits,
    });
    let auto = shaping::shape(vm, host, RuleArg::Auto, &shaping::no_decisions(), &[])?;
    if let Ok(best) = auto {
        let best = best.topology;
        let levels = |shape: &GuestTopology| {
            [
                shape.sockets,
                shape.dies * shape.modules,
                shape.cores,
                shape.threads,
            ]
        };
        let nodes = |shape: &GuestTopology| shape.numa_nodes.len().max(1);
        if levels(&best) != levels(topology) || nodes(&best) != nodes(topology) {
            let [sockets, dies, cores, threads] = levels(&best);
            let text = format!(
                "{sockets} x {dies} x {cores} x {threads} (sockets, caches, cores, threads) in vNUMA nodes: {} would \
                 fit this host; `vtopo shape VM --explain` tells why",
                nodes(&best)
            );
            findings.push(Finding::info("better-shape", text));
        }
    }
    Ok(findings)
}

fn show(
    command: &CheckCommand,
    vm: &Vm,
    host: &Host,
    findings: &[Finding],
) -> Result<Answer, Failure> {
    let ok = !findings
        .iter()
        .any(|finding| finding.severity == model::Severity::Error);
    let name = if vm.spec.name.is_empty() {
        "the VM"
    } else {
        &vm.spec.name
    };
    let format = vm.file.as_ref().map_or("", |file| file.format.as_str());
    if command.output.json {
        say::json(&CheckDocument {
            vm: &vm.spec.name,
            format,
            host: &host.name,
            ok,
            findings,
        })?;
    } else if findings.is_empty() {
        say::out(&format!(
            "{} ({format}) fits {}: nothing to report\n",
            vm.spec.name, host.name
        ))?;
    } else {
        let head = format!("{name} ({format}) on {}\n", host.name);
        say::out(&(head + &say::findings(findings, say::style())))?;
    }
    Ok(Answer::yes_if(
        ok && !(command.output.strict && say::has_problem(findings)),
    ))
}
