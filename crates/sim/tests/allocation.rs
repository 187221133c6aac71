//! In the steady state nothing is allocated: a run of twice the length asks for no more memory.

#![expect(
    unsafe_code,
    reason = "counting what is allocated needs an allocator of our own"
)]

mod scene;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use scene::{Scene, exponential, fixed, host, users, work};
use sim::spec::{Device, Step};
use sim::time::{MS, S, US};

struct Counting;

static COUNT: AtomicU64 = AtomicU64::new(0);

// SAFETY: everything is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the promises of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the promises of `dealloc`.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the promises of `realloc`.
        unsafe { System.realloc(place, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations of a run that was set up, settled, and has its figures made.
fn allocations(policy: &'static str, seconds: u64) -> u64 {
    let mut workload = work(users(12, exponential(2 * MS)), 12, exponential(300 * US));
    workload.vector.misses_per_us = 5.0;
    workload.vector.working_set = 8e6;
    workload.vector.shared_lines_per_us = 2.0;
    workload.devices.push(Device {
        name: "disk".to_owned(),
        latency: exponential(200 * US),
        parallel: 2,
    });
    workload.steps.extend([
        Step::Io { device: 0 },
        Step::Lock {
            lock: 0,
            hold: fixed(20 * US),
        },
        Step::Handoff(fixed(10 * US)),
    ]);
    let mut scene = Scene::new(host(4, 4, 2), policy)
        .lasting(seconds * S)
        .workload(workload)
        .vms(8, 4, |_| {});
    // What a policy allocates for its plan is the policy's.
    scene.hypervisor.rebalance_ns = None;
    let before = COUNT.load(Ordering::Relaxed);
    let outcome = scene.run(1);
    assert!(outcome.workloads[0].operations > 1_000);
    COUNT.load(Ordering::Relaxed) - before
}

#[test]
fn a_longer_run_allocates_no_more() {
    for policy in ["best", "llc", "linux-default"] {
        let (short, long) = (allocations(policy, 3), allocations(policy, 6));
        // Lists that had to grow once more, out of millions of events.
        assert!(
            long <= short + 50,
            "{policy}: {short} in 3 s, {long} in 6 s"
        );
    }
}
