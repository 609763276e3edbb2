//! Means, ratios and their 95 % intervals: from ten runs on by percentile bootstrap, with a fixed seed so that the same
//! runs give the same figures. Of fewer runs a bootstrap cannot reach beyond the runs that there are (of three it is the
//! least and the most of them, which hold the truth three times in four): there it is Student's t, on the logarithm for
//! ratios, as wide as so few runs make it. `bench/intervals.py` does the same.

use distrs::StudentsT;
use serde::{Deserialize, Serialize};

const RESAMPLES: usize = 10_000;
const SEED: u64 = 0x9a9e_3175_e5ee_d001;
const ENOUGH_TO_RESAMPLE: usize = 10;
/// Shares of what is resampled, or of Student's t, below an interval's ends.
const LOW: f64 = 0.025;
const HIGH: f64 = 0.975;

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
            low: at(LOW),
            high: at(HIGH),
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

/// The mean of several runs. That of what is never negative is not, either.
pub fn of_mean(values: &[f64]) -> Interval {
    let mean_of_all = mean(values);
    if values.len() < 2 {
        return Interval::point(mean_of_all);
    }
    if values.len() < ENOUGH_TO_RESAMPLE {
        let squares = values.iter().map(|value| (value - mean_of_all).powi(2));
        let reach = student_reach(squares.sum(), values.len());
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let floor = if least < 0.0 { f64::NEG_INFINITY } else { 0.0 };
        return Interval {
            mean: mean_of_all,
            low: (mean_of_all - reach).max(floor),
            high: mean_of_all + reach,
        };
    }
    let resampled = resamples(values.len(), |picks| {
        picks.iter().map(|&i| values[i]).sum::<f64>() / picks.len() as f64
    });
    Interval::of(mean_of_all, resampled)
}

/// How far a mean's interval reaches to either side: `squares` is the sum of squared deviations.
fn student_reach(squares: f64, count: usize) -> f64 {
    let freedom = (count - 1) as f64;
    StudentsT::ppf(HIGH, freedom) * (squares / (freedom * count as f64)).sqrt()
}

/// The ratio of two means over paired rounds: a round counts, and is drawn, with both of its runs.
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
    if rounds < ENOUGH_TO_RESAMPLE {
        return Some(ratio_of_few(ratio, values, base));
    }
    let resampled = resamples(rounds, |picks| {
        let sum = |of: &[f64]| picks.iter().map(|&i| of[i]).sum::<f64>();
        sum(values) / sum(base)
    });
    Some(Interval::of(ratio, resampled))
}

/// By how far each round's pair is from both means.
fn ratio_of_few(ratio: f64, values: &[f64], base: &[f64]) -> Interval {
    let (here, there) = (mean(values), mean(base));
    let pairs = values.iter().zip(base);
    let squares = pairs.map(|(value, base)| (value / here - base / there).powi(2));
    let reach = student_reach(squares.sum(), values.len());
    if !reach.is_finite() {
        return Interval::point(ratio); // nothing in all runs of one side
    }
    Interval {
        mean: ratio,
        low: ratio * (-reach).exp(),
        high: ratio * reach.exp(),
    }
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
        assert_eq!(interval, of_mean(&[1.0, 2.0, 3.0, 4.0, 5.0]));
        let many: Vec<f64> = (0..ENOUGH_TO_RESAMPLE).map(|run| run as f64).collect();
        let interval = of_mean(&many);
        assert!(0.0 < interval.low && interval.low < 4.5);
        assert!(4.5 < interval.high && interval.high < 9.0);
        assert_eq!(interval, of_mean(&many));
    }

    /// The tables' values for 2 to 9 runs.
    #[test]
    fn quantiles_of_student_are_those_of_the_tables() {
        let table = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306];
        for (freedom, expected) in (1_u8..).zip(table) {
            let found = StudentsT::ppf(HIGH, freedom);
            assert!((found - expected).abs() < 6e-4, "{freedom}: {found}");
        }
    }

    /// What two or three runs say is little, and the interval says so.
    #[test]
    fn few_runs_reach_beyond_what_they_measured() {
        let interval = of_mean(&[9.0, 11.0]);
        assert!((interval.high - (10.0 + 12.706)).abs() < 5e-4);
        assert_eq!(interval.low, 0.0); // of seconds or bytes, which are never negative
        let interval = of_mean(&[-1.0, 1.0, 3.0]);
        assert!((interval.low - (1.0 - 4.303 * 2.0 / 3_f64.sqrt())).abs() < 5e-4);
        // log(ratio)'s standard error is 0.1 / sqrt(3): deviations of -0.1, 0 and 0.1 from 1.
        let interval = of_ratio(&[0.9, 1.0, 1.1], &[2.0; 3]).expect("ratio");
        let reach = 4.303 * 0.1 / 3_f64.sqrt();
        assert!((interval.low - 0.5 * (-reach).exp()).abs() < 5e-5);
        assert!((interval.high - 0.5 * reach.exp()).abs() < 5e-5);
    }

    /// Of 95 % intervals 95 % hold the mean, however few the runs; the bootstrap's of three hold it three times in four.
    #[test]
    fn intervals_of_any_number_of_runs_hold_the_mean() {
        let mut random = fastrand::Rng::with_seed(2);
        let mut normal = move || (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
        for runs in 2..ENOUGH_TO_RESAMPLE {
            let holds = (0..4000).filter(|_| {
                let values: Vec<f64> = (0..runs).map(|_| 100.0 + normal()).collect();
                let base: Vec<f64> = (0..runs).map(|_| 100.0 + normal()).collect();
                of_ratio(&values, &base).expect("ratio").contains(1.0)
            });
            let share = holds.count() as f64 / 4000.0;
            assert!((0.935..0.965).contains(&share), "{runs} runs: {share}");
        }
    }

    #[test]
    fn zero_is_excluded_where_the_values_are_far_on_one_side() {
        assert!(of_mean(&[2.0, 3.0, 4.0]).excludes_zero());
        assert!(of_mean(&[-2.0, -2.5, -3.0]).excludes_zero());
        assert!(!of_mean(&[-2.0, -3.0]).excludes_zero());
        assert!(!of_mean(&[1.0, 5.0]).excludes_zero());
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
        assert_eq!(of_ratio(&[0.0; 3], &[2.0; 3]), Some(Interval::point(0.0)));
    }
}
