//! `pagewise trace record --jvm`: the five operations of the Metis paper, from an agent in the JVM (jvm/).

pub mod java;
pub mod record;

use crate::commandline::RecordArguments;

/// The status with which a JVM ends whose heap is used up, as it is told to.
pub const OUT_OF_MEMORY: i32 = 3;

pub fn out_of_memory(arguments: &RecordArguments) -> String {
    let heap = match &arguments.heap {
        Some(heap) => format!("of {heap} "),
        None => String::new(),
    };
    format!(
        "the JVM's heap {heap}was used up, if its last line says so: nothing is collected while it is recorded, and \
         the trace ends there. More: --heap 16g (below 32g); or a smaller task"
    )
}
