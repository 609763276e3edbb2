//! Files that are there already, by names that may be links.
//!
//! Where all may write, as in /tmp, anybody may put a link to where root's output is to go. Linux follows no such link
//! if fs.protected_symlinks is 1. Its rule holds here wherever it is 0, too.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::NixPath;
use nix::fcntl::{AT_FDCWD, OFlag, openat, readlinkat};
use nix::sys::stat::Mode;
use nix::sys::statfs::{PROC_SUPER_MAGIC, fstatfs};
use nix::unistd::geteuid;

/// As many as the kernel follows.
const MOST_LINKS: usize = 40;
/// Sticky, and writable for all.
const SHARED: u32 = 0o1002;

/// The file itself, to be looked at and not to be read. None: there is none.
pub fn open(path: &Path) -> io::Result<Option<File>> {
    match follow(AT_FDCWD, path, MOST_LINKS) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Link by link, so that none can take the place of one that was looked at.
fn follow(from: BorrowedFd, path: &Path, most: usize) -> io::Result<File> {
    let Some(name) = path.file_name() else {
        return look_at(from, path, OFlag::empty());
    };
    // Of links on the way to the folder the kernel has no rule: by the dot this one is on the way.
    let folder = look_at(from, &folder_of(path).join("."), OFlag::O_DIRECTORY)?;
    let file = look_at(folder.as_fd(), name, OFlag::O_NOFOLLOW)?;
    let metadata = file.metadata()?;
    if !metadata.is_symlink() {
        return Ok(file);
    }
    if !may_follow(&folder.metadata()?, &metadata) {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "it is a symbolic link of another user in a folder where all may write",
        ));
    }
    if most == 0 {
        return Err(io::Error::from_raw_os_error(libc::ELOOP));
    }
    // What /proc/self/fd/1 leads to is seldom what it reads as.
    if fstatfs(&folder)?.filesystem_type() == PROC_SUPER_MAGIC {
        return look_at(folder.as_fd(), name, OFlag::empty());
    }
    let text = readlinkat(&file, "")?;
    follow(folder.as_fd(), Path::new(&text), most - 1)
}

fn look_at(from: BorrowedFd, name: &(impl NixPath + ?Sized), flag: OFlag) -> io::Result<File> {
    let flags = OFlag::O_PATH | OFlag::O_CLOEXEC | flag;
    Ok(openat(from, name, flags, Mode::empty())?.into())
}

/// may_follow_link() of the kernel's fs/namei.c.
fn may_follow(folder: &Metadata, link: &Metadata) -> bool {
    let is_shared = folder.mode() & SHARED == SHARED;
    !is_shared || link.uid() == geteuid().as_raw() || link.uid() == folder.uid()
}

pub fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}
