//! A file that a command writes: it appears whole or not at all, however the command ends.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::unistd::{AccessFlags, access, linkat};
use tempfile::NamedTempFile;

use super::link;
pub use super::link::folder_of;
use crate::failure::Failure;
use crate::launch::standard;

/// As any new file's: less what the umask takes.
const MODE: u32 = 0o666;

/// In letters, of four bytes at most.
const LONGEST_PREFIX: usize = 50;

/// Where a result goes, open for writing.
pub enum Target {
    Standard(io::Stdout),
    /// A pipe or a device: it stays what it is, and is written as the data comes.
    Stream(File),
    /// Beside the file until it is complete.
    Whole(Whole),
}

/// A file that is not in its place yet.
pub struct Whole {
    data: Data,
    place: PathBuf,
}

enum Data {
    /// Without a name, so that nothing is left of it when this process is killed.
    Unnamed(File),
    /// Where the file system has no such files.
    Named(NamedTempFile),
}

impl Target {
    /// `-` is standard output.
    pub fn open(path: &Path) -> io::Result<Self> {
        if is_standard(path) {
            return standard::output().map(Self::Standard);
        }
        let Some(existing) = link::open(path)? else {
            let data = Data::beside(path)?;
            let place = path.to_owned();
            return Ok(Self::Whole(Whole { data, place }));
        };
        // By this name it is the file that was looked at, whatever has become of its own since.
        let name = own_name(&existing);
        access(&name, AccessFlags::W_OK)?;
        let metadata = existing.metadata()?;
        if !metadata.is_file() {
            let stream = OpenOptions::new().write(true).open(&name)?;
            return Ok(Self::Stream(stream));
        }
        // A link stays a link: what it points to is replaced.
        let place = place_of(&existing)?;
        let data = Data::beside(&place)?;
        let mode = Permissions::from_mode(metadata.mode() & 0o777);
        // Some file systems have one mode for all files.
        let _ = data.file().set_permissions(mode);
        Ok(Self::Whole(Whole { data, place }))
    }

    /// Puts the file into its place.
    pub fn finish(self) -> io::Result<()> {
        match self {
            Self::Standard(mut out) => out.flush(),
            Self::Stream(mut file) => file.flush(),
            Self::Whole(whole) => whole.finish(),
        }
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Standard(out) => out.write(bytes),
            Self::Stream(file) => file.write(bytes),
            Self::Whole(whole) => whole.data.file().write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Standard(out) => out.flush(),
            Self::Stream(_) | Self::Whole(_) => Ok(()),
        }
    }
}

impl Data {
    fn beside(place: &Path) -> io::Result<Self> {
        let folder = folder_of(place);
        prefix(place)?;
        let unnamed = OpenOptions::new()
            .write(true)
            .mode(MODE)
            .custom_flags(libc::O_TMPFILE)
            .open(folder);
        match unnamed {
            // Only by this name it can get one of its own.
            Ok(file) if fs::symlink_metadata(own_name(&file)).is_ok() => Ok(Self::Unnamed(file)),
            _ => Self::named(place),
        }
    }

    fn named(place: &Path) -> io::Result<Self> {
        let file = tempfile::Builder::new()
            .prefix(&prefix(place)?)
            .permissions(Permissions::from_mode(MODE))
            .tempfile_in(folder_of(place))?;
        Ok(Self::Named(file))
    }

    fn file(&self) -> &File {
        match self {
            Self::Unnamed(file) => file,
            Self::Named(file) => file.as_file(),
        }
    }
}

impl Whole {
    fn finish(self) -> io::Result<()> {
        self.data.file().sync_all()?;
        match self.data {
            Data::Named(file) => file.persist(&self.place).map(drop).map_err(|e| e.error),
            Data::Unnamed(file) => {
                // No link can replace a file; a new name can.
                let link = tempfile::Builder::new()
                    .prefix(&prefix(&self.place)?)
                    .make_in(folder_of(&self.place), |name| give_name(&file, name))?;
                link.persist(&self.place).map(drop).map_err(|e| e.error)
            }
        }
    }
}

fn give_name(file: &File, name: &Path) -> io::Result<()> {
    let own = own_name(file);
    linkat(
        AT_FDCWD,
        own.as_path(),
        AT_FDCWD,
        name,
        AtFlags::AT_SYMLINK_FOLLOW,
    )?;
    Ok(())
}

fn own_name(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

/// Where a file lies now.
fn place_of(file: &File) -> io::Result<PathBuf> {
    let place = fs::read_link(own_name(file))?;
    let (found, meant) = (fs::symlink_metadata(&place)?, file.metadata()?);
    match (found.dev(), found.ino()) == (meant.dev(), meant.ino()) {
        true => Ok(place),
        false => Err(io::ErrorKind::NotFound.into()),
    }
}

/// ".NAME-", for those that must have a name for a while: of a long name the beginning, as names have an end.
fn prefix(place: &Path) -> io::Result<String> {
    let name = place.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    if place.as_os_str().as_bytes().ends_with(b"/") {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let name = name.to_string_lossy();
    let name: String = name.chars().take(LONGEST_PREFIX).collect();
    Ok(format!(".{name}-"))
}

pub fn is_standard(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// What to type where a result cannot be written.
pub fn unwritable(path: &Path, error: &io::Error) -> Failure {
    let folder = folder_of(path).display();
    let next = match error.kind() {
        io::ErrorKind::FileTooLarge => "ulimit -f unlimited, and the same again".to_owned(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded if is_standard(path) => {
            "df -h, and the same again".to_owned()
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            format!("df -h {folder}; or another FILE")
        }
        _ if is_standard(path) => "a FILE in place of standard output".to_owned(),
        _ => format!("ls -ld {folder}; or another FILE"),
    };
    let name = match is_standard(path) {
        true => "to standard output".to_owned(),
        false => path.display().to_string(),
    };
    Failure::new(format!("cannot write {name}: {error}"), next)
}

/// Would what is written to the one be lost to the other? Devices and pipes take both.
pub fn is_same_file(one: &Path, other: &Path) -> bool {
    let identity =
        |path: &Path| fs::metadata(path).map(|file| (file.is_file(), file.dev(), file.ino()));
    match (identity(one), identity(other)) {
        _ if is_standard(one) || is_standard(other) => one == other,
        (Ok(one), Ok(other)) => one.0 && one == other,
        (Err(_), Err(_)) => {
            let folder = |path: &Path| folder_of(path).canonicalize().ok();
            one.file_name() == other.file_name() && folder(one) == folder(other)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, text: &str) -> io::Result<()> {
        let mut target = Target::open(path)?;
        target.write_all(text.as_bytes())?;
        target.finish()
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("file").mode() & 0o777
    }

    fn names(folder: &Path) -> usize {
        fs::read_dir(folder).expect("list").count()
    }

    #[test]
    fn nothing_appears_until_it_is_complete() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("out");
        let mut target = Target::open(&path).expect("writable");
        target.write_all(b"new").expect("written");
        assert!(!path.exists());
        target.finish().expect("finished");
        assert_eq!(fs::read_to_string(&path).expect("text"), "new");
        assert_eq!(names(folder.path()), 1);
        drop(Target::open(&path).expect("writable"));
        assert_eq!(fs::read_to_string(&path).expect("text"), "new");
        assert_eq!(names(folder.path()), 1);
    }

    /// What a killed process leaves: nothing, where the file system has files without names.
    #[test]
    fn data_without_a_name_is_not_seen_in_the_folder() {
        let folder = tempfile::tempdir().expect("folder");
        let target = Target::open(&folder.path().join("out")).expect("writable");
        let Target::Whole(whole) = &target else {
            panic!("a file");
        };
        let expected = usize::from(matches!(whole.data, Data::Named(_)));
        assert_eq!(names(folder.path()), expected);
    }

    #[test]
    fn a_file_system_without_unnamed_files_gets_named_ones() {
        let folder = tempfile::tempdir().expect("folder");
        let place = folder.path().join("out");
        let data = Data::named(&place).expect("writable");
        data.file().write_all(b"x").expect("written");
        let whole = Whole {
            data,
            place: place.clone(),
        };
        whole.finish().expect("finished");
        assert_eq!(fs::read_to_string(&place).expect("text"), "x");
        assert_eq!(names(folder.path()), 1);
    }

    #[test]
    fn a_name_that_cannot_be_written_is_refused_at_once_and_a_long_one_is_not() {
        let folder = tempfile::tempdir().expect("folder");
        let named = |name: &str| folder.path().join(name);
        assert!(Target::open(&named("new/")).is_err());
        assert!(Target::open(&named(&"a".repeat(256))).is_err());
        for letter in ["a", "\u{20ac}"] {
            let long = named(&letter.repeat(255 / letter.len()));
            write(&long, "x").expect("written");
            let data = Data::named(&long).expect("written");
            drop(data);
            assert_eq!(fs::read_to_string(&long).expect("text"), "x");
        }
        assert_eq!(names(folder.path()), 2);
    }

    #[test]
    fn a_link_stays_a_link_and_a_device_a_device() {
        let folder = tempfile::tempdir().expect("folder");
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        fs::write(&target, "old").expect("old");
        std::os::unix::fs::symlink(&target, &link).expect("link");
        write(&link, "new").expect("written");
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&target).expect("text"), "new");

        let to_device = folder.path().join("device");
        std::os::unix::fs::symlink("/dev/null", &to_device).expect("link");
        for path in [&to_device, Path::new("/dev/null")] {
            write(path, "new").expect("written");
            assert!(!fs::metadata(path).expect("device").is_file());
        }
        assert!(to_device.is_symlink());
        assert!(write(Path::new("/dev/full"), "new").is_err());
    }

    #[test]
    fn a_link_to_nothing_becomes_the_file() {
        let folder = tempfile::tempdir().expect("folder");
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        std::os::unix::fs::symlink(&target, &link).expect("link");
        write(&link, "new").expect("written");
        assert!(link.is_file() && !link.is_symlink() && !target.exists());
    }

    /// Only root can give a link to another user.
    #[test]
    fn a_link_of_another_user_where_all_may_write_is_not_followed() {
        if !nix::unistd::geteuid().is_root() {
            return;
        }
        let folder = tempfile::tempdir().expect("folder");
        let shared = folder.path().join("shared");
        fs::create_dir(&shared).expect("shared");
        fs::set_permissions(&shared, Permissions::from_mode(0o1777)).expect("mode");
        let victim = folder.path().join("victim");
        fs::write(&victim, "precious").expect("victim");
        let (theirs, ours) = (shared.join("theirs"), folder.path().join("ours"));
        std::os::unix::fs::symlink(&victim, &theirs).expect("link");
        std::os::unix::fs::lchown(&theirs, Some(65534), Some(65534)).expect("owner");
        std::os::unix::fs::symlink(&theirs, &ours).expect("link");
        for path in [&theirs, &ours] {
            let refused = write(path, "new").expect_err("refused");
            assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
            assert!(theirs.is_symlink());
            assert_eq!(fs::read_to_string(&victim).expect("text"), "precious");
        }
        fs::remove_file(&victim).expect("removed");
        assert!(write(&theirs, "new").is_err() && !victim.exists());
        // Whoever owns the folder may put links into it.
        fs::write(&victim, "old").expect("victim");
        std::os::unix::fs::chown(&shared, Some(65534), Some(65534)).expect("owner");
        write(&theirs, "new").expect("written");
        assert_eq!(fs::read_to_string(&victim).expect("text"), "new");
    }

    #[test]
    fn the_mode_of_a_replaced_file_is_kept() {
        let folder = tempfile::tempdir().expect("folder");
        let (old, plain) = (folder.path().join("old"), folder.path().join("plain"));
        fs::write(&plain, "").expect("plain");
        fs::write(&old, "old").expect("old");
        fs::set_permissions(&old, Permissions::from_mode(0o640)).expect("mode");
        write(&old, "new").expect("written");
        assert_eq!(mode(&old), 0o640);
        let fresh = folder.path().join("fresh");
        write(&fresh, "new").expect("written");
        assert_eq!(mode(&fresh), mode(&plain));
    }

    #[test]
    fn unwritable_places_are_refused_at_once() {
        for path in ["/no/such/folder/x.json", "/tmp", "", "/proc/x"] {
            assert!(Target::open(Path::new(path)).is_err(), "{path}");
        }
        assert!(Target::open(Path::new("/dev/null")).is_ok());
    }

    #[test]
    fn names_of_one_file_are_known_for_that() {
        let folder = tempfile::tempdir().expect("folder");
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("inner")).expect("folder");
        assert!(is_same_file(&path("x"), &path("inner/../x")));
        assert!(!is_same_file(&path("x"), &path("y")));
        fs::write(path("x"), "").expect("file");
        std::os::unix::fs::symlink(path("x"), path("link")).expect("link");
        assert!(is_same_file(&path("x"), &path("link")));
        assert!(!is_same_file(&path("x"), &path("y")));
        let (null, standard) = (Path::new("/dev/null"), Path::new("-"));
        assert!(!is_same_file(null, null));
        assert!(is_same_file(standard, standard) && !is_same_file(standard, &path("x")));
    }
}
