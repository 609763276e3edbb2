//! How a file begins, and how large its numbers may be.

pub const MAGIC: [u8; 8] = *b"\x89PWTR\r\n\x1a";
pub const MAJOR: u16 = 1;
pub const MINOR: u16 = 1;
/// Magic, versions and four zero bytes.
pub const FILE_HEADER: usize = 16;

/// No site, frame, string or module number may be as large.
pub const MAX_RECORDS: u32 = 1 << 22;
/// No thread number may be as large.
pub const MAX_THREADS: u32 = 1 << 24;
