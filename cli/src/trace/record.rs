//! `pagewise trace record`: the command, unchanged, and what it allocated.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use tempfile::TempDir;
use trace_analysis::Stacks;
use trace_analysis::assemble::{self, Assembled, Known, Progress};
use trace_analysis::spool::{Header, Spool};
use trace_analysis::symbols::Symbols;
use trace_format::TraceReader;

use super::jvm;
use super::losses::Losses;
use super::output::{self, Output};
use super::perf_maps::{self, After};
use super::profiles::{self, Server};
use super::progress;
use super::spools::{Spools, spools_in};
use crate::commandline::RecordArguments;
use crate::ending::Ending;
use crate::failure::{EXIT_PAGEWISE, Failure};
use crate::launch::environment::preload_list;
use crate::launch::signals::{self, Gate, Interrupted};
use crate::launch::supervise::{self, End, Ended, Running};
use crate::launch::{executable, library, preload};
use crate::measure::process_tree::Strangers;
use crate::report::units;
use crate::tell::tell;
use crate::trial;

const VARIABLE: &str = "PAGEWISE_RECORD";
/// By which Python writes a perf map.
const PYTHON_VARIABLE: &str = "PYTHONPERFSUPPORT";
/// Scripts start dozens of processes of which nobody wants a trace.
const FEW_EVENTS: u64 = 1000;
/// Of a folder's name: what the recorder keeps has an end.
const LONGEST_PLACE: usize = 900;

pub fn record(arguments: &RecordArguments) -> Result<Ending> {
    let program = executable::of(&arguments.command)?;
    if let Err(refusal) = preload::check(&program) {
        return Err(Failure::new(
            format!("{refusal}: what it allocates cannot be seen"),
            "a dynamically linked program of this processor, run as its own user",
        )
        .into());
    }
    let library = library::RECORD.find_working()?;
    record_command(arguments, |spool| {
        native_command(arguments, &library, spool)
    })
}

/// Runs the command, whose processes leave their recordings in a folder, and makes traces of those.
pub fn record_command(
    arguments: &RecordArguments,
    prepare: impl FnOnce(&Path) -> Command,
) -> Result<Ending> {
    check_target(&arguments.output)?;
    let listener = profiles::listen(arguments)?;
    // Before the folder: a signal that waits ends this process when the gate is opened, which must come last.
    let gate = Gate::close().context("cannot hold back signals")?;
    let spool = spool_folder(arguments)?;
    supervise::adopt_orphans().context("cannot adopt orphans")?;
    let strangers = Strangers::now();
    gate.check_before_start()?;
    let running = Running::start(&mut prepare(spool.path()), &gate, None, None, strangers)
        .map_err(|error| trial::not_started(&arguments.command[0], &error))?;
    // Its threads are started behind the gate.
    let profiles = listener.and_then(|it| it.serve(spool.path(), running.process()));
    let (end, is_recorded) = match see_to_the_end(arguments, spool.path(), running, profiles, &gate)
    {
        Ok(seen) => seen,
        Err(error) => {
            // Hours of recording shall not be lost to a full disk, or to impatience.
            tell_where(&spool.keep(), arguments);
            return Err(error);
        }
    };
    Ok(match end {
        // Who goes on with FILE would take an earlier one for this recording's.
        End::Exited(0) if !is_recorded => Ending::Exit(EXIT_PAGEWISE),
        End::Exited(status) => Ending::Exit(u8::try_from(status).unwrap_or(u8::MAX)),
        End::Killed(signal) => Ending::Signal(signal),
    })
}

fn see_to_the_end(
    arguments: &RecordArguments,
    spool: &Path,
    mut running: Running,
    profiles: Option<Server>,
    gate: &Gate,
) -> Result<(End, bool)> {
    let process = running.process();
    let (end, at) = running.wait().map_err(trial::lost)?;
    drop(profiles);
    let ended = running.settle(end, at, false);
    let is_recorded = make_traces(arguments, spool, process, &ended, gate)?;
    Ok((end, is_recorded))
}

fn tell_where(kept: &Path, arguments: &RecordArguments) {
    let folder = kept.display();
    tell(&format!(
        "what was recorded is kept: pagewise trace convert {folder} -o {}; rm -r {folder} if it is not wanted",
        arguments.output.display(),
    ));
}

/// Before anything runs: hours later would be late for this.
fn check_target(path: &Path) -> Result<(), Failure> {
    if path.as_os_str() == "-" {
        return Err(Failure::new(
            "a trace cannot go to standard output: that is the command's",
            "-o FILE",
        ));
    }
    // It is made when all has ended, beside those of other processes.
    if fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        let file = path.display();
        return Err(Failure::new(
            format!("{file} is no file: a trace cannot go there"),
            format!("-o x.trace, and then: pagewise trace convert x.trace --to binary -o {file}"),
        ));
    }
    // Dropped at once, and with it the file.
    Output::open(path).map(|_| ())
}

/// Beside FILE, where there is room for it, unless told otherwise.
fn spool_folder(arguments: &RecordArguments) -> Result<TempDir, Failure> {
    let place = match &arguments.spool {
        Some(place) => place.clone(),
        None => output::folder_of(&arguments.output).to_owned(),
    };
    let failed = |error: io::Error| output::unwritable(&place.join("."), &error);
    let place = place.canonicalize().map_err(failed)?;
    if place.as_os_str().as_bytes().contains(&b',') || place.as_os_str().len() > LONGEST_PLACE {
        return Err(Failure::new(
            format!(
                "cannot record into {}: the folder's name has a comma, or more than {LONGEST_PLACE} bytes",
                place.display()
            ),
            "--spool /tmp",
        ));
    }
    tempfile::Builder::new()
        .prefix(".pagewise-recording-")
        .tempdir_in(&place)
        .map_err(|error| output::unwritable(&place.join("."), &error))
}

fn native_command(arguments: &RecordArguments, library: &Path, spool: &Path) -> Command {
    let existing = std::env::var_os("LD_PRELOAD");
    let preload = preload_list(&library::RECORD, Some(library), existing.as_deref());
    // Byte for byte: a folder's name need not be UTF-8.
    let mut options = OsString::from("spool=");
    options.push(spool);
    options.push(format!(",parent={}", std::process::id()));
    if let Some(stacks) = stacks_of(arguments) {
        options.push(format!(",stacks={}", stacks.number()));
    }
    if let Some(bytes) = arguments.sample {
        options.push(format!(",sample={bytes}"));
    }
    if arguments.no_children {
        options.push(",children=0");
    }
    let mut command = Command::new(&arguments.command[0]);
    command
        .args(&arguments.command[1..])
        .env("LD_PRELOAD", preload)
        .env(VARIABLE, options);
    if arguments.python {
        command.env(PYTHON_VARIABLE, "1");
    }
    command
}

fn stacks_of(arguments: &RecordArguments) -> Option<Stacks> {
    let otherwise = arguments.python.then_some(Stacks::Tables);
    arguments.stacks.or(otherwise)
}

/// FILE is the trace of the command's process, and of the last program that it executed; all others are
/// FILE.PROCESS, and FILE.PROCESS.N for the N-th program of a process but the last.
fn names(spools: &Spools, main: i32, file: &Path) -> BTreeMap<(i32, u32), PathBuf> {
    let with = |suffix: String| {
        let mut name = file.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    spools
        .keys()
        .map(|&(process, program)| {
            let is_last = !spools.contains_key(&(process, program + 1));
            let name = match (process == main, is_last) {
                (true, true) => file.to_owned(),
                (_, true) => with(format!(".{process}")),
                (_, false) => with(format!(".{process}.{program}")),
            };
            ((process, program), name)
        })
        .collect()
}

/// Whether there is anything that was recorded.
fn make_traces(
    arguments: &RecordArguments,
    folder: &Path,
    main: i32,
    ended: &Ended,
    gate: &Gate,
) -> Result<bool> {
    let spools = spools_in(folder).with_context(|| folder.display().to_string())?;
    let names = names(&spools, main, &arguments.output);
    let is_ours = arguments.python && std::env::var_os(PYTHON_VARIABLE).is_none();
    let after = if is_ours { After::Remove } else { After::Leave };
    perf_maps::keep(folder, &spools, after, arguments.quiet);
    let mut maps = perf_maps::Maps::kept(folder, &spools);
    let mut symbols = Symbols::default();
    let mut others = Others::default();
    let mut seen_main = None;
    for (key, path) in &spools {
        let is_main = names[key] == arguments.output;
        let known = Known {
            ended: match (is_main, spools.contains_key(&(key.0, key.1 + 1))) {
                (_, true) => Some("exec".into()),
                (true, _) => Some(in_words(ended.end)),
                (false, _) => None,
            },
            generated: maps.of(key.0),
        };
        let fewest = match (is_main, arguments.every_process) {
            (true, _) => 0,
            (false, true) => 1,
            (false, false) => FEW_EVENTS,
        };
        let go_on = || match gate.pending_end() {
            Some(signal) => Err(Interrupted(signal).into()),
            None => Ok(()),
        };
        match make_trace(path, &names[key], &known, fewest, &mut symbols, &go_on)? {
            Some(made) if is_main => seen_main = Some(made.trace),
            Some(made) => others.add(&made, &names[key]),
            None => others.not_begun += 1,
        }
    }
    if arguments.jvm && ended.end == End::Exited(jvm::OUT_OF_MEMORY) {
        tell(&jvm::out_of_memory(arguments));
    }
    hint_at_jvm(arguments, &spools);
    hint_at_python(arguments, &spools, folder);
    if !arguments.quiet {
        let said = summary(arguments, seen_main.as_ref(), &others, ended);
        let earlier = earlier_ones(&arguments.output, &names);
        let line: Vec<String> = said.into_iter().chain(earlier).collect();
        if !line.is_empty() {
            tell(&line.join("; "));
        }
    }
    let is_recorded = seen_main.is_some() || !others.kept.is_empty();
    if !is_recorded {
        tell_there_is_none(arguments, folder, others.left_out > 0);
    }
    Ok(is_recorded)
}

/// Also under --quiet, as the exit status alone would not tell what is wrong.
fn tell_there_is_none(arguments: &RecordArguments, spool: &Path, are_left_out: bool) {
    let mut said = vec![match (why_nothing_fits(spool), arguments.jvm) {
        (None, _) if are_left_out => "there is no trace: other processes than the command's own recorded too little for one".into(),
        (Some(error), _) => format!(
            "the command's process left no recording: cannot write below {}: {error} (try: {})",
            output::folder_of(spool).display(),
            match error.kind() {
                io::ErrorKind::FileTooLarge => "ulimit -f unlimited, and the same again",
                _ => "--spool FOLDER, with room for it",
            }
        ),
        (None, true) => "the command started no JVM that was recorded".into(),
        (None, false) => {
            "the command's process left no recording: it could not make its file, or the recorder could not be loaded into it".into()
        }
    }];
    if arguments.output.is_file() {
        said.push(format!(
            "{} is as it was before",
            arguments.output.display()
        ));
    }
    tell(&said.join("; "));
}

/// What a recording needs to begin, and more.
const BEGINNING: usize = 1 << 20;

fn why_nothing_fits(spool: &Path) -> Option<io::Error> {
    let written =
        tempfile::tempfile_in(spool).and_then(|mut file| file.write_all(&vec![1; BEGINNING]));
    written.err()
}

/// Traces of other processes than the command's, and of what its process executed before.
#[derive(Default)]
struct Others {
    /// Events and file of each.
    kept: Vec<(u64, PathBuf)>,
    left_out: u64,
    /// Those that could make their file and no more.
    not_begun: u64,
    /// Those whose recording ended before they did.
    cut_short: u64,
    losses: Losses,
}

/// So many are named, those with most events.
const NAMED: usize = 4;

impl Others {
    fn add(&mut self, made: &Made, name: &Path) {
        if made.is_kept {
            self.kept.push((made.trace.events, name.to_owned()));
        } else {
            self.left_out += 1;
        }
        self.cut_short += u64::from(made.trace.stop.is_some());
        self.losses.add(&Losses::from(&made.trace));
    }

    /// Empty where all is whole.
    fn lost_in_words(&self) -> Vec<String> {
        let mut said = Vec::new();
        if self.cut_short > 0 {
            said.push(format!(
                "{} ended early",
                units::counted(self.cut_short, "other recording")
            ));
        }
        let lost = self.losses.in_words();
        said.extend(lost.iter().map(|words| format!("{words} elsewhere")));
        if self.not_begun > 0 {
            said.push(format!(
                "{} could not be begun",
                units::counted(self.not_begun, "recording")
            ));
        }
        said
    }

    fn in_words(&self) -> String {
        let mut kept: Vec<_> = self.kept.iter().collect();
        kept.sort_by_key(|(events, _)| Reverse(*events));
        let named: Vec<String> = kept
            .iter()
            .take(NAMED)
            .map(|(events, file)| {
                format!("{} ({})", file.display(), units::counted(*events, "event"))
            })
            .collect();
        let more = match kept.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {} more", units::count(more as u64)),
        };
        let traces = units::counted(kept.len() as u64, "other trace");
        format!("{traces}: {}{more}", named.join(", "))
    }
}

fn in_words(end: End) -> String {
    match end {
        End::Exited(status) => format!("exit {status}"),
        End::Killed(signal) => format!("signal {signal}"),
    }
}

/// A trace that has been made of a recording.
pub struct Made {
    pub trace: Assembled,
    /// It has enough events to be a file.
    pub is_kept: bool,
}

/// None: it is no recording. Of fewer than `fewest` events no file is made.
pub fn make_trace(
    spool: &Path,
    target: &Path,
    known: &Known,
    fewest: u64,
    symbols: &mut Symbols,
    go_on: &dyn Fn() -> Result<()>,
) -> Result<Option<Made>> {
    if let Some(mut jvm) =
        trace_analysis::jvm::Spool::open(spool).with_context(|| spool.display().to_string())?
    {
        let target = Target {
            path: target,
            fewest,
            has_ended: jvm.header.has_ended,
        };
        jvm.header.command = jvm::java::without_our_options(&jvm.header.command);
        return write_trace(&target, known, go_on, |out, known, progress| {
            trace_analysis::jvm::assemble(&mut jvm, out, known, progress)
        })
        .map(Some);
    }
    let Some(mut spool) = Spool::open(spool).with_context(|| spool.display().to_string())? else {
        return Ok(None);
    };
    let target = Target {
        path: target,
        fewest,
        has_ended: spool.header.has_ended,
    };
    write_trace(&target, known, go_on, |out, known, progress| {
        assemble::assemble(&mut spool, out, known, symbols, progress)
    })
    .map(Some)
}

type Written = Result<(Output, Assembled), assemble::Error>;

struct Target<'a> {
    path: &'a Path,
    /// Of a trace with fewer events nothing stays.
    fewest: u64,
    has_ended: bool,
}

fn write_trace(
    target: &Target,
    known: &Known,
    go_on: &dyn Fn() -> Result<()>,
    assemble: impl FnOnce(Output, &Known, Progress) -> Written,
) -> Result<Made> {
    let mut known = known.clone();
    if known.ended.is_none() && target.has_ended {
        known.ended = Some("exit".into());
    }
    let bar = progress::bar("writing the trace", 0);
    let out = Output::open(target.path)?;
    let mut wish = Ok(());
    let written = assemble(out, &known, &mut |events| {
        bar.set_position(events);
        wish = go_on();
        match wish {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    });
    let (out, assembled) = wish
        .and(written.map_err(Into::into))
        .map_err(|error| unwritten(target.path, error))?;
    bar.finish_and_clear();
    let is_kept = assembled.events >= target.fewest;
    if is_kept {
        out.finish()?;
    }
    Ok(Made {
        trace: assembled,
        is_kept,
    })
}

/// Why there is no trace.
fn unwritten(path: &Path, error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref() {
        Some(assemble::Error::Trace(trace_format::Error::Io(error))) => {
            output::unwritable(path, error).into()
        }
        _ => error.context(format!("cannot write {}", path.display())),
    }
}

fn summary(
    arguments: &RecordArguments,
    main: Option<&Assembled>,
    others: &Others,
    ended: &Ended,
) -> Vec<String> {
    let file = arguments.output.display();
    let mut line = Vec::new();
    if let Some(signal) = ended.end.signal() {
        line.push(format!(
            "the command was killed by {}",
            signals::in_words(signal)
        ));
    }
    match main {
        Some(trace) if trace.events == 0 && arguments.from.is_some() => {
            line.push(never_called(arguments));
        }
        Some(trace) => {
            let size = fs::metadata(&arguments.output).map_or(0, |file| file.len());
            line.push(format!(
                "{file}: {} and {} at {}, {}",
                units::counted(trace.allocations, "allocation"),
                units::counted(trace.events - trace.allocations, others_of(arguments)),
                units::counted(trace.sites as u64, "site"),
                units::bytes(size as f64)
            ));
            line.extend(Losses::from(trace).in_words());
            if let Some(stop) = trace.stop {
                line.push(format!("recording stopped early: {stop}"));
            }
        }
        None if others.kept.is_empty() => {}
        None => line.push(format!(
            "{file} was not written, as the command's own process left no recording"
        )),
    }
    if !others.kept.is_empty() {
        line.push(others.in_words());
    }
    line.extend(others.lost_in_words());
    if others.left_out > 0 {
        let few = units::counted(others.left_out, "small one");
        line.push(format!("{few} left out (--every-process)"));
    }
    match ended.left_over {
        0 => {}
        1 => line.push("1 process goes on running and is not recorded further".into()),
        more => line.push(format!(
            "{more} processes go on running and are not recorded further"
        )),
    }
    line
}

/// Files that look like this recording's, and are another's.
fn earlier_ones(file: &Path, names: &BTreeMap<(i32, u32), PathBuf>) -> Option<String> {
    let mut prefix = file.file_name()?.to_owned();
    prefix.push(".");
    let is_number = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let is_process = |name: &[u8]| {
        let rest = name.strip_prefix(prefix.as_bytes());
        rest.is_some_and(|rest| rest.splitn(2, |&byte| byte == b'.').all(is_number))
    };
    let entries = fs::read_dir(output::folder_of(file)).ok()?.flatten();
    let mut found: Vec<OsString> = entries
        .map(|entry| entry.file_name())
        .filter(|name| {
            is_process(name.as_bytes())
                && is_trace(&file.with_file_name(name))
                && !names.values().any(|known| known.file_name() == Some(name))
        })
        .collect();
    found.sort();
    let first = file.with_file_name(found.first()?);
    let traces = units::counted(found.len() as u64, "trace");
    Some(format!(
        "{traces} of earlier recordings still there ({})",
        first.display()
    ))
}

fn is_trace(file: &Path) -> bool {
    // A pipe of that name would have us wait for who writes to it.
    let is_file = fs::symlink_metadata(file).is_ok_and(|found| found.is_file());
    is_file && TraceReader::open(file).is_ok()
}

fn never_called(arguments: &RecordArguments) -> String {
    let from = arguments.from.as_deref().unwrap_or_default();
    format!(
        "{} is empty: {from} was never called. Its class is written with its package, a class within it as Outer$Inner, and a \
         constructor as <init>: --from com.example.Outer$Inner.method",
        arguments.output.display()
    )
}

/// What of a JVM is in a trace without --jvm.
fn hint_at_jvm(arguments: &RecordArguments, spools: &Spools) {
    let is_java = |path: &PathBuf| {
        let header = Spool::open(path).ok().flatten().map(|spool| spool.header);
        header.is_some_and(|header| header.program.ends_with("/java"))
    };
    if !arguments.jvm && !arguments.quiet && spools.values().any(is_java) {
        tell(
            "of java, what the JVM itself takes from malloc was recorded, which is little: --jvm records the program's objects",
        );
    }
}

/// Without its maps Python's own functions are not in a trace.
fn hint_at_python(arguments: &RecordArguments, spools: &Spools, folder: &Path) {
    let has_map = |process| perf_maps::has_kept(folder, process);
    let is_nameless = |(process, path): (i32, &PathBuf)| {
        let header = Header::read(path).ok().flatten();
        header.is_some_and(|header| perf_maps::is_python_with_maps(&header)) && !has_map(process)
    };
    let mut all = spools.iter().map(|((process, _), path)| (*process, path));
    if arguments.quiet || stacks_of(arguments).is_none() {
        return;
    }
    if arguments.python && !all.clone().any(|(process, _)| has_map(process)) {
        tell(
            "no process told the names of Python's functions: that takes CPython 3.12 or later, without -E and -I",
        );
    } else if !arguments.python && all.any(is_nameless) {
        tell(
            "of Python the interpreter's functions are in the stacks, the script's are not: --python adds them",
        );
    }
}

/// Events that are no allocations.
fn others_of(arguments: &RecordArguments) -> &'static str {
    if arguments.jvm {
        "reference change"
    } else {
        "free"
    }
}

/// A recording that was kept, or whose pagewise was killed. Returns the traces made.
pub fn recover(folder: &Path, target: &Path) -> Result<Vec<PathBuf>> {
    let spools = spools_in(folder).with_context(|| folder.display().to_string())?;
    // The first process of all is the command's.
    let started = |path: &PathBuf| {
        if let Some(spool) = trace_analysis::jvm::Spool::open(path).ok().flatten() {
            return spool.header.start_real_ns;
        }
        let header = Spool::open(path).ok().flatten().map(|spool| spool.header);
        header.map_or(u64::MAX, |header| header.start_ns)
    };
    let first = spools.iter().min_by_key(|(_, path)| started(path));
    let main = first.map_or(0, |((process, _), _)| *process);
    perf_maps::keep(folder, &spools, After::Leave, false);
    let mut maps = perf_maps::Maps::kept(folder, &spools);
    let mut symbols = Symbols::default();
    let (mut made, mut left_out) = (Vec::new(), Vec::new());
    for (key, name) in names(&spools, main, target) {
        let fewest = u64::from(name != target);
        let known = Known {
            ended: None,
            generated: maps.of(key.0),
        };
        let go_on = || Ok(());
        let trace = make_trace(&spools[&key], &name, &known, fewest, &mut symbols, &go_on)?;
        match trace {
            Some(trace) if trace.is_kept => made.push(name),
            Some(_) => {}
            None => left_out.push(spools[&key].display().to_string()),
        }
    }
    if !left_out.is_empty() {
        tell(&format!(
            "left out, as it was not begun or its start is damaged: {}",
            left_out.join(" ")
        ));
    }
    if made.is_empty() {
        return Err(Failure::new(
            format!("there is no recording in {}", folder.display()),
            format!("ls -la {}", folder.display()),
        )
        .into());
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_last_program_gets_the_name() {
        let mut spools = Spools::new();
        for key in [(10, 0), (10, 1), (11, 0), (12, 0), (12, 1)] {
            spools.insert(key, PathBuf::new());
        }
        let names = names(&spools, 10, Path::new("a/x"));
        let name = |key| names[&key].to_str().expect("text").to_owned();
        assert_eq!(name((10, 1)), "a/x");
        assert_eq!(name((10, 0)), "a/x.10.0");
        assert_eq!(name((11, 0)), "a/x.11");
        assert_eq!(name((12, 0)), "a/x.12.0");
        assert_eq!(name((12, 1)), "a/x.12");
    }
}
