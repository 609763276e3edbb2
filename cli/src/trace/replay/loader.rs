//! The process in which a trace is replayed: this program once more, with another allocator before it.
//!
//! Everything it needs for itself lies in shared mappings that are filled before the first operation, so that its
//! private memory is the allocator's and grows for no other reason: see `resident`. It allocates nothing once it has begun.
//!
//! Each thread of the trace has a thread here. One of them works at a time, in the order of the trace: it takes
//! operations until there is one of another thread, wakes that one, and waits.

use std::ffi::OsString;
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use libc::{c_int, c_void};

use super::operation::{
    ALLOCATE, ANSWER, Answer, END, FREE, LENGTH, MODULE, Operation, REALLOCATE, SYNC,
};

/// The first argument of a process that is to replay. Looked for before anything else happens.
pub const NAME: &str = "replay-loader";

const BUFFER: usize = 64 << 10;
const STACK: usize = 256 << 10;
const PAGE: usize = 4096;
/// Looks at the baton before a thread goes to sleep.
const SPINS: u32 = 300;
/// Processes that end before the first operation.
const FAILED: c_int = 1;

/// A block that is live, or for which there was no memory.
#[derive(Clone, Copy)]
#[repr(C)]
struct Slot {
    block: *mut u8,
    size: u64,
}

/// One a thread, on a line of its own: 1 when it may go on.
#[repr(C, align(64))]
struct Baton(AtomicU32);

/// All state; used by the thread that has the baton.
struct Loader {
    buffer: *mut u8,
    held: usize,
    at: usize,
    slots: *mut Slot,
    batons: *const Baton,
    threads: u32,
    /// Larger requests are not written to: there is not that much memory.
    largest: u64,
    answer: Answer,
    begun_ns: u64,
}

static LOADER: AtomicPtr<Loader> = AtomicPtr::new(ptr::null_mut());

/// Replays what comes through standard input, and does not return.
pub fn run(arguments: impl Iterator<Item = OsString>) -> ! {
    let mut numbers =
        arguments.map(|argument| argument.to_str().and_then(|text| text.parse().ok()));
    let mut next = || numbers.next().flatten();
    let (Some(slots), Some(threads), Some(largest)) = (next(), next(), next()) else {
        end(FAILED);
    };
    drop(numbers);
    // SAFETY: no other thread exists yet, and everything made here lives as long as the process.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        prepare(slots, threads, largest);
        work(0)
    }
}

fn end(status: c_int) -> ! {
    // SAFETY: ends the process, without the allocator's own farewell.
    unsafe { libc::_exit(status) }
}

unsafe fn prepare(slots: u64, threads: u64, largest: u64) {
    let threads = threads.clamp(1, u64::from(u16::MAX)) as u32;
    // SAFETY: each mapping is as large as what is put into it, and nothing else uses it.
    unsafe {
        let loader: *mut Loader = shared(mem::size_of::<Loader>()).cast();
        loader.write(Loader {
            buffer: shared(BUFFER),
            held: 0,
            at: 0,
            slots: shared(slots.max(1) as usize * mem::size_of::<Slot>()).cast(),
            batons: shared(threads as usize * mem::size_of::<Baton>()).cast(),
            threads,
            largest,
            answer: Answer::default(),
            begun_ns: 0,
        });
        LOADER.store(loader, Ordering::Release);
        for thread in 1..threads {
            start(thread);
        }
        announce();
        (*loader).begun_ns = cpu_ns();
    }
}

/// Memory that counts as shared, all of it there from the beginning.
fn shared(bytes: usize) -> *mut u8 {
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at a place of the kernel's choice.
    let got = unsafe { libc::mmap(ptr::null_mut(), bytes, rights, flags, -1, 0) };
    if got == libc::MAP_FAILED {
        end(FAILED);
    }
    got.cast()
}

/// A thread on a stack of ours: the C library's would be private memory.
unsafe fn start(thread: u32) {
    // SAFETY: the attributes are initialised before use, and the stack is used by this thread alone.
    let failed = unsafe {
        let mut attributes: libc::pthread_attr_t = mem::zeroed();
        let mut id: libc::pthread_t = mem::zeroed();
        libc::pthread_attr_init(&mut attributes) != 0
            || libc::pthread_attr_setstack(&mut attributes, shared(STACK).cast(), STACK) != 0
            || libc::pthread_create(&mut id, &attributes, enter, thread as usize as *mut c_void)
                != 0
    };
    if failed {
        end(FAILED);
    }
}

extern "C" fn enter(thread: *mut c_void) -> *mut c_void {
    // SAFETY: the loader is complete before any baton is handed on.
    unsafe {
        wait(thread as usize as u32);
        work(thread as usize as u32)
    }
}

/// Which malloc this is: that a library was asked for does not mean that it was loaded.
unsafe fn announce() {
    let mut text = [0_u8; MODULE];
    // SAFETY: dladdr fills the structure where it succeeds, with a text that ends in NUL.
    unsafe {
        let mut found: libc::Dl_info = mem::zeroed();
        let malloc = libc::malloc as unsafe extern "C" fn(usize) -> *mut c_void;
        if libc::dladdr(malloc as *const c_void, &mut found) != 0 && !found.dli_fname.is_null() {
            let length = libc::strlen(found.dli_fname).min(MODULE - 1);
            ptr::copy_nonoverlapping(found.dli_fname.cast(), text.as_mut_ptr(), length);
        }
        write_all(text.as_ptr(), MODULE);
    }
}

// --- the baton ----------------------------------------------------------------

unsafe fn baton<'a>(thread: u32) -> &'a AtomicU32 {
    // SAFETY: there is a baton for each thread, and `hand_on` takes no other number.
    unsafe {
        &(*(*LOADER.load(Ordering::Acquire))
            .batons
            .add(thread as usize))
        .0
    }
}

unsafe fn wait(thread: u32) {
    // SAFETY: see `baton`; a futex wait reads the word and nothing else.
    unsafe {
        let baton = baton(thread);
        let mut spins = 0;
        while baton.swap(0, Ordering::Acquire) == 0 {
            spins += 1;
            if spins < SPINS {
                std::hint::spin_loop();
                continue;
            }
            let none: *const libc::timespec = ptr::null();
            libc::syscall(libc::SYS_futex, baton.as_ptr(), libc::FUTEX_WAIT, 0, none);
        }
    }
}

unsafe fn hand_on(thread: u32) {
    // SAFETY: see `wait`.
    unsafe {
        let baton = baton(thread);
        baton.store(1, Ordering::Release);
        libc::syscall(libc::SYS_futex, baton.as_ptr(), libc::FUTEX_WAKE, 1);
    }
}

// --- operations ---------------------------------------------------------------

/// A thread's life: operations while they are its own, then somebody else's turn.
unsafe fn work(own: u32) -> ! {
    loop {
        // SAFETY: this thread has the baton, so the loader is its alone until it hands it on.
        unsafe {
            let loader = &mut *LOADER.load(Ordering::Acquire);
            let operation = loader.next();
            let other = u32::from(operation.thread) % loader.threads;
            let is_for_anyone = matches!(operation.kind, SYNC | END);
            if is_for_anyone || other == own {
                loader.at += LENGTH;
                loader.execute(operation);
            } else {
                hand_on(other);
                wait(own);
            }
        }
    }
}

impl Loader {
    unsafe fn next(&mut self) -> Operation {
        // SAFETY: `at` is below `held`, which is a multiple of the length, within the buffer.
        unsafe {
            if self.at == self.held {
                self.refill();
            }
            self.buffer.add(self.at).cast::<Operation>().read()
        }
    }

    unsafe fn refill(&mut self) {
        self.held = 0;
        self.at = 0;
        while self.held == 0 || !self.held.is_multiple_of(LENGTH) {
            // SAFETY: no more is read than the buffer has room for.
            let got =
                unsafe { libc::read(0, self.buffer.add(self.held).cast(), BUFFER - self.held) };
            match got {
                // Nobody is there any more.
                0 => end(FAILED),
                more if more > 0 => self.held += more as usize,
                _ if interrupted() => {}
                _ => end(FAILED),
            }
        }
    }

    unsafe fn execute(&mut self, operation: Operation) {
        // SAFETY: the one who sends operations gives no slot that is not in the table, and frees none twice.
        unsafe {
            let slot = self.slots.add(operation.slot as usize);
            match operation.kind {
                ALLOCATE => {
                    let block = self.take(operation);
                    self.put(slot, block, operation);
                }
                FREE => {
                    let held = slot.read();
                    self.check(held, operation.slot);
                    libc::free(held.block.cast());
                    slot.write(Slot {
                        block: ptr::null_mut(),
                        size: 0,
                    });
                }
                REALLOCATE => {
                    let held = slot.read();
                    self.check(held, operation.slot);
                    let block = self.resize(held, operation.size);
                    self.put(slot, block, operation);
                }
                _ => {
                    self.answer.cpu_ns = cpu_ns() - self.begun_ns;
                    let answer: *const Answer = &self.answer;
                    write_all(answer.cast(), ANSWER);
                    if operation.kind == END {
                        end(0);
                    }
                }
            }
        }
    }

    unsafe fn take(&mut self, operation: Operation) -> *mut u8 {
        let size = operation.size as usize;
        // SAFETY: calls of the allocator as any program makes them.
        unsafe {
            let block = if operation.alignment == 0 {
                libc::malloc(size)
            } else {
                let mut block = ptr::null_mut();
                let alignment = 1 << (operation.alignment & 63);
                match libc::posix_memalign(&mut block, alignment, size) {
                    0 => block,
                    _ => ptr::null_mut(),
                }
            };
            self.unless_too_large(block, operation.size)
        }
    }

    /// A block that could not be resized is given back: the trace has no other idea of it.
    unsafe fn resize(&mut self, held: Slot, size: u64) -> *mut u8 {
        // SAFETY: the block is live, or null.
        unsafe {
            // realloc to nothing may be a free.
            let block = libc::realloc(held.block.cast(), (size as usize).max(1));
            if block.is_null() {
                libc::free(held.block.cast());
            }
            self.unless_too_large(block, size)
        }
    }

    /// The kernel promises more than there is.
    unsafe fn unless_too_large(&self, block: *mut c_void, size: u64) -> *mut u8 {
        if size <= self.largest {
            return block.cast();
        }
        // SAFETY: the block was just given, or is null.
        unsafe { libc::free(block) };
        ptr::null_mut()
    }

    unsafe fn put(&mut self, slot: *mut Slot, block: *mut u8, operation: Operation) {
        let size = operation.size;
        if block.is_null() && size > 0 {
            self.answer.refused += 1;
        }
        let size = if block.is_null() { 0 } else { size };
        self.answer.live_bytes += size;
        // SAFETY: the block has `size` bytes, and the slot is in the table.
        unsafe {
            slot.write(Slot { block, size });
            write_contents(block, size as usize, operation.slot);
        }
    }

    unsafe fn check(&mut self, held: Slot, number: u32) {
        self.answer.live_bytes -= held.size;
        // SAFETY: the block is live and of this size.
        let is_whole = unsafe { has_contents(held.block, held.size as usize, number) };
        self.answer.overwritten += u64::from(!is_whole);
    }
}

/// Never zero: memory that is all zero may be given back.
fn pattern(number: u32) -> u8 {
    (number.wrapping_mul(0x9e37_79b1) >> 24) as u8 | 1
}

/// As a program does that fills in what it has asked for: every byte.
unsafe fn write_contents(block: *mut u8, size: usize, number: u32) {
    // SAFETY: the caller's block has so many bytes.
    unsafe {
        ptr::write_bytes(
            block,
            pattern(number),
            if block.is_null() { 0 } else { size },
        )
    }
}

/// The first and the last byte, and one of every page: who gives a block twice is found out.
unsafe fn has_contents(block: *const u8, size: usize, number: u32) -> bool {
    if size == 0 {
        return true;
    }
    let expected = pattern(number);
    // SAFETY: all offsets are below the block's size.
    unsafe {
        (0..size)
            .step_by(PAGE)
            .all(|at| block.add(at).read() == expected)
            && block.add(size - 1).read() == expected
    }
}

// --- the kernel ----------------------------------------------------------------

fn interrupted() -> bool {
    std::io::Error::last_os_error().raw_os_error() == Some(libc::EINTR)
}

unsafe fn write_all(bytes: *const u8, length: usize) {
    let mut done = 0;
    while done < length {
        // SAFETY: the caller's bytes are that many.
        let wrote = unsafe { libc::write(1, bytes.add(done).cast(), length - done) };
        match wrote {
            more if more > 0 => done += more as usize,
            _ if interrupted() => {}
            _ => end(FAILED),
        }
    }
}

fn cpu_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: fills in the structure.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
