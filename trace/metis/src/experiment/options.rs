//! What an experiment is made on, and how.

use serde::{Deserialize, Serialize};

use super::arm::Arm;
use crate::algorithm::MetisOptions;
use crate::grouping::chunks::ChunkOptions;
use crate::heap::HeapOptions;
use crate::workload::repeat::RepeatOptions;
use trace_format::Event;

/// One workload: the trace that is replayed, and one of the same program on another input to learn from.
#[derive(Clone, Copy, Debug)]
pub struct TraceInput<'a> {
    pub name: &'a str,
    pub testing: &'a [Event],
    /// Its sites must have the same numbers as in `testing`.
    pub training: Option<&'a [Event]>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExperimentOptions {
    pub heap: HeapOptions,
    pub metis: MetisOptions,
    /// Region groups of `Arm::Elsewhere`'s groupings past the paper.
    pub region_groups: MetisOptions,
    /// Placement of `Arm::Chunks`.
    pub chunks: ChunkOptions,
    pub repeat: RepeatOptions,
    /// Blocks of the training trace that the layouts past the paper learn from; the paper's learn from the first.
    pub training_blocks: usize,
    pub seeds: Vec<u64>,
    pub arms: Vec<Arm>,
    /// Say how much of objects' deaths their sites foretell.
    pub foresight: bool,
}

impl Default for ExperimentOptions {
    fn default() -> Self {
        Self {
            heap: HeapOptions::default(),
            metis: MetisOptions::default(),
            region_groups: MetisOptions {
                regions_per_group: usize::MAX,
                ..MetisOptions::default()
            },
            chunks: ChunkOptions::default(),
            repeat: RepeatOptions::default(),
            training_blocks: 20,
            seeds: (1..=10).collect(),
            arms: Arm::DEFAULT.to_vec(),
            foresight: false,
        }
    }
}
