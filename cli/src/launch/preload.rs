//! Can a program be preloaded? The loader ignores LD_PRELOAD in some, and others have no loader.

use std::ffi::{CString, OsStr};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::{getegid, geteuid, getgid, getuid};
use object::elf;
use object::read::elf::{Dyn, ElfFile64, FileHeader, ProgramHeader};
use object::{Object, ObjectSymbol, ReadCache};
use thiserror::Error;

use super::executable;

/// As the kernel: an interpreter may be a script itself, but not forever.
const MAX_SCRIPTS: usize = 5;
const MAX_SCRIPT_LINE: u64 = 256;

/// Why a program runs without the library.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Refusal {
    #[error("{0} is statically linked")]
    Static(String),
    #[error("{0} is a 32-bit program")]
    ThirtyTwoBit(String),
    #[error("{0} is a program for another processor")]
    OtherMachine(String),
    #[error("{0} is setuid or setgid, and the loader ignores LD_PRELOAD there")]
    SetId(String),
    #[error("{0} has file capabilities, and the loader ignores LD_PRELOAD there")]
    Capabilities(String),
    #[error("{0} is a program of another C library than glibc ({1})")]
    OtherLibrary(String, String),
    #[error("{0} is built with {1}, which brings a malloc of its own and must come first")]
    Sanitizer(String, &'static str),
}

/// Looks at the program, or at the interpreter of a script. What cannot be read is given the benefit of
/// the doubt: the loader will decide.
pub fn check(program: &Path) -> Result<(), Refusal> {
    let mut path = program.to_owned();
    for _ in 0..MAX_SCRIPTS {
        match interpreter(&path) {
            Some(next) => path = next,
            None => return check_binary(&path),
        }
    }
    Ok(())
}

fn check_binary(path: &Path) -> Result<(), Refusal> {
    let name = path.display().to_string();
    if changes_identity(path) {
        return Err(Refusal::SetId(name));
    }
    if has_capabilities(path) {
        return Err(Refusal::Capabilities(name));
    }
    match kind(path) {
        Ok(Kind::Static) => Err(Refusal::Static(name)),
        Ok(Kind::ThirtyTwoBit) => Err(Refusal::ThirtyTwoBit(name)),
        Ok(Kind::OtherMachine) => Err(Refusal::OtherMachine(name)),
        Ok(Kind::Dynamic) => check_dynamic(path, name),
        Ok(Kind::NotElf) | Err(_) => Ok(()),
    }
}

/// What core/src/os/program.c asks of the programs that a preloaded one starts.
fn check_dynamic(path: &Path, name: String) -> Result<(), Refusal> {
    let Ok(file) = File::open(path) else {
        return Ok(());
    };
    let cache = ReadCache::new(file);
    let Ok(program) = ElfFile64::<object::Endianness, _>::parse(&cache) else {
        return Ok(());
    };
    if let Some(loader) = loader_of(&program)
        && !is_of_glibc(&loader)
    {
        return Err(Refusal::OtherLibrary(name, loader));
    }
    match sanitizer_of(&program) {
        Some(sanitizer) => Err(Refusal::Sanitizer(name, sanitizer)),
        None => Ok(()),
    }
}

type Program<'data> = ElfFile64<'data, object::Endianness, &'data ReadCache<File>>;

fn loader_of(program: &Program) -> Option<String> {
    let endian = program.endian();
    let mut headers = program.elf_program_headers().iter();
    let loader =
        headers.find_map(|header| header.interpreter(endian, program.data()).ok().flatten())?;
    Some(String::from_utf8_lossy(loader).into_owned())
}

fn is_of_glibc(loader: &str) -> bool {
    let name = loader.rsplit('/').next().unwrap_or(loader);
    name.starts_with("ld-linux") || name.starts_with("ld64.so") || name.starts_with("ld.so")
}

/// The start of a library's name, or a function that the program itself defines for it.
const SANITIZERS: &[(&str, &str)] = &[
    ("libasan.so", "AddressSanitizer"),
    ("libclang_rt.asan", "AddressSanitizer"),
    ("__asan_init", "AddressSanitizer"),
    ("libtsan.so", "ThreadSanitizer"),
    ("libclang_rt.tsan", "ThreadSanitizer"),
    ("__tsan_init", "ThreadSanitizer"),
    ("libmsan.so", "MemorySanitizer"),
    ("libclang_rt.msan", "MemorySanitizer"),
    ("__msan_init", "MemorySanitizer"),
    ("libhwasan.so", "HWAddressSanitizer"),
    ("libclang_rt.hwasan", "HWAddressSanitizer"),
    ("__hwasan_init", "HWAddressSanitizer"),
    ("liblsan.so", "LeakSanitizer"),
    ("libclang_rt.lsan", "LeakSanitizer"),
];

fn sanitizer_of(program: &Program) -> Option<&'static str> {
    let known = |name: &str, is_function: bool| {
        SANITIZERS
            .iter()
            .find(|(start, _)| start.starts_with("__") == is_function && name.starts_with(start))
            .map(|(_, sanitizer)| *sanitizer)
    };
    needed_by(program)
        .iter()
        .find_map(|library| known(library, false))
        .or_else(|| {
            program
                .dynamic_symbols()
                .filter(|symbol| symbol.is_definition())
                .find_map(|symbol| known(symbol.name().ok()?, true))
        })
}

fn needed_by(program: &Program) -> Vec<String> {
    let (endian, data) = (program.endian(), program.data());
    let Ok(sections) = program.elf_header().sections(endian, data) else {
        return Vec::new();
    };
    let Ok(Some((entries, strings))) = sections.dynamic(endian, data) else {
        return Vec::new();
    };
    let Ok(strings) = sections.strings(endian, data, strings) else {
        return Vec::new();
    };
    entries
        .iter()
        .filter(|entry| entry.tag(endian) == elf::DT_NEEDED)
        .filter_map(|entry| entry.string(endian, strings).ok())
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .collect()
}

/// The program named by a script's first line; `#!/usr/bin/env NAME` is followed to NAME.
fn interpreter(path: &Path) -> Option<PathBuf> {
    let mut start = Vec::new();
    File::open(path)
        .ok()?
        .take(MAX_SCRIPT_LINE)
        .read_to_end(&mut start)
        .ok()?;
    let line = start.strip_prefix(b"#!")?.split(|&b| b == b'\n').next()?;
    let mut words = line
        .split(|byte| b" \t".contains(byte))
        .filter(|word| !word.is_empty())
        .map(OsStr::from_bytes);
    let program = Path::new(words.next()?);
    if program.file_name() == Some(OsStr::new("env")) {
        let is_name = |word: &&OsStr| !word.as_bytes().starts_with(b"-");
        return words
            .find(is_name)
            .and_then(|name| executable::find(name).ok());
    }
    Some(program.to_owned())
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Dynamic,
    Static,
    ThirtyTwoBit,
    OtherMachine,
    NotElf,
}

const HOST_MACHINE: elf::Machine = if cfg!(target_arch = "x86_64") {
    elf::EM_X86_64
} else if cfg!(target_arch = "aarch64") {
    elf::EM_AARCH64
} else if cfg!(target_arch = "riscv64") {
    elf::EM_RISCV
} else {
    elf::EM_NONE
};

fn kind(path: &Path) -> io::Result<Kind> {
    // The headers lie at the start of every program; the rest need not be read.
    let mut start = Vec::new();
    File::open(path)?.take(64 << 10).read_to_end(&mut start)?;
    Ok(kind_of(&start))
}

fn kind_of(start: &[u8]) -> Kind {
    if !start.starts_with(&elf::ELFMAG) {
        return Kind::NotElf;
    }
    if start.get(4) == Some(&elf::ELFCLASS32.0) {
        return Kind::ThirtyTwoBit;
    }
    let Ok(header) = elf::FileHeader64::<object::Endianness>::parse(start) else {
        return Kind::NotElf;
    };
    let Ok(endian) = header.endian() else {
        return Kind::NotElf;
    };
    if HOST_MACHINE != elf::EM_NONE && header.e_machine(endian) != HOST_MACHINE {
        return Kind::OtherMachine;
    }
    let Ok(headers) = header.program_headers(endian, start) else {
        return Kind::NotElf;
    };
    let has_interpreter = headers.iter().any(|h| h.p_type(endian) == elf::PT_INTERP);
    if has_interpreter {
        Kind::Dynamic
    } else {
        Kind::Static
    }
}

/// Secure execution begins where the effective identity would differ from the real one.
fn changes_identity(path: &Path) -> bool {
    let Ok(metadata) = fs::metadata(path) else {
        return false;
    };
    let mode = metadata.mode();
    let becomes_user = mode & libc::S_ISUID != 0 && metadata.uid() != getuid().as_raw();
    let becomes_group = mode & (libc::S_ISGID | libc::S_IXGRP) == libc::S_ISGID | libc::S_IXGRP
        && metadata.gid() != getgid().as_raw();
    let is_changed_already = getuid() != geteuid() || getgid() != getegid();
    becomes_user || becomes_group || is_changed_already
}

/// Root has every capability already, so they change nothing there.
fn has_capabilities(path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else {
        return false;
    };
    // SAFETY: both strings end in NUL; a size of 0 asks for the length alone.
    let length = unsafe {
        libc::getxattr(
            path.as_ptr(),
            c"security.capability".as_ptr(),
            std::ptr::null_mut(),
            0,
        )
    };
    length > 0 && !geteuid().is_root()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn script(first_line: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("script");
        fs::write(&path, format!("{first_line}\n")).expect("script");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("mode");
        (folder, path)
    }

    #[test]
    fn ordinary_programs_can_be_preloaded() {
        assert_eq!(check(Path::new("/bin/sh")), Ok(()));
        assert_eq!(check(Path::new("/bin/true")), Ok(()));
    }

    #[test]
    fn scripts_are_followed() {
        let (_folder, path) = script("#! /usr/bin/env -S sh -x");
        assert!(interpreter(&path).is_some_and(|found| found.ends_with("sh")));
        let (_folder, path) = script("#!/bin/sh");
        assert_eq!(interpreter(&path), Some("/bin/sh".into()));
        let (_folder, path) = script("echo no first line");
        assert_eq!(interpreter(&path), None);
        assert_eq!(check(&path), Ok(()));
    }

    #[test]
    fn a_script_that_interprets_itself_ends() {
        let (_folder, path) = script("");
        fs::write(&path, format!("#!{}\n", path.display())).expect("script");
        assert_eq!(check(&path), Ok(()));
    }

    #[test]
    fn kinds_of_files() {
        assert_eq!(kind_of(b""), Kind::NotElf);
        assert_eq!(kind_of(b"\x7fELF"), Kind::NotElf);
        assert_eq!(kind_of(b"\x7fELF\x01\x01\x01"), Kind::ThirtyTwoBit);
        assert_eq!(kind_of(b"\x7fELF\x02\x01\x01"), Kind::NotElf);
        let own = fs::read("/proc/self/exe").expect("own program");
        assert_eq!(kind_of(&own), Kind::Dynamic);
        let mut other = own.clone();
        other[18] = 0xff;
        assert_eq!(kind_of(&other), Kind::OtherMachine);
        // A program header table that lies outside the file.
        let mut broken = own;
        broken[32..40].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(kind_of(&broken), Kind::NotElf);
    }

    #[test]
    fn sanitizers_are_recognised() {
        let folder = tempfile::tempdir().expect("folder");
        let source = folder.path().join("x.c");
        fs::write(&source, "int main(void) { return 0; }\n").expect("source");
        for (option, name) in [
            ("address", "AddressSanitizer"),
            ("thread", "ThreadSanitizer"),
        ] {
            let program = folder.path().join(option);
            let built = std::process::Command::new("cc")
                .arg(format!("-fsanitize={option}"))
                .arg("-o")
                .args([&program, &source])
                .output();
            if built.is_ok_and(|built| built.status.success()) {
                let said = check(&program).map_err(|refusal| refusal.to_string());
                assert!(
                    said.as_ref().is_err_and(|said| said.contains(name)),
                    "{said:?}"
                );
            }
        }
        assert!(check(Path::new("/bin/true")).is_ok());
    }

    #[test]
    fn setuid_of_another_user_is_refused() {
        if !geteuid().is_root() {
            return;
        }
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("true");
        fs::copy("/bin/true", &path).expect("copy");
        std::os::unix::fs::chown(&path, Some(65534), None).expect("chown");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o4755)).expect("mode");
        assert!(matches!(check(&path), Err(Refusal::SetId(_))));
    }
}
