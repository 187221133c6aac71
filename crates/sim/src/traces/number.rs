//! Numbers of traces: decimal text to integers of a unit, within bounds.

use super::LONGEST_TRACE_NS;
use crate::time::S;

/// Times are rounded to this: decimals of days are not exact, and what happened at once is to stay at once. Ours.
const TIME_GRAIN_NS: f64 = 1e6;

/// CPUs of a VM; ours, far above any machine.
const MAX_CPUS: f64 = 1e6;
/// Memory of a VM in MiB: a PiB, which stays below the 32 bits of a size; ours.
const MAX_MEMORY_MIB: f64 = (1_u64 << 30) as f64;

/// A finite number.
pub(super) fn number(text: &str, what: &str) -> Result<f64, String> {
    let text = text.trim();
    text.parse::<f64>()
        .ok()
        .filter(|value| value.is_finite())
        .ok_or_else(|| format!("{what} is '{}', which is no number", shown(text)))
}

/// A time in units of so many seconds, as nanoseconds.
pub(super) fn time(text: &str, unit_s: f64, what: &str) -> Result<i64, String> {
    let value = number(text, what)?;
    let grains = (value * unit_s * S as f64 / TIME_GRAIN_NS).round();
    let ns = grains * TIME_GRAIN_NS;
    if ns.abs() > LONGEST_TRACE_NS as f64 {
        return Err(format!(
            "{what} is '{}', more than a hundred years from 0",
            shown(text)
        ));
    }
    Ok(ns as i64)
}

/// Thousandths of a CPU, at least one.
pub(super) fn milli_cpus(cpus: f64, what: &str) -> Result<u32, String> {
    if cpus <= 0.0 || cpus > MAX_CPUS {
        return Err(format!(
            "{what} is {cpus}; above 0 and up to {MAX_CPUS} CPUs are possible"
        ));
    }
    // A fraction is rounded down, so that parts of one machine never add up to more than it; noise of decimals is no loss.
    Ok(((cpus * 1e3 + 1e-6).floor() as u32).max(1))
}

/// Memory of so many MiB.
pub(super) fn memory_mib(mib: f64, what: &str) -> Result<u32, String> {
    if !(0.0..=MAX_MEMORY_MIB).contains(&mib) {
        return Err(format!(
            "{what} comes to {mib} MiB; 0 to {MAX_MEMORY_MIB} MiB are possible"
        ));
    }
    Ok((mib + 1e-6).floor() as u32)
}

/// A text as a message can hold it.
pub(super) fn shown(text: &str) -> String {
    const MOST: usize = 40;
    let mut shown: String = text
        .chars()
        .take(MOST)
        .flat_map(char::escape_debug)
        .collect();
    if text.chars().nth(MOST).is_some() {
        shown.push('…');
    }
    shown
}
