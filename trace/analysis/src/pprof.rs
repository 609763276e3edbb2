//! A pprof profile (github.com/google/pprof, proto/profile.proto) of what each site allocated, holds and pins.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;
use rustc_hash::FxHashMap;
use trace_format::{Frame, FrameId, Module, Properties, SiteId, SiteTable};

use super::analysis::{Analysis, Moment};

// The messages, with the fields that are used. Numbers are the standard's.

#[derive(Clone, PartialEq, Message)]
pub struct Profile {
    #[prost(message, repeated, tag = "1")]
    pub sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    pub sample: Vec<Sample>,
    #[prost(message, repeated, tag = "3")]
    pub mapping: Vec<Mapping>,
    #[prost(message, repeated, tag = "4")]
    pub location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    pub function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    pub string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    pub time_nanos: i64,
    #[prost(int64, tag = "10")]
    pub duration_nanos: i64,
    #[prost(message, optional, tag = "11")]
    pub period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    pub period: i64,
    #[prost(int64, repeated, tag = "13")]
    pub comment: Vec<i64>,
    #[prost(int64, tag = "14")]
    pub default_sample_type: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct ValueType {
    #[prost(int64, tag = "1")]
    pub kind: i64,
    #[prost(int64, tag = "2")]
    pub unit: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    pub location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    pub value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    pub label: Vec<Label>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct Label {
    #[prost(int64, tag = "1")]
    pub key: i64,
    #[prost(int64, tag = "2")]
    pub text: i64,
    #[prost(int64, tag = "3")]
    pub number: i64,
    #[prost(int64, tag = "4")]
    pub unit: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct Mapping {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(uint64, tag = "2")]
    pub memory_start: u64,
    #[prost(uint64, tag = "3")]
    pub memory_limit: u64,
    #[prost(int64, tag = "5")]
    pub filename: i64,
    #[prost(int64, tag = "6")]
    pub build_id: i64,
    #[prost(bool, tag = "7")]
    pub has_functions: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct Location {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(uint64, tag = "2")]
    pub mapping_id: u64,
    #[prost(uint64, tag = "3")]
    pub address: u64,
    #[prost(message, repeated, tag = "4")]
    pub line: Vec<Line>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct Line {
    #[prost(uint64, tag = "1")]
    pub function_id: u64,
    #[prost(int64, tag = "2")]
    pub line: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct Function {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(int64, tag = "2")]
    pub name: i64,
    #[prost(int64, tag = "3")]
    pub system_name: i64,
    #[prost(int64, tag = "4")]
    pub filename: i64,
}

/// Modules are laid out side by side: where each one was loaded is not in a trace.
const MODULE_ROOM: u64 = 1 << 40;

fn start_of(mapping: u64) -> u64 {
    mapping.saturating_mul(MODULE_ROOM)
}

/// Of when the figures are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Of a moment of the trace.
    At(Moment),
    /// What was live when most was, and what was pinned when most of the held pages was free.
    AtTheWorst,
    /// Of a program that runs, at this time since 1970.
    Now { nanoseconds: i64, shown: Shown },
}

/// What readers show of a profile if they are not told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    InUse,
    Allocated,
}

/// Writes the profile, compressed as its readers expect it.
pub fn write(
    found: &Analysis,
    taken: Taken,
    properties: &Properties,
    sites: &SiteTable,
    out: impl Write,
) -> io::Result<()> {
    let profile = Builder::new(found, taken, properties).build(found, sites);
    let mut encoder = GzEncoder::new(out, Compression::default());
    encoder.write_all(&profile.encode_to_vec())?;
    encoder.finish()?;
    Ok(())
}

fn in_words(moment: Moment) -> &'static str {
    match moment {
        Moment::Peak => "when most was live",
        Moment::Pinned => "when most of the held pages was free",
        Moment::End => "at the end",
    }
}

struct Builder {
    profile: Profile,
    strings: FxHashMap<String, i64>,
    mappings: FxHashMap<(String, String), u64>,
    functions: FxHashMap<(String, String), u64>,
    frames: FxHashMap<FrameId, u64>,
    kinds: FxHashMap<String, u64>,
    has_ends: bool,
    has_pages: bool,
}

impl Builder {
    fn new(found: &Analysis, taken: Taken, properties: &Properties) -> Self {
        let mut builder = Self {
            profile: Profile::default(),
            strings: FxHashMap::default(),
            mappings: FxHashMap::default(),
            functions: FxHashMap::default(),
            frames: FxHashMap::default(),
            kinds: FxHashMap::default(),
            has_ends: found.has_ends(),
            has_pages: found.has_ends() && found.pages.is_some(),
        };
        // The first string must be the empty one.
        builder.string("");
        builder.describe(found, taken, properties);
        builder
    }

    fn describe(&mut self, found: &Analysis, taken: Taken, properties: &Properties) {
        let mut types = vec![("alloc_objects", "count"), ("alloc_space", "bytes")];
        if self.has_ends {
            types.extend([("inuse_objects", "count"), ("inuse_space", "bytes")]);
        }
        if self.has_pages {
            types.push(("pinned_space", "bytes"));
        }
        for (kind, unit) in types {
            let value = ValueType {
                kind: self.string(kind),
                unit: self.string(unit),
            };
            self.profile.sample_type.push(value);
        }
        let wants_allocated = matches!(
            taken,
            Taken::Now {
                shown: Shown::Allocated,
                ..
            }
        );
        let default = if self.has_ends && !wants_allocated {
            "inuse_space"
        } else {
            "alloc_space"
        };
        self.profile.default_sample_type = self.string(default);
        let period = ValueType {
            kind: self.string("space"),
            unit: self.string("bytes"),
        };
        self.profile.period_type = Some(period);
        let sample = properties.number("sample-bytes").unwrap_or(0);
        self.profile.period = i64::try_from(sample.max(1)).unwrap_or(1);
        match taken {
            // Readers take a profile with a duration for one of what happened meanwhile.
            Taken::Now { nanoseconds, .. } => self.profile.time_nanos = nanoseconds,
            _ => self.profile.duration_nanos = (found.seconds * 1e9) as i64,
        }
        let comment = match taken {
            Taken::Now { .. } => format!("inuse and pinned: now, after event {}", found.events),
            Taken::At(moment) => format!(
                "inuse and pinned: {}, after event {}",
                in_words(moment),
                found.moment.event
            ),
            Taken::AtTheWorst => format!(
                "inuse: {}, after event {}; pinned: {}, after event {}",
                in_words(Moment::Peak),
                found.peak.event,
                in_words(Moment::Pinned),
                found.moment.event
            ),
        };
        let comment = self.string(&comment);
        self.profile.comment.push(comment);
        // Readers take the first module for the program.
        self.mapping(&Module {
            path: properties.get("program").unwrap_or_default(),
            build_id: properties.get("build-id").unwrap_or_default(),
        });
        if let Some(why) = properties.get("stopped") {
            let stopped = self.string(&format!("the recording ended before the program: {why}"));
            self.profile.comment.push(stopped);
        }
        if let Some(command) = properties.get("command") {
            let command = self.string(command);
            self.profile.comment.push(command);
        }
    }

    fn build(mut self, found: &Analysis, sites: &SiteTable) -> Profile {
        for (site, figures) in found.sites.iter().enumerate() {
            if figures.allocations <= 0.0 {
                continue;
            }
            let mut value = vec![figures.allocations as i64, figures.allocated_bytes as i64];
            if self.has_ends {
                value.extend([figures.live_objects as i64, figures.live_bytes as i64]);
            }
            if self.has_pages {
                value.push(figures.pinned_bytes as i64);
            }
            let sample = Sample {
                location_id: self.stack(site as SiteId, sites),
                label: self.labels(site as SiteId, sites),
                value,
            };
            self.profile.sample.push(sample);
        }
        self.profile
    }

    /// Innermost first; the type of the objects, where known, is the innermost of all.
    fn stack(&mut self, site: SiteId, sites: &SiteTable) -> Vec<u64> {
        let known = sites.get(site).unwrap_or_default();
        let mut stack = Vec::new();
        if !known.kind.is_empty() {
            stack.push(self.kind(known.kind));
        }
        for &frame in sites.frame_ids(site) {
            stack.push(self.location(frame, &sites.frame(frame)));
        }
        if stack.is_empty() {
            stack.push(self.kind(&format!("site {site}")));
        }
        stack
    }

    fn labels(&mut self, site: SiteId, sites: &SiteTable) -> Vec<Label> {
        let known = sites.get(site).unwrap_or_default();
        let mut labels = Vec::new();
        if let Some(class) = known.size_class {
            labels.push(Label {
                key: self.string("bytes"),
                text: 0,
                number: i64::try_from(class).unwrap_or(i64::MAX),
                unit: self.string("bytes"),
            });
        }
        if let Some(depth) = known.depth {
            labels.push(Label {
                key: self.string("depth"),
                text: 0,
                number: i64::try_from(depth).unwrap_or(i64::MAX),
                unit: 0,
            });
        }
        labels
    }

    fn location(&mut self, id: FrameId, frame: &Frame) -> u64 {
        if let Some(&location) = self.frames.get(&id) {
            return location;
        }
        let mapping = self.mapping(&frame.module);
        // Readers show nothing but the module for a place without a function.
        let bare = Frame {
            file: "",
            line: 0,
            ..frame.clone()
        };
        let line = Line {
            function_id: match frame.symbol {
                "" => self.function(&bare.to_string(), ""),
                symbol => self.function(symbol, frame.file),
            },
            line: i64::from(frame.line),
        };
        let location = self.profile.location.len() as u64 + 1;
        self.profile.location.push(Location {
            id: location,
            mapping_id: mapping,
            // The call, not what comes after it.
            address: start_of(mapping)
                .saturating_add(frame.offset.saturating_sub(1).min(MODULE_ROOM - 1)),
            line: vec![line],
        });
        self.frames.insert(id, location);
        location
    }

    fn kind(&mut self, name: &str) -> u64 {
        if let Some(&location) = self.kinds.get(name) {
            return location;
        }
        let line = Line {
            function_id: self.function(name, ""),
            line: 0,
        };
        let location = self.profile.location.len() as u64 + 1;
        self.profile.location.push(Location {
            id: location,
            mapping_id: 0,
            address: 0,
            line: vec![line],
        });
        self.kinds.insert(name.to_owned(), location);
        location
    }

    fn mapping(&mut self, module: &Module) -> u64 {
        if module.path.is_empty() {
            return 0;
        }
        let key = (module.path.to_owned(), module.build_id.to_owned());
        let next = self.mappings.len() as u64 + 1;
        let id = *self.mappings.entry(key).or_insert(next);
        if id == next {
            let mapping = Mapping {
                id,
                memory_start: start_of(id),
                memory_limit: start_of(id + 1),
                filename: self.string(module.path),
                build_id: self.string(module.build_id),
                has_functions: true,
            };
            self.profile.mapping.push(mapping);
        }
        id
    }

    fn function(&mut self, name: &str, file: &str) -> u64 {
        let key = (name.to_owned(), file.to_owned());
        let next = self.functions.len() as u64 + 1;
        let id = *self.functions.entry(key).or_insert(next);
        if id == next {
            let function = Function {
                id,
                name: self.string(name),
                system_name: self.string(name),
                filename: self.string(file),
            };
            self.profile.function.push(function);
        }
        id
    }

    fn string(&mut self, text: &str) -> i64 {
        if let Some(&number) = self.strings.get(text) {
            return number;
        }
        let number = self.profile.string_table.len() as i64;
        self.profile.string_table.push(text.to_owned());
        self.strings.insert(text.to_owned(), number);
        number
    }
}
