//! Transaction heaps in the style of bumpalo: allocate for a request, end it with one call.
//!
//! ```no_run
//! use pagewise::{Heap, Vec};
//!
//! let mut heap = Heap::new();
//! for request in ["to be or not to be", "again"] {
//!     let words: Vec<&str, _> = {
//!         let mut words = Vec::new_in(&heap);
//!         words.extend(request.split(' ').map(|word| &*heap.alloc_str(word)));
//!         words
//!     };
//!     println!("{} words", words.len());
//!     drop(words); // reused at once, by this request
//!     heap.free_all(); // everything else
//! }
//! ```
//!
//! Two things differ from a bump allocator. What dies during the request is used again at once: [`Vec`]s that grow,
//! [`Box`]es that are dropped. So memory follows what is alive at once, not all that was allocated. Values put on the
//! heap with [`Heap::alloc`] are never dropped, as in bumpalo: use a [`Box`] for those that must be.
//!
//! A [`Heap`] is one thread's at a time: it can be sent to another one, not shared. The borrow checker sees to the
//! rest: nothing that lives on the heap outlives [`Heap::free_all`], which needs the heap for itself.
//!
//! The crate calls `libpagewise.so`, of which a process has one copy. It is looked for when the program is built in
//! `PAGEWISE_LIB_DIR`, in `build/lib` of the repository that the crate is in, and where the linker looks.

mod sys;

use std::alloc::Layout;
use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;

pub use allocator_api2::alloc::{AllocError, Allocator};
pub use allocator_api2::boxed::Box;
pub use allocator_api2::vec::Vec;
pub use sys::Statistics;

/// Blocks are at multiples of this, those of up to 8 bytes at multiples of 8.
const NATURAL_ALIGNMENT: usize = 16;

/// Why a heap could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeapError {
    /// The size of a segment is not one of 16, 32, 64, 128 and 256 KB.
    #[error("a segment's size is a power of two from 16 KB to 256 KB, not {0} bytes")]
    Segment(usize),
    /// The kernel's pages are not of the size that the library was built for.
    #[error("the kernel's pages are not of 4 KB, for which heaps are made")]
    PageSize,
    /// The kernel has no memory.
    #[error("no memory for a heap")]
    Memory,
}

/// How a heap is to be; see `struct pw_heap_options` of pagewise.h.
#[derive(Clone, Debug, Default)]
pub struct Options {
    segment_bytes: usize,
    limit_bytes: usize,
    keep_bytes: usize,
    flags: u32,
}

impl Options {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Size of a segment: a power of two from 16 KB to 256 KB; 32 KB unless told.
    pub fn segment_bytes(mut self, bytes: usize) -> Self {
        self.segment_bytes = bytes;
        self
    }

    /// Segments in use may take so much; allocations beyond fail. 0: no limit.
    pub fn limit_bytes(mut self, bytes: usize) -> Self {
        self.limit_bytes = bytes;
        self
    }

    /// Memory that is not given back to the kernel at free-all.
    pub fn keep_bytes(mut self, bytes: usize) -> Self {
        self.keep_bytes = bytes;
        self
    }

    /// Ask the kernel for huge pages.
    pub fn huge_pages(mut self, on: bool) -> Self {
        self.set(sys::HUGE_PAGES, on);
        self
    }

    /// At free-all, give everything above `keep_bytes` back to the kernel.
    pub fn return_empty(mut self, on: bool) -> Self {
        self.set(sys::RETURN_EMPTY, on);
        self
    }

    /// Find writes beyond blocks and to freed ones, which safe code cannot make: for unsafe code and C. Ends the process
    /// at the first one. Two threads in one transaction are found as well, and count as a mistake: send such a heap to
    /// another thread only between transactions.
    pub fn checked(mut self, on: bool) -> Self {
        self.set(sys::CHECKED, on);
        self
    }

    fn set(&mut self, flag: u32, on: bool) {
        self.flags = if on {
            self.flags | flag
        } else {
            self.flags & !flag
        };
    }

    /// Make the heap.
    pub fn build(&self) -> Result<Heap, HeapError> {
        let options = sys::PwHeapOptions {
            segment_bytes: self.segment_bytes,
            limit_bytes: self.limit_bytes,
            keep_bytes: self.keep_bytes,
            flags: self.flags,
            ..Default::default()
        };
        // SAFETY: the options are laid out as the C header's, and read before the call returns.
        let raw = unsafe { sys::pw_heap_new(&options) };
        NonNull::new(raw)
            .map(|raw| Heap { raw })
            .ok_or_else(|| self.refused(std::io::Error::last_os_error().kind()))
    }

    /// Why there is no heap, from the error of the call.
    fn refused(&self, kind: std::io::ErrorKind) -> HeapError {
        let segment = self.segment_bytes;
        let segment_is_valid = segment == 0
            || (segment.is_power_of_two() && (16 << 10..=256 << 10).contains(&segment));
        if !segment_is_valid {
            HeapError::Segment(segment)
        } else if kind == std::io::ErrorKind::Unsupported {
            HeapError::PageSize // ENOSYS
        } else {
            HeapError::Memory
        }
    }
}

/// A transaction heap.
pub struct Heap {
    raw: NonNull<sys::PwHeap>,
}

// SAFETY: the C heap keeps nothing of its thread; only one thread at a time can use a heap that is not Sync.
unsafe impl Send for Heap {}

impl Default for Heap {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Heap {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Heap").field(&self.statistics()).finish()
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        // SAFETY: the heap is ours, and what borrowed from it is gone.
        unsafe { sys::pw_heap_delete(self.raw.as_ptr()) }
    }
}

impl Heap {
    /// A heap with the default options.
    ///
    /// # Panics
    /// Where the kernel has no memory for it. [`Options::build`] returns that as an error.
    pub fn new() -> Self {
        match Options::new().build() {
            Ok(heap) => heap,
            Err(error) => panic!("pagewise: {error}"),
        }
    }

    /// End of the transaction: everything on the heap is gone, in a time that does not depend on how much it was.
    /// Destructors do not run.
    pub fn free_all(&mut self) {
        // SAFETY: the heap is borrowed for itself: nobody has a block of it.
        unsafe { sys::pw_heap_free_all(self.raw.as_ptr()) }
    }

    /// Let segments whose blocks were all freed serve other sizes, which the heap does by itself before an allocation
    /// fails, and give chunks without a block back to the kernel. Returns the bytes of these segments.
    pub fn reclaim(&self) -> usize {
        // SAFETY: the heap is alive, and blocks in use stay as they are.
        unsafe { sys::pw_heap_reclaim(self.raw.as_ptr(), true) }
    }

    /// Change the limit; 0: none.
    pub fn set_limit(&self, bytes: usize) {
        // SAFETY: the heap is alive.
        unsafe { sys::pw_heap_set_limit(self.raw.as_ptr(), bytes) }
    }

    /// What the heap is made of. Takes time in proportion to the freed blocks.
    pub fn statistics(&self) -> Statistics {
        let mut statistics = Statistics::default();
        // SAFETY: the struct is laid out as the C header's.
        unsafe { sys::pw_heap_statistics_read(self.raw.as_ptr(), &mut statistics) };
        statistics
    }

    /// Put a value on the heap until free-all. It is not dropped then.
    ///
    /// # Panics
    /// Where the limit or the machine is exhausted, as do all functions whose name does not begin with `try`.
    #[allow(clippy::mut_from_ref)] // as in bumpalo: each call returns another block
    pub fn alloc<T>(&self, value: T) -> &mut T {
        let block = self.memory_for(Layout::new::<T>()).cast::<T>();
        // SAFETY: the block is new, large and aligned enough, and lives until the heap is borrowed for itself.
        unsafe {
            block.write(value);
            &mut *block.as_ptr()
        }
    }

    /// As `alloc`, giving the value back where there is no memory.
    #[allow(clippy::mut_from_ref)]
    pub fn try_alloc<T>(&self, value: T) -> Result<&mut T, T> {
        match self.allocate(Layout::new::<T>()) {
            Ok(block) => {
                let block = block.cast::<T>();
                // SAFETY: as in `alloc`.
                unsafe {
                    block.write(value);
                    Ok(&mut *block.as_ptr())
                }
            }
            Err(AllocError) => Err(value),
        }
    }

    /// A copy of the slice on the heap.
    #[allow(clippy::mut_from_ref)]
    pub fn alloc_slice_copy<T: Copy>(&self, from: &[T]) -> &mut [T] {
        let block = self.memory_for(Layout::for_value(from)).cast::<T>();
        // SAFETY: the block is new, as large as the slice, and aligned for it.
        unsafe {
            block.copy_from_nonoverlapping(NonNull::from(from).cast(), from.len());
            std::slice::from_raw_parts_mut(block.as_ptr(), from.len())
        }
    }

    /// A copy of the string on the heap.
    #[allow(clippy::mut_from_ref)]
    pub fn alloc_str(&self, from: &str) -> &mut str {
        let bytes = self.alloc_slice_copy(from.as_bytes());
        // SAFETY: a copy of a string's bytes.
        unsafe { std::str::from_utf8_unchecked_mut(bytes) }
    }

    fn memory_for(&self, layout: Layout) -> NonNull<u8> {
        match self.allocate(layout) {
            Ok(block) => block.cast(),
            Err(AllocError) => panic!("pagewise: no memory for {} bytes", layout.size()),
        }
    }

    fn raw_allocate(&self, layout: Layout, zero: bool) -> *mut c_void {
        let (size, alignment) = (layout.size(), layout.align());
        // Blocks of up to 8 bytes are at multiples of 8.
        let size = if alignment > 8 {
            size.max(alignment.min(NATURAL_ALIGNMENT))
        } else {
            size
        };
        // SAFETY: the heap is alive, and no other thread can use it meanwhile.
        unsafe {
            match (alignment > NATURAL_ALIGNMENT, zero) {
                (false, false) => sys::pw_heap_alloc(self.raw.as_ptr(), size),
                (false, true) => sys::pw_heap_zalloc(self.raw.as_ptr(), 1, size),
                (true, _) => {
                    let block = sys::pw_heap_aligned(self.raw.as_ptr(), alignment, size);
                    if zero && !block.is_null() {
                        block.cast::<u8>().write_bytes(0, size);
                    }
                    block
                }
            }
        }
    }
}

fn slice(block: *mut c_void, size: usize) -> Result<NonNull<[u8]>, AllocError> {
    let block = NonNull::new(block.cast::<u8>()).ok_or(AllocError)?;
    Ok(NonNull::slice_from_raw_parts(block, size))
}

// SAFETY: blocks stay valid until they are freed or the heap is borrowed for itself, which a `&Heap` in use rules out;
// copies of a `&Heap` are the same heap.
unsafe impl Allocator for &Heap {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        slice(self.raw_allocate(layout, false), layout.size())
    }

    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        slice(self.raw_allocate(layout, true), layout.size())
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, _layout: Layout) {
        // SAFETY: the caller says that it is a block of this heap.
        unsafe { sys::pw_heap_free(self.raw.as_ptr(), block.as_ptr().cast()) }
    }

    unsafe fn grow(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's promises are passed on.
        unsafe { self.resize(block, old, new) }
    }

    unsafe fn shrink(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's promises are passed on.
        unsafe { self.resize(block, old, new) }
    }
}

impl Heap {
    /// # Safety
    /// `block` is a block of this heap, allocated for `old`.
    unsafe fn resize(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        if new.align() <= NATURAL_ALIGNMENT && (new.align() <= 8 || new.size() > 8) {
            // SAFETY: the caller says that it is a block of this heap.
            let moved = unsafe {
                sys::pw_heap_realloc(self.raw.as_ptr(), block.as_ptr().cast(), new.size())
            };
            return slice(moved, new.size());
        }
        let moved = (&self).allocate(new)?;
        // SAFETY: both blocks have at least the smaller size, and are not the same.
        unsafe {
            block.copy_to_nonoverlapping(moved.cast(), old.size().min(new.size()));
            (&self).deallocate(block, old);
        }
        Ok(moved)
    }
}
