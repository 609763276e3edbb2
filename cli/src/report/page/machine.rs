//! What machine it was, and when.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::measure::process_status::kilobytes;
use crate::report::units;

pub fn facts() -> Vec<(&'static str, String)> {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let after = |path: &str, name: &str| {
        let all = text(path);
        let line = all.lines().find_map(|line| line.strip_prefix(name));
        line.map(|value| value.trim_matches([' ', '\t', ':', '=', '"']).to_owned())
    };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let model = after("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".into());
    let memory = after("/proc/meminfo", "MemTotal").and_then(|value| kilobytes(&value));
    let release = text("/proc/sys/kernel/osrelease");
    let system = after("/etc/os-release", "PRETTY_NAME").unwrap_or_else(|| "Linux".into());
    vec![
        ("processors", format!("{processors}, {model}")),
        (
            "memory",
            memory.map_or("unknown".into(), |memory| units::bytes(memory as f64)),
        ),
        ("system", format!("{system}, Linux {}", release.trim())),
        ("pagewise", env!("CARGO_PKG_VERSION").into()),
        ("written", now()),
    ]
}

fn now() -> String {
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    let time = i64::try_from(seconds).unwrap_or(0);
    // SAFETY: all zero bytes are a valid tm.
    let mut parts: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are valid for the call.
    unsafe { libc::gmtime_r(&raw const time, &raw mut parts) };
    format!(
        "{}-{:02}-{:02} {:02}:{:02} UTC",
        parts.tm_year + 1900,
        parts.tm_mon + 1,
        parts.tm_mday,
        parts.tm_hour,
        parts.tm_min
    )
}
