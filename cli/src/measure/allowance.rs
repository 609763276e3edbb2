//! How much of a core looking may take.

use std::time::{Duration, Instant};

/// A share of a core, and what may be spent at once, for the sake of short runs.
pub struct Allowance {
    started: Instant,
    at_once: Duration,
    share: f64,
    spent: Duration,
}

impl Allowance {
    pub fn new(started: Instant, at_once: Duration, share: f64) -> Self {
        Self {
            started,
            at_once,
            share,
            spent: Duration::ZERO,
        }
    }

    pub fn spend(&mut self, cost: Duration) {
        self.spent += cost;
    }

    pub fn spent(&self) -> Duration {
        self.spent
    }

    /// How long it takes until so much more may be spent.
    pub fn rest_before(&self, cost: Duration) -> Duration {
        let after = self.spent + cost;
        let unearned = after.saturating_sub(self.at_once).as_secs_f64();
        let due = Duration::from_secs_f64(unearned / self.share);
        due.saturating_sub(self.started.elapsed())
    }
}

/// CPU time of the calling thread.
pub fn thread_cpu_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid place for the result.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spent_must_be_earned() {
        let mut allowance = Allowance::new(Instant::now(), Duration::from_millis(4), 0.01);
        let two = Duration::from_millis(2);
        assert_eq!(allowance.rest_before(two), Duration::ZERO);
        allowance.spend(two);
        assert_eq!(allowance.rest_before(two), Duration::ZERO, "at once");
        allowance.spend(two);
        // Six in all, two of them unearned: a hundred times as long.
        let rest = allowance.rest_before(two);
        assert!(rest > Duration::from_millis(150) && rest <= Duration::from_millis(200));
    }
}
