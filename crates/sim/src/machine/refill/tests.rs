use super::*;
use crate::machine::presets::preset;
use crate::time::US;

const MIB: f64 = 1024.0 * 1024.0;

fn rome() -> Fabric {
    Fabric::new(&preset("epyc-7702-2s"))
}

#[test]
fn a_move_costs_by_how_far_it_goes() {
    let fabric = rome();
    let vector = Vector {
        working_set: 64.0 * MIB,
        ..Vector::COMPUTE
    };
    // From CPU 0 with 4 MiB of which the L2 holds 0.5: to, home, us.
    let rows = [
        // Itself and its sibling.
        (0, 0, 0.0),
        (128, 0, 0.0),
        // 8192 lines x 10.25 ns / 8; the reference says about 10 us.
        (1, 0, 10.496),
        // 65536 lines x 119 and 122 ns / 8 (memory is nearer than a cache at 135); the reference says 0.8 ms at 100.
        (4, 0, 974.848),
        (16, 0, 999.424),
        // Memory behind the other package: 205 ns.
        (16, 1, 1679.36),
        (64, 0, 1679.36),
        // It moves to its memory.
        (64, 1, 999.424),
    ];
    for (to, home, us) in rows {
        let step = Move {
            from: 0,
            to,
            home,
            bytes: 4.0 * MIB,
        };
        let found = refill_ns(&fabric, &vector, &step) / US as f64;
        assert!((found - us).abs() < 1e-3, "to {to}, home {home}: {found}");
    }
}

#[test]
fn only_what_was_loaded_is_lost() {
    let vector = Vector {
        misses_per_us: 8.0,
        working_set: 4.0 * MIB,
        ..Vector::COMPUTE
    };
    assert!(loaded(&vector, 0.0).abs() < 1e-9);
    // With hardly any cache the power law gives 8 times the misses: 64 lines each us.
    assert!((loaded(&vector, 10_000.0) - 10.0 * 64.0 * 64.0).abs() < 1e-6);
    assert!((loaded(&vector, 1e12) - 4.0 * MIB).abs() < 1e-6);
    let fabric = rome();
    let step = |bytes| Move {
        from: 0,
        to: 16,
        home: 0,
        bytes,
    };
    let all = refill_ns(&fabric, &vector, &step(4.0 * MIB));
    assert!((refill_ns(&fabric, &vector, &step(1e12)) - all).abs() < 1e-6);
    assert!((refill_ns(&fabric, &vector, &step(2.0 * MIB)) - all / 2.0).abs() < 1e-6);
    assert!(refill_ns(&fabric, &Vector::COMPUTE, &step(1e12)).abs() < 1e-9);
}
