//! Reading and writing allocation traces (`format`), and what other layouts would have done with them
//! (`heap`, `metis`). The file format is documented in docs/reference/trace-format.md.

pub mod event;
pub mod heap;

pub use event::{Event, ObjectId, SiteId, ThreadId};
