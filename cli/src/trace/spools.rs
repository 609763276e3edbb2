//! The files that a recording consists of.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A process's spool, by its number and that of the program it had executed.
pub type Spools = BTreeMap<(i32, u32), PathBuf>;

pub fn spools_in(folder: &Path) -> io::Result<Spools> {
    let mut found = Spools::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let numbers = name.and_then(|name| name.split_once('.'));
        if let Some((process, program)) = numbers
            && let (Ok(process), Ok(program)) = (process.parse(), program.parse())
            // A pipe of such a name would be waited for.
            && fs::metadata(&path).is_ok_and(|file| file.is_file())
        {
            found.insert((process, program), path);
        }
    }
    Ok(found)
}
