//! Physical memory of a process tree: the number of distinct page frames.

pub mod allowance;
pub mod available;
pub mod cgroup;
pub mod counters;
pub mod curve;
pub mod exact;
pub mod family;
pub mod frame_set;
pub mod frames;
pub mod meter;
pub mod page_map;
pub mod process_status;
pub mod process_tree;
pub mod pss;
pub mod reading;
pub mod record;
pub mod shared;
pub mod sharing;
pub mod snapshot;
pub mod stop;
pub mod watch;

use std::fmt;

use clap::ValueEnum;
use serde::Serialize;

/// How physical memory is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SamplerKind {
    /// The kernel's counters of each process; costs next to nothing.
    Counters,
    /// Distinct page frame numbers; needs CAP_SYS_ADMIN.
    Frames,
    /// Sum of proportional set sizes; works for one's own processes.
    Pss,
}

impl SamplerKind {
    /// The most exact one that this process is allowed to use.
    pub fn exact() -> Self {
        if page_map::frame_numbers_visible() {
            Self::Frames
        } else {
            Self::Pss
        }
    }
}

impl fmt::Display for SamplerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Counters => "counters",
            Self::Frames => "frames",
            Self::Pss => "pss",
        })
    }
}
