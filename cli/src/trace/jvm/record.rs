//! The command of `pagewise trace record --jvm`: the JVM's own, with the agent.

use anyhow::Result;

use super::java::{self, Java, Settings};
use crate::commandline::RecordArguments;
use crate::ending::Ending;
use crate::failure::Failure;
use crate::launch::executable;
use crate::launch::library::JVM_RECORDER;
use crate::trace::record::record_command;

pub fn record(arguments: &RecordArguments) -> Result<Ending> {
    let program = executable::of(&arguments.command)?;
    let java = Java::of(&program)?;
    let settings = Settings {
        agent: JVM_RECORDER.find()?,
        heap: java::heap(arguments.heap.as_deref())?,
        from: arguments.from.as_deref(),
        jumps: arguments.jumps,
    };
    check_from(settings.from)?;
    java.check(&arguments.command)?;
    record_command(arguments, |spool| {
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
