//! A bar on a terminal, one line a round elsewhere, nothing when asked to be quiet.

use std::cell::Cell;
use std::fmt::Write;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use super::configuration::Series;
use crate::tell::tell;

pub struct Progress {
    bar: ProgressBar,
    has_lines: bool,
    rounds: u32,
    runs: u64,
    told: Cell<Option<u32>>,
    clock: Arc<Clock>,
}

/// When the last run ended, so that a run that goes on does not count as a quick one.
struct Clock {
    started: Instant,
    done: AtomicU64,
    milliseconds: AtomicU64,
}

impl Progress {
    pub fn new(series: &[Series], rounds: u32, is_quiet: bool) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        let runs = series.len() as u64 * u64::from(rounds);
        let bar = ProgressBar::with_draw_target(
            Some(runs),
            if is_quiet || !is_terminal {
                ProgressDrawTarget::hidden()
            } else {
                ProgressDrawTarget::stderr()
            },
        );
        let clock = Arc::new(Clock {
            started: Instant::now(),
            done: AtomicU64::new(0),
            milliseconds: AtomicU64::new(0),
        });
        let of_bar = Arc::clone(&clock);
        let left = move |_: &ProgressState, out: &mut dyn Write| {
            let _ = out.write_str(&in_words(of_bar.left(runs)));
        };
        if let Ok(style) = ProgressStyle::with_template("{wide_bar} {msg}, {elapsed}, {left}") {
            bar.set_style(style.with_key("left", left));
        }
        bar.enable_steady_tick(Duration::from_millis(500));
        Self {
            bar,
            has_lines: !is_quiet && !is_terminal,
            rounds,
            runs,
            told: Cell::new(None),
            clock,
        }
    }

    pub fn begin(&self, series: &Series, round: u32) {
        let number = self.clock.done.load(Ordering::Relaxed) + 1;
        let message = format!("run {number} of {}, {}", self.runs, series.name);
        self.bar.set_message(message);
        if self.has_lines && self.told.replace(Some(round)) != Some(round) {
            let left = in_words(self.clock.left(self.runs));
            tell(&format!("round {} of {}, {left}", round + 1, self.rounds));
        }
    }

    pub fn end(&self) {
        self.bar.inc(1);
        let now = self.clock.started.elapsed().as_millis() as u64;
        self.clock.milliseconds.store(now, Ordering::Relaxed);
        self.clock.done.fetch_add(1, Ordering::Relaxed);
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl Clock {
    fn left(&self, runs: u64) -> Option<Duration> {
        let until_last_end = Duration::from_millis(self.milliseconds.load(Ordering::Relaxed));
        let done = self.done.load(Ordering::Relaxed);
        left(runs, done, until_last_end, self.started.elapsed())
    }
}

/// What the runs that ended say about those to come. None: no run has ended.
fn left(runs: u64, done: u64, until_last_end: Duration, now: Duration) -> Option<Duration> {
    let each = until_last_end.checked_div(u32::try_from(done).ok()?)?;
    let all = each.saturating_mul(u32::try_from(runs).unwrap_or(u32::MAX));
    Some(all.saturating_sub(now))
}

fn in_words(left: Option<Duration>) -> String {
    match left {
        None => "time left: known after the first run".into(),
        Some(left) => format!("about {} left", HumanDuration(left)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_known_from_the_first_run_on() {
        let seconds = Duration::from_secs;
        assert_eq!(left(10, 0, seconds(0), seconds(7)), None);
        assert!(in_words(None).contains("after the first run"));
        assert_eq!(left(10, 1, seconds(6), seconds(6)), Some(seconds(54)));
        // The second run is not over: it does not count as one of no time.
        assert_eq!(left(10, 1, seconds(6), seconds(10)), Some(seconds(50)));
        assert_eq!(left(10, 9, seconds(54), seconds(70)), Some(seconds(0)));
        assert_eq!(in_words(Some(seconds(54))), "about 54 seconds left");
    }
}
