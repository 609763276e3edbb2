//! `pagewise trace record --jvm`: the five operations of the Metis paper, from an agent in the JVM (jvm/).

mod assemble;
mod java;
mod spool;

use anyhow::Result;

pub use assemble::assemble;
pub use spool::Spool;

use super::record;
use crate::Ending;
use crate::commandline::RecordArguments;
use crate::failure::Failure;
use crate::launch::executable;
use crate::launch::library::JVM_RECORDER;
use java::{Java, Settings};

/// The status with which a JVM ends whose heap is used up, as it is told to.
pub const OUT_OF_MEMORY: i32 = 3;

pub fn record(arguments: &RecordArguments) -> Result<Ending> {
    let program = executable::find(&arguments.command[0])?;
    let java = Java::of(&program)?;
    let settings = Settings {
        agent: JVM_RECORDER.find()?,
        heap: java::heap(arguments.heap.as_deref())?,
        from: arguments.from.as_deref(),
        jumps: arguments.jumps,
    };
    check_from(settings.from)?;
    java.check(&arguments.command)?;
    record::record_command(arguments, |spool| {
        java.command(&arguments.command, &settings, spool)
    })
}

fn check_from(from: Option<&str>) -> Result<(), Failure> {
    match from {
        Some(from) if !from.contains('.') || from.contains([',', ' ', '(']) => Err(Failure::new(
            format!("{from} is not a class and a method"),
            "--from com.example.Main.main",
        )),
        _ => Ok(()),
    }
}

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
