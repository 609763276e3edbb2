//! Manual pages and shells' completions, from what --help is made of: what packages and `make install` ship.

use std::fs;
use std::path::Path;

use anyhow::Result;
use clap::CommandFactory;
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
    clap_complete::generate(shell, &mut CommandLine::command(), "pagewise", &mut text);
    fs::write(path, text)
}

fn failure(folder: &Path, error: &std::io::Error) -> Failure {
    Failure::new(
        format!("cannot write to {}: {error}", folder.display()),
        "pagewise pages, and a folder that you may write to",
    )
    .kept("files written before this one are whole")
}
