//! The runs of a comparison: round by round, each with its output caught and compared.

use std::io;

use anyhow::{Context, Result, anyhow};
use nix::sys::signal::Signal;

use super::capture::{self, Captured, Input, Reference};
use super::configuration::{Compared, Series};
use super::progress::Progress;
use super::written::WrittenFiles;
use crate::failure::Failure;
use crate::launch::signals::Interrupted;
use crate::policy::Policy;
use crate::trial::{self, Setting, Trial};

fn unkept(what: &str, error: &io::Error) -> Failure {
    capture::unkept(what, error).kept("what the runs so far have done stays; there are no figures")
}

/// What is the same for all runs, and what they are compared to.
pub struct Rounds<'a> {
    pub setting: &'a Setting<'a>,
    pub input: Input,
    pub files: WrittenFiles,
    reference: Reference,
}

/// What came of running the first configuration once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    Failed,
    /// It wrote something else than the first time.
    Differed,
    Same,
}

enum Run {
    Done(Box<Trial>, Compared, Captured),
    Interrupted(Signal),
}

impl<'a> Rounds<'a> {
    pub fn new(setting: &'a Setting<'a>, input: Input, files: WrittenFiles) -> Self {
        Self {
            setting,
            input,
            files,
            reference: Reference::default(),
        }
    }

    /// Round by round, so that a change of the machine's mood meets every configuration. Every second round goes
    /// backwards: no configuration always follows the same one. Returns the signal that asked to end meanwhile.
    pub fn run(
        &mut self,
        series: &mut [Series],
        rounds: u32,
        progress: &Progress,
    ) -> Result<Option<Signal>> {
        for round in 0..rounds {
            let mut order: Vec<usize> = (0..series.len()).collect();
            // The very first run is the first configuration's: its output is the reference.
            if round % 2 == 1 {
                order.reverse();
            }
            for index in order {
                if let Some(signal) = self.setting.gate.pending_end() {
                    return Ok(Some(signal));
                }
                progress.begin(&series[index], round);
                match self.run_one(series[index].policy)? {
                    Run::Interrupted(signal) => return Ok(Some(signal)),
                    Run::Done(trial, compared, captured) => {
                        series[index].add(*trial, compared, &captured);
                    }
                }
                progress.end();
            }
            // The rest of the round has shown whether the others fail as well.
            if series.iter().any(Series::has_failed) {
                break;
            }
        }
        Ok(None)
    }

    /// Runs the first configuration once more, which counts in no figure. None: a signal asked to end.
    pub fn run_again(&mut self, first: &Series) -> Result<Option<Again>> {
        let Run::Done(trial, compared, _) = self.run_one(first.policy)? else {
            return Ok(None);
        };
        Ok(Some(match (trial.has_succeeded(), compared) {
            (false, _) => Again::Failed,
            (true, compared) if compared.output.is_some() || compared.files.is_some() => {
                Again::Differed
            }
            (true, _) => Again::Same,
        }))
    }

    fn run_one(&mut self, policy: Policy) -> Result<Run> {
        let captured = Captured::new().map_err(|error| unkept("output", &error))?;
        let streams = captured
            .streams(&self.input)
            .context("cannot capture output")?;
        self.files.look();
        let trial = match trial::run(self.setting, policy, streams) {
            Ok(trial) => trial,
            Err(error) => match error.downcast::<Interrupted>() {
                Ok(Interrupted(signal)) => return Ok(Run::Interrupted(signal)),
                Err(error) => return Err(error),
            },
        };
        if let Some(signal) = trial.ended.interrupted {
            return Ok(Run::Interrupted(signal));
        }
        let compared = Compared {
            output: self
                .reference
                .compare(&captured)
                .context("cannot read captured output")?,
            files: self.files.compare().map_err(|error| match error.kind() {
                io::ErrorKind::StorageFull => unkept("files that --files names", &error).into(),
                _ => anyhow!(error).context("cannot read a file that --files names"),
            })?,
        };
        Ok(Run::Done(Box::new(trial), compared, captured))
    }
}
