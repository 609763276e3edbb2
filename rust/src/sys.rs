//! The functions of core/include/pagewise.h that the crate uses.

use std::ffi::{c_uint, c_void};

/// A transaction heap: only ever behind a pointer.
#[repr(C)]
pub struct PwHeap {
    _opaque: [u8; 0],
}

pub const HUGE_PAGES: c_uint = 1;
pub const RETURN_EMPTY: c_uint = 2;
pub const CHECKED: c_uint = 4;

#[repr(C)]
#[derive(Default)]
pub struct PwHeapOptions {
    pub segment_bytes: usize,
    pub limit_bytes: usize,
    pub on_limit: Option<unsafe extern "C" fn(*mut PwHeap, usize, *mut c_void) -> bool>,
    pub on_misuse: Option<unsafe extern "C" fn()>,
    pub context: usize,
    pub keep_bytes: usize,
    pub flags: c_uint,
    pub reserved: [c_uint; 7],
}

/// What a heap is made of (`struct pw_heap_statistics`): live + free + fresh + slack = segment bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Blocks in use.
    pub live_blocks: u64,
    /// Their usable size.
    pub live_bytes: u64,
    /// Freed in this transaction, to be used again for their size class.
    pub free_bytes: u64,
    /// Of these, in segments without a live block: what [`crate::Heap::reclaim`] takes for other sizes.
    pub empty_segment_bytes: u64,
    /// Not yet carved from the segments of their class.
    pub fresh_bytes: u64,
    /// Ends of segments too short for a block.
    pub slack_bytes: u64,
    /// Segments in use: what the limit limits.
    pub segment_bytes: u64,
    /// Most of that at any time since the heap was made.
    pub peak_segment_bytes: u64,
    /// Address space taken from the kernel.
    pub mapped_bytes: u64,
    /// Of these, tables.
    pub bookkeeping_bytes: u64,
    /// 0: none.
    pub limit_bytes: u64,
    /// Calls of free-all.
    pub transactions: u64,
    /// Given back to the kernel at free-all, so far.
    pub returned_bytes: u64,
}

unsafe extern "C" {
    pub fn pw_heap_new(options: *const PwHeapOptions) -> *mut PwHeap;
    pub fn pw_heap_delete(heap: *mut PwHeap);
    pub fn pw_heap_alloc(heap: *mut PwHeap, size: usize) -> *mut c_void;
    pub fn pw_heap_zalloc(heap: *mut PwHeap, count: usize, size: usize) -> *mut c_void;
    pub fn pw_heap_aligned(heap: *mut PwHeap, alignment: usize, size: usize) -> *mut c_void;
    pub fn pw_heap_realloc(heap: *mut PwHeap, block: *mut c_void, size: usize) -> *mut c_void;
    pub fn pw_heap_free(heap: *mut PwHeap, block: *mut c_void);
    pub fn pw_heap_free_all(heap: *mut PwHeap);
    pub fn pw_heap_reclaim(heap: *mut PwHeap, give_back: bool) -> usize;
    pub fn pw_heap_set_limit(heap: *mut PwHeap, limit_bytes: usize);
    pub fn pw_heap_statistics_read(heap: *mut PwHeap, out: *mut Statistics);
}
