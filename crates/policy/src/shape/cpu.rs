//! The CPU model of a guest: QEMU 10 cannot set the size of a cache, so the model decides what size the guest sees.

use model::formats::cpu_model;
use model::{Finding, GuestCpu};

use super::{Request, Shape};

/// Chooses the model whose LLC is as large as the host's, or keeps the VM's own, and notes what size the guest will see.
pub(super) fn choose(request: &Request, shape: &mut Shape) {
    let wanted = shape.topology.llcs.first().map_or(0, |llc| llc.size_bytes);
    let own = &request.vm.cpu;
    if *own == GuestCpu::Unstated
        && let Some(name) = cpu_model::model_for(&request.host.processor, wanted)
    {
        shape.cpu = GuestCpu::Named(name.to_owned());
    }
    let model = match (&shape.cpu, own) {
        (GuestCpu::Named(name), _) | (GuestCpu::Unstated, GuestCpu::Named(name)) => name,
        _ => "host",
    };
    let shown = cpu_model::llc_size_bytes(model).unwrap_or(0);
    for llc in &mut shape.topology.llcs {
        llc.guest_size_bytes = shown;
    }
    if wanted != 0 && shown != 0 && wanted != shown {
        let text = format!(
            "the guest sees {} MiB per last-level cache instead of the host's {} MiB: QEMU 10 cannot set the size, \
             and CPU model {model:?} brings its own; which vCPUs share one is right",
            shown >> 20,
            wanted >> 20
        );
        shape.findings.push(Finding::info("llc-size-differs", text));
    }
}
