//! The thread that samples physical memory while the command runs.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::curve::Curve;
use super::process_tree::Strangers;
use super::reading::Reading;
use super::watch::{Baseline, PeakHunt, Watch};
use super::{SamplerKind, sampler};

/// The first samples follow each other quickly, for the sake of short runs.
const FIRST_PERIOD: Duration = Duration::from_millis(1);
/// A sample is followed by this many times its own CPU time of rest: 6 % of a core.
const REST: u32 = 16;
/// Between samples, counters are looked at this often, to see a new peak as it comes.
const POLL: Duration = Duration::from_millis(2);
/// New snapshot files are looked for less often.
const POLLS_PER_SEARCH: u32 = 8;
/// Share of a core for extra samples of a new peak, beside what a run may use up at once, and the rest
/// after each, as above.
const EXTRA_SHARE: f64 = 0.04;
const EXTRA_AT_ONCE: Duration = Duration::from_millis(20);
const EXTRA_REST: u32 = 2;

/// Physical memory of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    pub kind: SamplerKind,
    pub peak: Reading,
    /// Time-weighted over the run.
    pub average_bytes: f64,
    /// Largest value of any sample.
    pub swap_bytes: u64,
    pub samples: u64,
    /// Samples that were due and not taken, or that could not read a process.
    pub missed_samples: u64,
    pub period: Duration,
    /// None unless it was asked for.
    pub curve: Option<Curve>,
}

struct Stop {
    requested: Mutex<bool>,
    changed: Condvar,
}

pub struct Meter {
    stop: Arc<Stop>,
    thread: JoinHandle<Record>,
}

impl Meter {
    /// Starts sampling the descendants of this process but the strangers.
    pub fn start(
        kind: SamplerKind,
        period: Duration,
        started: Instant,
        keeps_curve: bool,
        strangers: Strangers,
    ) -> io::Result<Self> {
        let stop = Arc::new(Stop {
            requested: Mutex::new(false),
            changed: Condvar::new(),
        });
        let seen_by_thread = Arc::clone(&stop);
        let mut record = Record::new(kind, started);
        record.curve = keeps_curve.then(Curve::default);
        let thread = thread::Builder::new()
            .name("sampler".into())
            .spawn(move || sample_until_stopped(period, record, &strangers, &seen_by_thread))?;
        Ok(Self { stop, thread })
    }

    pub fn finish(self, ended: Instant) -> io::Result<Measurement> {
        *lock(&self.stop.requested) = true;
        self.stop.changed.notify_all();
        let record = self
            .thread
            .join()
            .map_err(|_| io::Error::other("the sampling thread ended early"))?;
        Ok(record.close(ended))
    }
}

fn lock(flag: &Mutex<bool>) -> std::sync::MutexGuard<'_, bool> {
    flag.lock().unwrap_or_else(PoisonError::into_inner)
}

fn sample_until_stopped(
    period: Duration,
    mut record: Record,
    strangers: &Strangers,
    stop: &Stop,
) -> Record {
    let kind = record.kind;
    let mut sampler = sampler(kind);
    let mut pace = FIRST_PERIOD.min(period);
    let mut extra = Extra::new(record.started);
    let mut baseline = None;
    loop {
        let cpu_before = thread_cpu_time();
        let now = Instant::now();
        let processes = strangers.others();
        let mut watch = Watch::on(&processes);
        let counters = watch.read();
        let reading = sampler.sample(&processes);
        record.add(now, reading);
        let cost = thread_cpu_time().saturating_sub(cpu_before);

        pace = (pace * 5 / 4).min(period);
        let hunt = PeakHunt::from_sample(counters, reading.bytes);
        // A file that appeared meanwhile may be in the count in part.
        let after = if watch.look_for_snapshots() {
            0
        } else {
            watch.read()
        };
        let carrier = Baseline::after_sample(&processes, counters, after, reading.bytes);
        baseline = Baseline::better(carrier, baseline, &processes);
        let due = Instant::now() + pace.max(cost * REST);
        let exact = baseline
            .as_ref()
            .filter(|_| kind == SamplerKind::Frames && watch.is_exact());
        match extra.wait(stop, due, cost, &mut watch, hunt, exact, &mut record) {
            Wake::Stop => return record,
            Wake::Due => record.count_overslept(due.elapsed(), pace.max(period)),
            Wake::Peak => {}
        }
    }
}

enum Wake {
    Stop,
    Due,
    Peak,
}

/// The time that extra samples may take.
struct Extra {
    started: Instant,
    spent: Duration,
}

impl Extra {
    fn new(started: Instant) -> Self {
        let spent = Duration::ZERO;
        Self { started, spent }
    }

    #[allow(clippy::too_many_arguments)] // one call, beside what it needs
    /// Waits until the next sample is due, or worth taking early. `cost` is what the last one took.
    fn wait(
        &mut self,
        stop: &Stop,
        due: Instant,
        cost: Duration,
        watch: &mut Watch,
        mut hunt: PeakHunt,
        baseline: Option<&Baseline>,
        record: &mut Record,
    ) -> Wake {
        let rested = Instant::now() + cost * EXTRA_REST;
        for poll in 1_u32.. {
            if wait_until(stop, due.min(Instant::now() + POLL)) {
                return Wake::Stop;
            }
            if Instant::now() >= due {
                return Wake::Due;
            }
            if poll % POLLS_PER_SEARCH == 0 {
                watch.look_for_snapshots();
            }
            let counters = watch.read();
            if let Some(bytes) = baseline.and_then(|known| known.carried_on(counters)) {
                record.carry_on(Instant::now(), bytes);
            }
            let is_peak = hunt.is_new_peak(counters, record.peak.bytes);
            if is_peak && Instant::now() >= rested && self.spent + cost <= self.allowance() {
                self.spent += cost;
                return Wake::Peak;
            }
        }
        Wake::Due
    }

    fn allowance(&self) -> Duration {
        EXTRA_AT_ONCE + self.started.elapsed().mul_f64(EXTRA_SHARE)
    }
}

/// Returns true when asked to stop.
fn wait_until(stop: &Stop, due: Instant) -> bool {
    let requested = lock(&stop.requested);
    let rest = due.saturating_duration_since(Instant::now());
    let (requested, _) = stop
        .changed
        .wait_timeout_while(requested, rest, |requested| !*requested)
        .unwrap_or_else(PoisonError::into_inner);
    *requested
}

fn thread_cpu_time() -> Duration {
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

struct Record {
    kind: SamplerKind,
    started: Instant,
    last: Option<(Instant, u64)>,
    byte_seconds: f64,
    peak: Reading,
    swap_bytes: u64,
    samples: u64,
    missed: u64,
    curve: Option<Curve>,
}

impl Record {
    fn new(kind: SamplerKind, started: Instant) -> Self {
        Self {
            kind,
            started,
            last: None,
            byte_seconds: 0.0,
            peak: Reading::default(),
            swap_bytes: 0,
            samples: 0,
            missed: 0,
            curve: None,
        }
    }

    fn add(&mut self, at: Instant, reading: Reading) {
        self.missed += u64::from(reading.unreadable > 0);
        // Nothing was there to see: before the first process or after the last one.
        if reading.processes == 0 || reading.bytes == 0 {
            return;
        }
        self.advance(at, reading.bytes);
        self.samples += 1;
        self.swap_bytes = self.swap_bytes.max(reading.swap_bytes);
        if reading.bytes > self.peak.bytes {
            self.peak = reading;
        }
    }

    /// What the kernel's counters say between two samples.
    fn carry_on(&mut self, at: Instant, bytes: u64) {
        self.advance(at, bytes);
        self.peak.bytes = self.peak.bytes.max(bytes);
    }

    fn advance(&mut self, at: Instant, bytes: u64) {
        // Between two samples memory is taken to change evenly; before the first it is as the first.
        let (before, earlier) = self.last.unwrap_or((self.started, bytes));
        let seconds = at.saturating_duration_since(before).as_secs_f64();
        self.byte_seconds += seconds * (earlier as f64 + bytes as f64) / 2.0;
        self.last = Some((at, bytes));
        if let Some(curve) = &mut self.curve {
            curve.add(at.saturating_duration_since(self.started), bytes);
        }
    }

    fn count_overslept(&mut self, late: Duration, pace: Duration) {
        self.missed += (late.as_nanos() / pace.as_nanos().max(1)) as u64;
    }

    fn close(self, ended: Instant) -> Measurement {
        let (last_at, last_bytes) = self.last.unwrap_or((self.started, 0));
        let tail = ended.saturating_duration_since(last_at).as_secs_f64();
        let sampled = last_at.duration_since(self.started);
        let whole = sampled.as_secs_f64() + tail;
        let byte_seconds = self.byte_seconds + tail * last_bytes as f64;
        Measurement {
            kind: self.kind,
            peak: self.peak,
            average_bytes: if whole > 0.0 {
                byte_seconds / whole
            } else {
                0.0
            },
            swap_bytes: self.swap_bytes,
            samples: self.samples,
            missed_samples: self.missed,
            period: sampled / u32::try_from(self.samples).unwrap_or(u32::MAX).max(1),
            curve: self.curve,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(bytes: u64) -> Reading {
        Reading {
            bytes,
            processes: 1,
            ..Reading::default()
        }
    }

    #[test]
    fn the_average_is_weighted_by_time() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let mut record = Record::new(SamplerKind::Frames, start);
        record.add(at(0), reading(100));
        record.add(at(1000), reading(100));
        record.add(at(1000), reading(300));
        let measurement = record.close(at(4000));
        assert_eq!(measurement.peak.bytes, 300);
        assert!((measurement.average_bytes - 250.0).abs() < 1e-6);
        assert_eq!(measurement.samples, 3);
    }

    #[test]
    fn a_run_without_samples_says_so() {
        let start = Instant::now();
        let measurement = Record::new(SamplerKind::Pss, start).close(start);
        assert_eq!((measurement.samples, measurement.peak.bytes), (0, 0));
    }

    #[test]
    fn a_tree_that_cannot_be_read_is_a_missed_sample() {
        let start = Instant::now();
        let mut record = Record::new(SamplerKind::Pss, start);
        let unreadable = Reading {
            unreadable: 1,
            ..Reading::default()
        };
        record.add(start, unreadable);
        record.count_overslept(Duration::from_millis(65), Duration::from_millis(20));
        let measurement = record.close(start + Duration::from_millis(1));
        assert_eq!((measurement.samples, measurement.missed_samples), (0, 4));
    }
}
