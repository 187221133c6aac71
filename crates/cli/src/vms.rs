//! From what was typed for a VM to a [`Spec`].

use std::path::Path;

use model::formats::{Format, MAX_FILE_BYTES};
use model::vm::Device;
use model::{Finding, Spec};
use policy::shape::{Limit, limits};

use crate::args::{EsxiKey, VmArgs};
use crate::failure::Failure;
use crate::files;

/// A VM with the file it came from.
#[derive(Debug, Clone)]
pub(crate) struct Vm {
    pub(crate) spec: Spec,
    pub(crate) file: Option<VmFile>,
}

/// A VM file as read.
#[derive(Debug, Clone)]
pub(crate) struct VmFile {
    pub(crate) format: Format,
    pub(crate) text: String,
}

/// The VM that was typed: a file, changed by what else was typed.
///
/// # Errors
/// The file cannot be read or is no VM file, or a key is unknown.
pub(crate) fn vm(args: &VmArgs) -> Result<Vm, Failure> {
    let mut vm = match &args.file {
        Some(path) => read(path)?,
        None => Vm {
            spec: Spec::default(),
            file: None,
        },
    };
    let spec = &mut vm.spec;
    if let Some(vcpus) = args.vcpus {
        spec.vcpus = vcpus;
        spec.max_vcpus = spec.max_vcpus.filter(|&max| max > vcpus);
    }
    if let Some(memory) = args.memory {
        spec.memory_mib = memory.0;
    }
    if let Some(name) = &args.name {
        spec.name.clone_from(name);
    } else if spec.name.is_empty() {
        "vm1".clone_into(&mut spec.name);
    }
    if args.guest_os.is_some() {
        spec.guest_os.clone_from(&args.guest_os);
    }
    if let Some(size) = args.hugepages {
        spec.hugepage_kib = Some(size.0);
    }
    for address in &args.devices {
        let name = format!("hostdev{}", spec.devices.len());
        spec.devices.push(Device {
            name,
            address: address.clone(),
            guest_node: None,
        });
    }
    set_keys(spec, args)?;
    Ok(vm)
}

/// Reads a VM file.
///
/// # Errors
/// It cannot be read, its format is not recognised, or it is broken.
pub(crate) fn read(path: &Path) -> Result<Vm, Failure> {
    let text = files::read_text(path, MAX_FILE_BYTES)?;
    let shown = path.display().to_string();
    let Some(format) = Format::detect(&text) else {
        return Err(Failure::new(format!("{shown} is no VM file that vtopo knows"))
            .help("give a .vmx, a libvirt domain XML (`virsh dumpxml`), a Proxmox VE .conf or a QEMU command line"));
    };
    let spec = format
        .read(&text)
        .map_err(|error| parse_failure(&shown, &text, format, error))?;
    Ok(Vm {
        spec,
        file: Some(VmFile { format, text }),
    })
}

/// A file that does not parse.
pub(crate) fn parse_failure(
    shown: &str,
    text: &str,
    format: Format,
    error: model::formats::ParseError,
) -> Failure {
    Failure::new(format!(
        "{shown} is no usable {} file: {}",
        format.as_str(),
        error.message
    ))
    .at(shown, text, error.span)
}

/// The limits that count for a VM: licences as typed, and its guest system.
///
/// # Errors
/// A licence that is not known.
pub(crate) fn limits(
    licences: &[String],
    spec: &Spec,
) -> Result<(Vec<&'static Limit>, Vec<Finding>), Failure> {
    let mut found = Vec::new();
    for name in licences {
        let Some(limit) = limits::find(name) else {
            let names: Vec<&str> = limits::all().iter().map(|limit| limit.name).collect();
            return Err(Failure::new(format!("{name:?} is no licence vtopo knows"))
                .help(format!("known: {}", names.join(", "))));
        };
        found.push(limit);
    }
    let mut findings = Vec::new();
    if let Some(os) = &spec.guest_os {
        match limits::for_guest_os(os).or_else(|| limits::find(os)) {
            Some(limit) => found.push(limit),
            None => findings.push(Finding::info(
                "guest-os-unknown",
                format!("guest system {os:?} is not known: no socket limit is applied for it"),
            )),
        }
    }
    Ok((found, findings))
}

/// Keys given with `--set` are read by the `.vmx` reader, so that they mean what they mean in a file.
fn set_keys(spec: &mut Spec, args: &VmArgs) -> Result<(), Failure> {
    if args.keys.is_empty() {
        return Ok(());
    }
    let known = model::formats::vmx::shape_keys();
    for EsxiKey { key, .. } in &args.keys {
        if !known.iter().any(|name| name.eq_ignore_ascii_case(key)) {
            let nearest = known.iter().min_by_key(|name| {
                strsim::damerau_levenshtein(&name.to_lowercase(), &key.to_lowercase())
            });
            let nearest = nearest.copied().unwrap_or_default();
            return Err(
                Failure::new(format!("--set: {key:?} is no key that concerns shape")).help(
                    format!("did you mean `{nearest}`? All keys: docs/esxi-keys.md"),
                ),
            );
        }
    }
    let lines: String = args
        .keys
        .iter()
        .map(|key| format!("{} = \"{}\"\n", key.key, key.value))
        .collect();
    let typed = Format::Vmx.read(&lines).map_err(|error| {
        Failure::new(format!("--set: {}", error.message))
            .help("keys and their ranges: docs/esxi-keys.md")
    })?;
    spec.esxi = merge(&spec.esxi, typed.esxi);
    Ok(())
}

fn merge(file: &model::EsxiKeys, typed: model::EsxiKeys) -> model::EsxiKeys {
    model::EsxiKeys {
        hw_version: typed.hw_version.or(file.hw_version),
        cores_per_socket: typed.cores_per_socket.or(file.cores_per_socket),
        cores_per_socket_cookie: typed
            .cores_per_socket_cookie
            .or(file.cores_per_socket_cookie),
        num_smt: typed.num_smt.or(file.num_smt),
        cores_per_node: typed.cores_per_node.or(file.cores_per_node),
        max_per_virtual_node: typed.max_per_virtual_node.or(file.max_per_virtual_node),
        autosize_max_per_virtual_node: typed
            .autosize_max_per_virtual_node
            .or(file.autosize_max_per_virtual_node),
        autosize_cookie: typed.autosize_cookie.or(file.autosize_cookie),
        autosize: typed.autosize.or(file.autosize),
        autosize_once: typed.autosize_once.or(file.autosize_once),
        vcpu_min: typed.vcpu_min.or(file.vcpu_min),
        max_per_machine_node: typed.max_per_machine_node.or(file.max_per_machine_node),
        max_per_client: typed.max_per_client.or(file.max_per_client),
        prefer_ht: typed.prefer_ht.or(file.prefer_ht),
        follow_cores_per_socket: typed
            .follow_cores_per_socket
            .or(file.follow_cores_per_socket),
        consolidate: typed.consolidate.or(file.consolidate),
        allow_hotadd: typed.allow_hotadd.or(file.allow_hotadd),
        node_affinity: if typed.node_affinity.is_empty() {
            file.node_affinity.clone()
        } else {
            typed.node_affinity
        },
        vcpu_hotadd: typed.vcpu_hotadd.or(file.vcpu_hotadd),
    }
}
