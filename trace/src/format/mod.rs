//! The binary trace format, as docs/reference/trace-format.md describes it: [`TraceReader`] and [`TraceWriter`].

mod block;
mod error;
mod events;
mod index;
mod limits;
mod manners;
mod properties;
mod reader;
mod tables;
mod varint;
mod writer;

pub use block::Codec;
pub use error::{Error, Result};
pub use events::{Batch, Occurrence};
pub use manners::Manner;
pub use properties::Properties;
pub use reader::TraceReader;
pub use tables::{Frame, FrameId, Module, ModuleId, Site, SiteTable};
pub use writer::{Options, TraceWriter};
