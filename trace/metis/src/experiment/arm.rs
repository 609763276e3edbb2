//! What an experiment compares.

use serde::{Deserialize, Serialize};

use crate::grouping::Grouping;

/// One way to place the objects of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arm {
    /// The paper's DEFAULT.
    NoGroups,
    /// The paper's METIS: profiles the beginning of the run.
    Metis,
    /// The same until activation, then random groups of the same sizes.
    MetisRandom,
    /// Groups learned from the training trace.
    Elsewhere(Grouping),
    /// Random groups of the sizes learned there.
    ElsewhereRandom(Grouping),
    /// Groups learned from the training trace, in chunks that reserve nothing instead of region groups.
    Chunks(Grouping),
    ChunksRandom(Grouping),
    /// Sites whose objects survive collections fill the heap from its end; learned from the training trace.
    Ends,
    EndsRandom,
    /// The same the other way round, as the heap grows at its end; learned from the training trace's repeated block, where
    /// the heap has grown to what it will be.
    Starts,
    StartsRandom,
    /// Whichever of the layouts past the paper promises a gain on the training trace, or no groups.
    Selected,
    SelectedRandom,
    /// No allocator's: objects that will outlive a collection fill the heap from its start, all others from its end.
    KnownSurvivors,
    /// No allocator's: objects that the same collection will find dead share chunks.
    KnownDeaths,
}

impl Arm {
    /// The paper's two, and the controls.
    pub const DEFAULT: [Self; 5] = [
        Self::NoGroups,
        Self::Metis,
        Self::MetisRandom,
        Self::Elsewhere(Grouping::Metis),
        Self::ElsewhereRandom(Grouping::Metis),
    ];

    pub fn name(self) -> String {
        match self {
            Self::NoGroups => "no-groups".to_owned(),
            Self::Metis => "metis".to_owned(),
            Self::MetisRandom => "metis-random".to_owned(),
            Self::Elsewhere(grouping) => format!("{}-elsewhere", grouping.name()),
            Self::ElsewhereRandom(grouping) => format!("{}-elsewhere-random", grouping.name()),
            Self::Chunks(grouping) => format!("{}-chunks", grouping.name()),
            Self::ChunksRandom(grouping) => format!("{}-chunks-random", grouping.name()),
            Self::Ends => "ends".to_owned(),
            Self::EndsRandom => "ends-random".to_owned(),
            Self::Starts => "starts".to_owned(),
            Self::StartsRandom => "starts-random".to_owned(),
            Self::Selected => "selected".to_owned(),
            Self::SelectedRandom => "selected-random".to_owned(),
            Self::KnownSurvivors => "known-survivors".to_owned(),
            Self::KnownDeaths => "known-deaths".to_owned(),
        }
    }

    /// Of another trace.
    pub fn needs_training(self) -> bool {
        self.grouping().is_some() || matches!(self, Self::Selected | Self::SelectedRandom)
    }

    /// The arm that shows what this one owes to chance.
    pub fn control(self) -> Option<Self> {
        match self {
            Self::Metis => Some(Self::MetisRandom),
            Self::Elsewhere(grouping) => Some(Self::ElsewhereRandom(grouping)),
            Self::Chunks(grouping) => Some(Self::ChunksRandom(grouping)),
            Self::Ends => Some(Self::EndsRandom),
            Self::Starts => Some(Self::StartsRandom),
            Self::Selected => Some(Self::SelectedRandom),
            _ => None,
        }
    }

    pub fn grouping(self) -> Option<Grouping> {
        match self {
            Self::Elsewhere(grouping) | Self::ElsewhereRandom(grouping) => Some(grouping),
            Self::Chunks(grouping) | Self::ChunksRandom(grouping) => Some(grouping),
            Self::Ends | Self::EndsRandom | Self::Starts | Self::StartsRandom => {
                Some(Grouping::Survival)
            }
            Self::NoGroups | Self::Metis | Self::MetisRandom => None,
            Self::Selected | Self::SelectedRandom => None,
            Self::KnownSurvivors | Self::KnownDeaths => None,
        }
    }
}
