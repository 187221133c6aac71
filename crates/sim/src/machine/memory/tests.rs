use proptest::prelude::*;

use super::*;

fn flow(bytes: f64, work_ns: f64, wait_ns: f64) -> Flow {
    Flow {
        bytes,
        work_ns,
        wait_ns,
    }
}

#[test]
fn latency_rises_as_the_reference_says() {
    // 1 + 0.5 rho^2 / (1 - rho), at most 2.5.
    let rows = [
        (0.0, 1.0),
        (0.5, 1.25),
        (0.6, 1.45),
        (0.75, 2.125),
        (0.9, 2.5),
        (0.95, 2.5),
        (1.0, 2.5),
        (7.0, 2.5),
        (f64::NAN, 1.0),
    ];
    for (rho, factor) in rows {
        let found = loaded_factor(rho);
        assert!((found - factor).abs() < 1e-12, "{rho}: {found}");
    }
}

#[test]
fn an_idle_pipe_and_one_without_limits_are_free() {
    for (capacity, flows) in [
        (10.0, vec![]),
        (f64::INFINITY, vec![flow(1e9, 1000.0, 1000.0)]),
        (1e12, vec![flow(1000.0, 1000.0, 1000.0)]),
    ] {
        assert!((settle(capacity, &flows).factor - 1.0).abs() < 1e-9);
    }
}

#[test]
fn utilisation_and_latency_agree() {
    // Work and wait 1000 ns each, so that bytes go through at b / (1000 + 1000 F).
    let settled = settle(10.0, &[flow(12_000.0, 1000.0, 1000.0)]);
    let rho = settled.bytes_per_ns / 10.0;
    assert!((settled.factor - loaded_factor(rho)).abs() < 1e-3);
    assert!((settled.bytes_per_ns - 12.0 / (1.0 + settled.factor)).abs() < 1e-3);
    assert!((0.4..0.6).contains(&rho), "{rho}");
}

#[test]
fn demand_is_made_to_fit() {
    // Twice what fits with nothing but waiting: everything takes twice as long at least, in closed form 40 / (1 + F) = 5.
    let settled = settle(5.0, &[flow(40_000.0, 1000.0, 1000.0)]);
    assert!((settled.factor - 7.0).abs() < 1e-3, "{settled:?}");
    assert!((settled.bytes_per_ns - 5.0).abs() < 1e-3);
    // What can never fit ends at the bound.
    let settled = settle(1e-3, &[flow(1e9, 1000.0, 1.0)]);
    assert!((settled.factor - MOST).abs() < 1e-9);
}

fn flows() -> impl Strategy<Value = Vec<Flow>> {
    let one = (0.0_f64..1e5, 1000.0_f64..9000.0, 0.0_f64..5000.0);
    prop::collection::vec(
        one.prop_map(|(bytes, work, wait)| flow(bytes, work, wait)),
        1..20,
    )
}

proptest! {
    #[test]
    fn a_pipe_settles(flows in flows(), capacity in 0.1_f64..500.0) {
        let Settled { factor, bytes_per_ns } = settle(capacity, &flows);
        prop_assert!((1.0..=MOST).contains(&factor));
        if factor < MOST - 1e-6 {
            prop_assert!(bytes_per_ns <= capacity * 1.0001, "{bytes_per_ns} {capacity}");
        }
        let expected = loaded_factor(bytes_per_ns / capacity);
        if factor < NEARLY_FULL - 1e-3 {
            prop_assert!((factor - expected).abs() < 1e-2, "{factor} {expected}");
        }
    }

    #[test]
    fn more_bandwidth_and_fewer_flows_never_hurt(flows in flows(), capacity in 0.1_f64..500.0) {
        let now = settle(capacity, &flows).factor;
        prop_assert!(settle(1.5 * capacity, &flows).factor <= now * 1.0001);
        prop_assert!(settle(capacity, &flows[1..]).factor <= now * 1.0001);
    }

    #[test]
    fn order_does_not_matter(mut flows in flows(), capacity in 0.1_f64..500.0) {
        let one = settle(capacity, &flows);
        flows.reverse();
        prop_assert_eq!(one, settle(capacity, &flows));
    }
}
