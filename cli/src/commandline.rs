//! The command line: an interface, documented in docs/reference/command-line.md.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::measure::SamplerKind;
use crate::policy::Policy;

const EXAMPLES: &str = "\
Examples:
  pagewise run -- Rscript analysis.R
  pagewise compare -- Rscript analysis.R
  pagewise doctor

Exit codes: the command's own under run; 125 when pagewise itself fails, 126 and 127
when the command cannot be executed or found. compare: 1 when outputs differ,
2 when a run failed. docs/reference/command-line.md has the rest.";

const RUN_EXAMPLES: &str = "\
Examples:
  pagewise run -- Rscript analysis.R
  pagewise run --policy share --json figures.json -- R -f analysis.R
  pagewise run --options threshold=64K,verbose=1 -- python3 program.py

The last line on standard error says the peak of physical memory and what was saved.";

const COMPARE_EXAMPLES: &str = "\
Examples:
  pagewise compare -- Rscript analysis.R
  pagewise compare --with plain,plain,auto --runs 10 -- Rscript analysis.R
  sudo pagewise compare --with plain,ksm,auto --json figures.json -- ./program

Naming a configuration twice adds a control: what differs between the two is noise, and
no difference as small as that is claimed. Ratios are to the first configuration.
Standard input, if it is not a terminal, is read once and given to every run.";

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
    /// Show what this machine allows, and how to allow what it does not
    Doctor(DoctorArguments),
}

#[derive(Args)]
pub struct RunArguments {
    /// Which mechanisms serve large blocks [default: auto]
    #[arg(long, value_enum, value_name = "POLICY")]
    pub policy: Option<Policy>,
    /// Write physical memory over time to FILE as CSV (- for standard output)
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
    /// Runs of each configuration
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub runs: u32,
    /// End a run that takes longer, and the comparison with it
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub timeout_seconds: Option<u64>,
    #[command(flatten)]
    pub common: CommonArguments,
}

#[derive(Args)]
pub struct CommonArguments {
    /// Write the figures to FILE as JSON (- for standard output)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
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
    /// Time between two looks at physical memory; it grows where looking is expensive
    #[arg(long, value_name = "MS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub sample_ms: u64,
    /// How to find physical memory
    #[arg(long, value_enum, hide = true)]
    pub sampler: Option<SamplerKind>,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

#[derive(Args)]
pub struct DoctorArguments {
    /// Write the findings to FILE as JSON (- for standard output)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Look at the proc and sys below this folder
    #[arg(long, hide = true, default_value = "/")]
    pub root: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_grammar_is_consistent() {
        CommandLine::command().debug_assert();
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
