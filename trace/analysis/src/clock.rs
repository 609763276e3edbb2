//! From the processor's ticks to nanoseconds, and to dates.

use super::spool::Header;

/// Too short a time tells nothing about the length of a tick.
const SHORTEST_NS: u64 = 2_000_000;

#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: u64,
    ns_per_tick: f64,
}

impl Clock {
    /// By two readings of both clocks: the process's own, or its first and one now.
    pub fn of(header: &Header) -> Self {
        let own = (header.end_stamp, header.end_ns);
        let pair = if header.end_ns.saturating_sub(header.start_ns) >= SHORTEST_NS {
            own
        } else {
            now()
        };
        let ticks = pair.0.saturating_sub(header.start_stamp) as f64;
        let ns = pair.1.saturating_sub(header.start_ns) as f64;
        let ratio = ns / ticks;
        Self {
            start: header.start_stamp,
            // Recorded on another machine, or before it was started anew: take ticks as they are.
            ns_per_tick: if ratio.is_finite() && (0.01..=100.0).contains(&ratio) {
                ratio
            } else {
                1.0
            },
        }
    }

    pub fn nanoseconds(&self, stamp: u64) -> u64 {
        (stamp.saturating_sub(self.start) as f64 * self.ns_per_tick) as u64
    }
}

/// The stamp that a recorder would take, and nanoseconds.
pub fn now() -> (u64, u64) {
    let ns = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).map_or(0, |time| {
        time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
    });
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction.
    let stamp = unsafe { core::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    let stamp = ns;
    (stamp, ns)
}

/// "2026-01-31T12:00:00Z", by the civil calendar (days are counted in years that begin in March).
pub fn rfc_3339(ns_since_1970: u64) -> String {
    let seconds = ns_since_1970 / 1_000_000_000;
    let (days, rest) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        let at = |seconds: u64| rfc_3339(seconds * 1_000_000_000);
        assert_eq!(at(0), "1970-01-01T00:00:00Z");
        assert_eq!(at(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(at(1_709_251_200), "2024-03-01T00:00:00Z");
        assert_eq!(at(4_102_444_799), "2099-12-31T23:59:59Z");
    }
}
