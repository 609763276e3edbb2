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
    /// The process that has most by its own counters, and how much.
    pub largest: (i32, u64),
    /// What shared pages save, about.
    pub saved_bytes: u64,
    /// Processes that exist and could not be read.
    pub unreadable: u32,
    /// Processes had memory in common, and of that it was not counted which pages.
    pub is_estimated: bool,
    /// A process may map a page of shared memory more than once: its resident set is more than it has.
    pub maps_twice: bool,
}

impl Reading {
    /// Is this the process that has most?
    pub fn weigh(&mut self, process: i32, resident_bytes: u64) {
        if resident_bytes > self.largest.1 {
            self.largest = (process, resident_bytes);
        }
    }
}

/// One way of reading the tree.
pub trait Sampler: Send {
    fn sample(&mut self, processes: &[i32]) -> Reading;
}
