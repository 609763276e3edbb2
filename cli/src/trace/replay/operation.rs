//! What the replaying process is told, and what it answers: fixed-size records through two pipes.

use std::mem;

/// One step. A stream of them is the whole input of the replaying process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Operation {
    pub kind: u8,
    /// Logarithm of the alignment to base 2; 0: the allocator's own.
    pub alignment: u8,
    pub thread: u16,
    pub slot: u32,
    pub size: u64,
}

/// Take a block of `size` bytes, write to it, and keep it in `slot`.
pub const ALLOCATE: u8 = 1;
/// Give back the block in `slot`.
pub const FREE: u8 = 2;
/// Resize the block in `slot`.
pub const REALLOCATE: u8 = 3;
/// Answer, and wait: memory is being measured.
pub const SYNC: u8 = 4;
/// Answer, and end.
pub const END: u8 = 5;

/// An operation in bytes.
pub const LENGTH: usize = mem::size_of::<Operation>();
const _: () = assert!(LENGTH == 16);

/// First answer: the file of the `malloc` in use, filled up with zeros.
pub const MODULE: usize = 512;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Answer {
    /// Bytes of the blocks that the allocator has given and not got back.
    pub live_bytes: u64,
    /// Allocations for which there was no memory.
    pub refused: u64,
    /// Blocks whose contents somebody else has written to.
    pub overwritten: u64,
    /// Processor time since the first operation.
    pub cpu_ns: u64,
}

pub const ANSWER: usize = mem::size_of::<Answer>();

impl Operation {
    pub fn put(self, out: &mut Vec<u8>) {
        out.push(self.kind);
        out.push(self.alignment);
        out.extend_from_slice(&self.thread.to_ne_bytes());
        out.extend_from_slice(&self.slot.to_ne_bytes());
        out.extend_from_slice(&self.size.to_ne_bytes());
    }
}

impl Answer {
    pub fn of(bytes: [u8; ANSWER]) -> Self {
        let mut words = bytes
            .chunks_exact(8)
            .map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default()));
        let mut next = || words.next().unwrap_or(0);
        Self {
            live_bytes: next(),
            refused: next(),
            overwritten: next(),
            cpu_ns: next(),
        }
    }
}
