//! What the places of one trace allocated, held and pinned more or less than those of another.
//!
//! Where a place is in its module does not change from run to run, so it is matched by module, offset and symbol. In a
//! module that was built anew offsets mean nothing: there its places are matched by function, those of one together. So
//! they are in code that the programs have made themselves, by function and file.

use std::hash::Hash;

use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;
use trace_format::{Frame, FrameId, JIT, Properties, SiteId, SiteTable};

use super::analysis::{Analysis, SiteFigures};

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum Measure {
    /// Bytes that were live at the moment
    Live,
    /// All bytes that were allocated
    Allocated,
    /// The number of allocations
    Number,
    /// Bytes pinned at the moment
    Pinned,
}

impl Measure {
    pub fn of(self, figures: &SiteFigures) -> f64 {
        match self {
            Self::Live => figures.live_bytes,
            Self::Allocated => figures.allocated_bytes,
            Self::Number => figures.allocations,
            Self::Pinned => figures.pinned_bytes,
        }
    }
}

/// One of the two traces.
pub struct Side<'a> {
    pub found: &'a Analysis,
    pub sites: &'a SiteTable,
    pub properties: &'a Properties,
}

/// A place, and what it did in each trace.
#[derive(Clone, Debug, Default)]
pub struct Change {
    /// One of the place's sites; none where the place is not in that trace.
    pub before: Option<SiteId>,
    pub after: Option<SiteId>,
    pub was: SiteFigures,
    pub is: SiteFigures,
}

impl Change {
    pub fn of(&self, measure: Measure) -> f64 {
        measure.of(&self.is) - measure.of(&self.was)
    }

    pub fn is_new(&self) -> bool {
        self.before.is_none()
    }

    pub fn has_vanished(&self) -> bool {
        self.after.is_none()
    }

    /// Is it in both, and does the same in both?
    pub fn is_none(&self) -> bool {
        let measures = [
            Measure::Live,
            Measure::Allocated,
            Measure::Number,
            Measure::Pinned,
        ];
        let is_same = measures.iter().all(|&measure| self.of(measure) == 0.0);
        is_same && !self.is_new() && !self.has_vanished()
    }
}

/// Where a frame is, the same in both traces.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Spot<'a> {
    module: &'a str,
    symbol: &'a str,
    /// Of code that the program has made; else the module tells.
    file: &'a str,
    /// 0 where the function alone tells.
    offset: u64,
}

/// All places of the two traces, and the modules that were built anew between them.
pub struct Diff {
    pub changes: Vec<Change>,
    pub rebuilt: Vec<String>,
}

/// `with_callers`: places are whole stacks. Else they are the calls that allocated, as where only one trace has stacks.
pub fn diff(before: &Side, after: &Side, with_callers: bool) -> Diff {
    let rebuilt = rebuilt(before, after);
    let mut places: FxHashMap<(&str, Vec<Spot>), usize> = FxHashMap::default();
    let mut changes: Vec<Change> = Vec::new();
    for (side, is_after) in [(before, false), (after, true)] {
        let names = Names::of(side, &rebuilt);
        for (site, figures) in (0..).zip(&side.found.sites) {
            if figures.allocations <= 0.0 {
                continue;
            }
            let next = changes.len();
            let place = match names.place(site, with_callers) {
                Some(place) => *places.entry(place).or_insert(next),
                // A site of which nothing is known is no other's equal.
                None => next,
            };
            if place == next {
                changes.push(Change::default());
            }
            let change = &mut changes[place];
            let (seen, sum) = match is_after {
                false => (&mut change.before, &mut change.was),
                true => (&mut change.after, &mut change.is),
            };
            seen.get_or_insert(site);
            sum.add(figures);
        }
    }
    let mut rebuilt: Vec<String> = rebuilt.into_iter().map(str::to_owned).collect();
    rebuilt.sort();
    Diff { changes, rebuilt }
}

/// The names that one trace's places have in both.
struct Names<'a> {
    sites: &'a SiteTable,
    rebuilt: &'a FxHashSet<&'a str>,
    programs: [Option<&'a str>; 2],
}

impl<'a> Names<'a> {
    fn of(side: &Side<'a>, rebuilt: &'a FxHashSet<&'a str>) -> Self {
        Self {
            sites: side.sites,
            rebuilt,
            programs: programs(side.properties),
        }
    }

    fn place(&self, site: SiteId, with_callers: bool) -> Option<(&'a str, Vec<Spot<'a>>)> {
        let known = self.sites.get(site)?;
        let count = match with_callers {
            true => known.frames.len(),
            false => known.frames.len().min(1),
        };
        let frames: Vec<Spot> = known.frames[..count]
            .iter()
            .map(|frame| self.spot(frame))
            .collect();
        (!frames.is_empty() || !known.kind.is_empty()).then_some((known.kind, frames))
    }

    fn spot(&self, frame: &Frame<'a>) -> Spot<'a> {
        let module = module_name(frame.module.path, self.programs);
        let is_generated = module == JIT;
        let is_by_function =
            is_generated || self.rebuilt.contains(module) && !frame.symbol.is_empty();
        Spot {
            module,
            symbol: frame.symbol,
            file: if is_generated { frame.file } else { "" },
            offset: if is_by_function { 0 } else { frame.offset },
        }
    }
}

/// The program's file, and the name by which it was started.
fn programs(properties: &Properties) -> [Option<&str>; 2] {
    let started = properties
        .get("command")
        .and_then(|command| command.split(' ').next());
    [properties.get("program"), started].map(|path| path.map(base_name))
}

/// The same for a program and for a library wherever they lie, for a library's versions, and for programs to be compared
/// whatever they are called.
fn module_name<'a>(path: &'a str, programs: [Option<&str>; 2]) -> &'a str {
    let name = base_name(path);
    if programs.contains(&Some(name)) {
        return PROGRAM;
    }
    match name.find(".so.") {
        Some(at) => &name[..at + 3],
        None => name,
    }
}

const PROGRAM: &str = "the program";

fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Modules of which the two traces have builds, and none in common.
fn rebuilt<'a>(before: &Side<'a>, after: &Side<'a>) -> FxHashSet<&'a str> {
    let (was, is) = (builds(before), builds(after));
    let is_other = |(name, builds): &(&&'a str, &FxHashSet<&'a str>)| {
        was.get(**name)
            .is_some_and(|others| others.is_disjoint(builds))
    };
    is.iter().filter(is_other).map(|(name, _)| *name).collect()
}

/// The build ids of each module that is in a trace's places.
fn builds<'a>(side: &Side<'a>) -> FxHashMap<&'a str, FxHashSet<&'a str>> {
    let programs = programs(side.properties);
    let mut builds: FxHashMap<&str, FxHashSet<&str>> = FxHashMap::default();
    let mut seen: FxHashSet<FrameId> = FxHashSet::default();
    for site in 0..side.sites.len() as SiteId {
        for &id in side.sites.frame_ids(site) {
            let module = side.sites.frame(id).module;
            if seen.insert(id) && !module.path.is_empty() && !module.build_id.is_empty() {
                let name = module_name(module.path, programs);
                builds.entry(name).or_default().insert(module.build_id);
            }
        }
    }
    builds
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace_format::{Module, Site};

    /// A trace whose sites each allocated so many bytes in one allocation.
    struct Fake {
        found: Analysis,
        sites: SiteTable,
        properties: Properties,
    }

    impl Fake {
        fn new(program: &str) -> Self {
            Self {
                found: Analysis::default(),
                sites: SiteTable::new(),
                properties: Properties::new().with("program", program),
            }
        }

        fn with(mut self, path: &str, build_id: &str, frames: &[(&str, u64)], bytes: f64) -> Self {
            let module = Module { path, build_id };
            let frames = frames.iter().map(|&(symbol, offset)| Frame {
                module: module.clone(),
                offset,
                symbol,
                ..Frame::default()
            });
            let site = Site {
                frames: frames.collect(),
                ..Site::default()
            };
            self.sites.add(&site).expect("room");
            self.found.sites.push(SiteFigures {
                allocations: 1.0,
                allocated_bytes: bytes,
                ..SiteFigures::default()
            });
            self
        }

        fn side(&self) -> Side<'_> {
            Side {
                found: &self.found,
                sites: &self.sites,
                properties: &self.properties,
            }
        }
    }

    fn changes(before: &Fake, after: &Fake, with_callers: bool) -> Vec<(bool, bool, f64)> {
        diff(&before.side(), &after.side(), with_callers)
            .changes
            .iter()
            .map(|one| {
                (
                    one.before.is_some(),
                    one.after.is_some(),
                    one.of(Measure::Allocated),
                )
            })
            .collect()
    }

    #[test]
    fn places_of_one_build_are_told_apart_by_their_offsets() {
        let before = Fake::new("/bin/x")
            .with("/bin/x", "aa", &[("f", 10)], 5.0)
            .with("/bin/x", "aa", &[("f", 20)], 7.0);
        let after = Fake::new("/bin/x")
            .with("/bin/x", "aa", &[("f", 20)], 70.0)
            .with("/bin/x", "aa", &[("f", 30)], 1.0);
        assert_eq!(
            changes(&before, &after, true),
            [(true, false, -5.0), (true, true, 63.0), (false, true, 1.0)]
        );
    }

    /// Other offsets, another name and another folder; a library's next version.
    #[test]
    fn places_of_another_build_are_matched_by_function() {
        let before = Fake::new("/bin/x-1")
            .with("/bin/x-1", "aa", &[("f", 10)], 5.0)
            .with("/bin/x-1", "aa", &[("f", 20)], 7.0)
            .with("/lib/libz.so.1.2", "cc", &[("g", 3)], 1.0);
        let after = Fake::new("/new/x-2")
            .with("/new/x-2", "bb", &[("f", 99)], 20.0)
            .with("/usr/lib/libz.so.1.3", "dd", &[("g", 4)], 1.0);
        let found = diff(&before.side(), &after.side(), true);
        assert_eq!(found.rebuilt, ["libz.so", "the program"]);
        assert_eq!(
            changes(&before, &after, true),
            [(true, true, 8.0), (true, true, 0.0)]
        );
        assert!(found.changes[1].is_none() && !found.changes[0].is_none());
    }

    /// One function, compiled anew at another place; its name in another file is another's.
    #[test]
    fn generated_code_is_matched_by_function_and_file() {
        let before = Fake::new("/bin/x").with(JIT, "", &[("f", 6)], 5.0);
        let after = Fake::new("/bin/x").with(JIT, "", &[("f", 90)], 7.0);
        assert_eq!(changes(&before, &after, true), [(true, true, 2.0)]);
        let mut elsewhere = Fake::new("/bin/x").with(JIT, "", &[], 7.0);
        elsewhere.sites = SiteTable::new();
        let frame = Frame {
            module: Module {
                path: JIT,
                build_id: "",
            },
            offset: 6,
            symbol: "f",
            file: "b.py",
            line: 0,
        };
        let site = Site {
            frames: vec![frame],
            ..Site::default()
        };
        elsewhere.sites.add(&site).expect("room");
        assert_eq!(changes(&before, &elsewhere, true).len(), 2);
    }

    #[test]
    fn a_stack_is_a_place_and_its_innermost_call_another() {
        let before = Fake::new("/bin/x").with("/bin/x", "aa", &[("f", 1), ("g", 2)], 5.0);
        let after = Fake::new("/bin/x").with("/bin/x", "aa", &[("f", 1), ("h", 3)], 5.0);
        assert_eq!(changes(&before, &after, true).len(), 2);
        assert_eq!(changes(&before, &after, false), [(true, true, 0.0)]);
    }

    #[test]
    fn sites_of_which_nothing_is_known_are_nobodys_equal() {
        let before = Fake::new("/bin/x").with("", "", &[], 5.0);
        assert_eq!(
            changes(&before, &before, true),
            [(true, false, -5.0), (false, true, 5.0)]
        );
    }
}
