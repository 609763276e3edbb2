//! Memory that programs can have without others being pushed out.

use procfs_core::{FromRead, Meminfo};

/// In bytes; None where the kernel does not say.
pub fn available() -> Option<u64> {
    Meminfo::from_file("/proc/meminfo").ok()?.mem_available
}
