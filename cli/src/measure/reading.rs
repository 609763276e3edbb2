//! What is read of a process tree, in whichever way.

/// What one look at the whole tree found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Distinct frames, snapshot pages that nobody maps and huge pages from the hugetlb pool.
    pub bytes: u64,
    /// Of these, snapshot pages that no process maps.
    pub unmapped_snapshot_bytes: u64,
    /// Of these, pages from the hugetlb pool.
    pub hugetlb_bytes: u64,
    pub swap_bytes: u64,
    pub page_table_bytes: u64,
    pub processes: u32,
    /// Processes that exist and could not be read.
    pub unreadable: u32,
    /// Processes had memory in common, and of that it was not counted which pages.
    pub is_estimated: bool,
    /// A process may map a page of shared memory more than once: its resident set is more than it has.
    pub maps_twice: bool,
}

/// One way of reading the tree.
pub trait Sampler: Send {
    fn sample(&mut self, processes: &[i32]) -> Reading;
}
