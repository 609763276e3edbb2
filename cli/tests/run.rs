//! `pagewise run`: transparent to the program, honest to the user.
#![allow(clippy::unwrap_used)]

mod common;

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{errors, figures, is_root, libraries, output, pagewise, read_json, run_sharing, text};

#[test]
fn input_output_and_status_pass_through() {
    let mut child = pagewise()
        .args(["run", "--", "sh", "-c", "tr a-z A-Z; echo oops >&2; exit 7"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(b"hello\0there")
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.stdout, b"HELLO\0THERE");
    assert_eq!(output.status.code(), Some(7));
    assert!(errors(&output).starts_with("oops\n"));
}

#[test]
fn one_line_says_the_peak_and_what_was_saved() {
    let output = output(&["run", "--", "sleep", "0.2"]);
    let said = errors(&output);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.starts_with("pagewise: peak "), "{said}");
    assert!(
        said.contains("3.90 GB of copies shared their pages"),
        "{said}"
    );
    assert!(
        said.contains("210 MB of all-zero pages were given back"),
        "{said}"
    );
    assert!(output.stdout.is_empty());
}

#[test]
fn quiet_says_nothing() {
    let output = output(&["run", "--quiet", "--", "true"]);
    assert!(output.stdout.is_empty() && output.stderr.is_empty());
}

#[test]
fn plain_is_without_us() {
    let output = output(&["run", "--policy", "plain", "--", "env"]);
    let environment = text(&output);
    assert!(!environment.contains("LD_PRELOAD") && !environment.contains("PAGEWISE_OPTIONS"));
    assert!(!errors(&output).contains("saved"));
}

#[test]
fn plain_drops_an_inherited_library_of_ours() {
    let output = pagewise()
        .args(["run", "--quiet", "--policy", "plain", "--", "/usr/bin/env"])
        .env("LD_PRELOAD", "/nowhere/libpagewise-preload.so")
        .output()
        .unwrap();
    assert!(!text(&output).contains("libpagewise-preload"));
}

#[test]
fn programs_that_cannot_bear_the_library_run_as_plain() {
    let mut programs = vec![(common::program_of_musl(), "another C library than glibc")];
    programs.extend(common::sanitized_program().map(|path| (path, "built with AddressSanitizer")));
    for (program, reason) in programs {
        let output = output(&["run", "--", program.to_str().unwrap(), "nothing", "1"]);
        let said = errors(&output);
        assert!(said.contains(reason), "{said}");
        assert!(
            said.contains("it cannot be preloaded and runs as plain"),
            "{said}"
        );
        assert!(output.status.success(), "{said}");
    }
}

#[test]
fn policy_general_preloads_its_own_library_and_no_other_of_ours() {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("libpagewise-general.so");
    std::fs::copy(common::stand_in(), &library).unwrap();
    let output = pagewise()
        .args(["run", "--quiet", "--policy", "general", "--", "sh", "-c"])
        .arg("echo $LD_PRELOAD; echo $PAGEWISE_OPTIONS")
        .env("PAGEWISE_GENERAL_LIBRARY", &library)
        .env("LD_PRELOAD", "/nowhere/libpagewise-preload.so libm.so.6")
        .output()
        .unwrap();
    let said = text(&output);
    let (preload, options) = said.split_once('\n').unwrap();
    let expected = format!("{}:libm.so.6", library.canonicalize().unwrap().display());
    assert_eq!(preload, expected);
    assert!(
        options.starts_with("policy=general,statistics=/"),
        "{options}"
    );
}

#[test]
fn options_are_merged_and_the_command_line_wins() {
    let output = run_sharing("threshold=64K,slack=3")
        .args(["sh", "-c", "echo $PAGEWISE_OPTIONS; echo $LD_PRELOAD"])
        .env("PAGEWISE_OPTIONS", "policy=huge,threshold=8K,verbose=1")
        .env("LD_PRELOAD", "libm.so.6")
        .output()
        .unwrap();
    let said = text(&output);
    let (options, preload) = said.split_once('\n').unwrap();
    assert!(
        options.starts_with("verbose=1,threshold=64K,slack=3,policy=share,statistics=/"),
        "{options}"
    );
    let (library, others) = preload.split_once(':').unwrap();
    assert_eq!(
        Path::new(library).canonicalize().unwrap(),
        common::stand_in().canonicalize().unwrap()
    );
    assert_eq!(others, "libm.so.6\n");
}

#[test]
fn a_policy_in_the_environment_counts_where_none_is_given() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("x.json");
    let status = pagewise()
        .args([
            "run",
            "--quiet",
            "--json",
            json.to_str().unwrap(),
            "--",
            "true",
        ])
        .env("PAGEWISE_OPTIONS", "policy=share")
        .status()
        .unwrap();
    assert!(status.success());
    assert_eq!(read_json(&json)["name"], "share");
}

/// Before the program starts: whoever wrote it meant something else than the default.
#[test]
fn a_misspelt_option_is_an_error_with_the_nearest_name() {
    let run = |arguments: &[&str], options: &str| {
        let output = pagewise()
            .arg("run")
            .args(arguments)
            .args(["--", "echo", "it ran"])
            .env("PAGEWISE_OPTIONS", options)
            .output()
            .unwrap();
        let has_run = text(&output).contains("it ran");
        assert_eq!(has_run, output.status.success());
        assert!(has_run || output.status.code() == Some(125));
        (has_run, errors(&output))
    };
    let (has_run, said) = run(&["--quiet"], "policy=plian");
    assert!(!has_run && said.contains("no such policy: plian"), "{said}");
    assert!(
        said.contains("try: policy=plain") && said.contains("--help"),
        "{said}"
    );
    let (has_run, said) = run(&["--options", "treshold=8K"], "");
    assert!(
        !has_run && said.contains("--options: no such option: treshold"),
        "{said}"
    );
    assert!(said.contains("try: threshold"), "{said}");
    let (has_run, said) = run(&[], "threshold=4K");
    assert!(!has_run && said.contains("8K to 1G"), "{said}");
    // What is overridden does no harm.
    assert!(run(&["--policy", "share"], "policy=plian").0);
    assert!(run(&["--options", "decay=1"], "decay=soon").0);
}

#[test]
fn the_json_file_is_one_configuration_with_statistics() {
    let found = figures(&[], &["sleep", "0.3"]);
    assert_eq!(found["schema"], 1);
    assert_eq!(found["command"], serde_json::json!(["sleep", "0.3"]));
    assert_eq!(found["name"], "auto");
    for figure in ["peak_bytes", "average_bytes", "cpu_seconds", "wall_seconds"] {
        for part in ["mean", "low", "high"] {
            assert!(
                found[figure][part].as_f64().unwrap() > 0.0,
                "{figure}.{part}"
            );
        }
    }
    assert!(found["wall_seconds"]["mean"].as_f64().unwrap() >= 0.3);
    assert_eq!(found["exit_status"], 0);
    assert_eq!(found["output_matches"], true);
    assert_eq!(found["preloaded"], true);
    assert_eq!(found["ksmd_cpu_seconds"], serde_json::Value::Null);
    assert_eq!(found["statistics"]["processes"], 1);
    assert_eq!(found["statistics"]["shared_copy_bytes"], 3_900_000_000_u64);
    assert_eq!(found["statistics"]["fallback_keeper"], 1);
    assert!(found["samples"].as_u64().unwrap() > 5);
}

#[test]
fn pages_are_looked_at_one_by_one_where_that_is_asked_for() {
    let exact = if is_root() { "frames" } else { "pss" };
    let folder = tempfile::tempdir().unwrap();
    let curve = folder.path().join("curve.csv");
    let curve = curve.to_str().unwrap();
    let ways: [(&[&str], &str); 3] = [
        (&[], "counters"),
        (&["--exact"], exact),
        (&["--curve", curve], exact),
    ];
    for (options, sampler) in ways {
        let found = figures(options, &["sleep", "0.2"]);
        assert_eq!(found["sampler"], sampler, "{options:?}");
        assert_eq!(found["sources"]["average_bytes"], sampler, "{options:?}");
        assert_eq!(
            found["sources"]["shared_memory"],
            serde_json::Value::Null,
            "{options:?}"
        );
    }
}

#[test]
fn what_forked_processes_share_is_said_to_be_estimated() {
    let program = common::footprint().to_str().unwrap();
    let found = figures(&["--policy", "plain"], &[program, "forked", "64"]);
    assert_eq!(found["sources"]["shared_memory"], "pss");
}

/// By counters: what pagewise itself takes, its start included, is a small part of a core.
#[test]
fn looking_at_a_run_costs_next_to_nothing() {
    let program = common::footprint().to_str().unwrap();
    let script = format!("for i in 1 2 3 4 5 6; do '{program}' anonymous 400; done");
    let found = figures(&["--policy", "plain"], &["sh", "-c", &script]);
    let own = found["own_cpu_seconds"].as_f64().unwrap();
    let wall = found["wall_seconds"]["mean"].as_f64().unwrap();
    assert!(own < 0.015 * wall, "{own} s of {wall} s");
}

#[test]
fn the_statistics_of_all_processes_are_added_up() {
    let found = figures(&[], &["sh", "-c", "sleep 0.1; sleep 0.1; true"]);
    let processes = found["statistics"]["processes"].as_u64().unwrap();
    assert!(processes >= 3);
    assert_eq!(found["statistics"]["copies_shared"], 3 * processes);
}

/// Seconds of "0m1.250000s".
fn shell_seconds(text: &str) -> f64 {
    let (minutes, seconds) = text.trim_end_matches('s').split_once('m').unwrap();
    minutes.parse::<f64>().unwrap() * 60.0 + seconds.parse::<f64>().unwrap()
}

/// What the shell has counted of itself and its children is the measure: two runs cannot be compared on a busy
/// machine.
#[test]
fn cpu_time_is_the_whole_trees() {
    let folder = tempfile::tempdir().unwrap();
    let times = folder.path().join("times");
    let burn = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
    let script = format!("({burn}) & ({burn}) & wait; times > {}", times.display());
    let found = figures(&["--policy", "plain"], &["sh", "-c", &script]);
    let said = found["cpu_seconds"]["mean"].as_f64().unwrap();
    let counted: f64 = std::fs::read_to_string(&times)
        .unwrap()
        .split_whitespace()
        .map(shell_seconds)
        .sum();
    assert!(counted > 0.1, "{counted}");
    assert!(said > 0.95 * counted - 0.02, "{said} of {counted}");
    assert!(said < counted + 0.1, "{said} of {counted}");
}

#[test]
fn an_orphans_cpu_time_is_counted() {
    let burn = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
    let script = format!("(sh -c '{burn}' &) ; sleep 1.5");
    let found = figures(&["--policy", "plain"], &["sh", "-c", &script]);
    assert!(found["cpu_seconds"]["mean"].as_f64().unwrap() > 0.05);
}

#[test]
fn a_process_that_goes_on_running_is_mentioned_and_left_alone() {
    let output = output(&[
        "run",
        "--",
        "sh",
        "-c",
        "sleep 5 >/dev/null 2>&1 & echo $!; sleep 0.1",
    ]);
    let process: i32 = text(&output).trim().parse().unwrap();
    assert!(
        errors(&output).contains("1 process goes on running"),
        "{}",
        errors(&output)
    );
    // SAFETY: the process is the one started above.
    assert_eq!(unsafe { libc::kill(process, libc::SIGKILL) }, 0);
}

#[test]
fn no_folder_is_left_behind() {
    let folder = tempfile::tempdir().unwrap();
    let status = pagewise()
        .args(["run", "--quiet", "--", "sh", "-c", "kill -9 $$"])
        .env("XDG_RUNTIME_DIR", folder.path())
        .status()
        .unwrap();
    assert_eq!(status.signal(), Some(9));
    let left = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, common::folders_of_links());
}

#[test]
fn the_statistics_folder_is_private() {
    let script = "d=${PAGEWISE_OPTIONS##*statistics=}; stat -c %a \"$d\"";
    assert_eq!(
        text(&output(&["run", "--quiet", "--", "sh", "-c", script])),
        "700\n"
    );
}

#[test]
fn a_signal_is_reported_and_passed_on() {
    for (signal, number) in [("TERM", 15), ("KILL", 9), ("SEGV", 11)] {
        let script = format!("kill -{signal} $$");
        let output = output(&["run", "--", "sh", "-c", &script]);
        assert_eq!(output.status.signal(), Some(number));
        assert!(!output.status.core_dumped());
        let expected = format!("killed by signal {number} (SIG{signal})");
        assert!(errors(&output).contains(&expected), "{}", errors(&output));
    }
}

fn fails_with(arguments: &[&str], code: i32, said: &str) {
    let output = output(arguments);
    let errors = errors(&output);
    assert_eq!(output.status.code(), Some(code), "{errors}");
    assert!(errors.contains(said), "{errors}");
}

#[test]
fn mistakes_have_documented_exit_codes_and_advice() {
    fails_with(
        &["run", "--", "no-such-command"],
        127,
        "command not found: no-such-command",
    );
    fails_with(&["run", "--", "/no/such/file"], 127, "try: ls /no/such:");
    fails_with(&["run", "--", "/etc/passwd"], 126, "chmod +x");
    fails_with(&["run", "--", "/tmp"], 126, "it is a folder");
    fails_with(&["run"], 125, "Usage");
    fails_with(
        &["run", "--policy", "fast", "--", "true"],
        125,
        "possible values",
    );
    fails_with(&["run", "--no-such", "--", "true"], 125, "--no-such");
    fails_with(
        &["compare", "--policy", "general", "--", "true"],
        125,
        "--with plain,general",
    );
    fails_with(
        &["run", "--options", "policy=share", "--", "true"],
        125,
        "--policy",
    );
    fails_with(
        &["run", "--json", "/no/such/x", "--", "touch", "/tmp/never"],
        125,
        "cannot write /no/such/x",
    );
    fails_with(&[], 125, "Usage");
}

#[test]
fn an_unwritable_file_is_found_before_the_command_runs() {
    let folder = tempfile::tempdir().unwrap();
    let witness = folder.path().join("witness");
    let output = pagewise()
        .args([
            "run",
            "--json",
            folder.path().to_str().unwrap(),
            "--",
            "touch",
        ])
        .arg(&witness)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(!witness.exists());
}

#[test]
fn a_missing_library_says_what_to_type() {
    let output = pagewise()
        .args(["run", "--", "echo", "hello"])
        .env("PAGEWISE_LIBRARY", "/nowhere.so")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(output.stdout.is_empty());
    assert!(
        errors(&output).contains("PAGEWISE_LIBRARY="),
        "{}",
        errors(&output)
    );
}

/// Without this, the loader would refuse to start the command.
#[test]
fn a_library_that_cannot_be_loaded_does_not_reach_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let broken = folder.path().join("broken.so");
    fs::write(&broken, "no library").unwrap();
    let output = pagewise()
        .args(["run", "--", "echo", "hello"])
        .env("PAGEWISE_LIBRARY", &broken)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(output.stdout.is_empty());
    assert!(
        errors(&output).contains("cannot be loaded"),
        "{}",
        errors(&output)
    );
}

#[test]
fn a_static_program_runs_plain() {
    let program = common::static_program().to_str().unwrap();
    let output = output(&["run", "--", program, "anonymous", "8"]);
    let said = errors(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(
        said.contains("is statically linked: it cannot be preloaded and runs as plain"),
        "{said}"
    );
}

#[test]
fn a_script_of_a_static_interpreter_runs_plain() {
    let folder = tempfile::tempdir().unwrap();
    // The first line's path holds no space.
    let interpreter = folder.path().join("interpreter");
    std::os::unix::fs::symlink(common::static_program(), &interpreter).unwrap();
    let script = script(
        folder.path(),
        &format!("#!{} nothing", interpreter.display()),
    );
    let output = output(&["run", "--", script.to_str().unwrap()]);
    assert!(
        errors(&output).contains("statically linked"),
        "{}",
        errors(&output)
    );
}

fn script(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("script");
    fs::write(&path, format!("{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn a_script_without_a_first_line_runs() {
    let folder = tempfile::tempdir().unwrap();
    let script = script(folder.path(), "echo from the script; exit 3");
    let output = output(&["run", "--quiet", "--", script.to_str().unwrap()]);
    assert_eq!(text(&output), "from the script\n");
    assert_eq!(output.status.code(), Some(3));
}

#[test]
fn a_script_whose_interpreter_is_missing_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let script = script(folder.path(), "#!/no/such/interpreter");
    fails_with(&["run", "--", script.to_str().unwrap()], 127, "interpreter");
}

#[test]
fn a_setuid_program_runs_plain() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("true");
    fs::copy("/bin/true", &program).unwrap();
    std::os::unix::fs::chown(&program, Some(65534), None).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    let output = output(&["run", "--", program.to_str().unwrap()]);
    assert!(
        errors(&output).contains("is setuid or setgid"),
        "{}",
        errors(&output)
    );
    assert!(output.status.success());
}

#[test]
fn the_programs_own_name_is_kept() {
    let output = output(&["run", "--quiet", "--", "sh", "-c", "cat /proc/$$/cmdline"]);
    assert!(text(&output).starts_with("sh\0-c\0"));
}

#[test]
fn help_and_version() {
    for arguments in [&["--help"][..], &["run", "--help"], &["compare", "-h"]] {
        let output = output(arguments);
        assert!(output.status.success());
        assert!(text(&output).contains("Examples:") && !text(&output).contains('\u{1b}'));
    }
    assert_eq!(
        text(&output(&["--version"])),
        format!("pagewise {}\n", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn a_closed_standard_error_is_no_reason_to_fail() {
    let script = "\"$0\" run -- sh -c 'exit 4' 2>&-";
    let status = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_pagewise")])
        .env("PAGEWISE_LIBRARY", common::stand_in())
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(4));
}

#[test]
fn strangers_in_the_statistics_folder_do_no_harm() {
    let script = "d=${PAGEWISE_OPTIONS##*statistics=}; echo rubbish > \"$d/pagewise-1.stats\"; \
                  ln -s /dev/zero \"$d/pagewise-2.stats\"; mkdir \"$d/pagewise-3.stats\"";
    let found = figures(&[], &["sh", "-c", script]);
    assert_eq!(found["statistics"]["unreadable_blocks"], 3);
    assert!(found["statistics"]["processes"].as_u64().unwrap() >= 1);
}

#[test]
fn a_program_that_removes_the_folder_does_no_harm() {
    let script = "rm -r \"${PAGEWISE_OPTIONS##*statistics=}\"";
    let output = output(&["run", "--", "sh", "-c", script]);
    assert!(output.status.success());
    assert!(
        errors(&output).contains("not loaded"),
        "{}",
        errors(&output)
    );
}

/// The real library, where it has been built and there is an R to run under it.
fn library_for_r() -> Option<PathBuf> {
    let library = libraries().join("libpagewise-preload.so");
    let has_r = Command::new("Rscript").arg("--version").output().is_ok();
    (library.exists() && has_r).then_some(library)
}

/// The README's example makes logical vectors of zeros at each new peak and drops them: to give their pages back
/// would only make the next vector fault them in again. 700 MB were given back where nothing learns of that.
#[test]
fn the_examples_pages_are_not_given_back_to_be_written_again() {
    let Some(library) = library_for_r() else {
        return;
    };
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/analysis.R");
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("x.json");
    let output = pagewise()
        .args(["run", "--quiet", "--json"])
        .args([&json, Path::new("--"), Path::new("Rscript"), &example])
        .env("PAGEWISE_LIBRARY", &library)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", errors(&output));
    let statistics = &read_json(&json)["statistics"];
    assert_ne!(statistics["zero_scans"], 0);
    let given_back = statistics["zero_reclaimed_bytes"].as_u64().unwrap();
    assert!(given_back < 200_000_000, "{given_back} bytes given back");
}

#[test]
fn copies_of_an_r_vector_share_their_pages() {
    let Some(library) = library_for_r() else {
        return;
    };
    let script = "x <- runif(5e6); l <- lapply(1:20, function(i) { y <- x; y[i] <- 0; y }); Sys.sleep(0.5); cat(sum(l[[20]]) > 0)";
    let run = |policy: &str| {
        let folder = tempfile::tempdir().unwrap();
        let json = folder.path().join("x.json");
        let output = pagewise()
            .args([
                "run",
                "--quiet",
                "--policy",
                policy,
                "--json",
                json.to_str().unwrap(),
            ])
            .args(["--", "Rscript", "-e", script])
            .env("PAGEWISE_LIBRARY", &library)
            .output()
            .unwrap();
        assert_eq!(text(&output), "TRUE", "{}", errors(&output));
        read_json(&json)
    };
    let (plain, auto) = (run("plain"), run("auto"));
    assert!(auto["statistics"]["copies_shared"].as_u64().unwrap() >= 19);
    let peak = |found: &serde_json::Value| found["peak_bytes"]["mean"].as_f64().unwrap();
    assert!(
        peak(&auto) < 0.3 * peak(&plain),
        "{} {}",
        peak(&auto),
        peak(&plain)
    );
    // What plain would take is known without a plain run.
    let estimate = auto["unshared_peak_bytes"].as_f64().unwrap();
    let off = estimate / peak(&plain) - 1.0;
    assert!(off.abs() < 0.1, "{estimate} {}", peak(&plain));
    assert_eq!(plain["unshared_peak_bytes"], serde_json::Value::Null);
}

#[test]
fn the_process_that_had_most_is_named() {
    let program = common::footprint().to_str().unwrap();
    let script = format!("'{program}' anonymous 64; true");
    let output = output(&["run", "--policy", "plain", "--", "sh", "-c", &script]);
    let said = errors(&output);
    assert!(said.contains("; footprint (process "), "{said}");
    assert!(said.contains(" had most: "), "{said}");
}

/// A group of one's own with a limit of 50 MB; none where none can be made.
fn limited_group() -> Option<PathBuf> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = groups
        .lines()
        .find_map(|line| line.split_once(":memory:"))?
        .1;
    let parent = Path::new("/sys/fs/cgroup/memory").join(path.trim_start_matches('/'));
    let group = parent.join(format!("test-{}", std::process::id()));
    fs::create_dir(&group).ok()?;
    fs::write(group.join("memory.limit_in_bytes"), "50000000").ok()?;
    Some(group)
}

#[test]
fn a_process_that_the_limit_killed_is_said() {
    let Some(group) = limited_group() else {
        return;
    };
    let program = common::footprint().to_str().unwrap();
    let script = "echo $$ > \"$0/cgroup.procs\"; \"$1\" run --policy plain -- sh -c \"'$2' anonymous 200; exit 3\"";
    let output = Command::new("sh")
        .args(["-c", script, group.to_str().unwrap()])
        .args([env!("CARGO_BIN_EXE_pagewise"), program])
        .output()
        .unwrap();
    let said = errors(&output);
    for _ in 0..100 {
        if fs::remove_dir(&group).is_ok() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(output.status.code(), Some(3), "{said}");
    let expected =
        "the kernel killed 1 process of the command: the memory limit of 50.0 MB was reached";
    assert!(said.contains(expected), "{said}");
}

/// Has a shell start pagewise in that state.
fn started_by(line: &str) -> std::process::Output {
    let line = line.replace("PAGEWISE", &format!("'{}'", env!("CARGO_BIN_EXE_pagewise")));
    Command::new("sh")
        .args(["-c", &line])
        .env("PAGEWISE_LIBRARY", common::stand_in())
        .env_remove("PAGEWISE_OPTIONS")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

#[test]
fn closed_streams_stay_closed() {
    for (command, stream) in [("echo hi", ">&-"), ("cat", "<&-")] {
        let plain = started_by(&format!("sh -c '{command}' {stream}"));
        let ours = started_by(&format!(
            "PAGEWISE run --quiet -- sh -c '{command}' {stream}"
        ));
        assert_ne!(plain.status.code(), Some(0), "{command}");
        assert_eq!(ours.status.code(), plain.status.code(), "{command}");
    }
    // Warnings of the library's would go into the file that is the next to be opened.
    let open = started_by("PAGEWISE run --quiet -- sh -c 'echo hi >&2' 2>&-");
    assert_eq!(open.status.code(), Some(0));
    let lost = started_by("PAGEWISE run --quiet --json - -- true >&-");
    assert_eq!(lost.status.code(), Some(125));
    assert!(errors(&lost).contains("cannot write to standard output: Bad file descriptor"));
}

#[test]
fn where_no_figures_can_be_left_that_is_said() {
    let output = started_by("trap '' XFSZ; ulimit -f 0 && exec PAGEWISE run -- true");
    let said = errors(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(
        said.contains("what was saved is not known: no file can be written here"),
        "{said}"
    );
    assert!(!said.contains("seccomp"), "{said}");
}

#[test]
fn a_limit_on_addresses_is_named_where_the_command_failed() {
    let said = |limit: &str, status: &str| {
        let program = env!("CARGO_BIN_EXE_pagewise");
        let line = format!("ulimit {limit} && exec '{program}' run -- sh -c 'exit {status}'");
        let mut command = Command::new("sh");
        let output = command
            .args(["-c", &line])
            .env("PAGEWISE_LIBRARY", common::stand_in())
            .output()
            .unwrap();
        errors(&output)
    };
    let failed = said("-S -v 8000000", "1");
    assert!(
        failed.contains("addresses are limited to 8.19 GB"),
        "{failed}"
    );
    assert!(failed.contains("try: ulimit -v unlimited"), "{failed}");
    let refused = said("-v 8000000", "1");
    assert!(
        refused.contains("the job script, can raise them"),
        "{refused}"
    );
    assert!(!said("-v 8000000", "0").contains("addresses"));
    assert!(!said("-S -v unlimited", "1").contains("addresses"));
}

#[test]
fn the_curve_is_what_peak_and_average_are_taken_from() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("curve.csv");
    let grow = "x=$(head -c 20000000 /dev/zero | tr '\\0' x); sleep 0.3; x=; sleep 0.2";
    let figures = figures(
        &["--policy", "plain", "--curve", file.to_str().unwrap()],
        &["sh", "-c", grow],
    );
    let curve = fs::read_to_string(&file).unwrap();
    let (heading, points) = curve.split_once('\n').unwrap();
    assert_eq!(heading, "seconds,bytes");
    let points: Vec<(f64, f64)> = points
        .lines()
        .map(|line| line.split_once(',').unwrap())
        .map(|(at, bytes)| (at.parse().unwrap(), bytes.parse().unwrap()))
        .collect();
    let peak = points.iter().map(|point| point.1).fold(0.0, f64::max);
    assert_eq!(peak, figures["peak_bytes"]["mean"].as_f64().unwrap());
    assert!(peak > 20e6);

    let wall = figures["wall_seconds"]["mean"].as_f64().unwrap();
    let first = points[0].0 * points[0].1;
    let last = points.last().unwrap();
    let between: f64 = points
        .windows(2)
        .map(|pair| (pair[1].0 - pair[0].0) * (pair[0].1 + pair[1].1) / 2.0)
        .sum();
    let average = (first + between + (wall - last.0) * last.1) / wall;
    let reported = figures["average_bytes"]["mean"].as_f64().unwrap();
    assert!(
        (average / reported - 1.0).abs() < 0.02,
        "{average} {reported}"
    );
}

#[test]
fn an_unwritable_curve_is_refused_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("ran");
    let output = output(&[
        "run",
        "--curve",
        "/no/such/folder/x.csv",
        "--",
        "touch",
        trace.to_str().unwrap(),
    ]);
    assert_eq!(output.status.code(), Some(125));
    assert!(errors(&output).contains("/no/such/folder"));
    assert!(!trace.exists());
}

#[test]
fn one_file_that_cannot_be_written_costs_neither_the_other_nor_the_figures() {
    let folder = tempfile::tempdir().unwrap();
    let curve = folder.path().join("x.csv");
    let output = output(&[
        "run",
        "--quiet",
        "--json",
        "/dev/full",
        "--curve",
        curve.to_str().unwrap(),
        "--",
        "sleep",
        "0.2",
    ]);
    assert_eq!(output.status.code(), Some(125));
    let said = errors(&output);
    assert!(said.contains("pagewise: peak "), "{said}");
    assert!(said.contains("cannot write /dev/full"), "{said}");
    assert!(
        fs::read_to_string(curve)
            .unwrap()
            .starts_with("seconds,bytes\n")
    );
}

#[test]
fn two_results_do_not_go_to_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x");
    for file in ["-", file.to_str().unwrap()] {
        fails_with(
            &["run", "--json", file, "--curve", file, "--", "true"],
            125,
            "both write to",
        );
    }
    assert!(!file.exists());
}

#[test]
fn time_in_the_kernel_is_part_of_the_cpu_time() {
    let figures = figures(
        &["--policy", "plain"],
        &["dd", "if=/dev/zero", "of=/dev/null", "bs=1M", "count=2000"],
    );
    let run = &figures["measurements"][0];
    let (cpu, system) = (&run["cpu_seconds"], &run["system_seconds"]);
    let (cpu, system) = (cpu.as_f64().unwrap(), system.as_f64().unwrap());
    assert!(system > 0.0 && system <= cpu, "{system} {cpu}");
}

/// One file, whatever the command's words are; and the line on standard error is as it was.
#[test]
fn a_report_is_a_page_with_the_figures() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("x.html");
    let output = pagewise()
        .args(["run", "--report", page.to_str().unwrap(), "--"])
        .args(["sh", "-c", "sleep 0.2", "</script><b>"])
        .output()
        .unwrap();
    let said = errors(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.starts_with("pagewise: peak "), "{said}");
    let html = fs::read_to_string(&page).unwrap();
    assert!(html.starts_with("<!DOCTYPE html>") && html.ends_with("</html>\n"));
    assert!(html.contains("sh -c &#39;sleep 0.2&#39;") || html.contains("sh -c 'sleep 0.2'"));
    assert!(!html.contains("</script><b>"));
    assert!(html.contains("of copies shared their pages"));
    fails_with(
        &["run", "--report", "/no/such/x.html", "--", "true"],
        125,
        "cannot write /no/such/x.html",
    );
    let file = page.to_str().unwrap();
    fails_with(
        &["run", "--report", file, "--json", file, "--", "true"],
        125,
        "both write to",
    );
}

#[test]
fn options_that_are_no_text_are_refused() {
    let output = pagewise()
        .env("PAGEWISE_OPTIONS", OsStr::from_bytes(b"policy=plain,\xff"))
        .args(["run", "--", "true"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(125));
    let said = errors(&output);
    assert!(said.contains("PAGEWISE_OPTIONS is no UTF-8"), "{said}");
    assert!(said.contains("try: unset PAGEWISE_OPTIONS"), "{said}");
}

#[test]
fn standard_output_without_room_is_called_by_its_name_and_one_without_a_reader_is_no_error() {
    let arguments = ["run", "--json", "-", "--", "sh", "-c", "exit 3"];
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let output = pagewise().args(arguments).stdout(full).output().unwrap();
    let said = errors(&output);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.contains("cannot write to standard output"), "{said}");
    assert!(said.contains("try: df -h"), "{said}");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = pagewise().args(arguments).stdout(writer).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", errors(&output));
}
