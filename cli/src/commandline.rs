//! The command line: an interface, documented in docs/reference/command-line.md.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::builder::UnknownArgumentValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use trace_analysis::Stacks;
use trace_analysis::analysis::Moment;
use trace_analysis::diff::Measure;
use trace_analysis::flame::Kind;

use crate::launch::executable;
use crate::launch::options::nearest;
use crate::measure::SamplerKind;
use crate::policy::Policy;
use crate::trace::replay::allocator::Allocator;

const EXAMPLES: &str = "\
Examples:
  pagewise run -- Rscript analysis.R
  pagewise compare -- Rscript analysis.R
  pagewise doctor
  pagewise trace record -o server.trace -- ./server

Exit codes: the command's own under run and trace record; 125 when pagewise itself
fails, 126 and 127 when the command cannot be executed or found. compare: 1 when
outputs differ, 2 when a run failed. docs/reference/command-line.md has the rest.";

const RUN_EXAMPLES: &str = "\
Examples:
  pagewise run -- Rscript analysis.R
  pagewise run --policy share --json figures.json -- R -f analysis.R
  pagewise run --report memory.html -- Rscript analysis.R
  pagewise run --options threshold=64K,verbose=1 -- python3 program.py

The last line on standard error says the peak of physical memory and what was saved.";

const COMPARE_EXAMPLES: &str = "\
Examples:
  pagewise compare -- Rscript analysis.R
  pagewise compare --with plain,plain,auto --runs 10 -- Rscript analysis.R
  pagewise compare --files 'results/*.csv' -- Rscript analysis.R
  pagewise compare --report memory.html -- Rscript analysis.R
  sudo pagewise compare --with plain,ksm,auto --json figures.json -- ./program

The command is run --runs times under each configuration, and does what it does each time.
Ctrl-C ends it early and shows what the runs so far came to.
Naming a configuration twice adds a control: what differs between the two is noise, and no difference as small as that is claimed. Ratios are to the first configuration.
Standard input, if it is not a terminal, is read once and given to every run.";

const METRICS_EXAMPLES: &str = "\
Examples:
  pagewise metrics
  pagewise metrics --listen 10.0.0.5:19797
  pagewise metrics --once

A scrape of Prometheus: static_configs: [{targets: ['127.0.0.1:19797']}]";

const TRACE_EXAMPLES: &str = "\
Examples:
  pagewise trace record -o server.trace -- ./server
  pagewise trace stat server.trace
  pagewise trace diff yesterday.trace server.trace
  pagewise trace show --from 1000000 --count 20 server.trace
  pagewise trace convert server.trace -o server.pb.gz
  go tool pprof -http :8080 server.pb.gz

docs/guide/traces.md shows how to find out who allocates and who holds memory.";

const RECORD_EXAMPLES: &str = "\
Examples:
  pagewise trace record -o server.trace -- ./server
  pagewise trace record --stacks --listen 127.0.0.1:6070 -o server.trace -- ./server
  go tool pprof http://127.0.0.1:6070/debug/pprof/heap";

const REPLAY_EXAMPLES: &str = "\
Examples:
  pagewise trace replay server.trace
  pagewise trace replay --allocator glibc,jemalloc --plot memory.svg server.trace
  MALLOC_ARENA_MAX=1 pagewise trace replay --allocator glibc server.trace
  pagewise trace replay --pace 1 --allocator jemalloc server.trace

Exit code 1: some allocator did not come to the trace's end.";

#[derive(Parser)]
#[command(
    name = "pagewise",
    version,
    about = "Run unmodified programs in less physical memory, and measure it",
    after_help = EXAMPLES,
    disable_help_subcommand = true
)]
pub struct CommandLine {
    #[command(subcommand)]
    pub action: Action,
}

#[derive(Subcommand)]
pub enum Action {
    /// Run a command under Pagewise
    #[command(after_help = RUN_EXAMPLES, override_usage = "pagewise run [OPTIONS] -- COMMAND...")]
    Run(RunArguments),
    /// Run a command several times with and without Pagewise and compare
    #[command(after_help = COMPARE_EXAMPLES, override_usage = "pagewise compare [OPTIONS] -- COMMAND...")]
    Compare(CompareArguments),
    /// Show your processes under Pagewise, live: physical memory, saved, shared, warm, faults
    Top(TopArguments),
    /// Serve figures of your processes under Pagewise to Prometheus (OpenMetrics)
    #[command(after_help = METRICS_EXAMPLES)]
    Metrics(MetricsArguments),
    /// Does Pagewise work here? If not, why, and what to type
    Doctor(DoctorArguments),
    /// Record what a program allocates and frees, and look at it
    #[command(after_help = TRACE_EXAMPLES, disable_help_subcommand = true)]
    Trace {
        #[command(subcommand)]
        action: TraceAction,
    },
    /// Write the manual pages and the shells' completions, as packages ship them
    #[command(hide = true)]
    Pages(PagesArguments),
}

#[derive(Args)]
pub struct PagesArguments {
    /// The folder, such as /usr/local/share
    pub folder: PathBuf,
}

#[derive(Subcommand)]
pub enum TraceAction {
    /// Run a command and write down what it allocates and frees
    #[command(after_help = RECORD_EXAMPLES, override_usage = "pagewise trace record [OPTIONS] -o FILE -- COMMAND...")]
    Record(RecordArguments),
    /// Show what is in a trace: events, sizes, lifetimes, sites, live bytes over time
    Stat(StatArguments),
    /// Show events as text
    Show(ShowArguments),
    /// Turn a trace into text, a pprof profile or CSV, and text or a kept recording into a trace
    Convert(ConvertArguments),
    /// Which call sites pin my pages? Pages held by few survivors, by site, and what grouping would free
    Report(ReportArguments),
    /// What does each place hold more or less than in another recording?
    Diff(DiffArguments),
    /// Would groups of call sites on pages of their own need fewer pages? Learned groups beside their controls
    Group(GroupArguments),
    /// Make a trace's allocations again in real memory, under several allocators, and compare
    #[command(after_help = REPLAY_EXAMPLES)]
    Replay(ReplayArguments),
    /// Replay traces on a simulated heap: with groups as Metis learns them, with random groups, and without
    #[command(after_help = SIMULATE_EXAMPLES)]
    Simulate(SimulateArguments),
}

impl TraceAction {
    /// The files that are read, and those that are written.
    pub fn files(&self) -> (Vec<&Path>, Vec<&Path>) {
        fn some<'a>(paths: &[&'a Option<PathBuf>]) -> Vec<&'a Path> {
            paths.iter().filter_map(|path| path.as_deref()).collect()
        }
        match self {
            Self::Stat(given) => (vec![&given.file], some(&[&given.json])),
            Self::Convert(given) => (vec![&given.file], vec![&given.output]),
            Self::Report(given) => (vec![&given.file], some(&[&given.html])),
            Self::Diff(given) => (
                vec![&given.before, &given.after],
                some(&[&given.json, &given.html]),
            ),
            Self::Group(given) => {
                let mut read = some(&[&given.train]);
                read.push(&given.file);
                (read, some(&[&given.json]))
            }
            Self::Replay(given) => (vec![&given.file], some(&[&given.json, &given.plot])),
            Self::Simulate(given) => {
                let read = given.files.iter().chain(&given.train);
                let read = read.chain(&given.readings);
                (read.map(PathBuf::as_path).collect(), some(&[&given.json]))
            }
            Self::Record(_) | Self::Show(_) => (Vec::new(), Vec::new()),
        }
    }
}

#[derive(Args)]
pub struct DiffArguments {
    /// The trace that is compared with
    #[arg(value_name = "A")]
    pub before: PathBuf,
    /// The trace of which is told what it has more or less
    #[arg(value_name = "B")]
    pub after: PathBuf,
    /// Write a page of HTML to OUT instead of text to standard output
    #[arg(long, value_name = "OUT", conflicts_with = "json")]
    pub html: Option<PathBuf>,
    /// What places are sorted by [default: live, or allocated where a collector frees]
    #[arg(long, value_enum, value_name = "FIGURE")]
    pub by: Option<Measure>,
    /// Number of places to show
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,
    /// The moment for which live and pinned bytes are given
    #[arg(long, value_enum, value_name = "MOMENT", default_value_t)]
    pub at: Moment,
    /// Write the figures to FILE as JSON (- for standard output, instead of the text)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

#[derive(Args)]
pub struct GroupArguments {
    /// The trace of a native program, on which groups are tested
    pub file: PathBuf,
    /// Learn from this trace of the same program [default: from FILE's first half, tested on its second]
    #[arg(long, value_name = "OTHER")]
    pub train: Option<PathBuf>,
    /// Number of random groupings to compare each learned one with
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub seeds: u64,
    /// When the model gives memory back
    #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
    pub purge: PurgeRule,
    /// Write the figures to FILE as JSON (- for standard output, instead of the table)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum PurgeRule {
    /// Spans of 64 KB that are empty, as most allocators do
    #[default]
    Spans,
    /// Every page that is empty
    Pages,
}

#[derive(Args)]
pub struct ReplayArguments {
    /// The trace of a native program
    pub file: PathBuf,
    /// Allocators, separated by commas [default: all that are installed]
    #[arg(
        long = "allocator",
        value_enum,
        value_name = "NAME",
        value_delimiter = ','
    )]
    pub allocators: Vec<Allocator>,
    /// How often to look at memory, evenly over allocations and frees; and once at the peak
    #[arg(long, value_name = "N", default_value_t = 400, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub samples: u64,
    /// Keep to the recorded times, FACTOR times as fast: some allocators give memory back by the clock
    #[arg(long, value_name = "FACTOR", value_parser = factor)]
    pub pace: Option<f64>,
    /// Write the figures to FILE as JSON (- for standard output, instead of the table)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Draw resident and live memory, and the one over the other, into FILE (SVG)
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
}

fn factor(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(factor) if factor.is_finite() && factor > 0.0 => Ok(factor),
        _ => Err("a number above 0".into()),
    }
}

const SIMULATE_EXAMPLES: &str = "\
Examples:
  pagewise trace simulate --once x.trace             the whole trace, no groups: is it sound, how fast
  pagewise trace simulate x.trace                    groups learned in the run itself, against the controls
  pagewise trace simulate --train y.trace x.trace    and groups learned from another run of the program";

#[derive(Args)]
pub struct SimulateArguments {
    /// The traces to replay
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// A trace of the same program with another input, to learn groups from; once for each FILE
    #[arg(long, value_name = "FILE")]
    pub train: Vec<PathBuf>,
    /// Which layouts: the paper's with its controls, or those past the paper as well
    #[arg(long, value_enum, value_name = "WHICH", default_value_t = Layouts::Paper)]
    pub layouts: Layouts,
    /// Number of seeds for what is random
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub seeds: u64,
    /// Events of a trace that are used, from its start
    #[arg(long, value_name = "EVENTS", default_value_t = 230_000, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=100_000_000))]
    pub block: usize,
    /// How many times as many events of the --train traces are learned from, by layouts past the paper
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1000))]
    pub train_blocks: usize,
    /// How often they are replayed
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub repetitions: u32,
    /// The simulated heap at the start; it grows
    #[arg(long, value_name = "BYTES", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1024..=1 << 30))]
    pub heap: u64,
    /// When objects die that the program does not free itself
    #[arg(long, value_enum, value_name = "COLLECTOR", default_value_t = SimulatedCollector::MarkSweep)]
    pub collector: SimulatedCollector,
    /// Replay whole traces once, without groups
    #[arg(long, conflicts_with_all = ["train", "layouts", "seeds", "block", "repetitions"])]
    pub once: bool,
    /// Stop at the first event that cannot have happened
    #[arg(long, requires = "once")]
    pub strict: bool,
    /// Other readings of the paper than the defaults, as JSON (docs/notes/metis.md has the names)
    #[arg(long, value_name = "FILE", conflicts_with = "once")]
    pub readings: Option<PathBuf>,
    /// Write all figures to OUT as JSON (- for standard output, instead of the text)
    #[arg(long, value_name = "OUT")]
    pub json: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Layouts {
    Paper,
    All,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SimulatedCollector {
    MarkSweep,
    ReferenceCounting,
}

#[derive(Args)]
pub struct ReportArguments {
    /// The trace
    pub file: PathBuf,
    /// Write a page of HTML to OUT instead of text to standard output
    #[arg(long, value_name = "OUT")]
    pub html: Option<PathBuf>,
    /// Write all stacks and what they hold to standard output instead, as other flame graph tools read them
    #[arg(long, value_enum, value_name = "KIND", conflicts_with_all = ["html", "top"])]
    pub folded: Option<Kind>,
    /// Number of places to try
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=64))]
    pub top: usize,
    /// The moment that is looked at [default: pinned]
    #[arg(long, value_enum, value_name = "MOMENT")]
    pub at: Option<Moment>,
}

#[derive(Args)]
pub struct RecordArguments {
    /// Write the trace to FILE; those of other processes go to FILE.PROCESS
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,
    /// Record a JVM's objects: allocations, references and roots instead of malloc and free
    #[arg(long, conflicts_with_all = ["stacks", "sample"])]
    pub jvm: bool,
    /// Memory for the JVM's heap, which is never collected, such as 4g [default: half of what is free]
    #[arg(long, value_name = "SIZE", requires = "jvm")]
    pub heap: Option<String>,
    /// Record from when this method is first called on [default: from the JVM's start]
    #[arg(long, value_name = "CLASS.METHOD", requires = "jvm")]
    pub from: Option<String>,
    /// Record calls as jumps as well
    #[arg(long, requires = "jvm")]
    pub jumps: bool,
    /// Tell sites apart by the whole stack of callers
    #[arg(long, value_name = "HOW", value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "tables")]
    pub stacks: Option<Stacks>,
    /// Record whole stacks, with the functions of Python 3.12 or later in them; Python then recurses less deeply
    #[arg(long, conflicts_with = "jvm")]
    pub python: bool,
    /// Record a random sample: one allocation in BYTES bytes on average
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    pub sample: Option<u64>,
    /// Record the command's own process alone
    #[arg(long)]
    pub no_children: bool,
    /// Keep the traces of other processes that have fewer than 1000 events as well
    #[arg(long, conflicts_with = "no_children")]
    pub every_process: bool,
    /// Serve heap profiles of what runs to pprof, Pyroscope or Parca: address and port, such as 127.0.0.1:6070
    #[arg(long, value_name = "ADDR", conflicts_with = "jvm")]
    pub listen: Option<String>,
    /// Where to keep the recording until the command ends [default: FILE's folder]
    #[arg(long, value_name = "FOLDER")]
    pub spool: Option<PathBuf>,
    /// Say nothing on standard error but errors
    #[arg(long, short)]
    pub quiet: bool,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

#[derive(Args)]
pub struct StatArguments {
    /// The trace
    pub file: PathBuf,
    /// Number of places to show
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,
    /// Show the sites of a place (or a stack) one by one: by size class and stack depth
    #[arg(long)]
    pub split: bool,
    /// The moment for which live and pinned bytes are given
    #[arg(long, value_enum, value_name = "MOMENT", default_value_t)]
    pub at: Moment,
    /// Write the figures to FILE as JSON (- for standard output, instead of the text)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

#[derive(Args)]
pub struct ShowArguments {
    /// The trace
    pub file: PathBuf,
    /// Number of the first event, counted from 0
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub from: u64,
    /// Number of events [default: all]
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,
    /// Name the sites of these events at the end
    #[arg(long)]
    pub sites: bool,
    /// Show how the trace was recorded instead
    #[arg(long)]
    pub properties: bool,
}

#[derive(Args)]
pub struct ConvertArguments {
    /// The trace, its text form, or the folder of a recording that was kept
    pub file: PathBuf,
    /// The file to write (- for standard output)
    #[arg(long, short, value_name = "OUT")]
    pub output: PathBuf,
    /// Its form [default: by its name: .pb.gz, .pprof, .csv, .txt, else binary]
    #[arg(long, value_enum, value_name = "FORM")]
    pub to: Option<TraceForm>,
    /// Only the first N events (binary)
    #[arg(long, value_name = "N")]
    pub events: Option<u64>,
    /// The moment for which live and pinned bytes are given [default: peak; of pprof, pinned ones at their worst]
    #[arg(long, value_enum, value_name = "MOMENT")]
    pub at: Option<Moment>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TraceForm {
    Text,
    Binary,
    Pprof,
    Csv,
}

#[derive(Args)]
pub struct RunArguments {
    /// Which mechanisms serve large blocks [default: auto]
    #[arg(long, value_enum, value_name = "POLICY")]
    pub policy: Option<Policy>,
    /// Count page frames, not counters: exact, for up to a tenth of a core
    #[arg(long)]
    pub exact: bool,
    /// Write physical memory over time to FILE as CSV (- for standard output); exact
    #[arg(long, value_name = "FILE")]
    pub curve: Option<PathBuf>,
    #[command(flatten)]
    pub common: CommonArguments,
}

#[derive(Args)]
pub struct CompareArguments {
    /// Configurations to compare, separated by commas; the first is what ratios refer to
    #[arg(
        long = "with",
        value_enum,
        value_name = "POLICY",
        value_delimiter = ',',
        default_value = "plain,auto"
    )]
    pub policies: Vec<Policy>,
    /// What `run` calls it; here two are named.
    #[arg(
        long = "policy",
        hide = true,
        value_parser = UnknownArgumentValueParser::suggest("compare takes --with, as in --with plain,general")
    )]
    pub policy: Option<String>,
    /// Runs of each configuration
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub runs: u32,
    /// End a run that takes longer, and the comparison with it
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub timeout_seconds: Option<u64>,
    /// Compare what each run writes into these files as well; in quotes, and again for others
    #[arg(long, value_name = "GLOB")]
    pub files: Vec<String>,
    #[command(flatten)]
    pub common: CommonArguments,
}

#[derive(Args)]
pub struct CommonArguments {
    /// Write the figures to FILE as JSON (- for standard output; of compare, instead of the table)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a page for a browser to FILE: memory over time, figures, machine; one HTML file
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Say nothing on standard error but errors
    #[arg(long, short)]
    pub quiet: bool,
    /// Further options for the library, as in PAGEWISE_OPTIONS
    #[arg(
        long,
        value_name = "STRING",
        default_value = "",
        hide_default_value = true
    )]
    pub options: String,
    /// Time between two looks at physical memory; it grows where looking is expensive [default: 4, exact ones 20]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub sample_ms: Option<u64>,
    /// How to find physical memory
    #[arg(long, value_enum, hide = true)]
    pub sampler: Option<SamplerKind>,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

#[derive(Args)]
pub struct TopArguments {
    /// Print one look and end, as where there is no terminal
    #[arg(long)]
    pub once: bool,
    /// Write one look to FILE as JSON (- for standard output), and end
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Time between two looks
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(100..=60_000))]
    pub every_ms: u64,
}

#[derive(Args)]
pub struct MetricsArguments {
    /// The address and port to listen on
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:19797")]
    pub listen: String,
    /// Print the figures once, in Prometheus's text form, and end
    #[arg(long, conflicts_with = "listen")]
    pub once: bool,
}

#[derive(Args)]
pub struct DoctorArguments {
    /// Show all that was looked at, one by one, with the command that would change it
    #[arg(long)]
    pub all: bool,
    /// Write the findings to FILE as JSON (- for standard output)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Look at the proc and sys below this folder
    #[arg(long, hide = true, default_value = "/")]
    pub root: PathBuf,
}

/// What to type next, where the parser itself does not say it: it knows the nearest name of an option, and of few commands.
pub fn with_advice(mut error: clap::Error) -> clap::Error {
    let advice = match error.kind() {
        ErrorKind::InvalidSubcommand => nearest_command(&error),
        ErrorKind::MissingRequiredArgument => example(&error),
        _ => None,
    };
    if let Some(advice) = advice
        && error.get(ContextKind::SuggestedSubcommand).is_none()
    {
        let advice = ContextValue::StyledStrs(vec![advice.into()]);
        error.insert(ContextKind::Suggested, advice);
    }
    error
}

fn nearest_command(error: &clap::Error) -> Option<String> {
    let given = text_of(error, ContextKind::InvalidSubcommand)?;
    let usage = text_of(error, ContextKind::Usage)?;
    let command = CommandLine::command();
    let trace = command.find_subcommand("trace");
    let (parent, name) = match usage.contains("pagewise trace") {
        true => (trace?, "pagewise trace"),
        false => (&command, "pagewise"),
    };
    if given == "help" {
        return Some(format!("see: {name} --help"));
    }
    let is_program = executable::find(OsStr::new(&given)).is_ok();
    if name == "pagewise" && is_program && given.contains('/') {
        return Some(format!("to run it: pagewise run -- {given} ..."));
    }
    let shown = parent.get_subcommands().filter(|one| !one.is_hide_set());
    if let Some(nearest) = nearest(&given, shown.map(clap::Command::get_name)) {
        return Some(format!("did you mean '{nearest}'?"));
    }
    (name == "pagewise" && is_program).then(|| format!("to run it: pagewise run -- {given} ..."))
}

/// The first example of the command's help.
fn example(error: &clap::Error) -> Option<String> {
    let usage = text_of(error, ContextKind::Usage)?;
    let command = CommandLine::command();
    let trace = command.find_subcommand("trace")?;
    let named = |name: &str| usage.contains(&format!("pagewise {name} "));
    let found = command.get_subcommands().find(|one| named(one.get_name()));
    let found = match found?.get_name() {
        "trace" => trace
            .get_subcommands()
            .find(|one| named(&format!("trace {}", one.get_name()))),
        _ => found,
    };
    let help = found?.get_after_help()?.to_string();
    let first = help.lines().nth(1)?.trim();
    Some(format!("such as: {first}"))
}

fn text_of(error: &clap::Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        ContextValue::StyledStr(text) => Some(text.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grammar_is_consistent() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn a_mistyped_command_is_told_the_nearest() {
        let said = |words: &[&str]| match CommandLine::try_parse_from(words) {
            Err(error) => with_advice(error).to_string(),
            Ok(_) => panic!("{words:?}"),
        };
        for (words, advice) in [
            (
                &["pagewise", "rnu", "--", "true"][..],
                "did you mean 'run'?",
            ),
            (&["pagewise", "compair"], "'compare'"),
            (&["pagewise", "help"], "see: pagewise --help"),
            (&["pagewise", "trace", "help"], "see: pagewise trace --help"),
            (
                &["pagewise", "/bin/sh", "x.sh"],
                "pagewise run -- /bin/sh ...",
            ),
            (&["pagewise", "trace", "recrod"], "'record'"),
            (&["pagewise", "trace", "sta"], "'stat'"),
            (
                &["pagewise", "compare"],
                "such as: pagewise compare -- Rscript analysis.R",
            ),
            (
                &["pagewise", "run", "--quiet"],
                "such as: pagewise run -- Rscript analysis.R",
            ),
            (
                &["pagewise", "trace", "record", "--", "true"],
                "such as: pagewise trace record -o server.trace -- ./server",
            ),
        ] {
            let said = said(words);
            assert!(said.contains(advice), "{said}");
        }
        let said = said(&["pagewise", "xyzzy"]);
        assert!(!said.contains("did you mean"), "{said}");
    }

    #[test]
    fn the_commands_own_options_are_not_ours() {
        let line = ["pagewise", "run", "--", "ls", "--json", "-q", "--", "x"];
        let Action::Run(arguments) = CommandLine::parse_from(line).action else {
            panic!("run");
        };
        assert_eq!(arguments.common.command, ["ls", "--json", "-q", "--", "x"]);
        assert!(arguments.common.json.is_none() && !arguments.common.quiet);
    }

    #[test]
    fn policies_are_checked() {
        let parse = |with| {
            CommandLine::try_parse_from(["pagewise", "compare", "--with", with, "--", "true"])
        };
        assert!(parse("plain,plain,ksm-aggressive").is_ok());
        assert!(parse("plain,fast").is_err());
        assert!(parse("").is_err());
    }
}
