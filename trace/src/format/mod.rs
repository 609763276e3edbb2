//! The binary trace format, as docs/reference/trace-format.md describes it: [`TraceReader`] and [`TraceWriter`].

mod block;
mod error;
mod events;
mod index;
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

pub(crate) const MAGIC: [u8; 8] = *b"\x89PWTR\r\n\x1a";
pub(crate) const MAJOR: u16 = 1;
pub(crate) const MINOR: u16 = 1;
/// Magic, versions and four zero bytes.
pub(crate) const FILE_HEADER: usize = 16;

/// No site, frame, string or module number may be as large.
pub(crate) const MAX_RECORDS: u32 = 1 << 22;
/// No thread number may be as large.
pub(crate) const MAX_THREADS: u32 = 1 << 24;
