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
const OPTIONS: [&str; 11] = [
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
];
/// Frames of instrumented methods are larger.
const SMALLEST_STACK: u64 = 4 << 20;
/// Has Java take words that begin with `@` as they are, not for the names of files with more words.
const NO_FILES: &str = "--disable-@files";

pub struct Settings<'a> {
    pub agent: PathBuf,
    pub heap: u64,
    pub from: Option<&'a str>,
    pub jumps: bool,
}

impl Settings<'_> {
    fn options(&self, spool: &Path, users: &[String]) -> Vec<String> {
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
        let stack = users
            .iter()
            .filter_map(|option| stack_bytes(option))
            .next_back();
        let stack = stack.unwrap_or(0).max(SMALLEST_STACK).div_ceil(1 << 20);
        let sizes = [
            format!("-Xss{stack}m"),
            format!("-Xmx{heap}m"),
            "-Xms64m".to_owned(),
            agent,
        ];
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
        if self.is_command {
            check_files(command)?;
        }
        for option in &self.users_options(command) {
            if let Some(why) = conflict(option) {
                return Err(Failure::new(
                    format!("{option} cannot be recorded: {why}"),
                    "the same command without it",
                ));
            }
        }
        self.check_version()
    }

    /// On the command line and in variables.
    fn users_options(&self, command: &[OsString]) -> Vec<String> {
        let mut options: Vec<String> = Vec::new();
        for variable in VARIABLES {
            let value = env::var(variable).unwrap_or_default();
            // Java takes quotes off as well; of words with spaces in them none is looked for here.
            let words = value.split_whitespace();
            options.extend(words.map(|word| word.trim_matches(['"', '\'']).to_owned()));
        }
        if self.is_command {
            let words = &command[1..options_end(command)];
            options.extend(words.iter().map(|word| word.to_string_lossy().into_owned()));
        }
        options
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
        if version.is_empty() {
            let said = about.lines().next().unwrap_or("nothing").to_owned();
            return Err(self.unsupported(format!("it does not say what it is, but: {said}")));
        }
        let feature = feature_of(&version);
        if !SUPPORTED.contains(&feature) {
            let known = SUPPORTED.map(|known| known.to_string()).join(" and ");
            return Err(self.unsupported(format!(
                "it is Java {version}; {known} are what the agent was tested with"
            )));
        }
        self.check_with_ours(&machine)
    }

    fn check_with_ours(&self, machine: &str) -> Result<(), Failure> {
        let with_ours = self.ask(&[&OPTIONS[..], &["--list-modules"]].concat())?;
        if !with_ours.contains("java.version") {
            return Err(self.unsupported(format!(
                "it has no Epsilon collector, under which objects stay where they are ({machine})"
            )));
        }
        // With its version behind it, mostly.
        let mut modules = with_ours.lines().map(|line| line.split('@').next());
        if !modules.any(|name| name == Some("java.instrument")) {
            return Err(self.unsupported(format!(
                "it was made without the module java.instrument, which loads agents ({machine})"
            )));
        }
        Ok(())
    }

    fn unsupported(&self, why: String) -> Failure {
        let program = self.program.display();
        Failure::new(
            format!("{program} cannot be recorded: {why}"),
            "apt-get install openjdk-17-jre-headless, and /usr/lib/jvm/java-17-openjdk-*/bin/java after --",
        )
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
        let options = settings.options(spool, &self.users_options(words));
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
    // The sizes of stack and heap stand right before the agent.
    let agent = words
        .iter()
        .position(|word| word.starts_with("-javaagent:") && is_ours(word));
    let is_size = |at: usize| agent.is_some_and(|agent| at < agent && at + 3 >= agent);
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
    const WITH_VALUE: [&str; 12] = [
        "-cp",
        "-classpath",
        "--class-path",
        "-p",
        "--module-path",
        "--upgrade-module-path",
        "--add-modules",
        "--limit-modules",
        "--describe-module",
        "-d",
        "--source",
        "--enable-native-access",
    ];
    let mut at = 1;
    let mut reads_files = true;
    while at < command.len() {
        let word = command[at].to_string_lossy();
        // `@@name` is the word `@name`.
        let is_file = reads_files && word.starts_with('@') && !word.starts_with("@@");
        let is_option = word.starts_with('-') || is_file;
        let names_module = word == "-m" || word == "--module" || word.starts_with("--module=");
        if word == "-jar" || names_module || !is_option {
            break;
        }
        reads_files &= word != NO_FILES;
        // `--add-opens module/package=module` may be two words as well.
        let takes_next = WITH_VALUE.contains(&&*word)
            || word.starts_with("--add-") && !word.contains('=')
            || word == "--patch-module";
        at += if takes_next { 2 } else { 1 };
    }
    at.min(command.len())
}

/// Which words are read from such a file is Java's own affair, and the program's class may be among them.
fn check_files(command: &[OsString]) -> Result<(), Failure> {
    let options = command[..options_end(command)].iter();
    let is_file = |word: &&OsString| word.to_string_lossy().starts_with('@');
    let Some(file) = options.take_while(|word| *word != NO_FILES).find(is_file) else {
        return Ok(());
    };
    let file = file.to_string_lossy();
    Err(Failure::new(
        format!(
            "{file} cannot be recorded: the agent's options belong between its words, as the program's class may be one"
        ),
        format!("the same command, with the words of {file} in its place"),
    ))
}

/// Of a thread's stack, if that is what the option sets.
fn stack_bytes(option: &str) -> Option<u64> {
    if let Some(kilobytes) = option.strip_prefix("-XX:ThreadStackSize=") {
        return size(kilobytes)?.checked_mul(1 << 10);
    }
    size(option.strip_prefix("-Xss")?)
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
        "-Xverify"
        | "-Xverify:all"
        | "-Xverify:remote"
        | "-XX:+BytecodeVerificationLocal"
        | "-XX:+BytecodeVerificationRemote" => {
            Some("the agent sees objects before the verifier lets anybody see them".into())
        }
        _ if option.starts_with('@') => Some("a file of options is not looked into".into()),
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
    match size(asked).ok_or_else(|| wrong("not a size"))? {
        ..SMALLEST_HEAP => Err(wrong(
            "the agent and a heap that is never collected need more",
        )),
        bytes @ SMALLEST_HEAP..=LARGEST_HEAP => Ok(bytes),
        _ => Err(wrong("references of 32 bits do not reach as far")),
    }
}

/// As Java writes them.
fn size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|unit: char| unit.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "g" => 1 << 30,
        "m" => 1 << 20,
        "k" => 1 << 10,
        "" => 1,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
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
        assert_eq!(end_of("java -p mods --module=x/y @args"), 3);
        assert_eq!(end_of("java --add-opens=a/b=c @args Main"), 3);
        assert_eq!(end_of("java -d java.base -version"), 4);
        assert_eq!(end_of("java --limit-modules java.base Main"), 3);
        assert_eq!(end_of("java --describe-module java.base"), 3);
        assert_eq!(end_of("java --disable-@files @Main x"), 2);
        assert_eq!(end_of("java @@Main x"), 1);
        assert_eq!(end_of("java -version"), 2);
        assert_eq!(end_of("java -cp"), 2);
    }

    fn settings() -> Settings<'static> {
        Settings {
            agent: PathBuf::from("/lib/pagewise-jvm-recorder.jar"),
            heap: 1 << 30,
            from: None,
            jumps: false,
        }
    }

    #[test]
    fn command_lines_are_told_without_our_options() {
        let ours = settings().options(Path::new("/tmp/x"), &[]).join(" ");
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
    fn stacks_have_sizes() {
        let sizes = [
            "-Xss64m",
            "-Xss512K",
            "-XX:ThreadStackSize=8192",
            "-Xssmuch",
            "-Xmx1g",
        ];
        let bytes = [Some(64 << 20), Some(512 << 10), Some(8 << 20), None, None];
        assert_eq!(sizes.map(stack_bytes), bytes);
        let of = |users: &str| {
            let users = users.split(' ').map(str::to_owned).collect::<Vec<_>>();
            settings().options(Path::new("/tmp/x"), &users)
        };
        assert!(of("-Xss512k").contains(&"-Xss4m".to_owned()));
        assert!(of("-Xss512k -Xss64m").contains(&"-Xss64m".to_owned()));
        assert!(of("-XX:ThreadStackSize=8192 -Xmx1g").contains(&"-Xss8m".to_owned()));
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
