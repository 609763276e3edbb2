//! Names of code that a program has made while it ran: perf maps, `/tmp/perf-PID.map`, which CPython, V8, LuaJIT, .NET
//! and agents of Java write. A line for each function: start and size in hexadecimal, and a name.
//!
//! A map is what the program says, and anybody may have written it. It gives names to addresses that have none, and
//! nothing more: lines that make no sense are passed over, and how much is kept is bounded.

use std::collections::BTreeMap;

use trace_format::JIT;

use super::symbols::Found;

/// Bytes of a map that are read at most.
pub const MAX_BYTES: u64 = 64 << 20;
const MAX_NAMES: usize = 1 << 20;
/// Bytes of a name.
const MAX_NAME: usize = 1024;
/// Bytes of code that have one name: larger is no function.
const MAX_CODE: u64 = 256 << 20;

/// What V8 says of a function before its name.
const KINDS_OF_V8: [&str; 5] = ["JS:", "Eval:", "Script:", "LazyCompile:", "Function:"];
/// How V8 has compiled it.
const TIERS_OF_V8: [char; 4] = ['~', '^', '+', '*'];

/// The names of one process.
#[derive(Clone, Debug, Default)]
pub struct PerfMap {
    /// By their first address: end and name. None overlaps another.
    code: BTreeMap<u64, (u64, Box<str>)>,
}

/// What a map says of an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Generated {
    pub found: Found,
    /// In the function's code.
    pub offset: u64,
    pub is_python: bool,
}

impl PerfMap {
    pub fn parse(text: &[u8]) -> Self {
        let mut map = Self::default();
        for line in text.split(|&byte| byte == b'\n').take(MAX_NAMES) {
            if let Some((start, end, name)) = entry(line) {
                map.insert(start, end, name);
            }
        }
        map
    }

    /// How many functions have names.
    pub fn len(&self) -> usize {
        self.code.len()
    }

    pub fn is_empty(&self) -> bool {
        self.code.is_empty()
    }

    pub fn is_python(&self) -> bool {
        self.code
            .values()
            .any(|(_, name)| python_name(name).is_some())
    }

    /// The code that the call lies in which returns to the address.
    pub fn find(&self, address: u64) -> Option<Generated> {
        let call = address.checked_sub(1)?;
        let (&start, (end, name)) = self.code.range(..=call).next_back()?;
        (call < *end).then(|| Generated {
            found: named(name),
            offset: address - start,
            is_python: python_name(name).is_some(),
        })
    }

    /// With what another map says of code that this one says nothing of.
    pub fn over(self, other: &Self) -> Self {
        let mut all = other.clone();
        for (start, (end, name)) in self.code {
            all.insert(start, end, name);
        }
        all
    }

    /// Code is made where other code was: what was said last holds.
    fn insert(&mut self, start: u64, end: u64, name: Box<str>) {
        while let Some((&other, _)) = self
            .code
            .range(..end)
            .next_back()
            .filter(|(_, (others_end, _))| *others_end > start)
        {
            self.code.remove(&other);
        }
        self.code.insert(start, (end, name));
    }
}

fn entry(line: &[u8]) -> Option<(u64, u64, Box<str>)> {
    let mut words = line.splitn(3, |&byte| byte == b' ');
    let mut number = || {
        let word = std::str::from_utf8(words.next()?).ok()?;
        let digits = word.strip_prefix("0x").unwrap_or(word);
        // A sign would be taken as part of the number.
        let is_plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        u64::from_str_radix(digits, 16).ok().filter(|_| is_plain)
    };
    let (start, size) = (number()?, number()?);
    let name = words.next()?;
    let name = &name[..name.len().min(MAX_NAME)];
    let is_code = (1..=MAX_CODE).contains(&size) && !name.is_empty();
    let end = start.checked_add(size).filter(|_| is_code)?;
    Some((start, end, String::from_utf8_lossy(name).into()))
}

/// As a person names it: "py::load:/app/a.py" is load in a.py, "JS:*load /app/a.js:12:3" is load in line 12.
fn named(name: &str) -> Found {
    if let Some((symbol, file)) = python_name(name) {
        return found(symbol, file, 0);
    }
    of_v8(name).unwrap_or_else(|| found(name, "", 0))
}

fn found(symbol: &str, file: &str, line: u32) -> Found {
    Found {
        symbol: symbol.to_owned(),
        file: file.to_owned(),
        line,
    }
}

fn python_name(name: &str) -> Option<(&str, &str)> {
    let (symbol, file) = name.strip_prefix("py::")?.split_once(':')?;
    (!symbol.is_empty() && !file.is_empty()).then_some((symbol, file))
}

fn of_v8(name: &str) -> Option<Found> {
    let rest = KINDS_OF_V8
        .iter()
        .find_map(|kind| name.strip_prefix(kind))?;
    let rest = rest.trim_start_matches(TIERS_OF_V8);
    let number = |text: &str| text.parse::<u32>().ok();
    let (before, column) = rest.rsplit_once(':')?;
    let (before, line) = before.rsplit_once(':')?;
    number(column)?;
    let (symbol, file) = before.split_once(' ')?;
    let symbol = match symbol {
        "" => "(anonymous)",
        symbol => symbol,
    };
    Some(found(symbol, file, number(line)?))
}

/// What of CPython stands between two of its functions, and says nothing that they do not.
const GLUE: [&str; 8] = [
    "_PyEval_EvalFrameDefault",
    "_PyEval_EvalFrame",
    "_PyEval_Vector",
    "_PyFunction_Vectorcall",
    "_PyObject_VectorcallTstate",
    "_PyObject_Vectorcall",
    "PyObject_Vectorcall",
    "py_trampoline_evaluator",
];
const EVALUATOR: &str = GLUE[0];

/// A frame as far as folding looks at it.
pub trait Foldable {
    fn symbol(&self) -> &str;
    fn path(&self) -> &str;
    fn is_python(&self) -> bool;
}

/// Leaves out the interpreter's own frames around each of Python's: the evaluator that works for it, and how it was
/// called. Innermost first.
pub fn fold<T: Foldable>(frames: &mut Vec<T>) {
    let mut is_kept = vec![true; frames.len()];
    let mut interpreter = None;
    for at in 0..frames.len() {
        if !frames[at].is_python() {
            continue;
        }
        // What a frame of Python's calls is the evaluator, which has no name either where it is stripped.
        let is_evaluator = |frame: &T| match frame.symbol() {
            "" => frame.path() != JIT,
            symbol => symbol.starts_with(EVALUATOR),
        };
        if at > 0 && is_evaluator(&frames[at - 1]) {
            is_kept[at - 1] = false;
            interpreter = Some(at - 1);
        }
        // Of a stripped interpreter most functions have no names.
        let module = interpreter.map(|at| frames[at].path());
        let is_glue = |frame: &T| match frame.symbol() {
            "" => frame.path() != JIT && Some(frame.path()) == module,
            symbol => GLUE.contains(&symbol),
        };
        for outer in at + 1..frames.len() {
            if !is_glue(&frames[outer]) {
                break;
            }
            is_kept[outer] = false;
        }
    }
    let mut kept = is_kept.into_iter();
    frames.retain(|_| kept.next().unwrap_or(true));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(map: &PerfMap, address: u64) -> Option<(String, String, u32, u64)> {
        map.find(address).map(|generated| {
            let Found { symbol, file, line } = generated.found;
            (symbol, file, line, generated.offset)
        })
    }

    fn is(symbol: &str, file: &str, line: u32, offset: u64) -> Option<(String, String, u32, u64)> {
        Some((symbol.to_owned(), file.to_owned(), line, offset))
    }

    #[test]
    fn functions_are_named_as_people_name_them() {
        let map = PerfMap::parse(
            b"1000 b py::C.load:/app/a.py\n\
              100b b py::<lambda>:<frozen importlib._bootstrap>\n\
              2000 10 JS:*keep /app/my file.js:12:3\n\
              0x2010 10 Eval:~ node:internal/main:1:1\n\
              2020 10 Builtin:ArgumentsAdaptor\n\
              2030 10 py::\n\
              2040 10 JS:~strange\n\
              2050 10 a b c\r\n",
        );
        assert_eq!(at(&map, 0x1006), is("C.load", "/app/a.py", 0, 6));
        // It returns to where the next one begins.
        assert_eq!(at(&map, 0x100b), is("C.load", "/app/a.py", 0, 11));
        assert_eq!(
            at(&map, 0x100c),
            is("<lambda>", "<frozen importlib._bootstrap>", 0, 1)
        );
        assert_eq!(at(&map, 0x2008), is("keep", "/app/my file.js", 12, 8));
        assert_eq!(
            at(&map, 0x2018),
            is("(anonymous)", "node:internal/main", 1, 8)
        );
        assert_eq!(at(&map, 0x2028), is("Builtin:ArgumentsAdaptor", "", 0, 8));
        assert_eq!(at(&map, 0x2038), is("py::", "", 0, 8));
        assert_eq!(at(&map, 0x2048), is("JS:~strange", "", 0, 8));
        assert_eq!(at(&map, 0x2058), is("a b c\r", "", 0, 8));
        assert_eq!(at(&map, 0x1000), None);
        assert_eq!(at(&map, 0x1017), None);
        assert_eq!(at(&map, 0), None);
        assert!(map.is_python() && !PerfMap::parse(b"1 1 py::").is_python());
    }

    #[test]
    fn what_was_said_last_holds() {
        let map = PerfMap::parse(b"100 100 old\n300 10 other\n180 100 new\n100 10 newer\n");
        let names = [(0x150, None), (0x190, Some("new")), (0x105, Some("newer"))];
        for (address, name) in names {
            let found = map.find(address).map(|generated| generated.found.symbol);
            assert_eq!(found.as_deref(), name, "{address:x}");
        }
        assert_eq!(map.len(), 3);
        let over = PerfMap::parse(b"185 1 newest\n").over(&map);
        let name = |address| over.find(address).map(|generated| generated.found.symbol);
        assert_eq!(name(0x186).as_deref(), Some("newest"));
        assert_eq!(name(0x105).as_deref(), Some("newer"));
        assert_eq!(over.len(), 3);
    }

    #[test]
    fn lines_that_make_no_sense_are_passed_over() {
        let map = PerfMap::parse(
            b"\n \n  \nx\n1000\n1000 10\n1000 10 \nzz 10 bad\n1000 zz bad\n-1000 10 bad\n+1000 10 bad\n1000 0 empty\n\
              ffffffffffffffff 10 over\n10000000000000000 1 over\n0 ffffffffffffffff all\n1000 10000001 huge\n\
              \xff\xfe 10 bad\n2000 10 \xff\0\x1b[31m\n3000 10 good",
        );
        assert_eq!(map.len(), 2);
        assert_eq!(at(&map, 0x3001), is("good", "", 0, 1));
        assert_eq!(at(&map, 0x2001), is("\u{fffd}\0\u{1b}[31m", "", 0, 1));
        assert!(PerfMap::parse(b"").is_empty());
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut text = b"1000 10 ".to_vec();
        text.resize(1 << 20, b'n');
        let map = PerfMap::parse(&text);
        assert_eq!(
            map.find(0x1001).map(|one| one.found.symbol.len()),
            Some(MAX_NAME)
        );
        let lines: String = (0..MAX_NAMES + 100)
            .map(|at| format!("{at:x}0 10 f\n"))
            .collect();
        assert_eq!(PerfMap::parse(lines.as_bytes()).len(), MAX_NAMES);
    }

    #[test]
    fn damaged_maps_are_survived() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let whole: String = (0..100_u64)
            .map(|at| format!("{:x} {:x} py::f{at}:/a.py\n", at * 16, at % 40))
            .collect();
        for _ in 0..300 {
            let mut text = whole.clone().into_bytes();
            for _ in 0..random.usize(1..40) {
                let at = random.usize(..text.len());
                text[at] = random.u8(..);
            }
            let map = PerfMap::parse(&text);
            let mut before = 0;
            for (start, (end, _)) in &map.code {
                assert!(before <= *start && start < end);
                before = *end;
            }
        }
    }

    struct Fake(&'static str, &'static str, bool);

    impl Foldable for Fake {
        fn symbol(&self) -> &str {
            self.0
        }
        fn path(&self) -> &str {
            self.1
        }
        fn is_python(&self) -> bool {
            self.2
        }
    }

    fn folded(frames: &[(&'static str, &'static str)]) -> Vec<&'static str> {
        let fake = |&(symbol, path)| Fake(symbol, path, path == JIT);
        let mut frames: Vec<Fake> = frames.iter().map(fake).collect();
        fold(&mut frames);
        frames.iter().map(|frame| frame.0).collect()
    }

    #[test]
    fn the_interpreter_is_left_out_around_pythons_frames() {
        let python = "/usr/bin/python3";
        let frames = [
            ("list_resize", python),
            ("_PyEval_EvalFrameDefault", python),
            ("inner", JIT),
            ("py_trampoline_evaluator", python),
            ("_PyEval_Vector", python),
            ("slot_tp_init", python),
            ("_PyEval_EvalFrameDefault.cold", python),
            ("outer", JIT),
            ("", python),
            ("_PyEval_Vector", python),
            ("", "/lib/libc.so.6"),
            ("_PyEval_Vector", python),
        ];
        assert_eq!(
            folded(&frames),
            [
                "list_resize",
                "inner",
                "slot_tp_init",
                "outer",
                "",
                "_PyEval_Vector"
            ]
        );
    }

    /// As Debian's Python 3.14, whose evaluator is no exported function.
    #[test]
    fn an_interpreter_without_names_is_left_out_as_well() {
        let python = "/usr/bin/python3.14";
        let frames = [
            ("PyByteArray_Type", python),
            ("", python),
            ("inner", JIT),
            ("", python),
            ("", python),
            ("outer", JIT),
            ("", python),
            ("PyEval_EvalCode", python),
        ];
        assert_eq!(
            folded(&frames),
            ["PyByteArray_Type", "inner", "outer", "PyEval_EvalCode"]
        );
    }

    /// Without Python's own frames the interpreter is all there is.
    #[test]
    fn an_interpreter_alone_stays() {
        let frames = [
            ("_PyEval_EvalFrameDefault", "/python"),
            ("_PyEval_Vector", "/python"),
        ];
        assert_eq!(
            folded(&frames),
            ["_PyEval_EvalFrameDefault", "_PyEval_Vector"]
        );
        assert!(folded(&[]).is_empty());
        assert_eq!(folded(&[("f", JIT), ("", JIT)]), ["f", ""]);
    }
}
