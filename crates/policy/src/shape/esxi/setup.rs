//! The VM as ESXi reads it at power-on: every key of its file with its default, overrides on top.

use model::{EsxiKeys, Finding};

use super::{Release, Request, hardware};
use crate::shape::limits::GuestOs;

/// `numa.vcpu.min`: no NUMA is shown to smaller VMs (virtual NUMA controls, 6.5 and 6.7).
const DEFAULT_VCPU_MIN: u32 = 9;

/// A VM with all its keys settled. Counts are vCPUs unless they say cores.
#[derive(Debug, Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each stands for one key of the VM file"
)]
pub(super) struct Setup {
    pub(super) release: Release,
    /// `virtualHW.version`.
    pub(super) hw: u32,
    pub(super) vcpus: u32,
    /// vCPU slots; more than `vcpus` only with hot-add.
    pub(super) slots: u32,
    pub(super) memory_mib: u64,
    /// `cpuid.coresPerSocket`.
    pub(super) cores: CoresPerSocket,
    /// `cpuid.coresPerSocket.cookie`, where it still counts.
    pub(super) kept_cores: Option<u32>,
    /// `cpuid.numSMT`.
    pub(super) threads: u32,
    /// `numa.vcpu.coresPerNode`, as vCPUs.
    pub(super) cores_per_node: Option<u32>,
    /// `numa.vcpu.maxPerVirtualNode`.
    pub(super) max_per_virtual_node: Option<u32>,
    /// `numa.autosize.vcpu.maxPerVirtualNode`, and whether it counts.
    pub(super) kept_node: Kept,
    /// `numa.autosize`.
    pub(super) autosize: bool,
    /// `numa.vcpu.min`.
    pub(super) vcpu_min: u32,
    /// `numa.vcpu.maxPerMachineNode`.
    pub(super) max_per_machine_node: Option<u32>,
    /// `numa.vcpu.maxPerClient`.
    pub(super) max_per_client: Option<u32>,
    /// `numa.vcpu.preferHT`.
    pub(super) prefer_ht: bool,
    /// `numa.vcpu.followcorespersocket`; what releases before 6.5 always do.
    pub(super) follows_sockets: bool,
    /// `numa.consolidate`.
    pub(super) consolidate: bool,
    /// `vcpu.hotadd`.
    pub(super) hot_add: bool,
    /// `numa.allowHotadd`.
    pub(super) allow_hotadd: bool,
    /// Number of vNUMA nodes that a person asked for.
    pub(super) nodes_asked: Option<u32>,
    /// What the VM asks for and this release or hardware version does not know.
    pub(super) ignored: Vec<Finding>,
}

/// How many cores a socket gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CoresPerSocket {
    /// ESXi decides (8.0, hardware version 20).
    Auto,
    /// Nobody decided: what VMware recommends for the guest, 1 for most.
    Default(u32),
    /// A person or the VM file decided.
    Manual(u32),
}

/// What became of the vNUMA node size that an earlier power-on wrote into the VM file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    /// The file has none.
    Absent,
    /// It is to be worked out again at every power-on (`numa.autosize.once = FALSE`, `numa.autosize = TRUE`).
    NotAsked,
    /// It was written without a cookie.
    NoCookie,
    /// Its cookie is of another number of vCPUs, or no cookie.
    Stale,
    /// It counts: vCPUs per vNUMA node.
    Valid(u32),
}

impl Setup {
    /// Settles the keys of a request.
    pub(super) fn new(request: &Request, release: Release) -> Self {
        let (vm, keys, asked) = (request.vm, &request.vm.esxi, &request.overrides);
        let hw = asked
            .hw_version
            .or(keys.hw_version)
            .unwrap_or_else(|| hardware::newest(release));
        let automatic = hw >= hardware::FIRST_AUTOMATIC;
        let wanted = asked.max_vcpus.or(vm.max_vcpus).unwrap_or(0);
        let hot_add = asked.hot_add.unwrap_or_else(|| {
            asked.max_vcpus.is_some_and(|max| max > vm.vcpus)
                || keys.vcpu_hotadd.unwrap_or(wanted > vm.vcpus)
        });
        let slots = if hot_add {
            wanted.min(hardware::max_vcpus(hw))
        } else {
            0
        };
        let smt = threads(request);
        let mut setup = Self {
            release,
            hw,
            vcpus: vm.vcpus,
            slots: slots.max(vm.vcpus),
            memory_mib: vm.memory_mib,
            cores: cores_per_socket(request, hw),
            kept_cores: None,
            threads: if automatic { smt } else { 1 },
            cores_per_node: None,
            max_per_virtual_node: non_zero(keys.max_per_virtual_node),
            kept_node: kept_node(keys, vm.vcpus),
            autosize: keys.autosize.unwrap_or(false),
            vcpu_min: keys.vcpu_min.unwrap_or(DEFAULT_VCPU_MIN),
            max_per_machine_node: non_zero(keys.max_per_machine_node),
            max_per_client: non_zero(keys.max_per_client),
            prefer_ht: asked.prefer_ht.or(keys.prefer_ht).unwrap_or(false),
            follows_sockets: release <= Release::V6_0
                || keys.follow_cores_per_socket.unwrap_or(false),
            consolidate: keys.consolidate.unwrap_or(true),
            hot_add,
            allow_hotadd: automatic && keys.allow_hotadd.unwrap_or(false),
            nodes_asked: asked.numa_nodes,
            ignored: ignored(request, hw, hot_add),
        };
        setup.settle_nodes(keys, automatic);
        if matches!(setup.kept_node, Kept::Valid(_)) && setup.cores == CoresPerSocket::Auto {
            setup.kept_cores = non_zero(keys.cores_per_socket_cookie);
        }
        setup
    }

    /// Manual vNUMA nodes: `numa.vcpu.coresPerNode` where it is known, the older `maxPerVirtualNode` before.
    fn settle_nodes(&mut self, keys: &EsxiKeys, automatic: bool) {
        let asked = self.nodes_asked.map(|nodes| self.vcpus / nodes.max(1));
        if automatic {
            let of_file = non_zero(keys.cores_per_node);
            self.cores_per_node = asked.or(of_file.map(|cores| cores.saturating_mul(self.threads)));
        } else if asked.is_some() {
            self.max_per_virtual_node = asked;
        }
    }

    /// Whether cores per socket, caches and nodes follow the rules of 8.0.
    pub(super) fn automatic(&self) -> bool {
        self.hw >= hardware::FIRST_AUTOMATIC
    }

    /// Cores of a socket that a NUMA client keeps together; 1 where ESXi will fit sockets to the nodes.
    pub(super) fn cores_kept_together(&self) -> u32 {
        match self.cores {
            CoresPerSocket::Auto => 1,
            CoresPerSocket::Default(cores) | CoresPerSocket::Manual(cores) => cores,
        }
    }

    /// vCPUs that a NUMA client keeps together: whole sockets, or whole cores where sockets are automatic.
    pub(super) fn unit(&self) -> u32 {
        self.cores_kept_together()
            .saturating_mul(self.threads)
            .max(1)
    }

    /// Whether hot-add leaves the guest without NUMA ("NUMA and VCPU hot add are incompatible. Forcing UMA.").
    pub(super) fn forces_uma(&self) -> bool {
        self.hot_add && !self.allow_hotadd
    }

    /// Why a VM that is too small or too old is not shown NUMA.
    pub(super) fn hides_numa_because(&self) -> String {
        if self.hw < hardware::FIRST_VNUMA {
            format!(
                "virtual NUMA needs hardware version {}",
                hardware::FIRST_VNUMA
            )
        } else {
            format!("numa.vcpu.min is {}", self.vcpu_min)
        }
    }

    /// Whether the VM is large and new enough to be shown NUMA.
    pub(super) fn shows_numa(&self) -> bool {
        self.hw >= hardware::FIRST_VNUMA && self.vcpus >= self.vcpu_min
    }
}

fn cores_per_socket(request: &Request, hw: u32) -> CoresPerSocket {
    let automatic = hw >= hardware::FIRST_AUTOMATIC;
    let stated = request
        .overrides
        .cores_per_socket
        .or(request.vm.esxi.cores_per_socket);
    match stated {
        None | Some(0) if automatic => CoresPerSocket::Auto,
        Some(cores) => CoresPerSocket::Manual(cores),
        None => CoresPerSocket::Default(recommended_cores(request, hw)),
    }
}

/// `numRecommendedCoresPerSocket` of the guest before hardware version 20 (option dumps of ESXi): 2 for newer Windows
/// and macOS, 1 for the others. It is what the wizard writes into a new VM, so an odd number of vCPUs keeps 1.
fn recommended_cores(request: &Request, hw: u32) -> u32 {
    let two = match request.vm.guest_os.as_deref().and_then(GuestOs::parse) {
        Some(GuestOs::WindowsClient(10)) => hw >= 13,
        Some(GuestOs::WindowsServer(2009..=2016)) => hw >= 15,
        Some(GuestOs::WindowsServer(year)) => year >= 2019,
        Some(GuestOs::MacOs(darwin)) => darwin >= 20,
        _ => false,
    };
    if two && request.vm.vcpus.is_multiple_of(2) {
        2
    } else {
        1
    }
}

/// The cookie is `vCPUs * 10000 + cores per socket * 10 + 2`, older `vCPUs * 10000 + 1`; another number of vCPUs makes
/// it stale. The cores in it are not compared: no source says that they count.
fn kept_node(keys: &EsxiKeys, vcpus: u32) -> Kept {
    let Some(size) = non_zero(keys.autosize_max_per_virtual_node) else {
        return Kept::Absent;
    };
    if keys.autosize == Some(true) || keys.autosize_once == Some(false) {
        return Kept::NotAsked;
    }
    match keys.autosize_cookie {
        None => Kept::NoCookie,
        Some(cookie) if cookie / 10_000 == u64::from(vcpus) && matches!(cookie % 10, 1 | 2) => {
            Kept::Valid(size)
        }
        Some(_) => Kept::Stale,
    }
}

fn ignored(request: &Request, hw: u32, hot_add: bool) -> Vec<Finding> {
    let (vm, keys, asked) = (request.vm, &request.vm.esxi, &request.overrides);
    let mut ignored = Vec::new();
    if hw < hardware::FIRST_AUTOMATIC {
        for (key, set) in [
            ("cpuid.numSMT", threads(request) != 1),
            (
                "numa.vcpu.coresPerNode",
                non_zero(keys.cores_per_node).is_some(),
            ),
            ("numa.allowHotadd", keys.allow_hotadd == Some(true)),
        ] {
            if set {
                let text = format!(
                    "{key} has no effect: it needs hardware version {}, the VM has {hw}",
                    hardware::FIRST_AUTOMATIC
                );
                ignored.push(Finding::warning("key-ignored", text));
            }
        }
    }
    let wanted = asked.max_vcpus.or(vm.max_vcpus).unwrap_or(0);
    if wanted > vm.vcpus && !hot_add {
        let text = format!(
            "{wanted} vCPU slots were asked for, but CPU hot-add is off: the VM keeps {} vCPUs until it is powered off",
            vm.vcpus
        );
        ignored.push(Finding::warning("hot-add-off", text));
    }
    if hot_add && wanted > hardware::max_vcpus(hw) {
        let text = format!(
            "{wanted} vCPU slots were asked for; hardware version {hw} has at most {}",
            hardware::max_vcpus(hw)
        );
        ignored.push(Finding::warning("hot-add-limit", text));
    }
    ignored
}

fn threads(request: &Request) -> u32 {
    let of_file = non_zero(request.vm.esxi.num_smt);
    request.overrides.threads_per_core.or(of_file).unwrap_or(1)
}

/// Zero means "not set" or "automatic" in every size key.
fn non_zero(key: Option<u32>) -> Option<u32> {
    key.filter(|&value| value > 0)
}
