//! How busy the machine is with other things than the command: what makes times, and with them averages, unsure.

use std::fs;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::report::units;

/// Share of the time in which something waited for a processor, before anything was started.
const BUSY_BEFORE: f64 = 0.10;
/// The same by the load average, a processor, where the kernel keeps no pressure information.
const LOADED_BEFORE: f64 = 0.6;
/// Share of all processors that others used, or the machine's host took, meanwhile.
const BUSY_MEANWHILE: f64 = 0.10;
const STOLEN_MEANWHILE: f64 = 0.03;

/// The machine's counters at one moment.
pub struct Look {
    at: Instant,
    processors: u64,
    ticks: Ticks,
    /// For how long something has waited for a processor. None: the kernel does not count it.
    waited: Option<Duration>,
    pressure: Option<f64>,
    load: Option<f64>,
}

/// Of all processors since the machine was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ticks {
    busy: u64,
    stolen: u64,
}

/// What happened beside the command.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Load {
    pub processors: u64,
    /// Processors that other programs used, on average.
    pub others: f64,
    /// Processors that the host of a virtual machine gave to others.
    pub stolen: f64,
    /// Share of the time in which something, the command's own threads too, waited for a processor.
    pub waiting: Option<f64>,
}

impl Look {
    pub fn now() -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let stat = text("/proc/stat");
        let pressure = text("/proc/pressure/cpu");
        Self {
            at: Instant::now(),
            processors: processors(&stat),
            ticks: ticks(&stat),
            waited: value(&pressure, "total=").map(|micros| Duration::from_micros(micros as u64)),
            pressure: value(&pressure, "avg10=").map(|percent| percent / 100.0),
            load: first_number(&text("/proc/loadavg")),
        }
    }

    /// What is to be said before anything is started.
    pub fn warning(&self) -> Option<String> {
        match (self.pressure, self.load) {
            (Some(share), _) if share >= BUSY_BEFORE => Some(format!(
                "in the last ten seconds something waited for a processor {:.0} % of the time",
                share * 100.0
            )),
            (None, Some(load)) if load >= LOADED_BEFORE * self.processors as f64 => Some(format!(
                "its load is {load:.1} on {}",
                units::counted(self.processors, "processor")
            )),
            _ => None,
        }
    }

    /// What happened since; `own` is the CPU time of the command and of this process.
    pub fn load_since(&self, own: Duration) -> Load {
        let now = Self::now();
        let wall = now.at.duration_since(self.at).as_secs_f64().max(1e-3);
        // SAFETY: sysconf has no preconditions.
        let ticks_a_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as f64;
        let rate =
            |now: u64, before: u64| now.saturating_sub(before) as f64 / ticks_a_second / wall;
        let busy = rate(now.ticks.busy, self.ticks.busy);
        let waited = now.waited.zip(self.waited);
        Load {
            processors: self.processors,
            others: (busy - own.as_secs_f64() / wall).max(0.0),
            stolen: rate(now.ticks.stolen, self.ticks.stolen),
            waiting: waited.map(|(now, then)| now.saturating_sub(then).as_secs_f64() / wall),
        }
    }
}

impl Load {
    /// None where others were quiet.
    pub fn warning(&self) -> Option<String> {
        let all = self.processors.max(1) as f64;
        if self.others < BUSY_MEANWHILE * all && self.stolen < STOLEN_MEANWHILE * all {
            return None;
        }
        let mut said = format!(
            "Other programs used {:.1} of {} meanwhile",
            self.others,
            units::counted(self.processors, "processor")
        );
        if self.stolen >= STOLEN_MEANWHILE * all {
            said.push_str(&format!(", and the machine's host took {:.1}", self.stolen));
        }
        Some(said + ": times are less sure than they look.")
    }
}

/// user, nice, system, idle, iowait, irq, softirq, steal; what guests used is in the first two.
fn ticks(stat: &str) -> Ticks {
    let numbers: Vec<u64> = stat
        .lines()
        .next()
        .unwrap_or_default()
        .split_ascii_whitespace()
        .skip(1)
        .filter_map(|word| word.parse().ok())
        .collect();
    let at = |index: usize| numbers.get(index).copied().unwrap_or(0);
    Ticks {
        busy: at(0) + at(1) + at(2) + at(5) + at(6),
        stolen: at(7),
    }
}

/// Lines "cpu0", "cpu1" and so on.
fn processors(stat: &str) -> u64 {
    let is_one = |line: &&str| {
        let name = line.split(' ').next().unwrap_or_default();
        name.len() > 3 && name.starts_with("cpu")
    };
    stat.lines().filter(is_one).count().max(1) as u64
}

/// Of the line "some avg10=0.00 avg60=0.00 avg300=0.00 total=0".
fn value(pressure: &str, name: &str) -> Option<f64> {
    let words = pressure.lines().next()?.strip_prefix("some ")?;
    let value = words.split(' ').find_map(|word| word.strip_prefix(name))?;
    value.parse().ok()
}

fn first_number(text: &str) -> Option<f64> {
    text.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(pressure: Option<f64>, load: Option<f64>) -> Look {
        Look {
            at: Instant::now(),
            processors: 2,
            ticks: Ticks::default(),
            waited: None,
            pressure,
            load,
        }
    }

    #[test]
    fn the_machines_counters_are_read() {
        let stat = "cpu  10 20 30 400 5 6 7 8 9 9\ncpu0 1 1 1\ncpu1 1 1 1\nintr 5\n";
        let expected = Ticks {
            busy: 73,
            stolen: 8,
        };
        assert_eq!(ticks(stat), expected);
        assert_eq!(processors(stat), 2);
        let pressure = "some avg10=12.50 avg60=1.00 avg300=0.00 total=123456\nfull avg10=9.00\n";
        assert_eq!(value(pressure, "avg10="), Some(12.5));
        assert_eq!(value(pressure, "total="), Some(123_456.0));
        assert_eq!(value("", "avg10="), None);
        assert_eq!((ticks(""), processors("")), (Ticks::default(), 1));
    }

    #[test]
    fn a_busy_machine_is_said_before() {
        let said = look(Some(0.34), Some(0.0)).warning().expect("busy");
        assert!(said.contains("34 % of the time"), "{said}");
        assert_eq!(
            look(Some(0.02), Some(9.0)).warning(),
            None,
            "pressure tells better"
        );
        let said = look(None, Some(1.5)).warning().expect("busy");
        assert!(said.contains("1.5 on 2 processors"), "{said}");
        assert_eq!(look(None, None).warning(), None);
    }

    #[test]
    fn a_busy_machine_is_said_afterwards() {
        let load = |others, stolen| Load {
            processors: 2,
            others,
            stolen,
            waiting: None,
        };
        assert_eq!(load(0.1, 0.0).warning(), None);
        let said = load(1.3, 0.0).warning().expect("busy");
        assert!(
            said.starts_with("Other programs used 1.3 of 2 processors"),
            "{said}"
        );
        assert!(
            load(0.0, 0.5)
                .warning()
                .is_some_and(|said| said.contains("host took 0.5"))
        );
    }

    #[test]
    fn own_work_is_not_others() {
        let before = Look::now();
        assert_eq!(before.load_since(Duration::from_secs(3600)).others, 0.0);
    }
}
