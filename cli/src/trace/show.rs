//! `pagewise trace show`: events as text.

use std::io::{BufWriter, Write};

use anyhow::Result;
use trace_format::{Event, text};

use super::input;
use super::output::{self, is_broken_pipe};
use crate::commandline::ShowArguments;
use crate::ending::Ending;
use crate::report::plain::plain;

pub fn show(arguments: &ShowArguments) -> Result<Ending> {
    match write(arguments) {
        Err(error) if is_broken_pipe(&error) => Ok(Ending::Exit(0)),
        Err(error) => Err(output::of_standard_output(error, "the trace is unchanged")),
        Ok(()) => Ok(Ending::Exit(0)),
    }
}

fn write(arguments: &ShowArguments) -> Result<()> {
    let mut trace = input::open(&arguments.file)?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    let unreadable = |error| input::unreadable(&arguments.file, &error);
    if arguments.properties {
        for (name, value) in trace.properties().iter() {
            writeln!(out, "{}: {}", plain(name), plain(value))?;
        }
        return Ok(out.flush()?);
    }
    trace.seek_to_event(arguments.from).map_err(unreadable)?;
    let mut left = arguments.count.unwrap_or(u64::MAX);
    let mut said = text::Said::default();
    let mut sites = Vec::new();
    while left > 0 {
        let batch = match trace.next_batch() {
            Ok(Some(batch)) => batch,
            Ok(None) => break,
            Err(error) => {
                out.flush()?;
                return Err(unreadable(error).into());
            }
        };
        let count = left.min(batch.events.len() as u64);
        text::write_batch(batch, count as usize, &mut said, &mut out)?;
        if arguments.sites {
            sites.extend(batch.events.iter().take(count as usize).filter_map(site_of));
            sites.sort_unstable();
            sites.dedup();
        }
        left -= count;
    }
    for site in sites {
        writeln!(
            out,
            "# site {site}: {}",
            plain(&trace.sites().describe(site))
        )?;
    }
    Ok(out.flush()?)
}

fn site_of(event: &Event) -> Option<u32> {
    match event {
        Event::Allocate { site, .. } | Event::Jump { site, .. } => Some(*site),
        _ => None,
    }
}
