//! Past the paper: other ways to learn which sites belong together, all ending in the same kind of plan.
//!
//! `profile` is what a training run shows of each site, `learn` makes groups of it, `chunks` and `ends` place
//! objects by them in a collected heap; `fates` is what perfect knowledge would do there, and how much of it sites have; `spans` is the heap of native
//! programs in which groups are tried, `selection` switches grouping off where it would not help, and `trial` runs both
//! beside their controls.

pub mod chunks;
pub mod ends;
pub mod fates;
pub mod learn;
pub mod profile;
pub mod selection;
pub mod spans;
pub mod trial;

use serde::{Deserialize, Serialize};

/// A way to learn groups from a training trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grouping {
    /// The paper's: the group that most sites of a dead graph are in.
    Metis,
    /// Sites whose objects are found in the same dead components, each in most of the other's.
    Components,
    /// Sites of similar lifetime, in factors of eight (after LLAMA).
    Lifetimes,
    /// Sites whose objects die at the same times, whether or not they refer to each other.
    Deaths,
    /// Sites half of whose objects survive a collection, and the others.
    Survival,
    /// Every site for itself.
    Sites,
}

impl Grouping {
    pub const ALL: [Self; 6] = [
        Self::Metis,
        Self::Components,
        Self::Lifetimes,
        Self::Deaths,
        Self::Survival,
        Self::Sites,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Metis => "metis",
            Self::Components => "components",
            Self::Lifetimes => "lifetimes",
            Self::Deaths => "deaths",
            Self::Survival => "survival",
            Self::Sites => "sites",
        }
    }
}
