//! What the machine has: memory that programs can have without others being pushed out, and pages set aside for
//! the hugetlb pool.

use procfs_core::{FromRead, Meminfo};

/// In bytes; None where the kernel does not say.
pub fn available() -> Option<u64> {
    Meminfo::from_file("/proc/meminfo").ok()?.mem_available
}

/// Whether there are pages of the hugetlb pool, of any size, free ones among them.
pub fn has_hugetlb_pool() -> bool {
    let read = Meminfo::from_file("/proc/meminfo").ok();
    read.and_then(|memory| memory.hugetlb)
        .is_some_and(|bytes| bytes > 0)
}
