//! Signals reach the command once, and pagewise ends after it.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use common::pagewise;

/// Says "ready", then the name of each signal it gets; ends after two seconds or on TERM. For bash:
/// dash drops signals that arrive while it starts a command (it ignores them during vfork).
const LISTENER: &str = "
    for s in INT HUP QUIT USR1 USR2; do trap \"echo $s\" $s; done
    trap 'echo TERM; exit 5' TERM
    echo ready
    i=0; while [ $i -lt 40 ]; do sleep 0.05; i=$((i+1)); done
    exit 6";

fn start(command: &mut Command) -> (Child, BufReader<ChildStdout>) {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    (child, out)
}

fn listener() -> Command {
    let mut command = pagewise();
    command
        .args(["run", "--", "bash", "-c", LISTENER])
        .process_group(0);
    hear_signals();
    command
}

/// Under nohup SIGHUP is ignored, and SIGINT in a script's background; what is ignored at a shell's
/// start it cannot trap.
fn hear_signals() {
    for signal in [libc::SIGHUP, libc::SIGINT] {
        // SAFETY: the default action runs no code of ours.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

fn send(process: i32, signal: i32) {
    // SAFETY: the process is a child that has not been waited for.
    assert_eq!(unsafe { libc::kill(process, signal) }, 0);
}

fn rest(mut out: BufReader<ChildStdout>) -> String {
    let mut text = String::new();
    out.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn a_signal_sent_to_pagewise_is_forwarded_once() {
    let (mut child, out) = start(&mut listener());
    for signal in [
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGINT,
        libc::SIGHUP,
        libc::SIGTERM,
    ] {
        send(child.id() as i32, signal);
        std::thread::sleep(Duration::from_millis(150));
    }
    assert_eq!(rest(out), "USR1\nUSR2\nINT\nHUP\nTERM\n");
    assert_eq!(child.wait().unwrap().code(), Some(5));
}

#[test]
fn what_batch_systems_send_before_they_kill_is_forwarded() {
    let script = "trap 'echo XCPU' XCPU; trap 'echo ALRM; exit 5' ALRM; echo ready
        i=0; while [ $i -lt 40 ]; do sleep 0.05; i=$((i+1)); done";
    let mut command = pagewise();
    command.args(["run", "--", "bash", "-c", script]);
    let (mut child, out) = start(&mut command);
    for signal in [libc::SIGXCPU, libc::SIGALRM] {
        send(child.id() as i32, signal);
        std::thread::sleep(Duration::from_millis(150));
    }
    assert_eq!(rest(out), "XCPU\nALRM\n");
    assert_eq!(child.wait().unwrap().code(), Some(5));
}

#[test]
fn signals_of_timers_and_real_time_ones_are_forwarded_and_do_not_end_pagewise_alone() {
    let script = "for s in VTALRM PROF IO PWR STKFLT RTMIN+3; do trap \"echo $s\" $s; done
        trap 'echo RTMAX; exit 5' RTMAX; echo ready
        i=0; while [ $i -lt 80 ]; do sleep 0.05; i=$((i+1)); done";
    let mut command = pagewise();
    command.args(["run", "--", "bash", "-c", script]);
    let (mut child, out) = start(&mut command);
    for signal in [
        libc::SIGVTALRM,
        libc::SIGPROF,
        libc::SIGIO,
        libc::SIGPWR,
        libc::SIGSTKFLT,
        libc::SIGRTMIN() + 3,
        libc::SIGRTMAX(),
    ] {
        send(child.id() as i32, signal);
        std::thread::sleep(Duration::from_millis(150));
    }
    assert_eq!(rest(out), "VTALRM\nPROF\nIO\nPWR\nSTKFLT\nRTMIN+3\nRTMAX\n");
    assert_eq!(child.wait().unwrap().code(), Some(5));
}

/// As `perl -e 'alarm 60; exec @ARGV' pagewise run ...` sets it: the command does not inherit it.
#[test]
fn an_alarm_that_was_set_before_pagewise_ends_the_command() {
    let mut command = pagewise();
    command.args(["run", "--", "sh", "-c", "echo ready; exec sleep 20"]);
    // SAFETY: alarm is async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            libc::alarm(1);
            Ok(())
        })
    };
    let started = Instant::now();
    let (mut child, out) = start(&mut command);
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGALRM));
    // It would hold the pipe open.
    assert_eq!(rest(out), "");
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_program_that_dies_of_a_real_time_signal_takes_pagewise_along() {
    let output = common::output(&["run", "--", "sh", "-c", "kill -40 $$"]);
    assert_eq!(output.status.signal(), Some(40));
}

#[test]
fn the_limit_on_file_sizes_is_an_error_of_pagewises_and_the_commands_own_affair() {
    let folder = tempfile::tempdir().unwrap();
    let limited = |arguments: &[&str]| {
        let mut command = pagewise();
        command.args(["run", "--policy", "plain"]).args(arguments);
        command.current_dir(folder.path());
        // SAFETY: setrlimit is async-signal-safe.
        unsafe {
            command.pre_exec(|| {
                let limit = libc::rlimit {
                    rlim_cur: 512,
                    rlim_max: 512,
                };
                libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit);
                Ok(())
            })
        };
        command.output().unwrap()
    };
    let output = limited(&["--json", "x.json", "--", "true"]);
    let said = common::errors(&output);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(
        said.contains("cannot write x.json: File too large"),
        "{said}"
    );
    assert!(said.contains("try: ulimit -f unlimited"), "{said}");
    assert!(!folder.path().join("x.json").exists());
    let output = limited(&["--", "dd", "if=/dev/zero", "of=zeros", "bs=4k", "count=1"]);
    assert_eq!(output.status.signal(), Some(libc::SIGXFSZ));
}

#[test]
fn what_the_program_sends_itself_is_not_sent_again() {
    let script =
        "trap 'echo USR1' USR1; echo ready; kill -USR1 $$; kill -USR1 $PPID; sleep 0.3; sleep 0.1";
    let mut command = pagewise();
    command.args(["run", "--", "sh", "-c", script]);
    let (mut child, out) = start(&mut command);
    assert_eq!(rest(out), "USR1\n");
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_program_that_dies_of_a_forwarded_signal_takes_pagewise_along() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = pagewise();
    command
        .args(["run", "--", "sh", "-c", "echo ready; exec sleep 20"])
        .env("XDG_RUNTIME_DIR", folder.path());
    let (mut child, _out) = start(&mut command);
    send(child.id() as i32, libc::SIGTERM);
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGTERM));
    let left = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, common::folders_of_links());
}

#[test]
fn signals_ignored_by_our_caller_stay_ignored() {
    let script = "trap '' INT HUP; exec \"$0\" run --quiet -- sh -c 'kill -INT $$; kill -HUP $$; echo alive'";
    let output = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_pagewise")])
        .env("PAGEWISE_LIBRARY", common::stand_in())
        .output()
        .unwrap();
    assert_eq!(common::text(&output), "alive\n");
}

/// As under nohup, when its user logs out.
#[test]
fn a_signal_that_our_caller_ignores_ends_no_comparison() {
    let script = "trap '' HUP; exec \"$0\" compare --quiet --runs 1 --with plain -- sh -c 'echo same; sleep 1'";
    let child = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_pagewise")])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(400));
    send(child.id() as i32, libc::SIGHUP);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", common::errors(&output));
    assert!(common::text(&output).contains("plain"));
}

#[test]
fn what_a_command_sends_to_its_whole_group_ends_no_comparison() {
    let script = "trap '' TERM; kill -TERM 0; sleep 0.1; echo same";
    let output = pagewise()
        .args(["compare", "--quiet", "--runs", "1", "--with", "plain"])
        .args(["--", "sh", "-c", script])
        .process_group(0)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", common::errors(&output));
}

#[test]
fn a_command_gets_the_pipe_signal_as_our_caller_had_it() {
    for (ignored, before) in [(true, "trap '' PIPE; "), (false, "")] {
        let script = format!("{before}exec \"$0\" run --quiet -- grep SigIgn /proc/self/status");
        let mut command = Command::new("sh");
        command
            .args(["-c", &script, env!("CARGO_BIN_EXE_pagewise")])
            .env("PAGEWISE_LIBRARY", common::stand_in());
        let mask = common::text(&command.output().unwrap());
        let mask = u64::from_str_radix(mask.trim_start_matches("SigIgn:").trim(), 16).unwrap();
        let is_ignored = mask & (1 << (libc::SIGPIPE - 1)) != 0;
        assert_eq!(is_ignored, ignored, "{mask:x}");
    }
}

#[test]
fn nothing_is_left_of_a_result_that_was_interrupted() {
    let folder = tempfile::tempdir().unwrap();
    let made = Command::new("mkfifo")
        .arg(folder.path().join("x.trace"))
        .status();
    assert!(made.unwrap().success());
    // The one waits for its input, the other for somebody to write the trace.
    for words in [
        &["compare", "--json", "x.json", "--", "true"][..],
        &["trace", "stat", "--json", "x.json", "x.trace"],
        &["trace", "report", "--html", "x.html", "x.trace"],
    ] {
        let mut child = pagewise()
            .args(words)
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let _open = child.stdin.take();
        std::thread::sleep(Duration::from_millis(300));
        send(child.id() as i32, libc::SIGTERM);
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGTERM));
        let left = fs::read_dir(folder.path()).unwrap();
        let names: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["x.trace"], "{words:?}");
    }
}

#[test]
fn a_caller_that_ignores_its_children_gets_the_status_all_the_same() {
    let script = "import os,signal,sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execv(sys.argv[1], ['pagewise', 'run', '--quiet', '--', 'grep', 'SigIgn', '/proc/self/status'])";
    let Ok(output) = Command::new("python3")
        .args(["-c", script, env!("CARGO_BIN_EXE_pagewise")])
        .env("PAGEWISE_LIBRARY", common::stand_in())
        .output()
    else {
        return;
    };
    assert_eq!(output.status.code(), Some(0));
    let mask = common::text(&output);
    let mask = u64::from_str_radix(mask.trim_start_matches("SigIgn:").trim(), 16).unwrap();
    assert_ne!(mask & (1 << (libc::SIGCHLD - 1)), 0, "{mask:x}");
}

#[test]
fn stopping_and_going_on() {
    let (mut child, out) = start(&mut listener());
    let process = child.id() as i32;
    send(process, libc::SIGTSTP);
    wait_for_state(process, 'T');
    send(process, libc::SIGCONT);
    wait_for_state(process, 'S');
    send(process, libc::SIGTERM);
    assert_eq!(rest(out), "TERM\n");
    assert_eq!(child.wait().unwrap().code(), Some(5));
}

fn wait_for_state(process: i32, state: char) {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
        let found = stat.rsplit_once(')').unwrap().1.trim().chars().next();
        if found == Some(state) {
            return;
        }
        assert!(Instant::now() < deadline, "{stat}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A terminal of its own, in which Ctrl-C is typed while the program runs.
#[test]
fn ctrl_c_reaches_the_program_once_and_pagewise_outlives_it() {
    hear_signals();
    let script = "import os,pty,sys,time
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], ['pagewise','run','--','sh','-c',sys.argv[2]])
said = b''
while b'ready' not in said: said += os.read(terminal, 1000)
os.write(terminal, b'\\x03'); time.sleep(0.3); os.write(terminal, b'\\x03'); time.sleep(0.3)
os.kill(pid, 15)
try:
    while True:
        more = os.read(terminal, 1000)
        if not more: break
        said += more
except OSError: pass
print(said.count(b'INT'), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), b'pagewise: peak' in said)";
    let Ok(output) = Command::new("python3")
        .args(["-c", script, env!("CARGO_BIN_EXE_pagewise"), LISTENER])
        .env("PAGEWISE_LIBRARY", common::stand_in())
        .output()
    else {
        return;
    };
    assert_eq!(
        common::text(&output),
        "2 5 True\n",
        "{}",
        common::errors(&output)
    );
}

/// Of `docker run -it` and `ssh -t`: the kernel stops nothing that no shell could continue.
#[test]
fn ctrl_z_where_there_is_no_shell_stops_nothing() {
    let script = "import os,pty,sys,time
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], ['pagewise','run','--quiet','--','sh','-c','echo ready; sleep 0.5; exit 6'])
said = b''
while b'ready' not in said: said += os.read(terminal, 1000)
os.write(terminal, b'\\x1a')
for _ in range(200):
    ended, status = os.waitpid(pid, os.WNOHANG)
    if ended: break
    time.sleep(0.05)
else: os.kill(pid, 9)
print(os.waitstatus_to_exitcode(status) if ended else 'stopped for ever')";
    let Some(output) = python(script, &[]) else {
        return;
    };
    assert_eq!(common::text(&output), "6\n", "{}", common::errors(&output));
}

/// What a shell sees when Ctrl-Z is typed and the job continued at once where it has stopped.
const SHELL: &str = "import os,pty,signal,sys,time
pid, terminal = pty.fork()
if pid == 0:
    job = os.fork()
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    try: os.setpgid(job, job)
    except PermissionError: pass # It has done so itself, and gone on.
    os.tcsetpgrp(0, job or os.getpid())
    if job == 0:
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        os.execv(sys.argv[1], ['pagewise','run','--quiet','--'] + sys.argv[2:])
    seen, status = [], os.waitpid(job, os.WUNTRACED)[1]
    while os.WIFSTOPPED(status):
        seen.append('stopped')
        os.killpg(job, signal.SIGCONT)
        status = os.waitpid(job, os.WUNTRACED)[1]
    print('[', *seen, os.waitstatus_to_exitcode(status), ']', flush=True)
    sys.exit()
said = b''
while b'ready' not in said: said += os.read(terminal, 1000)
os.write(terminal, b'\\x1a')
os.set_blocking(terminal, False)
for _ in range(200):
    time.sleep(0.05)
    try: said += os.read(terminal, 1000)
    except BlockingIOError: pass
    except OSError: break
    if b']' in said: break
os.kill(pid, 9)
print(said[said.find(b'['):said.find(b']') + 1].decode())";

#[test]
fn ctrl_z_stops_pagewise_just_where_it_stops_the_command() {
    // The last as programs do that draw on the whole terminal.
    for (handler, seen) in [
        ("signal.SIG_DFL", "[ stopped 6 ]\n"),
        ("signal.SIG_IGN", "[ 6 ]\n"),
        (
            "lambda *_: os.kill(os.getpid(), signal.SIGSTOP)",
            "[ stopped 6 ]\n",
        ),
    ] {
        let Some(output) = python(SHELL, &["python3", "-c", &program_with(handler)]) else {
            return;
        };
        let errors = common::errors(&output);
        assert_eq!(common::text(&output), seen, "{handler}: {errors}");
    }
}

fn program_with(handler_of_ctrl_z: &str) -> String {
    format!(
        "import os,signal,sys,time
signal.signal(signal.SIGTSTP, {handler_of_ctrl_z})
print('ready', flush=True); time.sleep(0.5); sys.exit(6)"
    )
}

/// As between two runs of a comparison.
#[test]
fn ctrl_z_before_the_command_begins_is_not_lost() {
    let waiting = "        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTSTP})
        os.kill(os.getpid(), signal.SIGTSTP)
        os.execv";
    let shell = SHELL.replace("        os.execv", waiting);
    let Some(output) = python(&shell, &["python3", "-c", &program_with("signal.SIG_IGN")]) else {
        return;
    };
    let errors = common::errors(&output);
    assert_eq!(common::text(&output), "[ stopped 6 ]\n", "{errors}");
}

/// None where there is no Python.
fn python(script: &str, arguments: &[&str]) -> Option<std::process::Output> {
    let mut command = Command::new("python3");
    command.args(["-c", script, env!("CARGO_BIN_EXE_pagewise")]);
    command.args(arguments);
    let output = command.env("PAGEWISE_LIBRARY", common::stand_in()).output();
    output.ok()
}

#[test]
fn an_interrupted_comparison_ends_with_no_figures() {
    hear_signals();
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("x.json");
    let mut child = pagewise()
        .args([
            "compare",
            "--quiet",
            "--json",
            json.to_str().unwrap(),
            "--",
            "sleep",
            "20",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(400));
    send(child.id() as i32, libc::SIGINT);
    let started = Instant::now();
    let status = child.wait().unwrap();
    assert_eq!(status.signal(), Some(libc::SIGINT));
    assert!(started.elapsed() < Duration::from_secs(5));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// What is done counts: the pairs that are whole, in the table and in the file.
#[test]
fn an_interrupted_comparison_shows_the_pairs_that_are_done() {
    hear_signals();
    let folder = tempfile::tempdir().unwrap();
    let (json, log) = (folder.path().join("x.json"), folder.path().join("log"));
    let child = pagewise()
        .args(["compare", "--runs", "50", "--json"])
        .arg(&json)
        .args(["--", "sh", "-c", "echo x >> \"$0\"; sleep 0.1"])
        .arg(&log)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let runs = || fs::read_to_string(&log).map_or(0, |text| text.lines().count());
    let begin = Instant::now();
    // Two pairs are done and a third has begun.
    while runs() < 5 && begin.elapsed() < Duration::from_secs(30) {
        std::thread::sleep(Duration::from_millis(5));
    }
    send(child.id() as i32, libc::SIGINT);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.signal(), Some(libc::SIGINT));
    let said = common::errors(&output);
    assert!(said.contains("interrupted: the figures are of "), "{said}");
    assert!(common::text(&output).contains("auto / plain"), "{said}");
    let json = common::read_json(&json);
    assert_eq!(json["interrupted"], true);
    let rounds = json["rounds"].as_u64().unwrap();
    assert!((2..50).contains(&rounds), "{rounds}");
    for configuration in json["configurations"].as_array().unwrap() {
        let runs = configuration["measurements"].as_array().unwrap().len();
        assert_eq!(runs as u64, rounds);
    }
}

/// Root only: the settings are the whole machine's.
#[test]
fn page_merging_is_put_back_after_an_interrupt() {
    let names = ["run", "pages_to_scan", "sleep_millisecs"];
    let settings = || {
        names.map(|name| {
            fs::read_to_string(format!("/sys/kernel/mm/ksm/{name}")).unwrap_or_default()
        })
    };
    let before = settings();
    if !common::is_root() || before[0] != "0\n" {
        return;
    }
    hear_signals();
    let cases = [
        (["run", "--policy=ksm-aggressive"], libc::SIGINT),
        (["compare", "--with=ksm-aggressive,plain"], libc::SIGTERM),
    ];
    for (arguments, signal) in cases {
        let mut child = pagewise()
            .args(arguments)
            .args(["--quiet", "--", "sleep", "20"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        while settings()[0] != "1\n" {
            assert!(
                Instant::now() < deadline,
                "page merging was never switched on"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        send(child.id() as i32, signal);
        assert_eq!(child.wait().unwrap().signal(), Some(signal));
        assert_eq!(settings(), before, "after {arguments:?}");
    }
    assert!(!std::path::Path::new("/run/pagewise-ksm.json").exists());
}
