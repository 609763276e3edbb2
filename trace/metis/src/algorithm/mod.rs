//! Metis (icooolps 2015): allocation sites that die together, learned from what collections reclaim, get
//! contiguous region groups. Every reading of an ambiguous sentence is an option; docs/notes/metis.md
//! says which reading is the default and why.
//!
//! `model` is section 4's instruction counter model, `trainer` feeds it from collections, `plan` is what is left
//! of it when profiling ends, `region_groups` is section 5, `placement` joins the two phases.

pub mod model;
mod options;
pub mod placement;
pub mod plan;
pub mod region_groups;
mod trainer;

pub use options::{Activation, MetisOptions, Pruning, RegionSize, Stealing, SweepOrder};
pub use placement::{Control, Metis};
pub use plan::Plan;
