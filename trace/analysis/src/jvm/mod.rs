//! What the agent in a JVM records (jvm/): the five operations of the Metis paper.

mod assemble;
mod spool;

pub use assemble::assemble;
pub use spool::Spool;
