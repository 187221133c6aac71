//! What can be said of a figure after some runs with different seeds, and of two such figures.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// The share of intervals that hold the true mean. 95 % is the custom of the field.
const CONFIDENCE: f64 = 0.95;

/// A mean over seeds with its 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The mean, or another middle (see [`around`]).
    pub mean: f64,
    /// Half the width of the interval, by Student's t; `None` with a single seed, which says nothing of the spread.
    pub half: Option<f64>,
    /// Seeds.
    pub seeds: usize,
}

/// How two cases differ, run by run with equal seeds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Difference {
    /// In the figure's unit: the second less the first.
    pub absolute: Estimate,
    /// In percent of the first; `None` where the first is 0 in the mean.
    pub percent: Option<Estimate>,
}

impl Estimate {
    /// The interval, if there is one.
    pub fn interval(&self) -> Option<(f64, f64)> {
        self.half.map(|half| (self.mean - half, self.mean + half))
    }

    /// Whether the interval leaves 0 out. `false` without interval.
    pub fn excludes_zero(&self) -> bool {
        self.interval()
            .is_some_and(|(low, high)| low > 0.0 || high < 0.0)
    }

    /// In another unit.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        Self {
            mean: self.mean * factor,
            half: self.half.map(|half| half * factor.abs()),
            ..self
        }
    }
}

/// Mean and interval of the values of independent seeds; `None` without values.
pub fn estimate(values: &[f64]) -> Option<Estimate> {
    let mean = mean(values)?;
    Some(around(mean, values))
}

/// The interval that the spread of the values gives around a middle that was made in another way: a percentile comes from
/// the histogram of all seeds together, since percentiles must not be averaged, and is as certain as those of single seeds
/// are alike.
pub fn around(middle: f64, values: &[f64]) -> Estimate {
    let seeds = values.len();
    let half = mean(values).filter(|_| seeds > 1).map(|mean| {
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let variance = squares / (seeds - 1) as f64;
        t_quantile(seeds - 1) * (variance / seeds as f64).sqrt()
    });
    Estimate {
        mean: middle,
        half,
        seeds,
    }
}

/// How `other` differs from `base`, where both have a value for each seed in the same order; `None` without values.
///
/// The percentage is that of the means, with the interval of the paired differences: the mean of `base` is taken as known.
pub fn difference(base: &[f64], other: &[f64]) -> Option<Difference> {
    let pairs: Vec<f64> = base.iter().zip(other).map(|(a, b)| b - a).collect();
    let absolute = estimate(&pairs)?;
    let middle = mean(&base[..pairs.len()])?;
    let percent = (middle.abs() > f64::EPSILON).then(|| absolute.times(100.0 / middle.abs()));
    Some(Difference { absolute, percent })
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The two-sided quantile of Student's t.
fn t_quantile(freedom: usize) -> f64 {
    let law = StudentsT::new(0.0, 1.0, freedom as f64).expect("there are two values or more");
    law.inverse_cdf(0.5 + CONFIDENCE / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(seen: f64, known: f64) {
        assert!(
            (seen - known).abs() < 5e-4 * known.abs().max(1.0),
            "{seen} is not {known}"
        );
    }

    /// Any table of Student's t, two-sided 95 %.
    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (freedom, known) in [
            (1, 12.706),
            (2, 4.303),
            (4, 2.776),
            (9, 2.262),
            (29, 2.045),
            (120, 1.980),
        ] {
            close(t_quantile(freedom), known);
        }
    }

    /// 1, 2, 3, 4, 5: mean 3, variance 2.5, standard error 0.70711, times 2.776.
    #[test]
    fn intervals_are_those_of_the_textbook() {
        let five = estimate(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        close(five.mean, 3.0);
        close(five.half.unwrap(), 1.9632);
        assert!(five.excludes_zero());
        assert!(!estimate(&[-1.0, 1.0, 2.0]).unwrap().excludes_zero());
        assert_eq!(estimate(&[]), None);
        let one = estimate(&[7.0]).unwrap();
        assert_eq!(
            (one.half, one.interval(), one.excludes_zero()),
            (None, None, false)
        );
    }

    /// Pairs take away what both have in common.
    #[test]
    fn paired_differences_are_narrower_than_the_figures() {
        let base = [100.0, 200.0, 300.0];
        let other = [119.0, 220.0, 321.0];
        let found = difference(&base, &other).unwrap();
        close(found.absolute.mean, 20.0);
        close(found.percent.unwrap().mean, 10.0);
        // Standard deviation 1 of three pairs.
        close(found.absolute.half.unwrap(), 4.303 / 3_f64.sqrt());
        assert!(found.absolute.excludes_zero());
        assert!(estimate(&base).unwrap().half > found.absolute.half);
        assert_eq!(difference(&[0.0, 0.0], &[1.0, 1.0]).unwrap().percent, None);
        assert_eq!(difference(&[], &[1.0]), None);
    }

    #[test]
    fn a_negative_base_keeps_the_sign_of_the_change() {
        let found = difference(&[-10.0, -10.0], &[-5.0, -5.0]).unwrap();
        close(found.percent.unwrap().mean, 50.0);
    }
}
