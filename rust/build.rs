//! Finds libpagewise.so: PAGEWISE_LIB_DIR, else the library of this repository's build, else the linker's places.

use std::env;
use std::path::{Path, PathBuf};

fn library_folder() -> Option<PathBuf> {
    if let Some(folder) = env::var_os("PAGEWISE_LIB_DIR") {
        return Some(PathBuf::from(folder));
    }
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../build/lib");
    built.join("libpagewise.so").exists().then_some(built)
}

fn main() {
    println!("cargo:rerun-if-env-changed=PAGEWISE_LIB_DIR");
    println!("cargo:rerun-if-changed=../build/lib/libpagewise.so");
    println!("cargo:rustc-link-lib=dylib=pagewise");
    if let Some(folder) = library_folder() {
        println!("cargo:rustc-link-search=native={}", folder.display());
        println!("cargo:rustc-link-arg=-Wl,-rpath,{}", folder.display());
    }
}
