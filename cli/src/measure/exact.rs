//! Samples that look at every page: as often as a tenth of a core allows, and as soon as memory passes its peak.

use std::time::{Duration, Instant};

use super::SamplerKind;
use super::allowance::thread_cpu_time;
use super::frames::FrameSampler;
use super::process_tree::Strangers;
use super::pss::PssSampler;
use super::reading::Sampler;
use super::record::Record;
use super::sharing::Sharing;
use super::stop::Stop;
use super::watch::{Baseline, PeakHunt, Watch};

/// The first samples follow each other quickly, for the sake of short runs.
const FIRST_PERIOD: Duration = Duration::from_millis(1);
/// Between samples.
const PERIOD: Duration = Duration::from_millis(20);
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

pub fn sample_until_stopped(
    period: Option<Duration>,
    mut sharing: Option<Sharing>,
    record: &mut Record,
    strangers: &Strangers,
    stop: &Stop,
) {
    let period = period.unwrap_or(PERIOD);
    let kind = record.kind;
    let mut sampler: Box<dyn Sampler> = match kind {
        SamplerKind::Frames => Box::new(FrameSampler::new()),
        _ => Box::new(PssSampler::new()),
    };
    let mut pace = FIRST_PERIOD.min(period);
    let mut extra = Extra::new(record.started);
    let mut baseline = None;
    loop {
        let cpu_before = thread_cpu_time();
        let now = Instant::now();
        let processes = strangers.others();
        let mut watch = Watch::on(&processes);
        let counters = watch.read();
        let mut reading = sampler.sample(&processes);
        if let Some(sharing) = &mut sharing {
            reading.saved_bytes = sharing.saved(&processes);
        }
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
        match extra.wait(stop, due, cost, &mut watch, hunt, exact, record) {
            Wake::Stop => return,
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
            if stop.wait_until(due.min(Instant::now() + POLL)) {
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
