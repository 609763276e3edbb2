//! `pagewise trace convert`: a trace in another form.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;

use anyhow::Result;
use trace_analysis::analysis::{Analysis, Moment};
use trace_analysis::pprof::{self, Taken};
use trace_format::{Error, Event, Options, Site, SiteId, TraceReader, TraceWriter, text};

use super::output::{Output, is_broken_pipe};
use super::{input, reading, record};
use crate::commandline::{ConvertArguments, TraceForm};
use crate::ending::Ending;
use crate::failure::Failure;
use crate::report::csv::cell;
use crate::tell::tell;

pub fn convert(arguments: &ConvertArguments) -> Result<Ending> {
    if arguments.file.is_dir() {
        return recover(arguments);
    }
    match write(arguments) {
        Err(error) if is_broken_pipe(&error) => Ok(Ending::Exit(0)),
        Err(error) => Err(error),
        Ok(()) => Ok(Ending::Exit(0)),
    }
}

fn asked_form(arguments: &ConvertArguments) -> TraceForm {
    arguments.to.unwrap_or_else(|| form_of(&arguments.output))
}

/// A recording may be of many processes: each becomes a trace, and nothing else.
fn recover(arguments: &ConvertArguments) -> Result<Ending> {
    if asked_form(arguments) != TraceForm::Binary || arguments.events.is_some() {
        let folder = arguments.file.display();
        return Err(Failure::new(
            format!("{folder} is a recording: it must become a whole trace first"),
            format!(
                "pagewise trace convert {folder} -o x.trace; then pagewise trace convert x.trace -o {}",
                arguments.output.display()
            ),
        )
        .kept("the recording is unchanged")
        .into());
    }
    for path in record::recover(&arguments.file, &arguments.output)? {
        tell(&format!("wrote {}", path.display()));
    }
    Ok(Ending::Exit(0))
}

fn write(arguments: &ConvertArguments) -> Result<()> {
    let form = asked_form(arguments);
    if arguments.events.is_some() && form != TraceForm::Binary {
        return Err(Failure::new(
            "--events makes shorter traces only",
            "-o x.trace; of text, pagewise trace show --count N shows as much",
        )
        .into());
    }
    if is_text(&arguments.file) {
        return from_text(arguments, form);
    }
    let mut trace = input::open(&arguments.file)?;
    let mut out = Output::open(&arguments.output)?;
    match write_as(form, arguments, &mut trace, &mut out) {
        Ok(()) => Ok(out.finish()?),
        Err(error) => Err(out.blame(error)),
    }
}

/// Errors are those of reading, unless `out` has met one.
fn write_as(
    form: TraceForm,
    arguments: &ConvertArguments,
    trace: &mut TraceReader<File>,
    out: &mut Output,
) -> Result<()> {
    let file = &arguments.file;
    let unreadable = |error: Error| input::unreadable(file, &error);
    match form {
        TraceForm::Text => text::write(trace, out).map_err(unreadable)?,
        TraceForm::Binary => {
            copy(trace, arguments.events.unwrap_or(u64::MAX), out).map_err(unreadable)?;
        }
        TraceForm::Pprof => {
            let (found, taken) = for_profile(trace, arguments)?;
            pprof::write(&found, taken, trace.properties(), trace.sites(), out)?;
        }
        TraceForm::Csv => {
            let at = arguments.at.unwrap_or_default();
            let found = reading::analyse(trace, file, at)?;
            write_csv(&found, trace, out)?;
        }
    }
    Ok(())
}

/// For the moment that was asked for. Else each figure is of the moment when it matters: when most is live hardly anything
/// is pinned.
fn for_profile(
    trace: &mut TraceReader<File>,
    arguments: &ConvertArguments,
) -> Result<(Analysis, Taken)> {
    let file = &arguments.file;
    if arguments.at.is_some() || !reading::has_pages(trace) {
        let at = arguments.at.unwrap_or_default();
        return Ok((reading::analyse(trace, file, at)?, Taken::At(at)));
    }
    let mut found = reading::analyse(trace, file, Moment::Pinned)?;
    let peak = reading::at_peak(trace, file, &found)?;
    found.set_live(&peak);
    Ok((found, Taken::AtTheWorst))
}

/// By the name, as people name such files.
fn form_of(path: &Path) -> TraceForm {
    let name = path.to_string_lossy();
    if name.ends_with(".pb.gz") || name.ends_with(".pprof") {
        TraceForm::Pprof
    } else if name.ends_with(".csv") {
        TraceForm::Csv
    } else if name.ends_with(".txt") || name.ends_with(".text") || name == "-" {
        TraceForm::Text
    } else {
        TraceForm::Binary
    }
}

fn is_text(path: &Path) -> bool {
    let mut start = [0; 14];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && &start == b"pagewise-trace"
}

fn from_text(arguments: &ConvertArguments, form: TraceForm) -> Result<()> {
    if form != TraceForm::Binary {
        return Err(Failure::new(
            "a trace's text can be turned into a binary trace only",
            format!(
                "pagewise trace convert {} -o x.trace, and then from x.trace",
                arguments.file.display()
            ),
        )
        .into());
    }
    let unreadable = |error: Error| input::unreadable(&arguments.file, &error);
    let input = File::open(&arguments.file).map_err(|error| unreadable(error.into()))?;
    let mut out = Output::open(&arguments.output)?;
    let read = text::read(BufReader::new(input), &mut out, Options::default()).map(drop);
    match read {
        Ok(()) => Ok(out.finish()?),
        Err(error) => Err(out.blame(unreadable(error).into())),
    }
}

/// Written anew: with an index, where a crash left none.
fn copy(trace: &mut TraceReader<File>, count: u64, out: &mut Output) -> Result<(), Error> {
    let options = Options {
        with_addresses: trace.has_addresses(),
        ..Options::default()
    };
    let mut writer = TraceWriter::new(out, trace.properties().clone(), options)?;
    let mut left = count;
    let mut sites = 0;
    while left > 0 {
        let Some(batch) = trace.next_batch()? else {
            break;
        };
        let used = usize::try_from(left).unwrap_or(usize::MAX);
        for occurrence in batch.iter().take(used) {
            if let Event::Allocate { site, .. } | Event::Jump { site, .. } = occurrence.event {
                sites = sites.max(site + 1);
            }
            writer.occurrence(&occurrence)?;
            left -= 1;
        }
    }
    if count == u64::MAX {
        sites = trace.sites().len() as SiteId;
    } else {
        let kept = format!(
            "the first {} of {} events",
            count - left,
            trace.event_count()
        );
        writer.set_property("excerpt", kept);
    }
    for number in 0..sites {
        let site = trace.sites().get(number).unwrap_or_default();
        writer.sites_mut().add(&site)?;
    }
    writer.finish()?;
    Ok(())
}

/// A line for each site.
fn write_csv(found: &Analysis, trace: &TraceReader<File>, out: &mut Output) -> io::Result<()> {
    writeln!(
        out,
        "site,type,symbol,file,line,module,offset,depth,size_class,allocations,allocated_bytes,\
         frees,mean_lifetime_bytes,live_objects,live_bytes,pinned_bytes"
    )?;
    for (number, figures) in found.sites.iter().enumerate() {
        if figures.allocations <= 0.0 {
            continue;
        }
        let site: Site = trace.sites().get(number as SiteId).unwrap_or_default();
        let frame = site.own_frames().first().cloned().unwrap_or_default();
        let optional = |value: Option<u64>| value.map_or(String::new(), |v| v.to_string());
        let lifetime = figures.lifetimes / figures.frees;
        writeln!(
            out,
            "{number},{},{},{},{},{},{:#x},{},{},{:.0},{:.0},{:.0},{},{:.0},{:.0},{:.0}",
            cell(site.kind),
            cell(frame.symbol),
            cell(frame.file),
            frame.line,
            cell(frame.module.path),
            frame.offset,
            optional(site.depth),
            optional(site.size_class),
            figures.allocations,
            figures.allocated_bytes,
            figures.frees,
            if lifetime.is_finite() {
                format!("{lifetime:.0}")
            } else {
                String::new()
            },
            figures.live_objects,
            figures.live_bytes,
            figures.pinned_bytes,
        )?;
    }
    Ok(())
}
