//! What is counted while a trace is played: sums that change with every event, their integrals over time, and the fleet at
//! evenly spaced moments.

use super::{FleetOutcome, Room};
use crate::traces::Trace;

/// Moments of the series; ours. Enough for a drawing.
const POINTS: u64 = 500;

/// The fleet at a moment, before what happens at it; the last point of a series is after everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FleetPoint {
    /// When.
    pub at_ns: i64,
    /// VMs that run.
    pub vms: u32,
    /// VMs refused so far.
    pub refused: u32,
    /// Hosts with a VM.
    pub hosts_used: u32,
    /// Share of all CPU that VMs have, 0 to 1000.
    pub cpu_permille: u32,
    /// Share of all memory that VMs have, 0 to 1000.
    pub memory_permille: u32,
    /// How many VMs of the trace's median size (median CPU, median memory) would fit besides.
    pub room: u64,
    /// Share of that room that is lost because what is free is on many hosts, 0 to 1000: 0 is as if it were on one.
    pub fragmentation_permille: u32,
}

#[derive(Debug)]
pub(super) struct Ledger {
    /// A VM of the median size.
    median: Room,
    largest: Vec<Room>,
    milli_cpus: u64,
    memory_mib: u64,
    hosts: u32,
    start_ns: i64,
    now_ns: i64,
    end_ns: i64,
    step_ns: i64,
    next_ns: i64,
    used: Used,
    /// Milli-CPU and MiB in use times nanoseconds.
    cpu_area: u128,
    memory_area: u128,
    placed: u32,
    refused: u32,
    too_large: u32,
    peak_hosts_used: u32,
    peak_milli_cpus: u64,
    peak_memory_mib: u64,
    events: u64,
    series: Vec<FleetPoint>,
}

#[derive(Debug, Default)]
struct Used {
    vms: u32,
    hosts: u32,
    milli_cpus: u64,
    memory_mib: u64,
    /// Sum over hosts of the median VMs that still fit.
    room: u64,
}

impl Ledger {
    pub(super) fn new(trace: &Trace, hosts: &[Room]) -> Self {
        let median = median(trace);
        let (start_ns, end_ns) = span(trace);
        let mut largest = hosts.to_vec();
        largest.sort_unstable_by_key(|room| (room.milli_cpus, room.memory_mib));
        largest.dedup();
        Self {
            median,
            milli_cpus: hosts.iter().map(|it| u64::from(it.milli_cpus)).sum(),
            memory_mib: hosts.iter().map(|it| u64::from(it.memory_mib)).sum(),
            hosts: hosts.len() as u32,
            start_ns,
            now_ns: start_ns,
            end_ns,
            // Rounded up, so that there are not more points than that.
            step_ns: end_ns
                .abs_diff(start_ns)
                .div_ceil(POINTS)
                .max(1)
                .cast_signed(),
            next_ns: start_ns,
            used: Used {
                room: hosts.iter().map(|it| u64::from(fitting(*it, median))).sum(),
                ..Used::default()
            },
            largest,
            cpu_area: 0,
            memory_area: 0,
            placed: 0,
            refused: 0,
            too_large: 0,
            peak_hosts_used: 0,
            peak_milli_cpus: 0,
            peak_memory_mib: 0,
            events: 0,
            series: Vec::with_capacity(POINTS as usize + 2),
        }
    }

    /// Up to a moment nothing changes.
    pub(super) fn advance(&mut self, to_ns: i64) {
        while self.next_ns < to_ns {
            self.series.push(self.point(self.next_ns));
            self.next_ns = self.next_ns.saturating_add(self.step_ns);
        }
        let past = u128::from(to_ns.abs_diff(self.now_ns));
        self.cpu_area += past * u128::from(self.used.milli_cpus);
        self.memory_area += past * u128::from(self.used.memory_mib);
        self.now_ns = to_ns;
    }

    /// A VM came to a host, which has so many now, and this room without it and with it.
    pub(super) fn placed(&mut self, need: Room, vms: u32, (without, with): (Room, Room)) {
        self.events += 1;
        self.placed += 1;
        self.used.vms += 1;
        self.used.hosts += u32::from(vms == 1);
        self.peak_hosts_used = self.peak_hosts_used.max(self.used.hosts);
        self.used.milli_cpus += u64::from(need.milli_cpus);
        self.used.memory_mib += u64::from(need.memory_mib);
        self.peak_milli_cpus = self.peak_milli_cpus.max(self.used.milli_cpus);
        self.peak_memory_mib = self.peak_memory_mib.max(self.used.memory_mib);
        self.used.room -= u64::from(fitting(without, self.median) - fitting(with, self.median));
    }

    pub(super) fn refused(&mut self, need: Room) {
        self.events += 1;
        self.refused += 1;
        self.too_large += u32::from(!self.largest.iter().any(|room| room.holds(need)));
    }

    /// A VM left a host, which has so many now, and this room with it and without it.
    pub(super) fn left(&mut self, need: Room, vms: u32, (with, without): (Room, Room)) {
        self.events += 1;
        self.used.vms -= 1;
        self.used.hosts -= u32::from(vms == 0);
        self.used.milli_cpus -= u64::from(need.milli_cpus);
        self.used.memory_mib -= u64::from(need.memory_mib);
        self.used.room += u64::from(fitting(without, self.median) - fitting(with, self.median));
    }

    pub(super) fn outcome(mut self, host_of: Vec<u32>, placement_hash: u64) -> FleetOutcome {
        self.advance(self.end_ns);
        self.series.push(self.point(self.end_ns));
        let span = u128::from(self.end_ns.abs_diff(self.start_ns));
        let mean = |area: u128, whole: u64| match span * u128::from(whole) {
            0 => 0,
            whole => (1_000 * area / whole) as u32,
        };
        FleetOutcome {
            placed: self.placed,
            refused: self.refused,
            too_large: self.too_large,
            placement_hash,
            host_of,
            hosts: self.hosts,
            peak_hosts_used: self.peak_hosts_used,
            events: self.events,
            cpu_permille: mean(self.cpu_area, self.milli_cpus),
            memory_permille: mean(self.memory_area, self.memory_mib),
            peak_cpu_permille: permille(self.peak_milli_cpus, self.milli_cpus),
            peak_memory_permille: permille(self.peak_memory_mib, self.memory_mib),
            series: self.series,
        }
    }

    fn point(&self, at_ns: i64) -> FleetPoint {
        let free_cpus = self.milli_cpus - self.used.milli_cpus;
        let free_memory = self.memory_mib - self.used.memory_mib;
        let median = self.median;
        let on_one = (free_cpus / u64::from(median.milli_cpus))
            .min(free_memory / u64::from(median.memory_mib));
        FleetPoint {
            at_ns,
            vms: self.used.vms,
            refused: self.refused,
            hosts_used: self.used.hosts,
            cpu_permille: permille(self.used.milli_cpus, self.milli_cpus),
            memory_permille: permille(self.used.memory_mib, self.memory_mib),
            room: self.used.room,
            fragmentation_permille: permille(on_one - self.used.room, on_one),
        }
    }
}

/// From the first arrival to the last event.
fn span(trace: &Trace) -> (i64, i64) {
    let start = trace.vms.iter().map(|vm| vm.on_ns).min().unwrap_or(0);
    let last = |vm: &crate::traces::TraceVm| vm.off_ns.map_or(vm.on_ns, |off| off.max(vm.on_ns));
    let end = trace.vms.iter().map(last).max().unwrap_or(start);
    (start, end)
}

/// The median of CPU and that of memory, each at least 1.
fn median(trace: &Trace) -> Room {
    let middle = |mut values: Vec<u32>| {
        if values.is_empty() {
            return 1;
        }
        let at = values.len() / 2;
        (*values.select_nth_unstable(at).1).max(1)
    };
    Room {
        milli_cpus: middle(trace.vms.iter().map(|vm| vm.milli_cpus).collect()),
        memory_mib: middle(trace.vms.iter().map(|vm| vm.memory_mib).collect()),
    }
}

/// How many VMs of a size fit.
fn fitting(room: Room, vm: Room) -> u32 {
    (room.milli_cpus / vm.milli_cpus).min(room.memory_mib / vm.memory_mib)
}

fn permille(part: u64, whole: u64) -> u32 {
    match whole {
        0 => 0,
        whole => (u128::from(part) * 1_000 / u128::from(whole)) as u32,
    }
}
