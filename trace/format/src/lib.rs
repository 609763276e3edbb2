//! Reading and writing allocation traces, as docs/reference/trace-format.md describes them.
//!
//! Replaying a trace: [`TraceReader::open`], then [`TraceReader::next_batch`] until it is none. A batch
//! is a slice of [`Event`]s, valid until the next call; nothing is copied. What the reader has checked for every event:
//!
//! - an `Allocate`'s object is one more than that of the `Allocate` before it, the first one's is 1;
//! - every other object number is that of an object allocated before (or 0, for an `Assign`'s target);
//! - sites are below 2^22 and threads below 2^24. A site may be missing in [`SiteTable`].
//!
//! It has not checked that an object is still alive: that takes memory, and the one who replays has it.
//! [`TraceReader::rewind`] starts over, [`TraceReader::event_count`] is for progress bars.
//! Tests make traces most easily from text, with [`text::read`].

mod block;
mod error;
mod event;
mod events;
mod index;
mod library_names;
mod limits;
mod manners;
mod properties;
mod reader;
mod tables;
pub mod text;
mod varint;
mod writer;

pub use block::Codec;
pub use error::{Error, Result};
pub use event::{Event, ObjectId, SiteId, ThreadId};
pub use events::{Batch, Occurrence};
pub use library_names::is_of_library;
pub use manners::Manner;
pub use properties::Properties;
pub use reader::TraceReader;
pub use tables::{Frame, FrameId, JIT, Module, ModuleId, Site, SiteTable};
pub use writer::{Options, TraceWriter};
