//! Memory: how much slower it gets under load, and how much of a VM's is where.

/// A loaded memory never takes more than this times its latency alone: loaded-latency curves end at 2.5 at 95 % load
/// (reference model, section 2.2), and beyond that requests queue until demand falls.
const MOST_USED: f64 = 0.98;

/// How much longer a read takes when a share `rho` of the bandwidth is used: 1 + rho^2 / 2 / (1 - rho) (section 2.2).
pub fn load_factor(rho: f64) -> f64 {
    let rho = rho.clamp(0.0, MOST_USED);
    1.0 + 0.5 * rho * rho / (1.0 - rho)
}

/// Smooths a load from one settlement to the next, so that speed and demand find their balance: when more is asked than a
/// memory carries, the latency rises until less is asked.
pub fn settle(before: f64, demand: f64, capacity: f64) -> f64 {
    // A quarter of the way: the demand of the next epoch follows from the speed of this one.
    const STEP: f64 = 0.25;
    if !capacity.is_finite() || capacity <= 0.0 {
        return 0.0;
    }
    (before + STEP * (demand / capacity - before)).clamp(0.0, 4.0)
}

/// The same factor for loads above 1, which last for a moment only: it goes on growing, so that demand must fall.
pub fn factor(rho: f64) -> f64 {
    load_factor(rho) * (1.0 + (rho - MOST_USED).max(0.0) * 8.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latency_rises_with_load() {
        assert!((load_factor(0.0) - 1.0).abs() < 1e-12);
        assert!((load_factor(0.5) - 1.25).abs() < 1e-12);
        let factors: Vec<f64> = (0..200)
            .map(|step| factor(f64::from(step) / 100.0))
            .collect();
        assert!(factors.windows(2).all(|pair| pair[0] <= pair[1]));
    }

    /// A thread that reads as fast as it can from a memory that carries half of that ends at its bandwidth.
    #[test]
    fn demand_falls_to_what_memory_carries() {
        let (capacity, latency_ns, mlp) = (2.0, 100.0, 10.0);
        let mut rho = 0.0;
        let mut demand = 0.0;
        for _ in 0..400 {
            demand = 64.0 * mlp / (latency_ns * factor(rho));
            rho = settle(rho, demand, capacity);
        }
        assert!(demand / capacity < 1.02, "{demand}");
        assert!(demand / capacity > 0.8, "{demand}");
    }
}
