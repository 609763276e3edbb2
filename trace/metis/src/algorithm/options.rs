//! The readings of the paper that can be chosen.

use serde::{Deserialize, Serialize};

use crate::heap::free_space::Direction;

/// When profiling ends (section 5's first paragraph names both criteria and no numbers).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Activation {
    Collections(u64),
    /// This share of the sites executed so far is in the model's list. Looked at after each collection.
    Coverage(f64),
}

/// When the two pruning rules of section 4.2 are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pruning {
    EachGraph,
    EachCollection,
    EndOfProfiling,
}

/// "The accumulated size of objects in the corresponding reclaimable graph" (section 5.2), where many graphs
/// went into one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RegionSize {
    MeanGraph,
    LargestGraph,
    LastGraph,
    AllGraphs,
}

/// Section 5.3's two policies, and none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stealing {
    FirstFit,
    Buffer,
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SweepOrder {
    Address,
    /// By slot: the order in which the object table happens to be filled.
    Table,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MetisOptions {
    pub activation: Activation,
    /// Section 4.2, rule a: a tuple array stays shorter than this.
    pub tuple_limit: usize,
    /// Section 4.2, rule b: a tail tuple below this goes.
    pub least_probability: f64,
    pub pruning: Pruning,
    pub sweep_order: SweepOrder,
    pub region_size: RegionSize,
    /// Section 5.2: the buffer is "about three times the average object size".
    pub buffer_objects: f64,
    /// Section 5.2: only the first so many region groups have one.
    pub buffered_regions: u64,
    pub direction: Direction,
    pub stealing: Stealing,
    /// Region groups that one IC group may have at a time; the paper has one.
    pub regions_per_group: usize,
    /// Section 7: sites whose objects escape their thread share a region group, all others are kept apart by thread.
    pub thread_aware: bool,
}

impl Default for MetisOptions {
    fn default() -> Self {
        Self {
            activation: Activation::Collections(5),
            tuple_limit: 3,
            least_probability: 0.1,
            pruning: Pruning::EachCollection,
            sweep_order: SweepOrder::Address,
            region_size: RegionSize::MeanGraph,
            buffer_objects: 3.0,
            buffered_regions: 10,
            direction: Direction::Forward,
            stealing: Stealing::FirstFit,
            regions_per_group: 1,
            thread_aware: false,
        }
    }
}
