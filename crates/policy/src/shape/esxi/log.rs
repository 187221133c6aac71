//! The lines that ESXi writes into `vmware.log` at power-on, where their format is public.
//!
//! Known from screenshots in Denneman's posts (2016-08-22, 2016-12-12, 2017-04-14, 2021-12, 2022-11-03) and from the
//! strings of a `vmware-vmx` binary. Left out: the line per vCPU, which repeats what the nodes and clients say, and the
//! addresses of memory slices, which nobody can know beforehand.

use model::Reason;

use super::setup::{CoresPerSocket, Kept};
use super::vnuma::SizedBy;
use super::{Decided, Release};

/// One reason per line, in the order of the log.
pub(super) fn lines(decided: &Decided) -> Vec<Reason> {
    let mut lines = Vec::from_iter(cookie(decided));
    lines.extend(if decided.setup.release <= Release::V6_0 {
        before_6_5(decided)
    } else {
        since_6_5(decided)
    });
    lines
        .into_iter()
        .map(|line| Reason::new("vmware-log", line))
        .collect()
}

fn cookie(decided: &Decided) -> Option<String> {
    match decided.setup.kept_node {
        Kept::NoCookie => Some("The VM does not have NUMA size cookie.".to_owned()),
        Kept::Stale => Some("numa: Invalid NUMA cookie.".to_owned()),
        Kept::Absent | Kept::NotAsked | Kept::Valid(_) => None,
    }
}

fn before_6_5(decided: &Decided) -> Vec<String> {
    let (setup, sizing) = (decided.setup, decided.sizing);
    let mut lines = Vec::new();
    if sizing.by == SizedBy::Sockets {
        lines.push(format!(
            "numa: Setting.vcpu.maxPerVirtualNode={} to match cpuid.coresPerSocket",
            setup.unit()
        ));
    }
    let suggested = sizing.node_vcpus;
    let wide = sizing.nodes.len() > 1 && setup.vcpus.is_multiple_of(suggested);
    if setup.release == Release::V6_0 && setup.unit() == 1 && wide {
        lines.push(format!(
            "numa: Exposing multicore topology with cpuid.coresPerSocket = {suggested} is suggested for best performance"
        ));
    }
    lines.push(format!(
        "numaHost: {} virtual nodes, {} virtual sockets, {} physical domains",
        sizing.nodes.len(),
        decided.topology.sockets,
        sizing.clients.len()
    ));
    lines
}

fn since_6_5(decided: &Decided) -> Vec<String> {
    let (setup, sizing) = (decided.setup, decided.sizing);
    let mut lines = Vec::new();
    let latest = setup.release >= Release::V8_0;
    if setup.forces_uma() && setup.shows_numa() && sizing.fresh.len() > 1 && !latest {
        lines.push("NUMA and VCPU hot add are incompatible.  Forcing UMA.".to_owned());
    }
    if latest
        && matches!(
            sizing.by,
            SizedBy::CoresPerNode(_) | SizedBy::MaxPerVirtualNode(_)
        )
    {
        lines.push(
            "numa: Not autosizing due to either numa.vcpu.maxPerVirtualNode manual setting or manual Cores per Node \
             user override."
                .to_owned(),
        );
    }
    if latest && setup.cores != CoresPerSocket::Auto {
        lines.push(format!(
            "numa: coresPerSocket = {} maxVcpusPerVPD = {}",
            decided.topology.cores_per_socket(),
            sizing.node_vcpus
        ));
    }
    let partition = if latest { " partitionByMemory = 0" } else { "" };
    lines.push(format!(
        "numaHost: NUMA config: consolidation= {} preferHT= {}{partition}",
        u8::from(setup.consolidate),
        u8::from(setup.prefer_ht)
    ));
    lines.push(format!(
        "numaHost: {} VCPUs {} VPDs {} PPDs",
        setup.vcpus,
        sizing.nodes.len(),
        sizing.clients.len()
    ));
    lines.push(format!("numaHost: {} mem slices", sizing.nodes.len()));
    lines
}
