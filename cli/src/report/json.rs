//! The JSON files of `run` and `compare`: schema 1, an interface. See docs/reference/command-line.md.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::target::{Target, is_standard, unwritable};
use crate::failure::Failure;
use crate::launch::supervise::own_usage;
use crate::load::Load;
use crate::measure::SamplerKind;
use crate::measure::record::Largest;
use crate::statistics_block::Statistics;
use crate::trial::Trial;
use intervals::Interval;

pub const SCHEMA: u32 = 1;

#[derive(Serialize)]
pub struct Configuration {
    pub name: String,
    pub peak_bytes: Interval,
    pub average_bytes: Interval,
    pub cpu_seconds: Interval,
    pub wall_seconds: Interval,
    pub ksmd_cpu_seconds: Option<f64>,
    pub swap_bytes: u64,
    pub sampler: &'static str,
    pub sources: Sources,
    pub samples: u64,
    pub missed_samples: u64,
    pub output_matches: bool,
    /// None: no files were compared.
    pub files_match: Option<bool>,
    pub exit_status: i32,
    pub signal: Option<i32>,
    pub timed_out: bool,
    pub preloaded: bool,
    pub sample_period_seconds: f64,
    pub unmapped_snapshot_bytes: u64,
    pub hugetlb_bytes: u64,
    pub page_table_bytes: u64,
    /// The peak if no pages had been shared: an estimate. None: none were.
    pub unshared_peak_bytes: Option<u64>,
    /// The process that had most at the peak of the last run. None: there was but one.
    pub largest_process: Option<Largest>,
    /// Processes that the kernel ended because memory ran out.
    pub killed_for_memory: u64,
    pub cgroup_peak_bytes: Option<u64>,
    pub page_faults: PageFaults,
    pub left_over_processes: usize,
    pub own_cpu_seconds: f64,
    pub measurements: Vec<Measured>,
    pub statistics: Option<Statistics>,
}

/// What figures of memory are taken from.
#[derive(Serialize)]
pub struct Sources {
    pub peak_bytes: &'static str,
    pub average_bytes: &'static str,
    /// Null: no process had memory of another's, or every page was looked at.
    pub shared_memory: Option<&'static str>,
}

#[derive(Serialize)]
pub struct PageFaults {
    pub minor: u64,
    pub major: u64,
}

/// The figures of one run.
#[derive(Clone, Serialize)]
pub struct Measured {
    pub peak_bytes: f64,
    pub average_bytes: f64,
    pub cpu_seconds: f64,
    pub system_seconds: f64,
    pub wall_seconds: f64,
    pub samples: u64,
    pub cgroup_peak_bytes: Option<u64>,
    /// Else the first two are 0.
    #[serde(skip)]
    pub has_memory: bool,
}

/// What figures of memory are taken from: the same for all runs that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Samples,
    /// The kernel's, which counts the page cache as well: only where no run was long enough for a sample.
    CgroupPeak,
}

#[derive(Serialize)]
pub struct RunReport<'a> {
    pub schema: u32,
    pub command: &'a [String],
    #[serde(flatten)]
    pub configuration: Configuration,
}

#[derive(Serialize)]
pub struct CompareReport<'a> {
    pub schema: u32,
    pub command: &'a [String],
    pub runs: usize,
    /// Of these, those that every configuration has.
    pub rounds: usize,
    pub interrupted: bool,
    pub load: &'a Load,
    pub configurations: &'a [Configuration],
    pub ratios: &'a [Ratio],
    /// Names of the pair that ran the same configuration twice.
    pub aa_control: Option<[String; 2]>,
}

#[derive(Serialize)]
pub struct Ratio {
    pub name: String,
    pub to: String,
    pub peak: Option<Interval>,
    pub average: Option<Interval>,
    pub cpu: Option<Interval>,
    pub wall: Option<Interval>,
    pub pairs: Vec<Pair>,
    /// Figures whose interval overlaps the A/A control's: no difference can be claimed.
    pub undecided: Vec<&'static str>,
    /// Two runs of the same configuration: what differs is noise.
    #[serde(skip)]
    pub is_control: bool,
}

/// The ratios of the two runs of one round.
#[derive(Clone, Copy, Serialize)]
pub struct Pair {
    pub peak: Option<f64>,
    pub average: Option<f64>,
    pub cpu: Option<f64>,
    pub wall: Option<f64>,
}

impl Source {
    pub fn of<'a>(trials: impl Iterator<Item = &'a Trial> + Clone) -> Self {
        let is_sampled = trials.clone().any(|trial| trial.memory.samples > 0);
        let has_peaks = trials.clone().all(|trial| trial.cgroup_peak.is_some());
        match !is_sampled && has_peaks {
            true => Self::CgroupPeak,
            false => Self::Samples,
        }
    }
}

impl Measured {
    fn of(trial: &Trial, source: Source) -> Self {
        let (peak, average) = match source {
            Source::Samples => (trial.memory.peak.bytes as f64, trial.memory.average_bytes),
            Source::CgroupPeak => {
                let peak = trial.cgroup_peak.unwrap_or(0) as f64;
                (peak, peak)
            }
        };
        Self {
            peak_bytes: peak,
            average_bytes: average,
            cpu_seconds: trial.cpu().as_secs_f64(),
            system_seconds: trial.ended.usage.system.as_secs_f64(),
            wall_seconds: trial.wall.as_secs_f64(),
            samples: trial.memory.samples,
            cgroup_peak_bytes: trial.cgroup_peak,
            has_memory: source == Source::CgroupPeak || trial.memory.samples > 0,
        }
    }
}

impl Configuration {
    /// There must be at least one trial. Those whose memory was not measured are left out of its figures.
    pub fn of(name: &str, trials: &[Trial], output_matches: bool, source: Source) -> Self {
        let measurements: Vec<Measured> = trials
            .iter()
            .map(|trial| Measured::of(trial, source))
            .collect();
        let interval = |of: fn(&Measured) -> f64| {
            intervals::of_mean(&measurements.iter().map(of).collect::<Vec<_>>())
        };
        let memory = |of: fn(&Measured) -> f64| {
            let measured = measurements.iter().filter(|one| one.has_memory);
            intervals::of_mean(&measured.map(of).collect::<Vec<_>>())
        };
        let all: Vec<&Trial> = trials.iter().collect();
        let sampled: Vec<&Trial> = trials.iter().filter(|t| t.memory.samples > 0).collect();
        // A failed run says more about the configuration than the successful ones.
        let telling = trials.iter().find(|trial| !trial.has_succeeded());
        let telling = telling.or(trials.last());
        let ksmd: Vec<f64> = trials
            .iter()
            .filter_map(|trial| trial.ksmd_cpu.map(|time| time.as_secs_f64()))
            .collect();
        let statistics: Vec<Statistics> =
            trials.iter().filter_map(|t| t.statistics.clone()).collect();
        let samples: u64 = trials.iter().map(|trial| trial.memory.samples).sum();
        Self {
            name: name.into(),
            peak_bytes: memory(|m| m.peak_bytes),
            average_bytes: memory(|m| m.average_bytes),
            cpu_seconds: interval(|m| m.cpu_seconds),
            wall_seconds: interval(|m| m.wall_seconds),
            ksmd_cpu_seconds: (!ksmd.is_empty()).then(|| intervals::mean(&ksmd)),
            swap_bytes: mean(&sampled, |t| t.memory.swap_bytes),
            sampler: sampler_name(trials, source),
            sources: sources(trials, source),
            samples,
            missed_samples: trials.iter().map(|t| t.memory.missed_samples).sum(),
            output_matches,
            files_match: None,
            exit_status: telling.map_or(0, |trial| trial.ended.end.status()),
            signal: telling.and_then(|trial| trial.ended.end.signal()),
            timed_out: telling.is_some_and(|trial| trial.ended.timed_out),
            preloaded: statistics.iter().any(|statistics| statistics.processes > 0),
            sample_period_seconds: intervals::mean(
                &sampled
                    .iter()
                    .map(|trial| trial.memory.period.as_secs_f64())
                    .collect::<Vec<_>>(),
            ),
            unmapped_snapshot_bytes: mean(&sampled, |t| t.memory.peak.unmapped_snapshot_bytes),
            hugetlb_bytes: mean(&sampled, |t| t.memory.peak.hugetlb_bytes),
            page_table_bytes: mean(&sampled, |t| t.memory.peak.page_table_bytes),
            unshared_peak_bytes: sampled
                .iter()
                .any(|trial| trial.memory.shares_pages())
                .then(|| mean(&sampled, |t| t.memory.unshared_peak_bytes)),
            largest_process: trials.last().and_then(|trial| trial.memory.largest.clone()),
            killed_for_memory: trials
                .iter()
                .filter_map(|trial| Some(trial.ran_out?.processes))
                .fold(0, u64::saturating_add),
            cgroup_peak_bytes: trials
                .iter()
                .all(|trial| trial.cgroup_peak.is_some())
                .then(|| mean(&all, |t| t.cgroup_peak.unwrap_or(0))),
            page_faults: PageFaults {
                minor: mean(&all, |t| t.ended.usage.minor_faults),
                major: mean(&all, |t| t.ended.usage.major_faults),
            },
            left_over_processes: trials.iter().map(|t| t.ended.left_over).max().unwrap_or(0),
            own_cpu_seconds: own_usage().cpu.as_secs_f64(),
            measurements,
            statistics: (!statistics.is_empty()).then(|| Statistics::mean(&statistics)),
        }
    }
}

fn mean(trials: &[&Trial], of: impl Fn(&Trial) -> u64) -> u64 {
    let figures = trials.iter().map(|trial| of(trial));
    figures.fold(0, u64::saturating_add) / trials.len().max(1) as u64
}

fn sampler_name(trials: &[Trial], source: Source) -> &'static str {
    match trials.first().map(|trial| trial.memory.kind) {
        Some(_) if source == Source::CgroupPeak => "cgroup",
        Some(SamplerKind::Counters) => "counters",
        Some(SamplerKind::Frames) => "frames",
        _ => "pss",
    }
}

fn sources(trials: &[Trial], source: Source) -> Sources {
    let sampler = sampler_name(trials, source);
    let is_peak_of_process = trials.iter().any(|trial| trial.memory.is_peak_of_process);
    let is_estimated = trials.iter().any(|trial| trial.memory.is_estimated);
    Sources {
        peak_bytes: if is_peak_of_process {
            "maxrss"
        } else {
            sampler
        },
        average_bytes: sampler,
        shared_memory: is_estimated.then_some("pss"),
    }
}

/// A file of figures, known to be writable before anything runs.
pub struct Destination {
    path: PathBuf,
    target: Target,
}

impl Destination {
    pub fn open(path: &Path) -> Result<Self, Failure> {
        match Target::open(path) {
            Ok(target) => Ok(Self {
                path: path.into(),
                target,
            }),
            Err(error) => Err(unwritable(path, &error)),
        }
    }

    pub fn is_standard(&self) -> bool {
        is_standard(&self.path)
    }

    /// `kept` says what is left to the user when the file cannot be written.
    pub fn write(self, value: &impl Serialize, kept: &str) -> Result<(), Failure> {
        match serde_json::to_string_pretty(value) {
            Ok(text) => self.write_text(&(text + "\n"), kept),
            Err(error) => Err(unwritable(&self.path, &error.into()).kept(kept)),
        }
    }

    pub fn write_text(mut self, text: &str, kept: &str) -> Result<(), Failure> {
        let written = self.target.write_all(text.as_bytes());
        match written.and_then(|()| self.target.finish()) {
            // A reader that has gone away, such as `head`, is no error.
            Err(error) if is_standard(&self.path) && is_end_of_reading(&error) => Ok(()),
            Err(error) => Err(unwritable(&self.path, &error).kept(kept)),
            Ok(()) => Ok(()),
        }
    }
}

/// Shows a text on standard output, unless the figures go there, and then writes the figures: where one of the two cannot be
/// written, the other is there.
pub fn publish(
    text: &str,
    destination: Option<Destination>,
    figures: &impl Serialize,
) -> Result<(), Failure> {
    let Some(destination) = destination else {
        return show(text).map_err(|error| unshown(&error));
    };
    if destination.is_standard() {
        return destination.write(figures, "the figures are lost");
    }
    let shown = show(text);
    let kept = match shown {
        Ok(()) => "the figures are on standard output",
        Err(_) => "the figures are lost",
    };
    let path = destination.path.clone();
    destination.write(figures, kept)?;
    shown.map_err(|error| unshown(&error).kept(format!("the figures are in {}", path.display())))
}

/// A reader that has gone away, such as `head`, is no error.
fn show(text: &str) -> io::Result<()> {
    let mut out = io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if !is_end_of_reading(&error) => Err(error),
        _ => Ok(()),
    }
}

fn is_end_of_reading(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe
}

fn unshown(error: &io::Error) -> Failure {
    unwritable(Path::new("-"), error).kept("the figures are lost")
}

#[cfg(test)]
pub mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::launch::supervise::{End, Ended, Usage};
    use crate::measure::reading::Reading;
    use crate::measure::record::Measurement;

    /// A run with so many samples of so much memory.
    pub fn trial(samples: u64, bytes: u64, cgroup_peak: Option<u64>) -> Trial {
        let peak = Reading {
            bytes,
            ..Reading::default()
        };
        Trial {
            ended: Ended {
                end: End::Exited(0),
                at: Instant::now(),
                usage: Usage::default(),
                timed_out: false,
                interrupted: None,
                left_over: 0,
            },
            wall: Duration::from_secs(1),
            memory: Measurement {
                kind: SamplerKind::Frames,
                peak,
                unshared_peak_bytes: bytes,
                largest: None,
                average_bytes: bytes as f64,
                swap_bytes: 0,
                samples,
                is_estimated: false,
                maps_twice: false,
                is_peak_of_process: false,
                cpu: Duration::ZERO,
                missed_samples: 0,
                period: Duration::from_millis(20),
                curve: None,
                unshared_curve: None,
            },
            cgroup_peak,
            ksmd_cpu: None,
            ran_out: None,
            statistics: None,
        }
    }

    pub fn configuration(name: &str, trials: &[Trial]) -> Configuration {
        Configuration::of(name, trials, true, Source::of(trials.iter()))
    }

    #[test]
    fn runs_without_a_sample_are_left_out_of_the_memorys_figures() {
        let found = configuration("auto", &[trial(5, 100, Some(900)), trial(0, 0, Some(700))]);
        assert_eq!(found.peak_bytes, Interval::point(100.0));
        assert_eq!(found.sampler, "frames");
        assert_eq!(found.measurements[1].peak_bytes, 0.0);
        assert!(found.measurements[0].has_memory && !found.measurements[1].has_memory);
    }

    #[test]
    fn the_kernels_peak_serves_where_no_run_has_a_sample() {
        let found = configuration("auto", &[trial(0, 0, Some(700)), trial(0, 0, Some(900))]);
        assert_eq!(found.peak_bytes.mean, 800.0);
        assert_eq!(found.sampler, "cgroup");
        let without = configuration("auto", &[trial(0, 0, Some(700)), trial(0, 0, None)]);
        assert_eq!(without.sampler, "frames");
        assert!(without.measurements.iter().all(|one| !one.has_memory));
    }

    #[test]
    fn absurd_estimates_have_a_mean() {
        let absurd = || {
            let mut trial = trial(5, 100, None);
            trial.memory.unshared_peak_bytes = u64::MAX;
            trial
        };
        let found = configuration("auto", &[absurd(), absurd()]);
        assert_eq!(found.unshared_peak_bytes, Some(u64::MAX / 2));
    }

    #[test]
    fn what_is_kept_is_said() {
        let open = |path: &str| Destination::open(Path::new(path));
        assert!(open("/no/such/folder/x.json").is_err());
        let full = open("/dev/full").expect("writable");
        let failure = full.write(&1, "the table is shown").expect_err("no room");
        assert_eq!(failure.kept, "the table is shown");
        assert!(failure.what.contains("/dev/full"), "{}", failure.what);
    }
}
