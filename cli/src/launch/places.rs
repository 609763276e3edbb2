//! Where files go that live no longer than the machine runs, best first.

use std::env;
use std::path::PathBuf;

/// The user's own folder, memory, and what holds temporary files. Not all of them need be there.
pub fn places() -> impl Iterator<Item = PathBuf> {
    let runtime = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    runtime
        .into_iter()
        .chain([PathBuf::from("/dev/shm"), env::temp_dir()])
}
