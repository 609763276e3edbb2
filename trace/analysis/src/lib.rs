//! From what a recorder leaves behind to a trace (`spool`, `symbols`, `perf_map`, `assemble`, and `jvm` for the agent in
//! a JVM), and from a trace to figures: what each call site allocated, holds and pins (`analysis`, `pages`), what could
//! go back to the system without it (`elsewhere`), what groups of sites on pages of their own would hold in a model
//! (`what_if`), what that is more or less than in another trace (`diff`), all of it as a tree of calls (`flame`) and as
//! a profile (`pprof`), which `running` makes of a process that is still being recorded.
//!
//! Nothing here prints or asks: whoever calls is told of progress, and has the errors to put into words.

pub mod analysis;
pub mod assemble;
mod clock;
pub mod diff;
pub mod elsewhere;
pub mod flame;
mod frames;
pub mod jvm;
mod objects;
pub mod pages;
pub mod perf_map;
pub mod pprof;
pub mod running;
pub mod spool;
mod stacks;
mod stop;
pub mod symbols;
pub mod what_if;

pub use stacks::Stacks;
pub use stop::Stop;
