//! Percentile bootstrap intervals, with a fixed seed so that the same runs give the same figures.

use serde::{Deserialize, Serialize};

const RESAMPLES: usize = 10_000;
const SEED: u64 = 0x9a9e_3175_e5ee_d001;

/// A mean with its 95 % interval. With one run all three are the same: there is no interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    pub mean: f64,
    pub low: f64,
    pub high: f64,
}

impl Interval {
    pub fn point(value: f64) -> Self {
        Self {
            mean: value,
            low: value,
            high: value,
        }
    }

    pub fn overlaps(&self, other: &Self) -> bool {
        self.low <= other.high && other.low <= self.high
    }

    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    pub fn excludes_zero(&self) -> bool {
        !self.contains(0.0)
    }

    /// The ratios that two equal configurations are known to show, seen from either side. They are equal,
    /// so 1 is among them whatever was measured.
    pub fn noise_band(&self) -> Self {
        Self {
            mean: 1.0,
            low: self.low.min(1.0 / self.high).min(1.0),
            high: self.high.max(1.0 / self.low).max(1.0),
        }
    }

    fn of(mean: f64, mut resampled: Vec<f64>) -> Self {
        resampled.retain(|value| value.is_finite());
        resampled.sort_by(f64::total_cmp);
        if resampled.is_empty() {
            return Self::point(mean);
        }
        let at = |share: f64| resampled[((resampled.len() - 1) as f64 * share).round() as usize];
        Self {
            mean,
            low: at(0.025),
            high: at(0.975),
        }
    }
}

/// 0 of nothing, whose sum is -0.
pub fn mean(values: &[f64]) -> f64 {
    match values.len() {
        0 => 0.0,
        count => values.iter().sum::<f64>() / count as f64,
    }
}

/// The mean of several runs.
pub fn of_mean(values: &[f64]) -> Interval {
    if values.len() < 2 {
        return Interval::point(mean(values));
    }
    let resampled = resamples(values.len(), |picks| {
        picks.iter().map(|&i| values[i]).sum::<f64>() / picks.len() as f64
    });
    Interval::of(mean(values), resampled)
}

/// The ratio of two means over paired rounds: a round is drawn with both of its runs.
pub fn of_ratio(values: &[f64], base: &[f64]) -> Option<Interval> {
    let rounds = values.len().min(base.len());
    let (values, base) = (&values[..rounds], &base[..rounds]);
    let ratio = mean(values) / mean(base);
    if rounds == 0 || !ratio.is_finite() {
        return None;
    }
    if rounds < 2 {
        return Some(Interval::point(ratio));
    }
    let resampled = resamples(rounds, |picks| {
        let sum = |of: &[f64]| picks.iter().map(|&i| of[i]).sum::<f64>();
        sum(values) / sum(base)
    });
    Some(Interval::of(ratio, resampled))
}

fn resamples(length: usize, mut statistic: impl FnMut(&[usize]) -> f64) -> Vec<f64> {
    let mut random = fastrand::Rng::with_seed(SEED);
    let mut picks = vec![0; length];
    (0..RESAMPLES)
        .map(|_| {
            picks.fill_with(|| random.usize(..length));
            statistic(&picks)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_runs_have_no_spread() {
        assert_eq!(of_mean(&[3.0; 5]), Interval::point(3.0));
        assert!(of_mean(&[]).mean.is_sign_positive());
        assert_eq!(of_ratio(&[1.0; 5], &[2.0; 5]), Some(Interval::point(0.5)));
    }

    #[test]
    fn the_interval_surrounds_the_mean_and_repeats() {
        let interval = of_mean(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        assert!(interval.low < 3.0 && 3.0 < interval.high);
        assert!(interval.low >= 1.0 && interval.high <= 5.0);
        assert_eq!(interval, of_mean(&[1.0, 2.0, 3.0, 4.0, 5.0]));
    }

    #[test]
    fn zero_is_excluded_where_all_values_are_on_one_side() {
        assert!(of_mean(&[2.0, 3.0, 4.0]).excludes_zero());
        assert!(of_mean(&[-2.0, -3.0]).excludes_zero());
        assert!(!of_mean(&[-2.0, 3.0, 1.0]).excludes_zero());
    }

    #[test]
    fn pairing_cancels_what_both_runs_of_a_round_share() {
        let base = [1.0, 10.0, 100.0];
        let half = [0.5, 5.0, 50.0];
        let interval = of_ratio(&half, &base).expect("ratio");
        assert!((interval.low - 0.5).abs() < 1e-9 && (interval.high - 0.5).abs() < 1e-9);
    }

    /// For normal data the interval of the mean is close to the textbook's.
    #[test]
    fn agrees_with_theory() {
        let mut random = fastrand::Rng::with_seed(1);
        let values: Vec<f64> = (0..400)
            .map(|_| (0..12).map(|_| random.f64()).sum::<f64>() - 6.0)
            .collect();
        let interval = of_mean(&values);
        let expected = 1.96 / 20.0;
        assert!(((interval.high - interval.low) / 2.0 - expected).abs() < 0.015);
    }

    #[test]
    fn noise_surrounds_one() {
        let band = Interval {
            mean: 1.045,
            low: 1.04,
            high: 1.05,
        }
        .noise_band();
        assert!(band.contains(1.0) && band.contains(1.05) && band.contains(0.96));
        assert!(!band.contains(1.06));
    }

    #[test]
    fn impossible_ratios_are_none() {
        assert_eq!(of_ratio(&[], &[]), None);
        assert_eq!(of_ratio(&[1.0], &[0.0]), None);
        assert_eq!(of_ratio(&[1.0], &[2.0]), Some(Interval::point(0.5)));
    }
}
