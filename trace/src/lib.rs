//! Reading and writing allocation traces (`format`), and what other layouts would have done with them
//! (`heap`, `metis`). The file format is documented in docs/reference/trace-format.md.
//!
//! Replaying a trace: [`format::TraceReader::open`], then [`format::TraceReader::next_batch`] until it is none. A batch
//! is a slice of [`Event`]s, valid until the next call; nothing is copied. What the reader has checked for every event:
//!
//! - an `Allocate`'s object is one more than that of the `Allocate` before it, the first one's is 1;
//! - every other object number is that of an object allocated before (or 0, for an `Assign`'s target);
//! - sites are below 2^22 and threads below 2^24. A site may be missing in [`format::SiteTable`].
//!
//! It has not checked that an object is still alive: that takes memory, and the one who replays has it.
//! [`format::TraceReader::rewind`] starts over, [`format::TraceReader::event_count`] is for progress bars.
//! Tests make traces most easily from text, with [`text::read`].

pub mod event;
pub mod experiment;
pub mod format;
pub mod grouping;
pub mod heap;
pub mod metis;
pub mod metrics;
pub mod text;
pub mod workload;

pub use event::{Event, ObjectId, SiteId, ThreadId};
