//! Manual pages and shells' completions, from what --help is made of: what packages and `make install` ship.

use std::fs;
use std::path::Path;

use anyhow::Result;
use clap::{Arg, Command, CommandFactory, ValueHint};
use clap_complete::Shell;

use crate::commandline::{CommandLine, PagesArguments};
use crate::ending::Ending;
use crate::failure::Failure;

/// Where each shell looks, below share.
const COMPLETIONS: [(Shell, &str); 3] = [
    (Shell::Bash, "bash-completion/completions/pagewise"),
    (Shell::Zsh, "zsh/site-functions/_pagewise"),
    (Shell::Fish, "fish/vendor_completions.d/pagewise.fish"),
];

/// Writes FOLDER as an installation's share folder: man/man1, and a file for each shell.
pub fn pages(arguments: &PagesArguments) -> Result<Ending> {
    let share = &arguments.folder;
    write_manual(&share.join("man/man1")).map_err(|error| failure(share, &error))?;
    for (shell, path) in COMPLETIONS {
        write_completions(shell, &share.join(path)).map_err(|error| failure(share, &error))?;
    }
    Ok(Ending::Exit(0))
}

fn write_manual(folder: &Path) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    clap_mangen::generate_to(CommandLine::command(), folder)
}

fn write_completions(shell: Shell, path: &Path) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut text = Vec::new();
    clap_complete::generate(
        shell,
        &mut shown(&CommandLine::command()),
        "pagewise",
        &mut text,
    );
    match shell {
        Shell::Bash => fs::write(path, in_bash(&String::from_utf8_lossy(&text))),
        _ => fs::write(path, text),
    }
}

/// The command without what is hidden, whose values say what they are: files, folders, a command of its own.
fn shown(command: &Command) -> Command {
    let arguments = command.get_arguments().filter(|one| !one.is_hide_set());
    let subcommands = command.get_subcommands().filter(|one| !one.is_hide_set());
    // Names live as long as the process, which ends when the pages are written.
    let name: &'static str = command.get_name().to_owned().leak();
    let copy = match command.get_version() {
        Some(_) => Command::new(name).version(env!("CARGO_PKG_VERSION")),
        None => Command::new(name),
    };
    copy.about(command.get_about().cloned().unwrap_or_default())
        .disable_help_subcommand(true)
        .args(arguments.cloned().map(hinted))
        .subcommands(subcommands.map(shown))
}

fn hinted(argument: Arg) -> Arg {
    let name = argument
        .get_value_names()
        .and_then(|names| names.first())
        .map(ToString::to_string);
    let hint = match name.as_deref() {
        Some("COMMAND") => ValueHint::CommandWithArguments,
        Some("FOLDER") => ValueHint::DirPath,
        _ if argument.get_value_hint() == ValueHint::AnyPath => ValueHint::FilePath,
        _ => return argument,
    };
    argument.value_hint(hint)
}

/// What clap makes knows neither that words after -- are another command, nor that --NAME=VALUE is one word, and offers
/// options where the name of a trace is due.
const AROUND: &str = r#"
_pagewise() {
    local i previous=$3
    for ((i = 1; i < COMP_CWORD; i++)); do
        [[ ${COMP_WORDS[i]} == -- ]] || continue
        COMPREPLY=()
        if declare -F _command_offset >/dev/null; then
            _command_offset $((i + 1))
        elif [[ $2 != */* ]] && ((i + 1 == COMP_CWORD)); then
            mapfile -t COMPREPLY < <(compgen -c -- "$2")
        fi
        return 0
    done
    [[ $previous != = ]] || previous=${COMP_WORDS[COMP_CWORD - 2]}
    _pagewise_words "$1" "$2" "$previous"
    if [[ ${COMP_WORDS[1]} == trace && $COMP_CWORD -gt 2 && $2 != -* && ${COMPREPLY[*]} == -* ]]; then
        COMPREPLY=()
    fi
}

"#;

fn in_bash(made: &str) -> String {
    let renamed = made.replacen("_pagewise() {", "_pagewise_words() {", 1);
    let (function, registration) = renamed
        .split_once("\nif [[ \"${BASH_VERSINFO")
        .unwrap_or((&renamed, ""));
    match registration {
        "" => made.to_owned(),
        rest => format!("{function}{AROUND}if [[ \"${{BASH_VERSINFO{rest}"),
    }
}

fn failure(folder: &Path, error: &std::io::Error) -> Failure {
    Failure::new(
        format!("cannot write to {}: {error}", folder.display()),
        "pagewise pages, and a folder that you may write to",
    )
    .kept("files written before this one are whole")
}
