//! The thread that looks at physical memory while the command runs.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::SamplerKind;
use super::allowance::{Allowance, thread_cpu_time};
use super::counters::CounterSampler;
use super::curve::Curve;
use super::exact;
use super::process_tree::Strangers;
use super::record::{Measurement, Record};
use super::sharing::Sharing;
use super::stop::Stop;

/// Between looks at counters, and at the start, for the sake of short runs.
const PERIOD: Duration = Duration::from_millis(4);
const FIRST_PERIOD: Duration = Duration::from_millis(1);
/// Share of a core for them, and what a run may use up at once.
const SHARE: f64 = 0.003;
const AT_ONCE: Duration = Duration::from_millis(2);

/// What is looked at, and how.
pub struct How {
    pub kind: SamplerKind,
    /// None: as often as is usual for the kind.
    pub period: Option<Duration>,
    pub keeps_curve: bool,
    /// Where the library leaves its statistics blocks.
    pub statistics: Option<PathBuf>,
}

pub struct Meter {
    stop: Arc<Stop>,
    thread: JoinHandle<Record>,
}

impl Meter {
    /// Starts looking at the descendants of this process but the strangers.
    pub fn start(how: How, started: Instant, strangers: Strangers) -> io::Result<Self> {
        let stop = Arc::new(Stop::default());
        let seen_by_thread = Arc::clone(&stop);
        let thread = thread::Builder::new()
            .name("sampler".into())
            .spawn(move || look_until_stopped(&how, started, strangers, &seen_by_thread))?;
        Ok(Self { stop, thread })
    }

    pub fn finish(self, ended: Instant) -> io::Result<Measurement> {
        self.stop.request();
        let record = self
            .thread
            .join()
            .map_err(|_| io::Error::other("the sampling thread ended early"))?;
        Ok(record.close(ended))
    }
}

fn look_until_stopped(how: &How, started: Instant, strangers: Strangers, stop: &Stop) -> Record {
    let mut record = Record::new(how.kind, started);
    record.curve = how.keeps_curve.then(Curve::default);
    let sharing = how
        .statistics
        .as_deref()
        .map(|folder| Sharing::new(folder, started));
    match how.kind {
        SamplerKind::Counters => {
            let sampler = CounterSampler::new(strangers, started);
            let period = how.period.unwrap_or(PERIOD);
            look_at_counters(sampler, sharing, period, &mut record, stop);
        }
        _ => exact::sample_until_stopped(how.period, sharing, &mut record, &strangers, stop),
    }
    record.cpu = thread_cpu_time();
    record
}

/// As often as the period says, and seldom enough to keep to the share.
fn look_at_counters(
    mut sampler: CounterSampler,
    mut sharing: Option<Sharing>,
    period: Duration,
    record: &mut Record,
    stop: &Stop,
) {
    let mut allowance = Allowance::new(record.started, AT_ONCE, SHARE);
    let mut pace = FIRST_PERIOD.min(period);
    let mut spent = Duration::ZERO;
    loop {
        let mut reading = sampler.look();
        if let Some(sharing) = &mut sharing {
            reading.saved_bytes = sharing.saved(sampler.processes());
        }
        record.add(Instant::now(), reading);
        let walks = sharing
            .as_ref()
            .map_or(Duration::ZERO, Sharing::spent_on_walks);
        let cpu = thread_cpu_time().saturating_sub(sampler.spent_on_page_tables() + walks);
        allowance.spend(cpu.saturating_sub(spent));
        spent = cpu;
        pace = (pace * 5 / 4).min(period);
        if stop.wait_until(Instant::now() + pace.max(allowance.rest_before(Duration::ZERO))) {
            return;
        }
    }
}
