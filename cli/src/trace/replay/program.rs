//! From a trace to the operations that replay it: objects become slots, used again once they are free, so that both
//! processes need memory for what is live and no more.

use std::fs::File;
use std::path::Path;

use indicatif::ProgressBar;
use rustc_hash::FxHashMap;
use trace_format::{Event, Manner, ObjectId, ThreadId, TraceReader};

use super::operation::{ALLOCATE, FREE, Operation, REALLOCATE};
use crate::failure::Failure;
use crate::trace::input;

/// Threads of a trace beyond these share those.
const MOST_THREADS: u32 = 64;
/// An allocation at a multiple of more than a gigabyte is nobody's wish.
const LARGEST_ALIGNMENT: u8 = 30;
/// What any allocator gives without being asked.
const USUAL_ALIGNMENT: u8 = 4;

#[derive(Clone, Copy)]
struct Live {
    slot: u32,
    size: u64,
    thread: ThreadId,
}

/// What a trace will need, known before it is replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    pub operations: u64,
    pub slots: u32,
    pub threads: u32,
    pub peak_bytes: u64,
    /// Operations before the moment when most is live.
    pub peak_at: u64,
    pub frees: u64,
    /// Events of a program with a collector.
    pub managed: u64,
    /// Frees of what was not live: they are left out.
    pub skipped: u64,
}

/// Turns events into operations, one by one.
pub struct Program {
    live: FxHashMap<ObjectId, Live>,
    vacant: Vec<u32>,
    /// Blocks whose thread is about to resize them.
    resized: FxHashMap<ThreadId, Live>,
    /// Larger requests will be refused.
    largest: u64,
    live_bytes: u64,
    pub needs: Needs,
}

impl Program {
    pub fn new(largest: u64) -> Self {
        Self {
            live: FxHashMap::default(),
            vacant: Vec::new(),
            resized: FxHashMap::default(),
            largest,
            live_bytes: 0,
            needs: Needs::default(),
        }
    }

    /// `thread` is whose the event is, for a free as far as it is known. None: there is nothing to do.
    fn operation(
        &mut self,
        event: &Event,
        thread: Option<ThreadId>,
        manner: Option<Manner>,
    ) -> Option<Operation> {
        match *event {
            Event::Allocate {
                object,
                size,
                thread,
                ..
            } => Some(self.allocate(object, size, thread, manner)),
            Event::Free { object } => self.free(object, thread, manner),
            _ => {
                self.needs.managed += 1;
                None
            }
        }
    }

    fn needs_thread(&mut self, thread: ThreadId) {
        let threads = self.needs.threads.max(thread.saturating_add(1));
        self.needs.threads = threads.min(MOST_THREADS);
    }

    fn allocate(
        &mut self,
        object: ObjectId,
        size: u64,
        thread: ThreadId,
        manner: Option<Manner>,
    ) -> Operation {
        self.needs_thread(thread);
        let before = self.resized.remove(&thread);
        let slot = before.map_or_else(|| self.new_slot(), |before| before.slot);
        self.live_bytes -= before.map_or(0, |before| self.counted(before.size));
        self.live_bytes += self.counted(size);
        self.live.insert(object, Live { slot, size, thread });
        let alignment = match manner {
            Some(Manner::Aligned(power)) if power > USUAL_ALIGNMENT => power.min(LARGEST_ALIGNMENT),
            _ => 0,
        };
        self.counted_operation(Operation {
            kind: if before.is_some() {
                REALLOCATE
            } else {
                ALLOCATE
            },
            alignment,
            thread: folded(thread),
            slot,
            size,
        })
    }

    fn free(
        &mut self,
        object: ObjectId,
        thread: Option<ThreadId>,
        manner: Option<Manner>,
    ) -> Option<Operation> {
        let Some(block) = self.live.remove(&object) else {
            self.needs.skipped += 1;
            return None;
        };
        self.needs.frees += 1;
        let thread = thread.unwrap_or(block.thread);
        self.needs_thread(thread);
        // Two at once in one thread there cannot be: the second is then an ordinary free.
        if manner == Some(Manner::Resized) && !self.resized.contains_key(&thread) {
            self.resized.insert(thread, block);
            return None;
        }
        self.vacant.push(block.slot);
        self.live_bytes -= self.counted(block.size);
        Some(self.counted_operation(Operation {
            kind: FREE,
            thread: folded(thread),
            slot: block.slot,
            ..Operation::default()
        }))
    }

    fn counted(&self, size: u64) -> u64 {
        if size > self.largest { 0 } else { size }
    }

    fn new_slot(&mut self) -> u32 {
        self.vacant.pop().unwrap_or_else(|| {
            let slot = self.needs.slots;
            self.needs.slots = slot.saturating_add(1);
            slot
        })
    }

    fn counted_operation(&mut self, operation: Operation) -> Operation {
        self.needs.operations += 1;
        if self.live_bytes > self.needs.peak_bytes {
            self.needs.peak_bytes = self.live_bytes;
            self.needs.peak_at = self.needs.operations;
        }
        operation
    }
}

fn folded(thread: ThreadId) -> u16 {
    (thread % MOST_THREADS) as u16
}

/// Visits every operation with its time in the recorded run. `visit` returns whether it wants more.
pub fn each_operation(
    trace: &mut TraceReader<File>,
    path: &Path,
    program: &mut Program,
    bar: &ProgressBar,
    mut visit: impl FnMut(Operation, f64) -> bool,
) -> Result<(), Failure> {
    trace.rewind();
    let unreadable = |error| input::unreadable(path, &error);
    let knows_threads = trace.properties().get("frees") == Some("by-thread");
    while let Some(batch) = trace.next_batch().map_err(unreadable)? {
        for occurrence in batch.iter() {
            let thread = knows_threads.then_some(occurrence.thread);
            let operation = program.operation(occurrence.event, thread, occurrence.manner);
            if let Some(operation) = operation
                && !visit(operation, occurrence.time as f64 / 1e9)
            {
                return Ok(());
            }
        }
        bar.inc(batch.events.len() as u64);
    }
    Ok(())
}
