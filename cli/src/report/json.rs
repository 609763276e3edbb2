//! The JSON files of `run` and `compare`: schema 1, an interface. See docs/reference/command-line.md.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};
use serde::Serialize;
use tempfile::NamedTempFile;

use crate::failure::Failure;
use crate::measure::SamplerKind;
use crate::statistics_block::Statistics;
use crate::trial::Trial;
use pagewise_trace::bootstrap::{self, Interval};

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
    pub samples: u64,
    pub missed_samples: u64,
    pub output_matches: bool,
    pub exit_status: i32,
    pub signal: Option<i32>,
    pub timed_out: bool,
    pub preloaded: bool,
    pub sample_period_seconds: f64,
    pub unmapped_snapshot_bytes: u64,
    pub hugetlb_bytes: u64,
    pub page_table_bytes: u64,
    pub cgroup_peak_bytes: Option<u64>,
    pub page_faults: PageFaults,
    pub left_over_processes: usize,
    pub measurements: Vec<Measured>,
    pub statistics: Option<Statistics>,
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
    /// Figures whose interval overlaps the A/A control's: no difference can be claimed.
    pub undecided: Vec<&'static str>,
    /// Two runs of the same configuration: what differs is noise.
    #[serde(skip)]
    pub is_control: bool,
}

impl Measured {
    /// A run too short for a single sample has the cgroup's peak, if that.
    pub fn of(trial: &Trial) -> Self {
        let (peak, average) = if trial.memory.samples > 0 {
            (trial.memory.peak.bytes as f64, trial.memory.average_bytes)
        } else {
            let peak = trial.cgroup_peak.unwrap_or(0) as f64;
            (peak, peak)
        };
        Self {
            peak_bytes: peak,
            average_bytes: average,
            cpu_seconds: trial.cpu().as_secs_f64(),
            system_seconds: trial.ended.usage.system.as_secs_f64(),
            wall_seconds: trial.wall.as_secs_f64(),
            samples: trial.memory.samples,
            cgroup_peak_bytes: trial.cgroup_peak,
        }
    }
}

impl Configuration {
    /// There must be at least one trial.
    pub fn of(name: &str, trials: &[Trial], output_matches: bool) -> Self {
        let measurements: Vec<Measured> = trials.iter().map(Measured::of).collect();
        let interval = |of: fn(&Measured) -> f64| {
            bootstrap::of_mean(&measurements.iter().map(of).collect::<Vec<_>>())
        };
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
            peak_bytes: interval(|m| m.peak_bytes),
            average_bytes: interval(|m| m.average_bytes),
            cpu_seconds: interval(|m| m.cpu_seconds),
            wall_seconds: interval(|m| m.wall_seconds),
            ksmd_cpu_seconds: (!ksmd.is_empty()).then(|| bootstrap::mean(&ksmd)),
            swap_bytes: mean(trials, |t| t.memory.swap_bytes),
            sampler: sampler_name(trials, samples),
            samples,
            missed_samples: trials.iter().map(|t| t.memory.missed_samples).sum(),
            output_matches,
            exit_status: telling.map_or(0, |trial| trial.ended.end.status()),
            signal: telling.and_then(|trial| trial.ended.end.signal()),
            timed_out: telling.is_some_and(|trial| trial.ended.timed_out),
            preloaded: statistics.iter().any(|statistics| statistics.processes > 0),
            sample_period_seconds: bootstrap::mean(
                &trials
                    .iter()
                    .map(|trial| trial.memory.period.as_secs_f64())
                    .collect::<Vec<_>>(),
            ),
            unmapped_snapshot_bytes: mean(trials, |t| t.memory.peak.unmapped_snapshot_bytes),
            hugetlb_bytes: mean(trials, |t| t.memory.peak.hugetlb_bytes),
            page_table_bytes: mean(trials, |t| t.memory.peak.page_table_bytes),
            cgroup_peak_bytes: trials
                .iter()
                .all(|trial| trial.cgroup_peak.is_some())
                .then(|| mean(trials, |t| t.cgroup_peak.unwrap_or(0))),
            page_faults: PageFaults {
                minor: mean(trials, |t| t.ended.usage.minor_faults),
                major: mean(trials, |t| t.ended.usage.major_faults),
            },
            left_over_processes: trials.iter().map(|t| t.ended.left_over).max().unwrap_or(0),
            measurements,
            statistics: (!statistics.is_empty()).then(|| Statistics::mean(&statistics)),
        }
    }
}

fn mean(trials: &[Trial], of: impl Fn(&Trial) -> u64) -> u64 {
    trials.iter().map(of).sum::<u64>() / trials.len().max(1) as u64
}

fn sampler_name(trials: &[Trial], samples: u64) -> &'static str {
    let has_cgroup_peak = trials.iter().any(|trial| trial.cgroup_peak.is_some());
    match trials.first().map(|trial| trial.memory.kind) {
        Some(_) if samples == 0 && has_cgroup_peak => "cgroup",
        Some(SamplerKind::Frames) => "frames",
        _ => "pss",
    }
}

/// A file of figures that appears whole or not at all, and is known to be writable before anything runs.
pub struct Destination {
    path: PathBuf,
    kind: DestinationKind,
}

enum DestinationKind {
    /// Renamed to the path once complete.
    Whole(NamedTempFile),
    /// A pipe or device.
    Stream(fs::File),
    Stdout,
}

impl Destination {
    pub fn open(path: &Path) -> Result<Self, Failure> {
        Self::try_open(path).map_err(|error| unwritable(path, &error))
    }

    fn try_open(path: &Path) -> io::Result<Self> {
        if path == Path::new("-") {
            return Ok(Self {
                path: path.into(),
                kind: DestinationKind::Stdout,
            });
        }
        if let Ok(metadata) = fs::metadata(path) {
            access(path, AccessFlags::W_OK)?;
            if !metadata.is_file() {
                let file = fs::OpenOptions::new().write(true).open(path)?;
                return Ok(Self {
                    path: path.into(),
                    kind: DestinationKind::Stream(file),
                });
            }
        }
        // A link stays a link: what it points to is replaced.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
        let folder = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let file = tempfile::Builder::new()
            .prefix(&format!(".{}-", name.to_string_lossy()))
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666))
            .tempfile_in(folder)?;
        Ok(Self {
            kind: DestinationKind::Whole(file),
            path,
        })
    }

    pub fn write(self, value: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(value);
        match text {
            Ok(text) => self.write_text(&(text + "\n")),
            Err(error) => Err(unwritable(&self.path, &error.into())),
        }
    }

    pub fn write_text(self, text: &str) -> Result<(), Failure> {
        let path = self.path.clone();
        self.try_write(text.as_bytes()).map_err(|error| {
            unwritable(&path, &error).kept("the command has run; its figures are on standard error")
        })
    }

    fn try_write(self, text: &[u8]) -> io::Result<()> {
        match self.kind {
            DestinationKind::Stdout => io::stdout().write_all(text),
            DestinationKind::Stream(mut file) => file.write_all(text),
            DestinationKind::Whole(mut file) => {
                file.write_all(text)?;
                file.as_file().sync_all()?;
                file.persist(&self.path).map(drop).map_err(|e| e.error)
            }
        }
    }
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    let path = path.display();
    Failure::new(
        format!("cannot write {path}: {error}"),
        format!("ls -ld {path} and its folder; or name another file"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_appears_until_it_is_complete() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("out.json");
        let destination = Destination::open(&path).expect("writable");
        assert!(!path.exists());
        destination.write(&[1, 2]).expect("written");
        let text = fs::read_to_string(&path).expect("text");
        assert_eq!(text.split_whitespace().collect::<String>(), "[1,2]");
        assert_eq!(fs::read_dir(folder.path()).expect("list").count(), 1);
    }

    #[test]
    fn a_link_stays_a_link() {
        let folder = tempfile::tempdir().expect("folder");
        let target = folder.path().join("target");
        let link = folder.path().join("link");
        fs::write(&target, "old").expect("old");
        std::os::unix::fs::symlink(&target, &link).expect("link");
        let destination = Destination::open(&link).expect("writable");
        destination.write(&1).expect("written");
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&target).expect("text"), "1\n");
    }

    #[test]
    fn unwritable_places_are_refused_at_once() {
        assert!(Destination::open(Path::new("/no/such/folder/x.json")).is_err());
        assert!(Destination::open(Path::new("/tmp")).is_err());
        assert!(Destination::open(Path::new("")).is_err());
        assert!(Destination::open(Path::new("/dev/null")).is_ok());
    }
}
