//! What the tests of the whole command share.
#![allow(dead_code, clippy::unwrap_used)]

pub mod bench;
pub mod copies;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

pub fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Compiles tests/programs/NAME.c once for all tests of a file.
fn compiled(name: &str, flags: &[&str]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/programs/{name}.c"));
    let full_name = format!("{name}{}", flags.concat().replace(['/', ' '], ""));
    let program = folder.join(&full_name);
    // Tests run at the same time: none may see another's half-written program.
    let own = folder.join(format!("{full_name}-{}", std::process::id()));
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let status = Command::new(compiler)
        .args(["-O1", "-o"])
        .args([&own, &source])
        .args(flags)
        .status();
    assert!(status.expect("a C compiler").success());
    std::fs::rename(&own, &program).unwrap();
    program
}

/// Where the libraries are, if they were built: those for another processor are elsewhere (test/aarch64).
pub fn libraries() -> PathBuf {
    std::env::var_os("PAGEWISE_TEST_LIBRARIES").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../build/lib"),
        PathBuf::from,
    )
}

pub fn footprint() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| compiled("footprint", &[]))
}

pub fn static_program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| compiled("footprint", &["-static"]))
}

/// A program that wants a library of its own to be the first; none where there is no such library.
pub fn sanitized_program() -> Option<PathBuf> {
    let probe = c_compiler()
        .arg("-print-file-name=libasan.so")
        .output()
        .expect("a C compiler");
    let found = String::from_utf8_lossy(&probe.stdout).contains('/');
    found.then(|| compiled("footprint", &["-fsanitize=address"]))
}

/// A program whose loader has the name of another C library's.
pub fn program_of_musl() -> PathBuf {
    let loader = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ld-musl-x86_64.so.1");
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let own = maps
        .split_whitespace()
        .find(|word| word.contains("/ld-linux"))
        .expect("a dynamic loader");
    let _ = std::os::unix::fs::symlink(own, &loader);
    let flag = format!("-Wl,--dynamic-linker={}", loader.display());
    compiled("footprint", &[&flag])
}

/// A library that can be preloaded and leaves a statistics block.
pub fn stand_in() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| compiled("stand-in", &["-shared", "-fPIC"]))
}

/// The same, under the name by which the library is known.
pub fn stand_in_named_as_ours() -> PathBuf {
    let library = own_file("libpagewise-preload.so");
    std::fs::copy(stand_in(), &library).unwrap();
    library
}

/// By a name that LD_PRELOAD can hold, wherever this is built: through a link in `folder`.
pub fn preloadable(library: &Path, folder: &Path) -> PathBuf {
    let link = folder.join("link");
    std::os::unix::fs::symlink(library.parent().unwrap(), &link).unwrap();
    link.join(library.file_name().unwrap())
}

/// How many folders with a link to the stand-in stay in $XDG_RUNTIME_DIR: one where LD_PRELOAD cannot hold its own name.
pub fn folders_of_links() -> usize {
    usize::from(stand_in().to_string_lossy().contains([' ', ':']))
}

/// The recorder, built from the sources that cmake has: these tests do not need the core to be built.
pub fn recorder() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let core = Path::new(env!("CARGO_MANIFEST_DIR")).join("../core");
        let list = std::fs::read_to_string(core.join("CMakeLists.txt")).unwrap();
        let list = list.split("set(PAGEWISE_RECORD_SOURCES").nth(1);
        let list = list.and_then(|rest| rest.split(')').next()).unwrap();
        let sources = list.split_whitespace().map(|name| core.join(name));
        let own = own_file("libpagewise-record.so");
        let status = c_compiler()
            .args([
                "-shared",
                "-fPIC",
                "-O2",
                "-D_GNU_SOURCE",
                "-fvisibility=hidden",
            ])
            .args([
                "-fno-builtin-malloc",
                "-fno-builtin-calloc",
                "-fno-omit-frame-pointer",
            ])
            .arg("-fno-optimize-sibling-calls")
            .args(["-I".as_ref(), core.join("src").as_os_str()])
            .args([
                "-I".as_ref(),
                core.join("include").as_os_str(),
                "-o".as_ref(),
                own.as_os_str(),
            ])
            .args(sources)
            .status();
        assert!(status.expect("a C compiler").success());
        own
    })
}

/// The program that the core's own tests of the recorder use: it says what it allocates.
pub fn allocating_program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| allocating_program_with("recorded", "-fno-omit-frame-pointer"))
}

/// The same as distributions compile programs.
pub fn program_without_frame_pointers() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| allocating_program_with("recorded-without", "-fomit-frame-pointer"))
}

fn allocating_program_with(name: &str, frame_pointers: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/test/environment/recorded.c");
    let own = own_file(name);
    let status = c_compiler()
        .args(["-O1", "-g", "-w", "-D_GNU_SOURCE", "-fno-builtin"])
        .args([frame_pointers, "-fno-optimize-sibling-calls"])
        .args(["-pthread", "-o"])
        .args([&own, &source])
        .status();
    assert!(status.expect("a C compiler").success());
    own
}

fn c_compiler() -> Command {
    Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".into()))
}

/// A place for a file of this run of these tests alone.
pub fn own_file(name: &str) -> PathBuf {
    let folder =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("trace-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder.join(name)
}

/// The pagewise command, with the stand-in for its library.
pub fn pagewise() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pagewise"));
    command
        .env("PAGEWISE_LIBRARY", stand_in())
        .env_remove("PAGEWISE_OPTIONS")
        .env_remove("LD_PRELOAD")
        .stdin(Stdio::null());
    command
}

/// `pagewise run` with policy share and these options, before the command's name.
pub fn run_sharing(options: &str) -> Command {
    let mut command = pagewise();
    let words = ["--policy", "share", "--options", options, "--"];
    command.args(["run", "--quiet"]).args(words);
    command
}

pub fn output(arguments: &[&str]) -> Output {
    pagewise().args(arguments).output().unwrap()
}

pub fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn read_json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Runs a shell script under `run --quiet --json` with further options and returns the figures.
pub fn figures(options: &[&str], command: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("figures.json");
    let output = pagewise()
        .args(["run", "--quiet", "--json"])
        .arg(&json)
        .args(options)
        .arg("--")
        .args(command)
        .output()
        .unwrap();
    assert!(json.exists(), "{}", errors(&output));
    read_json(&json)
}
