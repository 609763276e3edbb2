//! On which allocator a program ran while it was recorded.

use clap::ValueEnum;
use trace_format::Properties;

use super::replay::allocator::Allocator;

/// In words; None: the trace does not say, as those of older recorders.
pub fn allocator(properties: &Properties) -> Option<String> {
    let file = properties.get("allocator")?;
    let known = Allocator::value_variants()
        .iter()
        .copied()
        .find(|one| one.is_in(file));
    let name = match known {
        Some(Allocator::Pagewise) => "Pagewise",
        Some(Allocator::General) => "Pagewise, policy general",
        Some(other) => other.name(),
        None => file.rsplit('/').next().unwrap_or(file),
    };
    let settings = properties.get("allocator-settings").unwrap_or_default();
    let read: Vec<&str> = settings
        .lines()
        .filter(|setting| reads(known, setting))
        .collect();
    let with = if read.is_empty() { "" } else { ", with " };
    Some(format!("{name} ({file}){with}{}", read.join(" ")))
}

/// Does the allocator look at this variable? One that is not known may look at any.
fn reads(allocator: Option<Allocator>, setting: &str) -> bool {
    let is_jemallocs = setting.starts_with("MALLOC_CONF=");
    let is_glibcs =
        setting.starts_with("MALLOC_") && !is_jemallocs || setting.starts_with("GLIBC_TUNABLES=");
    match allocator {
        None => true,
        Some(Allocator::Glibc) => is_glibcs,
        Some(Allocator::Jemalloc) => is_jemallocs,
        Some(Allocator::Mimalloc) => setting.starts_with("MIMALLOC_"),
        Some(Allocator::Tcmalloc) => setting.starts_with("TCMALLOC_"),
        // Blocks that are not for us go to the C library.
        Some(Allocator::Pagewise | Allocator::General) => {
            setting.starts_with("PAGEWISE_OPTIONS=") || is_glibcs
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(file: &str) -> String {
        let settings = "MALLOC_CONF=narenas:1\nMALLOC_ARENA_MAX=1\nPAGEWISE_OPTIONS=decay=1";
        let properties = Properties::new()
            .with("allocator", file)
            .with("allocator-settings", settings);
        allocator(&properties).expect("named")
    }

    #[test]
    fn an_allocator_is_named_with_what_it_reads() {
        for (file, expected) in [
            (
                "/lib/libc.so.6",
                "glibc (/lib/libc.so.6), with MALLOC_ARENA_MAX=1",
            ),
            (
                "/usr/lib/libjemalloc.so.2",
                "jemalloc (/usr/lib/libjemalloc.so.2), with MALLOC_CONF=narenas:1",
            ),
            (
                "/lib/libpagewise-preload.so",
                "Pagewise (/lib/libpagewise-preload.so), with MALLOC_ARENA_MAX=1 PAGEWISE_OPTIONS=decay=1",
            ),
            (
                "/lib/libpagewise-general.so",
                "Pagewise, policy general (/lib/libpagewise-general.so), with MALLOC_ARENA_MAX=1 \
                 PAGEWISE_OPTIONS=decay=1",
            ),
            (
                "/opt/libown.so",
                "libown.so (/opt/libown.so), with MALLOC_CONF=narenas:1 MALLOC_ARENA_MAX=1 \
                 PAGEWISE_OPTIONS=decay=1",
            ),
            (
                "/lib/libmimalloc.so.2.0",
                "mimalloc (/lib/libmimalloc.so.2.0)",
            ),
        ] {
            assert_eq!(said(file), expected);
        }
        assert_eq!(allocator(&Properties::new()), None);
    }
}
