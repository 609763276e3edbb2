//! The allocators that a trace can be replayed in.

use std::ffi::OsString;
use std::path::Path;

use clap::ValueEnum;
use serde::Serialize;

use crate::failure::Failure;
use crate::launch::library::{GENERAL, Library, PRELOAD, try_loading};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Allocator {
    /// The C library's own
    Glibc,
    /// Debian's libjemalloc2
    Jemalloc,
    /// Debian's libmimalloc3, or libmimalloc2.0
    Mimalloc,
    /// Debian's libtcmalloc-minimal4
    Tcmalloc,
    /// Pagewise itself, as `pagewise run` preloads it
    Pagewise,
    /// Pagewise with blocks of all sizes, as `pagewise run --policy general` preloads it
    General,
}

impl Allocator {
    pub const ALL: [Self; 6] = [
        Self::Glibc,
        Self::Jemalloc,
        Self::Mimalloc,
        Self::Tcmalloc,
        Self::Pagewise,
        Self::General,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Glibc => "glibc",
            Self::Jemalloc => "jemalloc",
            Self::Mimalloc => "mimalloc",
            Self::Tcmalloc => "tcmalloc",
            Self::Pagewise => "pagewise",
            Self::General => "general",
        }
    }

    fn ours(self) -> Option<&'static Library> {
        match self {
            Self::Pagewise => Some(&PRELOAD),
            Self::General => Some(&GENERAL),
            _ => None,
        }
    }

    /// Under these names the loader finds it; and the Debian package.
    fn peer(self) -> Option<(&'static [&'static str], &'static str)> {
        match self {
            Self::Glibc | Self::Pagewise | Self::General => None,
            Self::Jemalloc => Some((&["libjemalloc.so.2"], "libjemalloc2")),
            Self::Mimalloc => Some((
                &["libmimalloc.so.2.0", "libmimalloc.so.2", "libmimalloc.so.3"],
                "libmimalloc3, or libmimalloc2.0 on Debian 12",
            )),
            Self::Tcmalloc => Some((&["libtcmalloc_minimal.so.4"], "libtcmalloc-minimal4")),
        }
    }

    /// What to preload; nothing for the C library's.
    pub fn library(self) -> Result<Option<OsString>, Failure> {
        if let Some(library) = self.ours() {
            return library.find_working().map(|path| Some(path.into()));
        }
        match self.peer() {
            Some((names, package)) => find(self.name(), names, package).map(Some),
            None => Ok(None),
        }
    }

    /// Is a `malloc` of this file the one that was asked for?
    pub fn is_in(self, file: &str) -> bool {
        let file = file.rsplit('/').next().unwrap_or(file);
        if let Some(library) = self.ours() {
            return file == library.file_name;
        }
        match self.peer() {
            Some((names, _)) => file.starts_with(names[0].split(".so").next().unwrap_or(names[0])),
            None => file.starts_with("libc.so") || file.starts_with("libc-"),
        }
    }
}

fn find(allocator: &str, names: &[&str], package: &str) -> Result<OsString, Failure> {
    let found = names
        .iter()
        .find(|name| try_loading(Path::new(name), "").is_ok());
    found.map(Into::into).ok_or_else(|| {
        Failure::new(
            format!("{allocator} is not installed"),
            format!("apt-get install {package}"),
        )
        .kept("nothing was replayed")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_named_with_its_package() {
        let failure = find("nonemalloc", &["libnonemalloc.so.9"], "libnonemalloc9");
        let said = failure.expect_err("there is none").to_string();
        assert!(said.contains("nonemalloc is not installed"), "{said}");
        assert!(said.contains("apt-get install libnonemalloc9"), "{said}");
    }

    #[test]
    fn libraries_are_told_by_their_files() {
        for (allocator, file) in [
            (Allocator::Glibc, "/lib/x86_64-linux-gnu/libc.so.6"),
            (Allocator::Jemalloc, "/usr/lib/libjemalloc.so.2"),
            (Allocator::Mimalloc, "/usr/lib/libmimalloc.so.2.0"),
            (Allocator::Mimalloc, "/usr/lib/libmimalloc.so.3.0"),
            (Allocator::Tcmalloc, "/usr/lib/libtcmalloc_minimal.so.4.5.9"),
            (Allocator::Pagewise, "/usr/lib/libpagewise-preload.so"),
            (Allocator::General, "/usr/lib/libpagewise-general.so"),
        ] {
            for other in Allocator::ALL {
                assert_eq!(other.is_in(file), other == allocator, "{other:?} {file}");
            }
        }
        assert!(!Allocator::Glibc.is_in(""));
    }
}
