//! From arguments to a shape, for the commands that need one.

use model::formats::{Accelerator, Format, ParseError, Target, Written};
use model::vm::Device;
use model::{Finding, Host, Spec};
use policy::shape::{self, Overrides, Refusal, Request, Shape};

use crate::args::{RuleArg, RuleArgs};
use crate::failure::Failure;
use crate::vms::{self, Vm};

/// Shapes a VM for a host by one rule.
///
/// # Errors
/// A licence that is not known. A refusal is an answer, not an error.
pub(crate) fn shape(
    vm: &Vm,
    host: &Host,
    rule: RuleArg,
    decisions: &RuleArgs,
    licences: &[String],
) -> Result<Result<Shape, Refusal>, Failure> {
    let (limits, findings) = vms::limits(licences, &vm.spec)?;
    if let Some(max) = decisions.max_vcpus.filter(|&max| max < vm.spec.vcpus) {
        return Err(Failure::new(format!(
            "--max-vcpus {max} is less than the {} vCPUs",
            vm.spec.vcpus
        ))
        .help("give as many slots as there are vCPUs, or more"));
    }
    let flag = |set: bool| set.then_some(true);
    let overrides = Overrides {
        cores_per_socket: decisions.cores_per_socket,
        numa_nodes: decisions.numa_nodes,
        threads_per_core: decisions.threads_per_core,
        prefer_ht: flag(decisions.prefer_ht),
        hot_add: flag(decisions.hot_add),
        max_vcpus: decisions.max_vcpus,
        hw_version: decisions.hw_version,
    };
    let request = Request {
        vm: &vm.spec,
        host,
        rule: rule.rule(),
        goal: decisions.goal.into(),
        overrides,
        limits,
    };
    Ok(shape::shape(&request).map(|mut shape| {
        shape.findings.extend(findings);
        shape
    }))
}

/// What nobody typed.
pub(crate) fn no_decisions() -> RuleArgs {
    RuleArgs {
        hw_version: None,
        goal: crate::args::GoalArg::Throughput,
        cores_per_socket: None,
        numa_nodes: None,
        threads_per_core: None,
        prefer_ht: false,
        hot_add: false,
        max_vcpus: None,
    }
}

/// The VM with the shape it shall have.
pub(crate) fn shaped(spec: &Spec, shape: &Shape) -> Spec {
    let node_of = |name: &str| {
        shape
            .device_nodes
            .iter()
            .find(|(known, _)| known == name)
            .map(|&(_, node)| node)
    };
    let devices = spec.devices.iter().map(|device| Device {
        guest_node: node_of(&device.name).or(device.guest_node),
        ..device.clone()
    });
    let slots = shape.topology.maxcpus();
    Spec {
        topology: Some(shape.topology.clone()),
        max_vcpus: (slots > spec.vcpus).then_some(slots),
        cpu: match &shape.cpu {
            model::GuestCpu::Unstated => spec.cpu.clone(),
            chosen => chosen.clone(),
        },
        hugepage_kib: shape.hugepage_kib.or(spec.hugepage_kib),
        devices: devices.collect(),
        ..spec.clone()
    }
}

/// Writes a VM in a format: a file of that format is edited, any other is written anew.
///
/// # Errors
/// The file does not parse (it did when it was read).
pub(crate) fn emit(
    vm: &Vm,
    spec: &Spec,
    format: Format,
    target: Target,
) -> Result<Written, ParseError> {
    match &vm.file {
        Some(file) if file.format == format => format.edit(&file.text, spec, &target),
        Some(file) => {
            let mut written = format.write(spec, &target);
            written.findings.push(Finding::warning(
                "lost-other-settings",
                format!(
                    "from the {} file only name, vCPUs, memory, topology, CPU model, bindings and passed-through \
                     devices are carried over: add disks, network, firmware and the rest to the new file",
                    file.format.as_str()
                ),
            ));
            Ok(written)
        }
        None => Ok(format.write(spec, &target)),
    }
}

/// What a file is written for: this host's vendor under KVM.
pub(crate) fn target(host: &Host, qemu_major: u32) -> Target {
    Target {
        accelerator: Accelerator::Kvm,
        vendor: host.processor.vendor,
        qemu_major,
    }
}

/// Findings about a VM that stand whatever the shape: what its file contradicts by itself.
///
/// # Errors
/// The file does not parse.
pub(crate) fn lint(vm: &Vm, shown: &str) -> Result<Vec<Finding>, Failure> {
    match &vm.file {
        Some(file) => file
            .format
            .lint(&file.text)
            .map_err(|error| vms::parse_failure(shown, &file.text, file.format, error)),
        None => Ok(Vec::new()),
    }
}
