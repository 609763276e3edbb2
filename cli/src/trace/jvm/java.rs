//! Which Java a command is, whether it can be recorded, and with which options.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::failure::Failure;
use crate::launch::executable;
use crate::launch::library::JVM_RECORDER;
use crate::measure::available::available;

/// Those before call some of what the agent needs differently; 25 was tried, and does not survive its classes being changed.
const SUPPORTED: [u32; 2] = [17, 21];
/// From here on references take 64 bits.
const LARGEST_HEAP: u64 = 31 << 30;
/// The agent takes some 300 MB of it for changing the classes that every JVM loads.
const SMALLEST_HEAP: u64 = 512 << 20;
/// Where a command's options may stand.
const VARIABLES: [&str; 3] = ["JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"];

/// Epsilon never moves or frees an object, and references of 32 bits tell objects apart. The agent sees objects before their
/// constructors have run, which the verifier would not allow. The first compiler does not optimise allocations away.
const OPTIONS: [&str; 12] = [
    "-XX:+UnlockExperimentalVMOptions",
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:+UseEpsilonGC",
    "-XX:+UseCompressedOops",
    "-XX:-BytecodeVerificationRemote",
    "-XX:TieredStopAtLevel=1",
    "-XX:-DontCompileHugeMethods",
    "-XX:+ExitOnOutOfMemoryError",
    // Constructors called by reflection are bytecode then.
    "-Dsun.reflect.noInflation=true",
    // Java 21 has them and fields set through hidden classes otherwise, which agents are not shown.
    "-Djdk.reflect.useDirectMethodHandle=false",
    // Epsilon's advice about its options would be in the program's output.
    "-Xlog:gc+init=error",
    // Frames of instrumented methods are larger.
    "-Xss4m",
];

pub struct Settings<'a> {
    pub agent: PathBuf,
    pub heap: u64,
    pub from: Option<&'a str>,
    pub jumps: bool,
}

impl Settings<'_> {
    fn options(&self, spool: &Path) -> Vec<String> {
        let mut agent = format!(
            "-javaagent:{}=spool={}",
            self.agent.display(),
            spool.display()
        );
        if let Some(from) = self.from {
            agent.push_str(&format!(",from={from}"));
        }
        if self.jumps {
            agent.push_str(",jumps=1");
        }
        let heap = self.heap >> 20;
        let sizes = [format!("-Xmx{heap}m"), "-Xms64m".to_owned(), agent];
        OPTIONS
            .map(str::to_owned)
            .into_iter()
            .chain(sizes)
            .collect()
    }
}

/// A command that is, or starts, Java.
pub struct Java {
    /// What is asked about itself.
    program: PathBuf,
    /// The command is Java itself, so that options go into its arguments.
    is_command: bool,
}

impl Java {
    pub fn of(program: &Path) -> Result<Self, Failure> {
        if is_java(program) {
            return Ok(Self {
                program: program.to_owned(),
                is_command: true,
            });
        }
        let home = env::var_os("JAVA_HOME").map(|home| PathBuf::from(home).join("bin/java"));
        let program = match home.filter(|java| java.is_file()) {
            Some(java) => java,
            None => executable::find(OsStr::new("java")).map_err(|_| {
                Failure::new(
                    "there is no java in PATH or JAVA_HOME",
                    "apt-get install openjdk-17-jre-headless",
                )
            })?,
        };
        Ok(Self {
            program,
            is_command: false,
        })
    }

    /// Before anything runs: what the command line asks for, and what this Java can do.
    pub fn check(&self, command: &[OsString]) -> Result<(), Failure> {
        let mut options: Vec<String> = Vec::new();
        if self.is_command {
            let end = options_end(command);
            options.extend(
                command[1..end]
                    .iter()
                    .map(|word| word.to_string_lossy().into_owned()),
            );
        }
        for variable in VARIABLES {
            let value = env::var(variable).unwrap_or_default();
            options.extend(value.split_whitespace().map(str::to_owned));
        }
        for option in &options {
            if let Some(why) = conflict(option) {
                return Err(Failure::new(
                    format!("{option} cannot be recorded: {why}"),
                    "the same command without it",
                ));
            }
        }
        self.check_version()
    }

    fn check_version(&self) -> Result<(), Failure> {
        let about = self.ask(&[])?;
        let property = |name: &str| {
            let line = about
                .lines()
                .find_map(|line| line.trim().strip_prefix(name));
            line.and_then(|rest| rest.trim_start().strip_prefix('='))
                .map_or("", str::trim)
                .to_owned()
        };
        let version = property("java.version");
        let machine = format!(
            "{} {version}, {}",
            property("java.vm.name"),
            property("java.vendor")
        );
        let program = self.program.display();
        let unsupported = |why: String| {
            Failure::new(
                format!("{program} cannot be recorded: {why}"),
                "apt-get install openjdk-17-jre-headless, and /usr/lib/jvm/java-17-openjdk-*/bin/java after --",
            )
        };
        if version.is_empty() {
            let said = about.lines().next().unwrap_or("nothing").to_owned();
            return Err(unsupported(format!(
                "it does not say what it is, but: {said}"
            )));
        }
        let feature = feature_of(&version);
        if !SUPPORTED.contains(&feature) {
            let known = SUPPORTED.map(|known| known.to_string()).join(" and ");
            return Err(unsupported(format!(
                "it is Java {version}; {known} are what the agent was tested with"
            )));
        }
        if !self.ask(&OPTIONS)?.contains("java.version") {
            return Err(unsupported(format!(
                "it has no Epsilon collector, under which objects stay where they are ({machine})"
            )));
        }
        Ok(())
    }

    fn ask(&self, options: &[&str]) -> Result<String, Failure> {
        let mut command = Command::new(&self.program);
        for variable in VARIABLES {
            command.env_remove(variable);
        }
        let output = command
            .args(options)
            .args(["-XshowSettings:properties", "-version"])
            .stdin(Stdio::null())
            .output()
            .map_err(|error| {
                let program = self.program.display();
                Failure::new(
                    format!("cannot run {program}: {error}"),
                    format!("{program} -version"),
                )
            })?;
        let mut said = String::from_utf8_lossy(&output.stderr).into_owned();
        said.push_str(&String::from_utf8_lossy(&output.stdout));
        Ok(said)
    }

    /// Ours stand last among the options: of two sizes of the heap the later one counts.
    pub fn command(&self, words: &[OsString], settings: &Settings, spool: &Path) -> Command {
        let options = settings.options(spool);
        let mut command = Command::new(&words[0]);
        if self.is_command {
            let end = options_end(words);
            command
                .args(&words[1..end])
                .args(options)
                .args(&words[end..]);
            return command;
        }
        let mut all = env::var_os("JAVA_TOOL_OPTIONS").unwrap_or_default();
        for option in options {
            all.push(" ");
            all.push(quoted(&option));
        }
        command.args(&words[1..]).env("JAVA_TOOL_OPTIONS", all);
        command
    }
}

/// The variable is split at white space outside quotes, which know no escapes but may follow each other within a word.
fn quoted(option: &str) -> String {
    if option.contains(|c: char| c.is_whitespace() || c == '"' || c == '\'') {
        format!("\"{}\"", option.replace('"', "\"'\"'\""))
    } else {
        option.to_owned()
    }
}

/// A JVM's command line as the user gave it: the agent has seen it with ours.
pub fn without_our_options(command: &str) -> String {
    let is_ours = |word: &&str| {
        OPTIONS.contains(word)
            || word.starts_with("-javaagent:") && word.contains(JVM_RECORDER.file_name)
    };
    let words: Vec<&str> = command.split(' ').collect();
    // The sizes of the heap stand right before the agent.
    let agent = words
        .iter()
        .position(|word| word.starts_with("-javaagent:") && is_ours(word));
    let is_size = |at: usize| agent.is_some_and(|agent| at < agent && at + 2 >= agent);
    let kept = words.iter().enumerate();
    kept.filter(|(at, word)| !is_ours(word) && !is_size(*at))
        .map(|(_, word)| *word)
        .collect::<Vec<_>>()
        .join(" ")
}

fn is_java(program: &Path) -> bool {
    program.file_name() == Some(OsStr::new("java"))
}

/// Index of the first word that is not for the JVM: the class, `-jar`, `-m`, or the end.
fn options_end(command: &[OsString]) -> usize {
    const WITH_VALUE: [&str; 9] = [
        "-cp",
        "-classpath",
        "--class-path",
        "-p",
        "--module-path",
        "--upgrade-module-path",
        "--add-modules",
        "--source",
        "--enable-native-access",
    ];
    let mut at = 1;
    while at < command.len() {
        let word = command[at].to_string_lossy();
        if word == "-jar" || word == "-m" || word == "--module" || !word.starts_with(['-', '@']) {
            break;
        }
        // `--add-opens module/package=module` may be two words as well.
        let takes_next = WITH_VALUE.contains(&&*word)
            || word.starts_with("--add-") && !word.contains('=')
            || word == "--patch-module";
        at += if takes_next { 2 } else { 1 };
    }
    at.min(command.len())
}

/// Why an option cannot be together with ours.
fn conflict(option: &str) -> Option<String> {
    let other = option
        .strip_prefix("-XX:+Use")
        .and_then(|name| name.strip_suffix("GC"));
    if let Some(collector) = other.filter(|name| *name != "Epsilon") {
        return Some(format!(
            "objects move under {collector}, and are recorded under Epsilon, which never collects"
        ));
    }
    match option {
        "-XX:-UseCompressedOops" => {
            Some("references of 32 bits are what objects are known by".into())
        }
        "-XX:-UseEpsilonGC" => Some("objects move under any other collector".into()),
        "-Xint" | "-Xshare:dump" => None,
        _ => None,
    }
}

/// 8 of `1.8.0_292`, 17 of `17.0.15`, 25 of `25-ea`.
fn feature_of(version: &str) -> u32 {
    let version = version.strip_prefix("1.").unwrap_or(version);
    let digits: String = version.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(0)
}

/// Bytes for the heap.
pub fn heap(asked: Option<&str>) -> Result<u64, Failure> {
    let Some(asked) = asked else {
        return Ok((available().unwrap_or(4 << 30) / 2).clamp(SMALLEST_HEAP, LARGEST_HEAP));
    };
    let wrong = |why: &str| {
        Failure::new(
            format!("--heap {asked}: {why}"),
            "--heap 4g, or another size from 512m to 31g",
        )
    };
    let digits = asked.trim_end_matches(|unit: char| unit.is_ascii_alphabetic());
    let unit = match asked[digits.len()..].to_ascii_lowercase().as_str() {
        "m" => 1 << 20,
        "g" => 1 << 30,
        "k" => 1 << 10,
        "" => 1,
        _ => return Err(wrong("not a size")),
    };
    let bytes = digits
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(unit))
        .ok_or_else(|| wrong("not a size"))?;
    match bytes {
        ..SMALLEST_HEAP => Err(wrong(
            "the agent and a heap that is never collected need more",
        )),
        SMALLEST_HEAP..=LARGEST_HEAP => Ok(bytes),
        _ => Err(wrong("references of 32 bits do not reach as far")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end_of(command: &str) -> usize {
        let words: Vec<OsString> = command.split(' ').map(OsString::from).collect();
        options_end(&words)
    }

    #[test]
    fn finds_where_the_jvms_options_end() {
        assert_eq!(end_of("java Main -Xmx1g"), 1);
        assert_eq!(end_of("java -Xmx1g -cp a:b Main x"), 4);
        assert_eq!(end_of("java -cp a -jar b.jar -XX:+UseG1GC"), 3);
        assert_eq!(end_of("java --add-opens a/b=c -m x/y"), 3);
        assert_eq!(end_of("java --add-opens=a/b=c @args Main"), 3);
        assert_eq!(end_of("java -version"), 2);
        assert_eq!(end_of("java -cp"), 2);
    }

    #[test]
    fn command_lines_are_told_without_our_options() {
        let settings = Settings {
            agent: PathBuf::from("/lib/pagewise-jvm-recorder.jar"),
            heap: 1 << 30,
            from: None,
            jumps: false,
        };
        let ours = settings.options(Path::new("/tmp/x")).join(" ");
        let whole = format!("java -Xmx5m -cp a:b {ours} Main -Xmx1g");
        assert_eq!(
            without_our_options(&whole),
            "java -Xmx5m -cp a:b Main -Xmx1g"
        );
        assert_eq!(without_our_options("java Main"), "java Main");
    }

    #[test]
    fn names_with_spaces_stay_one_option() {
        assert_eq!(quoted("-Xmx1g"), "-Xmx1g");
        assert_eq!(quoted("-javaagent:/a b/x"), "\"-javaagent:/a b/x\"");
        assert_eq!(quoted("it's"), "\"it's\"");
        assert_eq!(quoted("a\"b"), "\"a\"'\"'\"b\"");
    }

    #[test]
    fn refuses_other_collectors_only() {
        assert!(conflict("-XX:+UseG1GC").is_some_and(|why| why.contains("G1")));
        assert!(conflict("-XX:+UseZGC").is_some());
        assert!(conflict("-XX:-UseCompressedOops").is_some());
        for fine in [
            "-XX:+UseEpsilonGC",
            "-XX:+UseNUMA",
            "-Xmx8g",
            "-XX:-UseG1GC",
        ] {
            assert_eq!(conflict(fine), None, "{fine}");
        }
    }

    #[test]
    fn reads_versions_and_sizes() {
        let versions = ["1.8.0_292", "17.0.15", "25-ea", "strange"];
        assert_eq!(versions.map(feature_of), [8, 17, 25, 0]);
        assert_eq!(heap(Some("4g")).ok(), Some(4 << 30));
        assert_eq!(heap(Some("600M")).ok(), Some(600 << 20));
        for wrong in ["", "g", "4x", "1k", "40g", "99999999999999999999g", "-1g"] {
            assert!(heap(Some(wrong)).is_err(), "{wrong}");
        }
        assert!(heap(None).is_ok_and(|bytes| bytes <= LARGEST_HEAP));
    }
}
