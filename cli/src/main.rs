//! pagewise: run unmodified programs in less physical memory, and measure it.

mod commandline;
mod compare;
mod doctor;
mod ending;
mod failure;
mod http;
mod ksm;
mod launch;
mod load;
mod measure;
mod metrics;
mod pages;
mod policy;
mod processes;
mod report;
mod run;
mod statistics_block;
mod tell;
mod top;
mod trace;
mod trial;
mod words;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use commandline::{Action, CommandLine};
use ending::Ending;
use failure::{EXIT_PAGEWISE, Failure};
use launch::filter;
use launch::signals::Interrupted;
use tell::tell;
use trace::replay::loader;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|name| name == loader::NAME) {
        loader::run(arguments);
    }
    if std::env::args_os()
        .nth(1)
        .is_some_and(|name| name == filter::NAME)
    {
        filter::rehearse();
        return ExitCode::SUCCESS;
    }
    drop(arguments);
    launch::signals::outlive_file_limits();
    let line = match CommandLine::try_parse() {
        Ok(line) => line,
        Err(error) => {
            // --help and --version arrive here as well.
            let is_wrong = error.use_stderr();
            let _ = commandline::with_advice(error).print();
            return ExitCode::from(if is_wrong { EXIT_PAGEWISE } else { 0 });
        }
    };
    match act(&line) {
        Ok(Ending::Exit(code)) => ExitCode::from(code),
        Ok(Ending::Signal(signal)) => launch::signals::die_of(signal),
        Err(error) => {
            if let Some(Interrupted(signal)) = error.downcast_ref() {
                launch::signals::die_of(*signal as i32);
            }
            tell(&format!("{error:#}"));
            let failure = error.downcast_ref::<Failure>();
            ExitCode::from(failure.map_or(EXIT_PAGEWISE, |failure| failure.exit))
        }
    }
}

fn act(line: &CommandLine) -> Result<Ending> {
    match &line.action {
        Action::Run(arguments) => run::run(arguments),
        Action::Compare(arguments) => compare::compare(arguments),
        Action::Top(arguments) => top::top(arguments),
        Action::Metrics(arguments) => metrics::metrics(arguments),
        Action::Doctor(arguments) => doctor::doctor(arguments),
        Action::Trace { action } => trace::trace(action),
        Action::Pages(arguments) => pages::pages(arguments),
    }
}
