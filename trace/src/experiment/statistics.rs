//! Means of paired runs with percentile bootstrap intervals, from a fixed seed.

use serde::{Deserialize, Serialize};

const RESAMPLES: usize = 4000;
const SEED: u64 = 0x9a9e_3175_e5ee_d002;

/// A mean with its 95 % interval; with one run all three are the same.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    pub mean: f64,
    pub low: f64,
    pub high: f64,
}

impl Interval {
    pub fn excludes_zero(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }
}

/// None without values.
pub fn of_mean(values: &[f64]) -> Option<Interval> {
    let mean = |sum: f64| sum / values.len() as f64;
    let all = mean(values.iter().sum());
    if values.is_empty() {
        return None;
    }
    let mut random = fastrand::Rng::with_seed(SEED);
    let mut means: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            mean(
                values
                    .iter()
                    .map(|_| values[random.usize(0..values.len())])
                    .sum(),
            )
        })
        .collect();
    means.sort_by(f64::total_cmp);
    let at = |share: f64| means[((RESAMPLES - 1) as f64 * share).round() as usize];
    Some(Interval {
        mean: all,
        low: at(0.025),
        high: at(0.975),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_holds_the_mean_and_narrows_to_it() {
        let wide = of_mean(&[1.0, 5.0, 3.0, -1.0, 2.0]).expect("values");
        assert!(wide.low < wide.mean && wide.mean < wide.high);
        assert!(!wide.excludes_zero() || wide.low > 0.0);
        let same = of_mean(&[2.0; 10]).expect("values");
        assert_eq!((same.low, same.mean, same.high), (2.0, 2.0, 2.0));
        assert!(same.excludes_zero());
        assert_eq!(of_mean(&[]), None);
    }
}
