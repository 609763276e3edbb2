//! Memory over time: the corners of the line whose area is the average.

use std::fmt::Write;
use std::time::Duration;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve {
    corners: Vec<(Duration, u64)>,
}

impl Curve {
    pub fn add(&mut self, at: Duration, bytes: u64) {
        // On a level stretch only its ends say anything.
        if let [.., (_, earlier), (end, last)] = self.corners.as_mut_slice()
            && *earlier == bytes
            && *last == bytes
        {
            *end = at;
        } else {
            self.corners.push((at, bytes));
        }
    }

    /// Seconds and bytes.
    pub fn corners(&self) -> Vec<(f64, u64)> {
        let corners = self.corners.iter();
        corners
            .map(|(at, bytes)| (at.as_secs_f64(), *bytes))
            .collect()
    }

    pub fn csv(&self) -> String {
        let mut text = String::from("seconds,bytes\n");
        for (at, bytes) in &self.corners {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{:.6},{bytes}", at.as_secs_f64());
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn level_stretches_keep_their_ends() {
        let mut curve = Curve::default();
        for (millis, bytes) in [(0, 5), (1, 5), (2, 5), (3, 7), (4, 7), (5, 5)] {
            curve.add(Duration::from_millis(millis), bytes);
        }
        let expected =
            "seconds,bytes\n0.000000,5\n0.002000,5\n0.003000,7\n0.004000,7\n0.005000,5\n";
        assert_eq!(curve.csv(), expected);
    }

    #[test]
    fn a_run_without_samples_has_the_heading_alone() {
        assert_eq!(Curve::default().csv(), "seconds,bytes\n");
    }
}
