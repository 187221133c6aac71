//! What a comparison says, in sentences made from its figures.

use policy::cost::{Cost, Term};
use policy::metrics;

use super::runs::{Run, Runs};
use crate::draw::{Style, notes};

/// Terms that a sentence names at most.
const NAMED: usize = 3;

/// Nano-vCPU as vCPUs with one decimal, for sentences and tables.
pub(super) fn vcpus(nano: i64) -> String {
    let tenths = rounded(nano, 100_000_000);
    let sign = if tenths < 0 { "-" } else { "" };
    format!("{sign}{}.{}", tenths.abs() / 10, tenths.abs() % 10)
}

/// Nano-vCPU as vCPUs with three decimals.
pub(super) fn exact_vcpus(nano: i64) -> String {
    let milli = rounded(nano, 1_000_000);
    let sign = if milli < 0 { "-" } else { "" };
    format!("{sign}{}.{:03}", milli.abs() / 1000, milli.abs() % 1000)
}

/// Thousandths with two decimals.
pub(super) fn hundredths(milli: u64) -> String {
    let hundredths = (milli + 5) / 10;
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

/// Milli-CPU as CPUs, with a decimal where it is not whole.
pub(super) fn cpus(milli: u64) -> String {
    let tenths = (milli + 50) / 100;
    match tenths % 10 {
        0 => (tenths / 10).to_string(),
        rest => format!("{}.{rest}", tenths / 10),
    }
}

/// What a term is a loss by.
pub(super) fn meaning(term: Term) -> &'static str {
    match term {
        Term::Distance => "vCPUs of a VM on different LLCs",
        Term::Memory => "vCPUs away from their memory",
        Term::Smt => "two busy threads on a core",
        Term::SlowCores => "slow cores of a hybrid processor",
        Term::Overcommit => "more demand than threads",
        Term::Fairness => "shares beyond an LLC's part",
        Term::Cache => "more footprint than cache",
        Term::Bandwidth => "more memory traffic than a link or node carries",
        Term::Crowding => "little room for bursts",
        Term::System => "system threads away from their vCPUs",
        Term::Device => "vCPUs away from the VM's devices",
        Term::Balance => "groups of unequal size",
        Term::Affinity => "vCPUs outside their soft affinity",
        Term::Near => "VMs that talk, apart",
        Term::Migration => "moves",
    }
}

/// Why the first-ranked policy is better than the next, and than the last: from the difference by term.
pub(super) fn comparison(runs: &Runs, style: Style) -> String {
    let mut ranked = runs.ranking.iter().map(|&index| &runs.all[index]);
    let Some(best) = ranked.next() else {
        return String::new();
    };
    let others: Vec<&Run> = ranked.collect();
    if others.is_empty() {
        return notes::paragraph(&alone(best), style);
    }
    let shown: Vec<&Run> = match others.as_slice() {
        [first, .., last] => vec![first, last],
        few => few.to_vec(),
    };
    let sentences: Vec<String> = shown.iter().map(|other| against(best, other)).collect();
    notes::paragraph(&sentences.join(" "), style)
}

/// Where the work goes that a single policy loses.
fn alone(run: &Run) -> String {
    let cost = &run.metrics.cost;
    let largest = metrics::difference(&Cost::default(), cost);
    match list(&largest).as_str() {
        "" if run.metrics.placed == 0 => format!("{} places no VM.", run.policy),
        "" => format!("{} loses no work worth naming.", run.policy),
        terms => format!(
            "{} loses {} vCPUs of work, most to: {terms}.",
            run.policy,
            vcpus(cost.total())
        ),
    }
}

fn against(best: &Run, other: &Run) -> String {
    let (ours, theirs) = (&best.metrics, &other.metrics);
    if theirs.refused > ours.refused {
        return format!(
            "{} places {} more VMs than {}.",
            best.policy,
            theirs.refused - ours.refused,
            other.policy
        );
    }
    let saved = theirs.cost.total() - ours.cost.total();
    if rounded(saved, 100_000_000) == 0 {
        return format!(
            "{} and {} lose the same work here.",
            best.policy, other.policy
        );
    }
    let difference = metrics::difference(&ours.cost, &theirs.cost);
    let (gains, pains): (Vec<_>, Vec<_>) = difference.into_iter().partition(|(_, more)| *more > 0);
    let mut text = format!(
        "{} loses {} vCPUs of work less than {}: {}",
        best.policy,
        vcpus(saved),
        other.policy,
        list(&gains)
    );
    let pains: Vec<(Term, i64)> = pains
        .into_iter()
        .map(|(term, more)| (term, -more))
        .filter(|(_, more)| rounded(*more, 100_000_000) > 0)
        .collect();
    if !pains.is_empty() {
        text += &format!("; it pays more for {}", list(&pains));
    }
    text + "."
}

fn list(terms: &[(Term, i64)]) -> String {
    let large: Vec<String> = terms
        .iter()
        .filter(|(_, nano)| rounded(*nano, 100_000_000) > 0)
        .take(NAMED)
        .map(|(term, nano)| format!("{} {} ({})", term.as_str(), vcpus(*nano), meaning(*term)))
        .collect();
    large.join(", ")
}

fn rounded(nano: i64, unit: i64) -> i64 {
    (nano.abs() + unit / 2) / unit * nano.signum()
}
