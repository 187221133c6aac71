//! Figures as text, and the sentence that says who is better.

use sim::metrics::{Better, Figure, Metric};
use sim::statistics::{Difference, Estimate};

use super::request::label;
use super::study::Run;

/// A change of the throughput below this is not the headline. Ours.
const WORTH_PERCENT: f64 = 1.0;

/// A unit for people: latencies of milliseconds and seconds are not written in microseconds. With what it takes away.
pub(super) fn unit(metric: Metric, largest: f64) -> (&'static str, f64) {
    match metric.unit() {
        "us" if largest >= 1e6 => ("s", 1e-6),
        "us" if largest >= 1e3 => ("ms", 1e-3),
        unit => (unit, 1.0),
    }
}

/// A number with four digits where they say something.
pub(super) fn number(value: f64) -> String {
    let size = value.abs();
    let decimals = match size {
        size if size >= 1000.0 => 0,
        size if size >= 100.0 => 1,
        size if size >= 10.0 => 2,
        _ => 3,
    };
    let text = format!("{value:.decimals$}");
    if text.trim_start_matches(['-', '0', '.']).is_empty() {
        "0".to_owned()
    } else {
        text
    }
}

/// Mean and half the interval: `12.30 ±0.42`.
pub(super) fn estimate(estimate: &Estimate) -> String {
    let mean = number(estimate.mean);
    let decimals = mean.split_once('.').map_or(0, |(_, part)| part.len());
    match estimate.half {
        Some(half) => format!("{mean} ±{half:.decimals$}"),
        None => mean,
    }
}

/// More than this is no change of something that was there before. Ours: beyond ten times as much nobody reads percent.
const MOST_PERCENT: f64 = 1000.0;

/// A change in percent of the first, with half the interval; a star if it excludes 0. Shares change in points; what was
/// next to nothing before, in its unit.
pub(super) fn difference(difference: &Difference, unit: &str, factor: f64) -> String {
    let star = if difference.absolute.excludes_zero() {
        " *"
    } else {
        ""
    };
    let absolute = &difference.absolute;
    let points = if unit == "%" { " points" } else { "" };
    let percent = difference
        .percent
        .filter(|change| unit != "%" && change.mean.abs() <= MOST_PERCENT);
    match percent {
        Some(change) => {
            let decimals = usize::from(change.mean.abs() < 100.0);
            let half = change.half.map(|half| format!(" ±{half:.decimals$}"));
            let mean = signed(format!("{:+.decimals$}", change.mean));
            format!("{mean} %{}{star}", half.unwrap_or_default())
        }
        None if absolute.mean == 0.0 => "same".to_owned(),
        None => {
            let half = absolute.half.map(|half| format!(" ±{:.2}", half * factor));
            let mean = signed(format!("{:+.2}", absolute.mean * factor));
            format!("{mean}{points}{}{star}", half.unwrap_or_default())
        }
    }
}

/// No zero has a sign.
fn signed(text: String) -> String {
    if text.trim_start_matches(['+', '-', '0', '.']).is_empty() {
        text.trim_start_matches(['+', '-']).to_owned()
    } else {
        text
    }
}

/// What a change is worth to the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Better,
    Worse,
    /// The interval holds 0, or nobody can say what is better.
    Open,
}

/// Whether a figure is better than that of the first policy, as far as the seeds can tell.
pub(super) fn verdict(figure: &Figure) -> Verdict {
    let Some(difference) = figure.difference else {
        return Verdict::Open;
    };
    if !difference.absolute.excludes_zero() {
        return Verdict::Open;
    }
    let is_more = difference.absolute.mean > 0.0;
    match figure.metric.better() {
        Better::Neither => Verdict::Open,
        Better::More if is_more => Verdict::Better,
        Better::Less if !is_more => Verdict::Better,
        _ => Verdict::Worse,
    }
}

/// Which policy is better and by how much, in a sentence made from the figures.
pub(super) fn headline(runs: &[Run]) -> String {
    let has_rules = runs.iter().any(|run| run.rule != runs[0].rule);
    let name = |run: &Run| label(run.policy, &run.rule, has_rules);
    let there: Vec<&Run> = runs.iter().filter(|run| run.seeds > 0).collect();
    let Some((base, others)) = there.split_first() else {
        return "Nothing was run to its end.".to_owned();
    };
    if others.is_empty() {
        return alone(base, &name(base));
    }
    if base.seeds < 2 {
        return format!(
            "One seed: there is no interval, so that nothing can be said of the differences. {}",
            alone(base, &name(base))
        );
    }
    let subject = decisive(others);
    let best = others
        .iter()
        .max_by(|a, b| gain(a, &subject).total_cmp(&gain(b, &subject)));
    let best = best.expect("there are others");
    let figure = subject.figure(best);
    match figure.map(verdict) {
        Some(Verdict::Better) => {
            let other = match subject.metric {
                Metric::Throughput => Metric::LatencyP99,
                _ => Metric::Throughput,
            };
            let also = also(
                best,
                &Subject {
                    metric: other,
                    ..subject
                },
            );
            format!(
                "{} is better than {}: {}{also}.",
                name(best),
                name(base),
                change(best, &subject)
            )
        }
        Some(Verdict::Worse) => {
            let others = if others.len() > 1 {
                "all others"
            } else {
                "the other"
            };
            format!(
                "{} is better than {others}: {} has {}.",
                name(base),
                name(best),
                change(best, &subject)
            )
        }
        _ => format!(
            "No policy is clearly better: against {}, {} has {}, an interval that holds 0. More seeds or a longer run may tell.",
            name(base),
            name(best),
            change(best, &subject)
        ),
    }
}

/// What the sentence is about: operations of different workloads are not the same, so that they are not added.
#[derive(Clone, Copy)]
struct Subject {
    metric: Metric,
    /// Index of the workload.
    workload: usize,
    /// Whether there are others.
    is_one_of_many: bool,
}

impl Subject {
    fn figure<'a>(&self, run: &'a Run) -> Option<&'a Figure> {
        run.workloads.get(self.workload)?.figure(self.metric)
    }

    /// The change against the first policy, in percent.
    fn change(&self, run: &Run) -> Option<Estimate> {
        self.figure(run)?.difference?.percent
    }

    fn name(&self, run: &Run) -> String {
        let what = match self.metric {
            Metric::Throughput => "throughput",
            _ => "p99 latency",
        };
        match run.workloads.get(self.workload) {
            Some(part) if self.is_one_of_many => format!("{what} of {}", part.name),
            _ => what.to_owned(),
        }
    }
}

/// The throughput where it differs, otherwise the slowest percent of the operations; of several workloads the one that
/// changes most, first among changes that are no chance.
fn decisive(others: &[&Run]) -> Subject {
    let workloads = others
        .iter()
        .map(|run| run.workloads.len())
        .max()
        .unwrap_or(0);
    let subjects = |metric: Metric| {
        (0..workloads.max(1)).map(move |workload| Subject {
            metric,
            workload,
            is_one_of_many: workloads > 1,
        })
    };
    let weight = |subject: &Subject| {
        let changes = others.iter().filter_map(|run| subject.change(run));
        let clear = changes.filter(Estimate::excludes_zero);
        clear.map(|change| change.mean.abs()).fold(0.0, f64::max)
    };
    let strongest = |metric: Metric| {
        let all = subjects(metric).max_by(|a, b| weight(a).total_cmp(&weight(b)));
        all.expect("there is one at least")
    };
    let (throughput, latency) = (strongest(Metric::Throughput), strongest(Metric::LatencyP99));
    let has_latency = others.iter().any(|run| latency.figure(run).is_some());
    if weight(&throughput) >= WORTH_PERCENT || !has_latency {
        throughput
    } else {
        latency
    }
}

/// How much better than the base, in percent.
fn gain(run: &Run, subject: &Subject) -> f64 {
    let change = subject.change(run).map_or(0.0, |change| change.mean);
    match subject.metric.better() {
        Better::Less => -change,
        _ => change,
    }
}

/// `12.3 % less p99 latency (95 % interval 11.0 to 13.6 %, 5 seeds)`.
fn change(run: &Run, subject: &Subject) -> String {
    let word = subject.name(run);
    let Some(change) = subject.change(run) else {
        return format!("no {word} to compare");
    };
    let less = if change.mean < 0.0 { "less" } else { "more" };
    let sign = if change.mean < 0.0 { -1.0 } else { 1.0 };
    let shown = change.times(sign);
    let interval = shown.interval().map(|(low, high)| {
        format!(
            " (95 % interval {low:.1} to {high:.1} %, {} seeds)",
            run.seeds
        )
    });
    format!(
        "{:.1} % {less} {word}{}",
        shown.mean,
        interval.unwrap_or_default()
    )
}

/// What else changed, if that is clear.
fn also(run: &Run, subject: &Subject) -> String {
    match subject.figure(run).map(verdict) {
        None | Some(Verdict::Open) => String::new(),
        Some(Verdict::Better) => format!(", and {}", change(run, subject)),
        Some(Verdict::Worse) => format!(", but {}", change(run, subject)),
    }
}

fn alone(run: &Run, name: &str) -> String {
    let text = |metric: Metric| {
        let figure = run.whole.figure(metric)?;
        let (unit, factor) = unit(metric, figure.estimate.mean);
        Some(format!("{} {unit}", number(figure.estimate.mean * factor)))
    };
    let throughput = text(Metric::Throughput).unwrap_or_else(|| "nothing".to_owned());
    match text(Metric::LatencyP99) {
        Some(latency) => format!("{name}: {throughput}, p99 latency {latency}."),
        None => format!("{name}: {throughput}."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_that_say_something() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0001, "0"),
            (0.5, "0.500"),
            (12.345, "12.35"),
            (123.45, "123.5"),
            (123_456.7, "123457"),
            (-3.0, "-3.000"),
        ] {
            assert_eq!(number(value), text);
        }
        assert_eq!(unit(Metric::LatencyP99, 2500.0), ("ms", 1e-3));
        assert_eq!(unit(Metric::LatencyP99, 250.0), ("us", 1.0));
        assert_eq!(unit(Metric::Ready, 2500.0), ("%", 1.0));
    }

    #[test]
    fn a_star_marks_what_is_not_chance() {
        let of = |base: &[f64], other: &[f64]| {
            difference(
                &sim::statistics::difference(base, other).expect("there are values"),
                "ops/s",
                1.0,
            )
        };
        assert_eq!(
            of(&[100.0, 100.0, 100.0], &[109.0, 110.0, 111.0]),
            "+10.0 % ±2.5 *"
        );
        assert_eq!(of(&[100.0, 100.0], &[90.0, 111.0]), "+0.5 % ±133.4");
        assert_eq!(of(&[0.0, 0.0], &[0.0, 0.0]), "same");
        assert_eq!(of(&[0.0, 0.0], &[1.0, 1.0]), "+1.00 ±0.00 *");
        assert_eq!(of(&[1e-9, 2e-9], &[1.0, 1.0]), "+1.00 ±0.00 *");
        let share = sim::statistics::difference(&[30.0, 30.0], &[20.0, 20.0]);
        let share = share.expect("there are values");
        assert_eq!(difference(&share, "%", 1.0), "-10.00 points ±0.00 *");
    }
}
