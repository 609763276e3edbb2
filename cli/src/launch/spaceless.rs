//! A name for a library that LD_PRELOAD can hold: the loader splits that list at spaces and colons, and has no quotes.
//!
//! A library whose path holds one of them is reached through a link to its folder, in a folder of the user's:
//!
//!     /run/user/1000/pagewise-1000/1 -> /home/me/my clones/pagewise/build/lib
//!
//! The folder and not the file, since the loader looks for what the library needs beside the name by which it was
//! loaded. The link stays: what the command leaves running may start programs long after we have ended, and they inherit
//! its name. For the same reason it is no /proc/self/fd/N, which ends with a closed descriptor, and none of ours, which
//! ends with us; and no copy, which would be an old one after the next build. There is one link for each folder of
//! libraries, and a link is never changed, for a running program may depend on it.
//!
//! The name decides what is loaded into every program, so nobody but the user and root may be able to change what it
//! stands for.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, Metadata};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;

use super::places::places;

/// More folders of libraries than anybody has.
const MOST: u32 = 1000;
const WRITABLE_BY_OTHERS: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// The library at this absolute path, by a name that LD_PRELOAD can hold: its own where that is one. Else says why there
/// is none.
pub fn name(library: &Path) -> Result<PathBuf, String> {
    name_in(places(), library)
}

fn name_in(places: impl Iterator<Item = PathBuf>, library: &Path) -> Result<PathBuf, String> {
    if is_holdable(library.as_os_str()) {
        return Ok(library.to_owned());
    }
    let (Some(folder), Some(file)) = (library.parent(), library.file_name()) else {
        return Err("it is no file".to_owned());
    };
    if !is_holdable(file) {
        return Err("no link to its folder can help: they are in the file's own name".to_owned());
    }
    let mut reasons: Vec<String> = Vec::new();
    for place in places {
        match link_in(&place, folder).and_then(|link| leads_to(link.join(file), library)) {
            Ok(name) => return Ok(name),
            Err(reason) if reasons.contains(&reason) => {}
            Err(reason) => reasons.push(reason),
        }
    }
    Err(format!(
        "no link to its folder can be made without them: {}",
        reasons.join("; ")
    ))
}

/// The loader would also replace $ORIGIN and $LIB.
fn is_holdable(name: &OsStr) -> bool {
    !name.as_bytes().iter().any(|byte| b" :\t\n$".contains(byte))
}

/// A link to `target` in our folder in this place.
fn link_in(place: &Path, target: &Path) -> Result<PathBuf, String> {
    let of_place = |error| format!("{}: {error}", place.display());
    let place = place.canonicalize().map_err(of_place)?;
    if !is_holdable(place.as_os_str()) {
        return Err(format!("{} holds one as well", place.display()));
    }
    for folder in place.ancestors() {
        let found = folder
            .symlink_metadata()
            .map_err(|error| format!("{}: {error}", folder.display()))?;
        if let Some(fault) = fault_of_place(&found) {
            return Err(format!("{} {fault}", folder.display()));
        }
    }
    let own = own_folder(&place)?;
    (1..=MOST)
        .find_map(|number| link_at(own.join(number.to_string()), target).transpose())
        .unwrap_or_else(|| Err(format!("{} is full", own.display())))
}

/// Who can write to a folder can put something else in the place of what lies in it, unless it is a sticky one.
fn fault_of_place(found: &Metadata) -> Option<&'static str> {
    if !is_ours(found) && found.uid() != 0 {
        return Some("belongs to another user");
    }
    let is_open = found.mode() & WRITABLE_BY_OTHERS != 0 && found.mode() & STICKY == 0;
    is_open.then_some("can be written to by others")
}

fn is_ours(found: &Metadata) -> bool {
    found.uid() == geteuid().as_raw()
}

/// Anybody may have put something there before us. Others may look into it: the command may change its user.
fn own_folder(place: &Path) -> Result<PathBuf, String> {
    let own = place.join(format!("pagewise-{}", geteuid()));
    let failed = |error: std::io::Error| format!("{}: {error}", own.display());
    match DirBuilder::new().mode(0o755).create(&own) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(failed(error)),
        _ => {}
    }
    let found = own.symlink_metadata().map_err(failed)?;
    let fault = match found {
        _ if !found.is_dir() => "is no folder",
        _ if !is_ours(&found) => "belongs to another user",
        _ if found.mode() & WRITABLE_BY_OTHERS != 0 => "can be written to by others",
        _ => return Ok(own),
    };
    Err(format!("{} {fault}", own.display()))
}

/// This name, where it is a link to `target` or can be made one. None: it is something else.
fn link_at(name: PathBuf, target: &Path) -> Result<Option<PathBuf>, String> {
    match symlink(target, &name) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            return Err(format!("{}: {error}", name.display()));
        }
        _ => {}
    }
    let is_it = fs::read_link(&name).is_ok_and(|found| found == target);
    Ok(is_it.then_some(name))
}

/// A place may be mounted without links.
fn leads_to(name: PathBuf, library: &Path) -> Result<PathBuf, String> {
    match name.canonicalize() {
        Ok(found) if found == library => Ok(name),
        Ok(found) => Err(format!("{} is {}", name.display(), found.display())),
        Err(error) => Err(format!("{}: {error}", name.display())),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown};

    use tempfile::TempDir;

    use super::*;

    /// A library in a folder whose name has a space, and a place for links.
    struct Setting {
        folder: TempDir,
        place: PathBuf,
        library: PathBuf,
    }

    impl Setting {
        fn new() -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            let place = folder.path().join("place");
            fs::create_dir(&place).expect("a place");
            let library = library_in(&folder.path().join("a b"));
            Self {
                folder,
                place,
                library,
            }
        }

        fn name(&self) -> Result<PathBuf, String> {
            name_in([self.place.clone()].into_iter(), &self.library)
        }

        fn own(&self) -> PathBuf {
            self.place.join(format!("pagewise-{}", geteuid()))
        }

        fn link(&self, number: u32) -> PathBuf {
            self.own().join(number.to_string())
        }
    }

    fn library_in(folder: &Path) -> PathBuf {
        fs::create_dir(folder).expect("a folder");
        let library = folder.join("libpagewise-preload.so");
        fs::write(&library, "").expect("a library");
        library
    }

    fn allow(folder: &Path, mode: u32) {
        fs::set_permissions(folder, fs::Permissions::from_mode(mode)).expect("its owner");
    }

    fn refused(setting: &Setting, why: &str) {
        let refusal = setting.name().expect_err("a refusal");
        assert!(refusal.contains(why), "{refusal}");
    }

    #[test]
    fn a_usual_path_is_its_own_name() {
        let path = Path::new("/usr/lib/pagewise/libpagewise-preload.so");
        assert_eq!(name_in(std::iter::empty(), path), Ok(path.to_owned()));
    }

    #[test]
    fn others_are_reached_through_a_link_to_their_folder() {
        for folder in ["a b", "a:b", "a\tb", "a\nb", "$LIB"] {
            let setting = Setting::new();
            let library = match folder {
                "a b" => setting.library.clone(),
                _ => library_in(&setting.folder.path().join(folder)),
            };
            let name = name_in([setting.place.clone()].into_iter(), &library);
            assert_eq!(name, Ok(setting.link(1).join("libpagewise-preload.so")));
            assert_eq!(
                fs::read_link(setting.link(1)).ok().as_deref(),
                library.parent()
            );
        }
    }

    #[test]
    fn each_folder_has_one_link() {
        let setting = Setting::new();
        let other = library_in(&setting.folder.path().join("c d"));
        let of_other = || name_in([setting.place.clone()].into_iter(), &other);
        let name = setting.name();
        assert!(name.is_ok());
        assert_eq!(
            of_other(),
            Ok(setting.link(2).join("libpagewise-preload.so"))
        );
        assert_eq!((setting.name(), of_other()), (name, of_other()));
        assert_eq!(fs::read_dir(setting.own()).expect("links").count(), 2);
    }

    #[test]
    fn what_is_there_already_stays_as_it_is() {
        let setting = Setting::new();
        fs::create_dir(setting.own()).expect("our folder");
        symlink("/somewhere/else", setting.link(1)).expect("a link");
        fs::write(setting.link(2), "x").expect("a file");
        fs::create_dir(setting.link(3)).expect("a folder");
        let name = setting.name();
        assert_eq!(name, Ok(setting.link(4).join("libpagewise-preload.so")));
        let elsewhere = fs::read_link(setting.link(1)).expect("the link");
        assert_eq!(elsewhere, Path::new("/somewhere/else"));
        assert_eq!(fs::read(setting.link(2)).expect("the file"), b"x");
    }

    #[test]
    fn a_place_where_others_can_change_names_is_none() {
        let setting = Setting::new();
        allow(&setting.place, 0o777);
        refused(&setting, "place can be written to by others");
        allow(&setting.place, 0o775);
        refused(&setting, "place can be written to by others");
        assert!(!setting.own().exists());
        allow(&setting.place, 0o1777);
        assert!(setting.name().is_ok());
        allow(setting.folder.path(), 0o777);
        refused(&setting, "can be written to by others");
    }

    #[test]
    fn what_others_put_in_the_place_of_our_folder_is_not_used() {
        let setting = Setting::new();
        let elsewhere = setting.folder.path().join("elsewhere");
        fs::create_dir(&elsewhere).expect("a folder");
        symlink(&elsewhere, setting.own()).expect("a link");
        refused(&setting, "is no folder");
        assert_eq!(fs::read_dir(&elsewhere).expect("the folder").count(), 0);
        fs::remove_file(setting.own()).expect("the link");

        fs::write(setting.own(), "").expect("a file");
        refused(&setting, "is no folder");
        fs::remove_file(setting.own()).expect("the file");

        fs::create_dir(setting.own()).expect("our folder");
        for mode in [0o777, 0o1777, 0o775, 0o757] {
            allow(&setting.own(), mode);
            refused(&setting, "can be written to by others");
        }
        assert_eq!(fs::read_dir(setting.own()).expect("links").count(), 0);
        allow(&setting.own(), 0o755);
        assert!(setting.name().is_ok());
    }

    /// With the right link in it already, which its owner could change at any time.
    #[test]
    fn a_folder_of_another_user_is_not_used() {
        if !geteuid().is_root() {
            return;
        }
        let setting = Setting::new();
        assert!(setting.name().is_ok());
        chown(setting.own(), Some(65534), None).expect("root");
        refused(&setting, "belongs to another user");
        chown(setting.own(), Some(0), None).expect("root");
        assert!(setting.name().is_ok());
        for mode in [0o755, 0o1777] {
            allow(&setting.place, mode);
            chown(&setting.place, Some(65534), None).expect("root");
            refused(&setting, "place belongs to another user");
        }
    }

    #[test]
    fn the_next_place_is_tried() {
        let setting = Setting::new();
        let spaced = setting.folder.path().join("e f");
        fs::create_dir(&spaced).expect("a folder");
        let unusable = [
            PathBuf::from("/nonexistent"),
            PathBuf::from("/proc"),
            spaced,
        ];
        let places = || unusable.clone().into_iter();
        let name = name_in(places().chain([setting.place.clone()]), &setting.library);
        assert_eq!(name, Ok(setting.link(1).join("libpagewise-preload.so")));
        let refusal = name_in(places(), &setting.library).expect_err("no place");
        for place in [
            "/nonexistent: No such file",
            "/proc/pagewise-",
            "e f holds one as well",
        ] {
            assert!(refusal.contains(place), "{refusal}");
        }
    }

    #[test]
    fn a_space_in_the_files_own_name_is_refused() {
        let setting = Setting::new();
        let library = setting.library.with_file_name("lib pagewise.so");
        let refusal = name_in([setting.place.clone()].into_iter(), &library);
        assert!(refusal.is_err_and(|why| why.contains("the file's own name")));
    }

    #[test]
    fn a_link_that_does_not_lead_to_the_library_is_not_used() {
        let setting = Setting::new();
        fs::remove_file(&setting.library).expect("the library");
        assert!(setting.name().is_err());
    }
}
