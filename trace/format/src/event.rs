//! What a trace is made of: the operations of the Metis paper (section 4.1), and `Free` for programs without a collector.

/// An object (or block): numbered from 1 in order of allocation, never reused within a trace; 0 is "nothing".
pub type ObjectId = u64;

/// An index into the trace's site table.
pub type SiteId = u32;

/// A thread, numbered from 0 in order of its first event.
pub type ThreadId = u32;

/// One operation of the recorded program. Sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// `object` comes to life.
    Allocate {
        object: ObjectId,
        site: SiteId,
        size: u64,
        thread: ThreadId,
    },
    /// The program gave `object` back (native programs only).
    Free { object: ObjectId },
    /// `object`'s field number `field` now refers to `target` (0: to nothing).
    Assign {
        object: ObjectId,
        field: u32,
        target: ObjectId,
    },
    /// `object` is now referred to from `thread`'s root set, once more than before.
    AddRoot { object: ObjectId, thread: ThreadId },
    /// One reference to `object` left `thread`'s root set.
    RemoveRoot { object: ObjectId, thread: ThreadId },
    /// Control went on elsewhere: a call, a return or a loop's next round at `site`.
    Jump { site: SiteId, thread: ThreadId },
}
