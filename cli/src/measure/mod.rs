//! Physical memory of a process tree: the number of distinct page frames.

pub mod available;
pub mod cgroup;
pub mod curve;
pub mod frame_set;
pub mod frames;
pub mod meter;
pub mod page_map;
pub mod process_status;
pub mod process_tree;
pub mod pss;
pub mod reading;
pub mod snapshot;
pub mod watch;

use std::fmt;

use clap::ValueEnum;
use serde::Serialize;

use reading::Sampler;

/// How physical memory is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SamplerKind {
    /// Distinct page frame numbers; needs CAP_SYS_ADMIN.
    Frames,
    /// Sum of proportional set sizes; works for one's own processes.
    Pss,
}

impl SamplerKind {
    /// The best one that this process is allowed to use.
    pub fn best() -> Self {
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
            Self::Frames => "frames",
            Self::Pss => "pss",
        })
    }
}

pub fn sampler(kind: SamplerKind) -> Box<dyn Sampler> {
    match kind {
        SamplerKind::Frames => Box::new(frames::FrameSampler::new()),
        SamplerKind::Pss => Box::new(pss::PssSampler::new()),
    }
}
