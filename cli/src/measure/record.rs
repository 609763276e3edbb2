//! What the looks at a run's memory come to.

use std::time::{Duration, Instant};

use serde::Serialize;

use super::SamplerKind;
use super::curve::Curve;
use super::process_status::name_of;
use super::reading::Reading;

/// Physical memory of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    pub kind: SamplerKind,
    pub peak: Reading,
    /// The peak if no pages had been shared, about. It may have been at another time.
    pub unshared_peak_bytes: u64,
    /// The process that had most at the peak, where there were several.
    pub largest: Option<Largest>,
    /// Time-weighted over the run.
    pub average_bytes: f64,
    /// Largest value of any sample.
    pub swap_bytes: u64,
    pub samples: u64,
    /// At some look it was not counted which pages processes have in common.
    pub is_estimated: bool,
    /// Resident sets may hold a page twice.
    pub maps_twice: bool,
    /// The kernel's own peak of a process is the peak, because no look found as much.
    pub is_peak_of_process: bool,
    /// What looking has cost.
    pub cpu: Duration,
    /// Samples that were due and not taken, or that could not read a process.
    pub missed_samples: u64,
    pub period: Duration,
    /// None unless it was asked for.
    pub curve: Option<Curve>,
    /// The same if no pages had been shared, about: at looks alone.
    pub unshared_curve: Option<Curve>,
}

/// A process of the command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Largest {
    pub name: String,
    pub process: i32,
    pub bytes: u64,
}

impl Measurement {
    /// Would it have been more without?
    pub fn shares_pages(&self) -> bool {
        self.unshared_peak_bytes > self.peak.bytes
    }

    /// The kernel's own peak of one process. It takes part where no page of a process counts twice in it.
    pub fn raise_to(&mut self, resident_bytes: u64) {
        let takes_part = self.kind == SamplerKind::Counters && self.samples > 0 && !self.maps_twice;
        if takes_part && resident_bytes > self.peak.bytes {
            self.peak.bytes = resident_bytes;
            self.unshared_peak_bytes = self.unshared_peak_bytes.max(resident_bytes);
            self.is_peak_of_process = true;
        }
    }
}

pub struct Record {
    pub kind: SamplerKind,
    pub started: Instant,
    last: Option<(Instant, u64)>,
    byte_seconds: f64,
    pub peak: Reading,
    unshared_peak: u64,
    largest: Option<Largest>,
    swap_bytes: u64,
    samples: u64,
    is_estimated: bool,
    maps_twice: bool,
    pub cpu: Duration,
    missed: u64,
    pub curve: Option<Curve>,
    unshared_curve: Curve,
}

impl Record {
    pub fn new(kind: SamplerKind, started: Instant) -> Self {
        Self {
            kind,
            started,
            last: None,
            byte_seconds: 0.0,
            peak: Reading::default(),
            unshared_peak: 0,
            largest: None,
            swap_bytes: 0,
            samples: 0,
            is_estimated: false,
            maps_twice: false,
            cpu: Duration::ZERO,
            missed: 0,
            curve: None,
            unshared_curve: Curve::default(),
        }
    }

    pub fn add(&mut self, at: Instant, reading: Reading) {
        self.missed += u64::from(reading.unreadable > 0);
        // Nothing was there to see: before the first process or after the last one.
        if reading.processes == 0 || reading.bytes == 0 {
            return;
        }
        self.advance(at, reading.bytes);
        self.samples += 1;
        self.is_estimated |= reading.is_estimated;
        self.maps_twice |= reading.maps_twice;
        self.swap_bytes = self.swap_bytes.max(reading.swap_bytes);
        // What is saved is as a statistics block says, in which the command may write anything.
        let unshared = reading.bytes.saturating_add(reading.saved_bytes);
        if self.curve.is_some() {
            let seconds = at.saturating_duration_since(self.started);
            self.unshared_curve.add(seconds, unshared);
        }
        self.unshared_peak = self.unshared_peak.max(unshared);
        if reading.bytes > self.peak.bytes {
            self.peak = reading;
            self.meet_largest(&reading);
        }
    }

    /// Its name is known as long as it runs.
    fn meet_largest(&mut self, reading: &Reading) {
        let (process, bytes) = reading.largest;
        self.largest = (reading.processes > 1 && bytes > 0).then(|| Largest {
            name: name_of(process),
            process,
            bytes,
        });
    }

    /// What the kernel's counters say between two samples.
    pub fn carry_on(&mut self, at: Instant, bytes: u64) {
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

    pub fn count_overslept(&mut self, late: Duration, pace: Duration) {
        self.missed += (late.as_nanos() / pace.as_nanos().max(1)) as u64;
    }

    pub fn close(self, ended: Instant) -> Measurement {
        let (last_at, last_bytes) = self.last.unwrap_or((self.started, 0));
        let tail = ended.saturating_duration_since(last_at).as_secs_f64();
        let sampled = last_at.duration_since(self.started);
        let whole = sampled.as_secs_f64() + tail;
        let byte_seconds = self.byte_seconds + tail * last_bytes as f64;
        Measurement {
            kind: self.kind,
            peak: self.peak,
            unshared_peak_bytes: self.unshared_peak.max(self.peak.bytes),
            largest: self.largest,
            average_bytes: if whole > 0.0 {
                byte_seconds / whole
            } else {
                0.0
            },
            swap_bytes: self.swap_bytes,
            samples: self.samples,
            is_estimated: self.is_estimated,
            maps_twice: self.maps_twice,
            is_peak_of_process: false,
            cpu: self.cpu,
            missed_samples: self.missed,
            period: sampled / u32::try_from(self.samples).unwrap_or(u32::MAX).max(1),
            unshared_curve: self.curve.is_some().then_some(self.unshared_curve),
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
    fn an_absurd_estimate_ends_no_run() {
        let start = Instant::now();
        let mut record = Record::new(SamplerKind::Counters, start);
        let absurd = Reading {
            saved_bytes: u64::MAX,
            ..reading(100)
        };
        record.add(start, absurd);
        let measurement = record.close(start);
        assert_eq!(measurement.peak.bytes, 100);
        assert_eq!(measurement.unshared_peak_bytes, u64::MAX);
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
