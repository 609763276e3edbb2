//! What is answered: a profile, or what to ask for instead.

use std::fmt::Write;
use std::net::SocketAddr;

use trace_analysis::pprof::Shown;

use super::processes::{Known, Processes, Refusal};
use crate::http::{Answer, Request};
use crate::report::plain::plain;
use crate::report::units;

pub const HEAP: &str = "/debug/pprof/heap";
const ALLOCATED: &str = "/debug/pprof/allocs";
/// Where Go's programs have their list of profiles.
const INDEX: [&str; 3] = ["/", "/debug/pprof", "/debug/pprof/"];
/// So many processes are named.
const NAMED: usize = 100;

pub fn to(request: &Request, processes: &Processes, address: SocketAddr) -> Answer {
    let path = request.path.as_str();
    let shown = match path {
        HEAP => Shown::InUse,
        ALLOCATED => Shown::Allocated,
        _ if INDEX.contains(&path) => return Answer::text("200 OK", index(processes, address)),
        _ => {
            let what = format!("{} is not served.", plain(path));
            return refused("404 Not Found", &what, &index(processes, address));
        }
    };
    let process = match wanted(&request.query) {
        Ok(process) => process,
        Err(what) => return refused("400 Bad Request", &what, &index(processes, address)),
    };
    match processes.profile(process, shown) {
        Ok(body) => Answer {
            status: "200 OK",
            content_type: "application/octet-stream",
            body,
        },
        Err(Refusal::Unknown(process)) => refused(
            "404 Not Found",
            &format!("Process {process} is not in this recording."),
            &index(processes, address),
        ),
        Err(Refusal::NothingYet) => unavailable("Nothing has been recorded yet: ask again."),
        Err(Refusal::Ended) => unavailable("The recording has ended: the trace has it all."),
        Err(Refusal::Unreadable(error)) => refused(
            "500 Internal Server Error",
            &format!("The recording cannot be read: {error}"),
            "It goes on.\n",
        ),
    }
}

fn refused(status: &'static str, what: &str, more: &str) -> Answer {
    Answer::text(status, format!("{what}\n\n{more}"))
}

fn unavailable(why: &str) -> Answer {
    Answer::text("503 Service Unavailable", format!("{why}\n"))
}

/// The process that is asked for; none: the command's.
fn wanted(query: &str) -> Result<Option<i32>, String> {
    let mut process = None;
    for word in query.split('&').filter(|word| !word.is_empty()) {
        match word.split_once('=').unwrap_or((word, "")) {
            ("pid", number) => match number.parse() {
                Ok(number) => process = Some(number),
                Err(_) => return Err(format!("'{}' is no process.", plain(number))),
            },
            // What Go's programs do then is not needed here, or is done anyway.
            ("gc", _) | ("debug", "0") => {}
            _ => {
                return Err(format!(
                    "'{}' is not known here: a profile is in protobuf, and of now.",
                    plain(word)
                ));
            }
        }
    }
    Ok(process)
}

fn index(processes: &Processes, address: SocketAddr) -> String {
    let mut text = format!(
        "{HEAP} and {ALLOCATED} have a profile of the command's process, ?pid=N of another one.\n"
    );
    let known = processes.known();
    if known.is_empty() {
        return text + "No process has recorded anything yet.\n";
    }
    // Writing to a string cannot fail.
    let _ = writeln!(text, "\nRecorded processes:\n");
    for known in known.iter().take(NAMED) {
        let _ = writeln!(text, "{}", line(known));
    }
    if let Some(more) = known.len().checked_sub(NAMED + 1) {
        let _ = writeln!(text, "and {} more", units::count(more as u64 + 1));
    }
    let any = known[0].process;
    text + &format!("\ntry: go tool pprof 'http://{address}{HEAP}?pid={any}'\n")
}

/// Not the command line, which may hold secrets.
fn line(known: &Known) -> String {
    let mut line = format!("{:>10}  {}", known.process, plain(&known.name));
    for (is, words) in [
        (known.is_main, "the command's"),
        (known.has_ended, "has ended"),
    ] {
        if is {
            line += &format!(", {words}");
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_names_a_process() {
        assert_eq!(wanted(""), Ok(None));
        assert_eq!(wanted("gc=1&pid=12&debug=0"), Ok(Some(12)));
        for (query, word) in [
            ("pid=", "''"),
            ("pid=-x", "'-x'"),
            ("pid=1&seconds=30", "'seconds=30'"),
            ("debug=1", "'debug=1'"),
        ] {
            let said = wanted(query).expect_err(query);
            assert!(said.contains(word), "{query}: {said}");
        }
    }
}
