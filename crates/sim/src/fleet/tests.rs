use proptest::prelude::*;

use super::*;
use crate::rng::{Law, Purpose, Stream};
use crate::time::S;
use crate::traces::{TraceVm, synthetic};

fn vm(on_ns: i64, off_ns: Option<i64>, milli_cpus: u32, memory_mib: u32) -> TraceVm {
    TraceVm {
        on_ns,
        off_ns,
        milli_cpus,
        memory_mib,
        ..TraceVm::default()
    }
}

fn trace(vms: Vec<TraceVm>) -> Trace {
    Trace {
        vms,
        ..Trace::default()
    }
}

fn kind(count: u32, milli_cpus: u32, memory_mib: u32) -> HostKind {
    HostKind {
        name: "host".to_owned(),
        count,
        milli_cpus,
        memory_mib,
    }
}

fn run(vms: &[TraceVm], hosts: &[HostKind], algorithm: Algorithm) -> FleetOutcome {
    replay(&trace(vms.to_vec()), hosts, algorithm).unwrap()
}

/// Hosts of VMs as text: `0 2 - 1`.
fn placed(outcome: &FleetOutcome) -> String {
    let hosts = outcome.host_of.iter().map(|host| match *host {
        NOWHERE => "-".to_owned(),
        host => host.to_string(),
    });
    hosts.collect::<Vec<_>>().join(" ")
}

#[test]
fn each_algorithm_takes_its_host() {
    use Algorithm::{BestFit, FirstFit, NextFit, WorstFit};
    // Sizes in CPUs of VMs that all come and stay, on hosts of 4, 8 and 6 CPUs.
    let cases: &[(&[u32], Algorithm, &str)] = &[
        (&[3, 5, 1, 2], FirstFit, "0 1 0 1"),
        (&[3, 5, 1, 2], NextFit, "0 1 1 1"),
        (&[3, 5, 1, 2], BestFit, "0 2 0 1"),
        (&[3, 5, 1, 2], WorstFit, "1 2 1 0"),
        // Around the end: the last host is full, the first has room again.
        (&[4, 8, 5, 1, 1], NextFit, "0 1 2 2 -"),
        (&[3, 8, 6, 1, 1], NextFit, "0 1 2 0 -"),
        // Refusals leave everything as it is.
        (&[9, 8, 9, 6, 4], FirstFit, "- 1 - 2 0"),
        (&[9, 8, 9, 6, 4], BestFit, "- 1 - 2 0"),
        // Of equals the first.
        (&[4, 2, 4], WorstFit, "1 2 0"),
    ];
    let hosts = [kind(1, 4_000, 64), kind(1, 8_000, 64), kind(1, 6_000, 64)];
    for (sizes, algorithm, expected) in cases {
        let vms: Vec<_> = sizes.iter().map(|it| vm(0, None, 1_000 * it, 1)).collect();
        let outcome = run(&vms, &hosts, *algorithm);
        assert_eq!(placed(&outcome), *expected, "{algorithm:?} {sizes:?}");
    }
}

#[test]
fn memory_binds_as_cpu_does() {
    let hosts = [kind(1, 8_000, 10), kind(2, 8_000, 100)];
    for algorithm in Algorithm::ALL {
        let outcome = run(
            &[vm(0, None, 1_000, 50), vm(0, None, 1_000, 60)],
            &hosts,
            algorithm,
        );
        assert!(
            !placed(&outcome).contains('0'),
            "{algorithm:?}: {}",
            placed(&outcome)
        );
        assert_eq!(outcome.placed, 2);
        assert_eq!(outcome.peak_hosts_used, 2, "{algorithm:?}");
    }
}

#[test]
fn who_goes_makes_room_for_who_comes_at_the_same_moment() {
    let hosts = [kind(1, 1_000, 1)];
    let cases = [
        (vec![vm(0, Some(5), 1_000, 1), vm(5, None, 1_000, 1)], "0 0"),
        (vec![vm(0, Some(6), 1_000, 1), vm(5, None, 1_000, 1)], "0 -"),
        // Comes and goes at once: it still was there.
        (vec![vm(5, Some(5), 1_000, 1), vm(5, None, 1_000, 1)], "0 -"),
        (vec![vm(5, Some(5), 1_000, 1), vm(6, None, 1_000, 1)], "0 0"),
        // A refused VM gives nothing back.
        (
            vec![
                vm(0, Some(9), 1_000, 1),
                vm(1, Some(2), 1_000, 1),
                vm(3, None, 1, 0),
            ],
            "0 - -",
        ),
        // Before the trace began, and not in order.
        (
            vec![vm(7, None, 1_000, 1), vm(-9, Some(7), 1_000, 1)],
            "0 0",
        ),
    ];
    for (vms, expected) in cases {
        assert_eq!(
            placed(&run(&vms, &hosts, Algorithm::FirstFit)),
            expected,
            "{vms:?}"
        );
    }
}

#[test]
fn figures_of_a_small_day() {
    // Two hosts of 4 CPUs and 8 MiB. Two VMs fill half of the first for 10 of 20 ns; one is too large for any host.
    let vms = [
        vm(0, Some(10), 1_000, 2),
        vm(0, Some(10), 1_000, 2),
        vm(5, None, 5_000, 1),
        vm(10, Some(20), 4_000, 8),
        vm(10, Some(20), 1_000, 2),
    ];
    let outcome = run(&vms, &[kind(2, 4_000, 8)], Algorithm::FirstFit);
    assert_eq!(placed(&outcome), "0 0 - 0 1");
    let counts = (
        outcome.placed,
        outcome.refused,
        outcome.too_large,
        outcome.events,
    );
    assert_eq!(counts, (4, 1, 1, 9));
    assert_eq!(outcome.peak_hosts_used, 2);
    // (2 of 8 CPUs for 10 ns + 5 of 8 for 10 ns) / 20 ns.
    assert_eq!(outcome.cpu_permille, 437);
    assert_eq!(outcome.memory_permille, 437);
    // At 10 ns 5 of 8 CPUs and 10 of 16 MiB, after the first two have gone.
    let peaks = (outcome.peak_cpu_permille, outcome.peak_memory_permille);
    assert_eq!(peaks, (625, 625));
    let at = |ns| {
        *outcome
            .series
            .iter()
            .find(|point| point.at_ns == ns)
            .unwrap()
    };
    // The median VM is 1 CPU and 2 MiB. At 7 ns 2 + 4 fit, as they would on one host.
    let seven = at(7);
    assert_eq!((seven.vms, seven.hosts_used, seven.refused), (2, 1, 1));
    assert_eq!(
        (seven.cpu_permille, seven.room, seven.fragmentation_permille),
        (250, 6, 0)
    );
    assert_eq!(at(15).room, 3);
    // The last moment is after everything.
    assert_eq!((at(19).vms, outcome.series.last().unwrap().vms), (2, 0));
}

#[test]
fn free_parts_on_many_hosts_are_worth_less() {
    // Three quarters of a host are taken on each of four; the median VM is half a host.
    let mut vms = vec![vm(0, None, 3_000, 1); 4];
    vms.extend(vec![vm(9, None, 2_000, 1); 7]);
    let outcome = run(&vms, &[kind(4, 4_000, 100)], Algorithm::FirstFit);
    let last = outcome.series.last().unwrap();
    // 4 CPUs are free, room for two such VMs on one host, and for none as they are.
    assert_eq!((last.room, last.fragmentation_permille), (0, 1_000));
    assert_eq!(outcome.refused, 7);
}

#[test]
fn no_hosts_and_too_many_are_errors() {
    let none = trace(vec![vm(0, None, 1, 1)]);
    assert_eq!(
        replay(&none, &[], Algorithm::FirstFit),
        Err(FleetError::NoHosts)
    );
    assert_eq!(
        replay(&none, &[kind(0, 1, 1)], Algorithm::BestFit),
        Err(FleetError::NoHosts)
    );
    let many = [kind(u32::MAX, 1, 1), kind(u32::MAX, 1, 1)];
    let asked = 2 * u64::from(u32::MAX);
    assert_eq!(
        replay(&none, &many, Algorithm::FirstFit),
        Err(FleetError::TooManyHosts { asked })
    );
}

#[test]
fn names_of_algorithms_lead_back() {
    for algorithm in Algorithm::ALL {
        assert_eq!(Algorithm::from_name(algorithm.name()), Some(algorithm));
    }
    assert_eq!(Algorithm::from_name("first fit"), None);
}

#[test]
fn the_hash_is_fnv_1a() {
    // Both values are of the authors' test vectors.
    assert_eq!(hash_placements([]), 0xcbf2_9ce4_8422_2325);
    let foob = u32::from_le_bytes(*b"foob");
    assert_eq!(hash_placements([foob]), 0xdd12_0e79_0c25_12af);
}

/// A loss system of k servers: one host with k VMs' room, Poisson arrivals, no waiting.
fn loss(servers: u32, offered: f64, life: Law, seed: u64) -> (f64, f64) {
    const BATCHES: usize = 40;
    const BATCH: usize = 1_500;
    let mut gaps = Stream::new(seed, Purpose::Arrivals, 0);
    let mut lives = Stream::new(seed, Purpose::Service, 0);
    let mean_gap_ns = (life.mean_ns() as f64 / offered) as u64;
    let mut at_ns = 0;
    let count = (BATCHES + 1) * BATCH;
    let vms: Vec<_> = (0..count)
        .map(|_| {
            at_ns += gaps.draw(Law::Exponential {
                mean_ns: mean_gap_ns,
            });
            let off_ns = at_ns + lives.draw(life);
            vm(at_ns.cast_signed(), Some(off_ns.cast_signed()), 1_000, 0)
        })
        .collect();
    let outcome = run(&vms, &[kind(1, 1_000 * servers, 1)], Algorithm::FirstFit);
    // The first batch fills the host and is left out.
    let losses: Vec<f64> = outcome.host_of[BATCH..]
        .chunks(BATCH)
        .map(|batch| batch.iter().filter(|host| **host == NOWHERE).count() as f64 / BATCH as f64)
        .collect();
    let mean = losses.iter().sum::<f64>() / losses.len() as f64;
    let variance =
        losses.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / (losses.len() - 1) as f64;
    (mean, (variance / losses.len() as f64).sqrt())
}

/// Erlang's loss formula, by its recursion.
fn erlang_b(servers: u32, offered: f64) -> f64 {
    (1..=servers).fold(1.0, |loss, k| {
        offered * loss / (f64::from(k) + offered * loss)
    })
}

#[test]
fn one_host_loses_what_erlang_says() {
    let exponential = Law::Exponential { mean_ns: 60 * S };
    // The loss does not depend on the law of the lifetimes, only on their mean.
    let fixed = Law::Fixed { mean_ns: 60 * S };
    let skewed = Law::LogNormal {
        mean_ns: 60 * S,
        cv: 2.0,
    };
    let cases = [
        (1, 0.5, exponential),
        (10, 8.0, exponential),
        (10, 8.0, fixed),
        (10, 8.0, skewed),
        (64, 60.0, exponential),
    ];
    for (servers, offered, life) in cases {
        let (mean, error) = loss(servers, offered, life, 5);
        let expected = erlang_b(servers, offered);
        // Four standard errors of forty batches: wrong by chance once in thousands of seeds, and the seed is fixed.
        assert!(
            (mean - expected).abs() < 4.0 * error && error < 0.1 * expected,
            "{servers} {offered} {life:?}: {mean} +- {error}, Erlang {expected}"
        );
    }
}

#[test]
fn a_synthetic_day_empties_the_fleet_again() {
    let mut day = synthetic::trace(&synthetic::Parameters::default());
    for vm in &mut day.vms {
        vm.off_ns.get_or_insert(86_400 * S.cast_signed());
    }
    day.vms
        .push(vm(100_000 * S.cast_signed(), None, 1_000, 1_024));
    for algorithm in Algorithm::ALL {
        let outcome = replay(&day, &[kind(30, 64_000, 131_072)], algorithm).unwrap();
        // Everybody is gone, and the last VM has not come.
        let last = outcome.series[outcome.series.len() - 2];
        assert_eq!((last.vms, last.hosts_used, last.cpu_permille), (0, 0, 0));
        assert_eq!(last.room, u64::from(30 * 64_u32), "{algorithm:?}");
        assert_eq!(outcome.placed + outcome.refused, day.vms.len() as u32);
        assert_eq!(
            replay(&day, &[kind(30, 64_000, 131_072)], algorithm),
            Ok(outcome)
        );
    }
}

/// All hosts looked at for every VM.
fn naive(vms: &[TraceVm], hosts: &[HostKind], algorithm: Algorithm) -> Vec<u32> {
    let mut free = capacities(hosts).unwrap();
    let count = free.len();
    let mut host_of = vec![NOWHERE; vms.len()];
    let mut last = 0;
    let mut moments: Vec<i64> = vms
        .iter()
        .flat_map(|it| [Some(it.on_ns), it.off_ns])
        .flatten()
        .collect();
    moments.sort_unstable();
    moments.dedup();
    for now in moments {
        for at_once in [false, true] {
            if at_once {
                for (vm, it) in vms.iter().enumerate().filter(|(_, it)| it.on_ns == now) {
                    let need = Room {
                        milli_cpus: it.milli_cpus,
                        memory_mib: it.memory_mib,
                    };
                    let mut fits = (0..count).filter(|host| free[*host].holds(need));
                    let host = match algorithm {
                        Algorithm::FirstFit => fits.next(),
                        Algorithm::NextFit => {
                            fits.min_by_key(|host| (*host + count - last) % count)
                        }
                        Algorithm::BestFit => {
                            fits.min_by_key(|host| (free[*host].milli_cpus, *host))
                        }
                        Algorithm::WorstFit => {
                            fits.min_by_key(|host| (!free[*host].milli_cpus, *host))
                        }
                    };
                    if let Some(host) = host {
                        last = host;
                        free[host] = free[host].minus(need);
                        host_of[vm] = host as u32;
                    }
                }
            }
            for (vm, it) in vms.iter().enumerate() {
                let leaves = it.off_ns == Some(now) && (it.on_ns == now) == at_once;
                if leaves && host_of[vm] != NOWHERE {
                    let host = host_of[vm] as usize;
                    free[host] = free[host].plus(Room {
                        milli_cpus: it.milli_cpus,
                        memory_mib: it.memory_mib,
                    });
                }
            }
        }
    }
    host_of
}

prop_compose! {
    fn some_vm()(
        on_ns in -5_i64..60,
        life in proptest::option::of(0_i64..40),
        milli_cpus in prop_oneof![1_u32..5_000, Just(1_000), Just(0)],
        memory_mib in prop_oneof![0_u32..5_000, Just(1_024)],
    ) -> TraceVm {
        vm(on_ns, life.map(|life| on_ns + life), milli_cpus, memory_mib)
    }
}

proptest! {
    #[test]
    fn placements_are_those_of_looking_at_every_host(
        mut vms in proptest::collection::vec(some_vm(), 1..120),
        hosts in proptest::collection::vec((1_u32..6, 0_u32..12_000, 0_u32..12_000), 1..5),
    ) {
        vms.sort_by_key(|it| it.on_ns);
        let hosts: Vec<_> = hosts.into_iter().map(|(count, cpus, mib)| kind(count, cpus, mib)).collect();
        for algorithm in Algorithm::ALL {
            let outcome = run(&vms, &hosts, algorithm);
            prop_assert_eq!(&outcome.host_of, &naive(&vms, &hosts, algorithm), "{:?}", algorithm);
            let hash = hash_placements(outcome.host_of.iter().copied());
            prop_assert_eq!(outcome.placement_hash, hash);
            let refused = outcome.host_of.iter().filter(|it| **it == NOWHERE).count();
            prop_assert_eq!(outcome.refused as usize, refused);
            prop_assert!(outcome.peak_cpu_permille.max(outcome.peak_memory_permille) <= 1_000);
            for point in &outcome.series {
                prop_assert!(point.cpu_permille <= outcome.peak_cpu_permille);
                prop_assert!(point.memory_permille <= outcome.peak_memory_permille);
                prop_assert!(point.hosts_used <= point.vms.min(outcome.hosts));
            }
        }
    }

    #[test]
    fn any_trace_of_plain_data_ends(
        vms in proptest::collection::vec((any::<i64>(), any::<Option<i64>>(), any::<u32>(), any::<u32>()), 0..20),
        cpus: u32,
        mib: u32,
    ) {
        let vms: Vec<_> = vms.into_iter().map(|(on, off, cpus, mib)| vm(on, off, cpus, mib)).collect();
        for algorithm in Algorithm::ALL {
            let outcome = run(&vms, &[kind(3, cpus, mib)], algorithm);
            prop_assert_eq!((outcome.placed + outcome.refused) as usize, vms.len());
            prop_assert!(outcome.series.len() <= 501);
            prop_assert!(outcome.series.is_sorted_by(|a, b| a.at_ns < b.at_ns));
        }
    }
}
