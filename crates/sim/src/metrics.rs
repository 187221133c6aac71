//! From outcomes to figures with names and units: of a run as a whole, of each workload and of each VM; then over seeds.

use std::ops::Range;

use hdrhistogram::Histogram;

use crate::engine::histogram;
use crate::outcome::{Moves, Outcome, Times, VmOutcome};
use crate::statistics::{self, Difference, Estimate};

/// A figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "`about` says what each is")]
pub enum Metric {
    Throughput,
    LatencyMean,
    LatencyP50,
    LatencyP90,
    LatencyP95,
    LatencyP99,
    LatencyP999,
    LatencyMax,
    Ready,
    CoStop,
    LlcMigrations,
    NumaMigrations,
    SmtPaired,
    HomeLlc,
    LlcsMean,
    CacheMib,
    Remote,
    CpuBusy,
    VcpuRun,
    CpuPerOp,
    Overhead,
    Polling,
    Ipis,
    Wakeups,
    Rebalances,
}

/// What is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// More of it.
    More,
    /// Less of it.
    Less,
    /// It depends.
    Neither,
}

/// Name, unit, what is better, and what it is.
type Row = (Metric, &'static str, &'static str, Better, &'static str);

#[rustfmt::skip]
const TABLE: [Row; 25] = [
    (Metric::Throughput, "throughput", "ops/s", Better::More, "operations that ended in a second"),
    (Metric::LatencyMean, "latency_mean", "us", Better::Less, "mean time from asking to the answer"),
    (Metric::LatencyP50, "latency_p50", "us", Better::Less, "half of the operations take at most this"),
    (Metric::LatencyP90, "latency_p90", "us", Better::Less, "nine of ten operations take at most this"),
    (Metric::LatencyP95, "latency_p95", "us", Better::Less, "95 of 100 operations take at most this"),
    (Metric::LatencyP99, "latency_p99", "us", Better::Less, "99 of 100 operations take at most this"),
    (Metric::LatencyP999, "latency_p99_9", "us", Better::Less, "999 of 1000 operations take at most this"),
    (Metric::LatencyMax, "latency_max", "us", Better::Less, "the slowest operation"),
    (Metric::Ready, "ready", "%", Better::Less, "vCPU time spent ready, without a CPU (%RDY)"),
    (Metric::CoStop, "costop", "%", Better::Less, "vCPU time stopped for slower siblings (%CSTP)"),
    (Metric::LlcMigrations, "llc_migrations", "/s/vCPU", Better::Less, "moves of a vCPU to another last-level cache"),
    (Metric::NumaMigrations, "numa_migrations", "/s/vCPU", Better::Less, "moves of a vCPU to another NUMA node"),
    (Metric::SmtPaired, "smt_paired", "%", Better::Less, "running time with the core's other thread busy"),
    (Metric::HomeLlc, "home_llc", "%", Better::More, "running time on a home LLC"),
    (Metric::LlcsMean, "llcs_mean", "LLCs/VM", Better::Less, "LLCs on which vCPUs of a VM are, in the mean"),
    (Metric::CacheMib, "cache_mib", "MiB/VM", Better::More, "last-level cache that a VM holds, in the mean"),
    (Metric::Remote, "remote", "%", Better::Less, "memory accesses that leave the node"),
    (Metric::CpuBusy, "cpu_busy", "%", Better::Neither, "time of the host's CPUs that is used"),
    (Metric::VcpuRun, "vcpu_run", "%", Better::Neither, "vCPU time on a CPU, with polling"),
    (Metric::CpuPerOp, "cpu_per_op", "us", Better::Less, "running time of vCPUs for an operation, without polling"),
    (Metric::Overhead, "overhead", "%", Better::Less, "running time for switches, exits, interrupts and refilled caches"),
    (Metric::Polling, "polling", "%", Better::Neither, "running time in which the hypervisor waits for work before it halts the vCPU"),
    (Metric::Ipis, "ipis", "/s", Better::Less, "interrupts from one vCPU to another"),
    (Metric::Wakeups, "wakeups", "/s", Better::Neither, "wake-ups of halted vCPUs"),
    (Metric::Rebalances, "rebalances", "/s", Better::Neither, "homes that the policy changes"),
];

impl Metric {
    /// All figures, in the order of reports.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|row| row.0)
    }

    /// The name in documents and tables, such as `latency_p99`.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// The unit; times are in microseconds.
    pub fn unit(self) -> &'static str {
        self.row().2
    }

    /// Whether more or less of it is wanted.
    pub fn better(self) -> Better {
        self.row().3
    }

    /// What it is, in a few words.
    pub fn about(self) -> &'static str {
        self.row().4
    }

    /// Which part of the operations a percentile is about, 0 to 1.
    pub fn quantile(self) -> Option<f64> {
        Some(match self {
            Self::LatencyP50 => 0.5,
            Self::LatencyP90 => 0.9,
            Self::LatencyP95 => 0.95,
            Self::LatencyP99 => 0.99,
            Self::LatencyP999 => 0.999,
            Self::LatencyMax => 1.0,
            _ => return None,
        })
    }

    fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }
}

/// Latencies in little memory: the values of a histogram that occurred, with how often.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Latencies(Vec<(u64, u64)>);

impl Latencies {
    fn of(histogram: &Histogram<u64>) -> Self {
        let recorded = histogram.iter_recorded();
        let pairs = recorded.map(|step| (step.value_iterated_to(), step.count_at_value()));
        Self(pairs.collect())
    }

    /// One histogram of several, in nanoseconds: percentiles come from it, never from a mean of percentiles.
    ///
    /// # Panics
    /// Never: all latencies come from histograms of the same bounds.
    pub fn merged<'a>(all: impl IntoIterator<Item = &'a Self>) -> Histogram<u64> {
        let mut merged = histogram();
        for (value, count) in all.into_iter().flat_map(|own| &own.0) {
            merged
                .record_n(*value, *count)
                .expect("the value comes from a histogram of the same bounds");
        }
        merged
    }
}

/// The figures of one run for the whole, a workload or a VM.
#[derive(Debug, Clone, PartialEq)]
pub struct Scope {
    /// Name of the workload or VM; empty for the whole.
    pub name: String,
    /// Name of the workload that a VM runs; empty for others and for idle VMs.
    pub workload: String,
    /// Latencies of its operations.
    pub latencies: Latencies,
    /// By [`Metric`]; `None` where it means nothing.
    values: Vec<Option<f64>>,
}

impl Scope {
    /// A figure; `None` where it means nothing, such as the latency of a VM without operations.
    pub fn value(&self, metric: Metric) -> Option<f64> {
        self.values[metric as usize]
    }
}

/// The figures of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The seed.
    pub seed: u64,
    /// The host with all VMs.
    pub whole: Scope,
    /// By workload name; VMs that run a workload with changes of their own count with the others.
    pub workloads: Vec<Scope>,
    /// By VM.
    pub vms: Vec<Scope>,
    /// VMs that came later and found no place.
    pub refused: u32,
    /// What is odd about the run.
    pub remarks: Vec<String>,
}

/// The figures of an outcome.
pub fn sample(outcome: &Outcome) -> Sample {
    let name = |vm: &VmOutcome| match vm.workload {
        Some(index) => outcome.workloads[index].name.clone(),
        None => String::new(),
    };
    let mut names: Vec<&str> = Vec::new();
    for workload in &outcome.workloads {
        if !names.contains(&workload.name.as_str()) {
            names.push(&workload.name);
        }
    }
    let of_workload = |wanted: &&str| {
        let mut sum = Sum::default();
        let all = outcome.workloads.iter();
        for workload in all.filter(|workload| workload.name == *wanted) {
            sum.add_operations(workload.operations, &workload.latency);
        }
        let all = outcome.vms.iter();
        all.filter(|vm| name(vm) == *wanted)
            .for_each(|vm| sum.add_vcpus(vm));
        sum.scope(wanted, outcome.window_ns)
    };
    let of_vm = |vm: &VmOutcome| {
        let mut sum = Sum::default();
        sum.add_operations(vm.operations, &vm.latency);
        sum.add_vcpus(vm);
        Scope {
            workload: name(vm),
            ..sum.scope(&vm.name, outcome.window_ns)
        }
    };
    Sample {
        seed: outcome.seed,
        whole: whole(outcome),
        workloads: names.iter().map(of_workload).collect(),
        vms: outcome.vms.iter().map(of_vm).collect(),
        refused: outcome.host.refused,
        remarks: outcome.remarks.clone(),
    }
}

fn whole(outcome: &Outcome) -> Scope {
    let mut sum = Sum::default();
    for workload in &outcome.workloads {
        sum.add_operations(workload.operations, &workload.latency);
    }
    outcome.vms.iter().for_each(|vm| sum.add_vcpus(vm));
    let mut scope = sum.scope("", outcome.window_ns);
    let host = &outcome.host;
    scope.values[Metric::CpuBusy as usize] = ratio(host.busy_ns as f64 * 100.0, host.cpu_ns as f64);
    scope.values[Metric::Rebalances as usize] =
        ratio(host.rebalances as f64 * 1e9, outcome.window_ns as f64);
    scope
}

/// What VMs have in sum.
#[derive(Default)]
struct Sum {
    operations: u64,
    latency: Option<Histogram<u64>>,
    time: Times,
    moves: Moves,
    vms: u32,
    llcs: f64,
    cache: f64,
    /// Share of remote accesses, weighted by running time.
    remote: f64,
}

impl Sum {
    fn add_operations(&mut self, operations: u64, latency: &Histogram<u64>) {
        self.operations += operations;
        self.latency
            .get_or_insert_with(histogram)
            .add(latency)
            .expect("the histograms have the same bounds");
    }

    fn add_vcpus(&mut self, vm: &VmOutcome) {
        self.time.add(&vm.time);
        self.moves.add(&vm.moves);
        self.vms += 1;
        self.llcs += vm.llcs_mean;
        self.cache += vm.cache_bytes;
        self.remote += vm.remote_share * vm.time.run_ns as f64;
    }

    fn scope(self, name: &str, window_ns: u64) -> Scope {
        let latency = self.latency.clone().unwrap_or_else(histogram);
        Scope {
            name: name.to_owned(),
            workload: String::new(),
            values: Metric::all()
                .map(|metric| self.value(metric, &latency, window_ns))
                .collect(),
            latencies: Latencies::of(&latency),
        }
    }

    fn value(&self, metric: Metric, latency: &Histogram<u64>, window_ns: u64) -> Option<f64> {
        let (time, moves) = (&self.time, &self.moves);
        let there = time.run_ns + time.ready_ns + time.costop_ns + time.halted_ns;
        let of_there = |ns: u64| ratio(ns as f64 * 100.0, there as f64);
        let of_run = |ns: u64| ratio(ns as f64 * 100.0, time.run_ns as f64);
        let a_second = |count: u64| ratio(count as f64 * 1e9, window_ns as f64);
        let a_vcpu_second = |count: u64| ratio(count as f64 * 1e9, there as f64);
        let a_vm = |sum: f64| ratio(sum, f64::from(self.vms));
        match metric {
            Metric::Throughput => a_second(self.operations),
            Metric::LatencyMean
            | Metric::LatencyP50
            | Metric::LatencyP90
            | Metric::LatencyP95
            | Metric::LatencyP99
            | Metric::LatencyP999
            | Metric::LatencyMax => latency_us(latency, metric),
            Metric::Ready => of_there(time.ready_ns),
            Metric::CoStop => of_there(time.costop_ns),
            Metric::LlcMigrations => a_vcpu_second(moves.llc),
            Metric::NumaMigrations => a_vcpu_second(moves.node),
            Metric::SmtPaired => of_run(time.paired_ns),
            Metric::HomeLlc => of_run(time.home_ns),
            Metric::LlcsMean => a_vm(self.llcs),
            Metric::CacheMib => a_vm(self.cache / 1_048_576.0),
            Metric::Remote => ratio(self.remote * 100.0, time.run_ns as f64),
            Metric::VcpuRun => of_there(time.run_ns),
            Metric::CpuPerOp => {
                let worked = time.run_ns - time.poll_ns;
                ratio(worked as f64 / 1e3, self.operations as f64)
            }
            Metric::Overhead => of_run(time.overhead_ns),
            Metric::Polling => of_run(time.poll_ns),
            Metric::Ipis => a_second(moves.ipis),
            Metric::Wakeups => a_second(moves.wakeups),
            // Of the host as a whole only.
            Metric::CpuBusy | Metric::Rebalances => None,
        }
    }
}

/// A latency figure of a histogram, in microseconds; `None` without operations.
pub fn latency_us(histogram: &Histogram<u64>, metric: Metric) -> Option<f64> {
    if histogram.is_empty() {
        return None;
    }
    match metric.quantile() {
        Some(quantile) => Some(histogram.value_at_quantile(quantile) as f64 / 1e3),
        None => Some(histogram.mean() / 1e3),
    }
}

fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

/// A figure over seeds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    /// Which.
    pub metric: Metric,
    /// Mean and interval.
    pub estimate: Estimate,
    /// Against the base, seed by seed, if there is one.
    pub difference: Option<Difference>,
}

/// The figures over the seeds of the same scope, against those of a base with the same seeds in the same order (none: an empty
/// one). A figure that some seed does not have is left out.
pub fn figures(seeds: &[&Scope], base: &[&Scope]) -> Vec<Figure> {
    let latencies = Latencies::merged(seeds.iter().map(|scope| &scope.latencies));
    let values = |scopes: &[&Scope], metric| -> Option<Vec<f64>> {
        scopes.iter().map(|scope| scope.value(metric)).collect()
    };
    Metric::all()
        .filter_map(|metric| {
            let own = values(seeds, metric)?;
            let is_latency = LATENCIES.contains(&(metric as usize));
            let merged = is_latency.then(|| latency_us(&latencies, metric)).flatten();
            let estimate = match merged {
                Some(middle) => statistics::around(middle, &own),
                None => statistics::estimate(&own)?,
            };
            let base = values(base, metric).filter(|base| base.len() == own.len());
            Some(Figure {
                metric,
                estimate,
                difference: base.and_then(|base| statistics::difference(&base, &own)),
            })
        })
        .collect()
}

/// Metrics that are made from latencies.
const LATENCIES: Range<usize> = Metric::LatencyMean as usize..Metric::LatencyMax as usize + 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn vm(name: &str, workload: usize, latencies_us: &[u64]) -> VmOutcome {
        let mut latency = histogram();
        for value in latencies_us {
            latency.record(value * 1000).unwrap();
        }
        VmOutcome {
            name: name.to_owned(),
            workload: Some(workload),
            vcpus: 2,
            operations: latencies_us.len() as u64,
            latency,
            time: Times {
                run_ns: 1_000_000_000,
                ready_ns: 500_000_000,
                costop_ns: 100_000_000,
                halted_ns: 400_000_000,
                paired_ns: 250_000_000,
                ..Times::default()
            },
            system: Times::default(),
            moves: Moves {
                llc: 6,
                ..Moves::default()
            },
            cache_bytes: 1_048_576.0,
            remote_share: 0.5,
            llcs_mean: 2.0,
        }
    }

    fn outcome(seed: u64, latencies_us: &[u64]) -> Outcome {
        let vms = vec![vm("a", 0, latencies_us), vm("b", 1, &[7])];
        let workload = |index: usize, name: &str| crate::outcome::WorkloadOutcome {
            name: name.to_owned(),
            vms: 1,
            operations: vms[index].operations,
            latency: vms[index].latency.clone(),
        };
        Outcome {
            seed,
            window_ns: 1_000_000_000,
            events: 1,
            trace_hash: 0,
            workloads: vec![workload(0, "oltp"), workload(1, "web")],
            vms,
            host: crate::outcome::HostOutcome {
                busy_ns: 2,
                cpu_ns: 4,
                ..Default::default()
            },
            timeline: Vec::new(),
            remarks: Vec::new(),
        }
    }

    fn close(seen: Option<f64>, known: f64) {
        let seen = seen.unwrap();
        assert!(
            (seen - known).abs() <= 0.001 * known.abs(),
            "{seen} is not {known}"
        );
    }

    #[test]
    fn the_table_is_in_the_order_of_the_metrics() {
        for (index, metric) in Metric::all().enumerate() {
            assert_eq!(metric as usize, index);
        }
    }

    #[test]
    fn figures_of_a_run_are_shares_of_the_right_whole() {
        let sample = sample(&outcome(1, &[100, 200, 300]));
        let a = &sample.vms[0];
        close(a.value(Metric::Throughput), 3.0);
        close(a.value(Metric::Ready), 25.0);
        close(a.value(Metric::CoStop), 5.0);
        close(a.value(Metric::SmtPaired), 25.0);
        close(a.value(Metric::LlcMigrations), 3.0);
        close(a.value(Metric::LatencyP50), 200.0);
        close(a.value(Metric::LatencyMax), 300.0);
        close(a.value(Metric::CpuPerOp), 1e6 / 3.0);
        close(a.value(Metric::CacheMib), 1.0);
        assert_eq!(a.value(Metric::CpuBusy), None);
        assert_eq!(
            (a.workload.as_str(), sample.workloads[1].name.as_str()),
            ("oltp", "web")
        );
        close(sample.whole.value(Metric::CpuBusy), 50.0);
        close(sample.whole.value(Metric::Throughput), 4.0);
        close(sample.whole.value(Metric::Remote), 50.0);
    }

    /// The median of 1, 1, 1, 1000 and 1000, 1000, 1000, 1000 together is 1000; the mean of both medians would be 500.
    #[test]
    fn percentiles_come_from_all_seeds_together() {
        let samples = [
            sample(&outcome(1, &[1, 1, 1, 1000])),
            sample(&outcome(2, &[1000, 1000, 1000, 1000])),
        ];
        let scopes: Vec<&Scope> = samples.iter().map(|sample| &sample.workloads[0]).collect();
        let found = figures(&scopes, &[]);
        let of = |metric| found.iter().find(|figure| figure.metric == metric).unwrap();
        close(Some(of(Metric::LatencyP50).estimate.mean), 1000.0);
        close(Some(of(Metric::LatencyMean).estimate.mean), 5003.0 / 8.0);
        assert!(of(Metric::Throughput).difference.is_none());
        let same = figures(&scopes, &scopes);
        assert!(
            same.iter()
                .all(|figure| figure.difference.unwrap().absolute.mean == 0.0)
        );
    }

    #[test]
    fn without_operations_there_is_no_latency() {
        let sample = sample(&outcome(1, &[]));
        assert_eq!(sample.vms[0].value(Metric::LatencyP99), None);
        assert_eq!(sample.vms[0].value(Metric::CpuPerOp), None);
        close(sample.vms[0].value(Metric::Throughput), 0.0);
        assert!(
            figures(&[&sample.vms[0]], &[])
                .iter()
                .all(|figure| figure.metric != Metric::LatencyP99)
        );
    }
}
