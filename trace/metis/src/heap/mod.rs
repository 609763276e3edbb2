//! Simulated heaps.
//!
//! Of programs with a collector: the allocator and the collectors that the Metis paper compares with (section 6), in an
//! address space of their own.
//!
//! From the bottom up: `slot` and `place`, `free_space` (first fit), `object_index`, `fields` and `objects` (what is
//! alive and what refers to what), `placement` (the interface of those that choose where an object goes), `mark_sweep`
//! and `reference_counting` (what is dead), `simulator` (events in, metrics out).
//!
//! Of native programs: `size_class`, and `size_class_heap`, the one model of allocators that go by them.

mod fields;
pub mod free_space;
mod mark_sweep;
mod object_index;
pub mod objects;
mod options;
pub mod place;
pub mod placement;
mod reference_counting;
pub mod simulator;
mod size_class;
mod size_class_heap;
pub mod slot;

pub use options::{Collector, Growth, HeapOptions};
pub use placement::{NoGroups, Placement};
pub use simulator::{Simulator, Stopped};
pub use size_class::size_class;
pub use size_class_heap::{Location, Purge, SizeClassHeap, SpanOptions};
