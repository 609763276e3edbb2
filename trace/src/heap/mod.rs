//! Simulated heaps.

pub mod free_space;
