//! Names for return addresses: function, file and line, from the ELF files that are still in their places.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use object::read::elf::ElfFile64;
use object::{Object, ObjectSymbol, ReadCache, SymbolKind};
use rustc_hash::FxHashMap;
use trace_format::is_of_library;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    pub symbol: String,
    pub file: String,
    pub line: u32,
}

/// Names of one file.
#[derive(Default)]
struct Names {
    /// (first address, end, name), sorted.
    symbols: Vec<(u64, u64, String)>,
    lines: Option<addr2line::Loader>,
}

/// Looks each module up once.
#[derive(Default)]
pub struct Symbols {
    modules: FxHashMap<(String, String), Names>,
}

impl Symbols {
    /// Names for the call that returns to `offset`. Empty where nothing is known for certain.
    pub fn find(&mut self, path: &str, build_id: &str, offset: u64) -> Found {
        let key = (path.to_owned(), build_id.to_owned());
        let names = self
            .modules
            .entry(key)
            .or_insert_with(|| Names::of(path, build_id));
        // The return address may be the first of the next function.
        names.find(offset.saturating_sub(1))
    }
}

impl Names {
    fn of(path: &str, build_id: &str) -> Self {
        let path = Path::new(path);
        // Another file may be there by now.
        if !path.is_absolute() || own_build_id(path).unwrap_or_default() != build_id {
            return Self::default();
        }
        let debug = debug_file(build_id).filter(|file| file.is_file());
        let mut symbols = symbols_of(path).unwrap_or_default();
        if let Some(debug) = &debug {
            symbols.extend(symbols_of(debug).unwrap_or_default());
        }
        symbols.sort_by(|a, b| (a.0, b.1).cmp(&(b.0, a.1)));
        let lines = debug.as_deref().unwrap_or(path);
        // The loader opens it anew, and would wait for a pipe.
        let lines = open_plain(lines).and_then(|_| addr2line::Loader::new(lines).ok());
        Self { symbols, lines }
    }

    fn find(&self, address: u64) -> Found {
        let mut found = self.find_line(address).unwrap_or_default();
        if found.symbol.is_empty() {
            found.symbol = self.find_symbol(address).unwrap_or_default();
        }
        found
    }

    /// The innermost function that is there by its debug information, inlined ones included: of these the first that is
    /// the program's, since what its language's library inlines into it is no place to look for.
    fn find_line(&self, address: u64) -> Option<Found> {
        let mut frames = self.lines.as_ref()?.find_frames(address).ok()?;
        let mut innermost = None;
        while let Some(frame) = frames.next().ok().flatten() {
            let found = found_of(frame);
            if !found.symbol.is_empty() && !is_of_library(&found.symbol) {
                return Some(found);
            }
            innermost.get_or_insert(found);
        }
        innermost
    }

    fn find_symbol(&self, address: u64) -> Option<String> {
        let after = self
            .symbols
            .partition_point(|(start, _, _)| *start <= address);
        // Stripped files name few functions: one that begins before says nothing unless it reaches as far.
        let candidates = self.symbols[..after].iter().rev().take(8);
        candidates
            .clone()
            .find(|(_, end, _)| address < *end)
            .map(|(_, _, name)| addr2line::demangle_auto(name.as_str().into(), None).into_owned())
    }
}

fn found_of(frame: addr2line::Frame<impl addr2line::gimli::Reader>) -> Found {
    let symbol = frame
        .function
        .and_then(|function| function.demangle().map(std::borrow::Cow::into_owned).ok());
    let location = frame.location;
    Found {
        symbol: symbol.unwrap_or_default(),
        file: location
            .as_ref()
            .and_then(|location| location.file)
            .unwrap_or_default()
            .to_owned(),
        line: location.and_then(|location| location.line).unwrap_or(0),
    }
}

/// A regular file alone: by now a pipe may be there, for whose writer an open waits, or a device.
fn open_plain(path: &Path) -> Option<File> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC)
        .open(path)
        .ok()?;
    file.metadata().ok()?.is_file().then_some(file)
}

fn own_build_id(path: &Path) -> Option<String> {
    let cache = ReadCache::new(open_plain(path)?);
    let file = ElfFile64::<object::Endianness, _>::parse(&cache).ok()?;
    let id = file.build_id().ok()??;
    Some(id.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Where distributions put debug information.
fn debug_file(build_id: &str) -> Option<PathBuf> {
    let (first, rest) = build_id.split_at_checked(2)?;
    let path = format!("/usr/lib/debug/.build-id/{first}/{rest}.debug");
    Some(PathBuf::from(path))
}

fn symbols_of(path: &Path) -> Option<Vec<(u64, u64, String)>> {
    let cache = ReadCache::new(open_plain(path)?);
    let file = ElfFile64::<object::Endianness, _>::parse(&cache).ok()?;
    let functions = file
        .symbols()
        .chain(file.dynamic_symbols())
        .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0)
        .filter_map(|symbol| {
            let end = symbol.address().checked_add(symbol.size())?;
            Some((symbol.address(), end, symbol.name().ok()?.to_owned()))
        });
    Some(functions.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_functions_have_names() {
        let path = std::env::current_exe().expect("own path");
        let all = symbols_of(&path).expect("symbols");
        let (start, end, _) = all
            .iter()
            .find(|(start, end, _)| end - start > 8)
            .expect("one");
        let id = own_build_id(&path).unwrap_or_default();
        let mut symbols = Symbols::default();
        let path = path.to_str().expect("text");
        let found = symbols.find(path, &id, start + 2);
        assert!(!found.symbol.is_empty(), "{start:x} {end:x}");
        // Another build of the same program.
        assert_eq!(symbols.find(path, "00", start + 2), Found::default());
    }

    #[test]
    fn nothing_is_invented() {
        let mut symbols = Symbols::default();
        for path in [
            "",
            "[vdso]",
            "linux-vdso.so.1",
            "/nonexistent",
            "/etc/passwd",
            "/dev/null",
        ] {
            assert_eq!(symbols.find(path, "", 0x1000), Found::default());
        }
    }

    /// A program may remove its library and put anything in its place.
    #[test]
    fn a_pipe_in_place_of_a_module_is_not_waited_for() {
        let folder = tempfile::tempdir().expect("folder");
        let pipe = folder.path().join("module.so");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.expect("mkfifo").success());
        let (sender, answer) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let path = pipe.to_str().expect("text");
            let found = Symbols::default().find(path, "", 0x1000);
            sender.send(found)
        });
        let found = answer.recv_timeout(std::time::Duration::from_secs(20));
        assert_eq!(found, Ok(Found::default()));
    }
}
