//! Where an object lies.

/// Region 0 is the global heap.
pub const GLOBAL: u32 = 0;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    pub region: u32,
    /// Granules from the start of the simulated address space.
    pub start: u32,
}
