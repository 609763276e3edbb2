//! The stacks of all sites as one tree, with what each holds: a flame graph, or folded lines for tools that draw one.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use serde::Serialize;
use serde::ser::SerializeStruct;
use trace_format::{Frame, SiteId, SiteTable};

use super::analysis::{Analysis, SiteFigures};

/// What a flame graph is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Bytes that were live at the moment
    Live,
    /// Bytes that were live when most were
    Peak,
    /// All bytes that were allocated
    Allocated,
    /// Bytes pinned at the moment
    Pinned,
}

/// Of a kind's sum: less is too narrow to be drawn, and is put together with others.
const NARROW: f64 = 0.0005;

/// A call, with what was allocated in it and in all that it called, for each kind that was asked for.
#[derive(Debug, Default, PartialEq)]
pub struct Node {
    pub name: String,
    pub values: Vec<f64>,
    pub children: Vec<Node>,
}

/// With the short names by which drawing libraries know them.
impl Serialize for Node {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut node = serializer.serialize_struct("Node", 3)?;
        node.serialize_field("n", &self.name)?;
        let rounded: Vec<u64> = self
            .values
            .iter()
            .map(|value| value.round() as u64)
            .collect();
        node.serialize_field("v", &rounded)?;
        if !self.children.is_empty() {
            node.serialize_field("c", &self.children)?;
        }
        node.end()
    }
}

/// What sites hold. `peak` is what of each was live when most was (`analysis::at_peak`).
pub struct Flame<'a> {
    pub found: &'a Analysis,
    pub peak: &'a [SiteFigures],
    pub sites: &'a SiteTable,
}

impl Flame<'_> {
    fn value(&self, site: usize, kind: Kind) -> f64 {
        let of = |sites: &[SiteFigures], value: fn(&SiteFigures) -> f64| {
            sites.get(site).map_or(0.0, value)
        };
        match kind {
            Kind::Live => of(&self.found.sites, |site| site.live_bytes),
            Kind::Peak => of(self.peak, |site| site.live_bytes),
            Kind::Allocated => of(&self.found.sites, |site| site.allocated_bytes),
            Kind::Pinned => of(&self.found.sites, |site| site.pinned_bytes),
        }
    }

    /// Outermost first; the type of the objects, where known, comes last.
    fn stack(&self, site: SiteId) -> Vec<String> {
        let known = self.sites.get(site).unwrap_or_default();
        let mut stack: Vec<String> = known.frames.iter().rev().map(function).collect();
        if !known.kind.is_empty() {
            stack.push(name(known.kind));
        }
        if stack.is_empty() {
            stack.push(format!("site {site}"));
        }
        stack
    }

    /// A line for each stack: its calls with semicolons between them, outermost first, and a number.
    pub fn folded(&self, kind: Kind) -> Vec<(String, u64)> {
        let mut lines: BTreeMap<String, f64> = BTreeMap::new();
        for site in 0..self.found.sites.len() {
            let value = self.value(site, kind);
            if value > 0.0 {
                *lines
                    .entry(self.stack(site as SiteId).join(";"))
                    .or_default() += value;
            }
        }
        let rounded = lines
            .into_iter()
            .map(|(stack, value)| (stack, value.round() as u64));
        rounded.filter(|(_, value)| *value > 0).collect()
    }

    /// All stacks as a tree. What is too narrow to be seen is left out, and what is narrow among its neighbours stands
    /// together.
    pub fn tree(&self, kinds: &[Kind]) -> Node {
        let mut root = Building::default();
        for site in 0..self.found.sites.len() {
            let values: Vec<f64> = kinds.iter().map(|&kind| self.value(site, kind)).collect();
            if values.iter().any(|value| *value > 0.0) {
                root.add(&self.stack(site as SiteId), &values);
            }
        }
        root.values.resize(kinds.len(), 0.0);
        let least: Vec<f64> = root.values.iter().map(|sum| sum * NARROW).collect();
        root.node("all".into(), &least)
    }
}

#[derive(Default)]
struct Building {
    values: Vec<f64>,
    children: FxHashMap<String, Building>,
}

impl Building {
    fn add(&mut self, stack: &[String], values: &[f64]) {
        self.values.resize(values.len(), 0.0);
        for (sum, value) in self.values.iter_mut().zip(values) {
            *sum += value;
        }
        if let Some((call, rest)) = stack.split_first() {
            let child = self.children.entry(call.clone()).or_default();
            child.add(rest, values);
        }
    }

    fn node(self, name: String, least: &[f64]) -> Node {
        let is_narrow = |child: &Self| {
            child
                .values
                .iter()
                .zip(least)
                .all(|(value, least)| value < least)
        };
        let (narrow, wide): (Vec<_>, Vec<_>) = self
            .children
            .into_iter()
            .partition(|(_, child)| is_narrow(child));
        let mut children: Vec<Node> = wide
            .into_iter()
            .map(|(name, child)| child.node(name, least))
            .collect();
        let sum = |node: &Node| node.values.iter().sum::<f64>();
        children.sort_by(|a, b| sum(b).total_cmp(&sum(a)).then_with(|| a.name.cmp(&b.name)));
        if !narrow.is_empty() {
            let mut rest = Node {
                name: format!("({} smaller)", narrow.len()),
                values: vec![0.0; least.len()],
                children: Vec::new(),
            };
            for (_, child) in &narrow {
                for (sum, value) in rest.values.iter_mut().zip(&child.values) {
                    *sum += value;
                }
            }
            children.push(rest);
        }
        Node {
            name,
            values: self.values,
            children,
        }
    }
}

/// As profilers name a call: by its function, else by where it is in its module. Functions of scripts are often called
/// alike, and stand beside the interpreter's: they have their files' names.
fn function(frame: &Frame) -> String {
    if frame.is_of_script() {
        let bare = Frame {
            line: 0,
            ..frame.clone()
        };
        return name(&bare.to_string());
    }
    if !frame.symbol.is_empty() {
        return name(frame.symbol);
    }
    let bare = Frame {
        file: "",
        line: 0,
        ..frame.clone()
    };
    name(&bare.to_string())
}

/// No line's end, no command for a terminal, and nothing that ends a call in a folded line.
fn name(text: &str) -> String {
    text.replace(';', ":").replace(char::is_control, "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace_format::{JIT, Module, Site};

    fn site(sites: &mut SiteTable, symbols: &[&str]) {
        let frames = symbols.iter().rev().map(|&symbol| Frame {
            module: Module {
                path: "/bin/x",
                build_id: "",
            },
            offset: 0x10,
            symbol,
            ..Frame::default()
        });
        let site = Site {
            frames: frames.collect(),
            ..Site::default()
        };
        sites.add(&site).expect("room");
    }

    fn figures(live: f64, pinned: f64) -> SiteFigures {
        SiteFigures {
            live_bytes: live,
            pinned_bytes: pinned,
            ..SiteFigures::default()
        }
    }

    fn fake() -> (Analysis, SiteTable) {
        let mut sites = SiteTable::new();
        site(&mut sites, &["main", "a", "new;\n"]);
        site(&mut sites, &["main", "b", ""]);
        site(&mut sites, &["main", "a", "new;\n"]);
        site(&mut sites, &["main", "tiny"]);
        let found = Analysis {
            sites: vec![
                figures(600.0, 0.0),
                figures(399.9, 7.0),
                figures(1000.0, 0.0),
                figures(0.4, 0.0),
                figures(0.0, 0.0),
            ],
            ..Analysis::default()
        };
        (found, sites)
    }

    #[test]
    fn equal_stacks_become_one_line_and_what_is_nothing_none() {
        let (found, sites) = fake();
        let flame = Flame {
            found: &found,
            peak: &[],
            sites: &sites,
        };
        let lines = |kind| flame.folded(kind);
        assert_eq!(
            lines(Kind::Live),
            [
                ("main;a;new:\u{fffd}".to_owned(), 1600),
                ("main;b;x+0x10".to_owned(), 400)
            ]
        );
        assert_eq!(lines(Kind::Pinned), [("main;b;x+0x10".to_owned(), 7)]);
        assert!(lines(Kind::Peak).is_empty());
    }

    #[test]
    fn functions_of_scripts_have_their_files_names() {
        let frame = Frame {
            module: Module {
                path: JIT,
                build_id: "",
            },
            offset: 6,
            symbol: "load",
            file: "/app/a;b.py",
            line: 3,
        };
        assert_eq!(function(&frame), "load (a:b.py)");
        let builtin = Frame {
            file: "",
            ..frame.clone()
        };
        assert_eq!(function(&builtin), "load");
    }

    #[test]
    fn a_call_holds_what_it_and_its_callees_do() {
        let (found, sites) = fake();
        let flame = Flame {
            found: &found,
            peak: &[],
            sites: &sites,
        };
        let root = flame.tree(&[Kind::Live, Kind::Pinned]);
        let main = &root.children[0];
        assert_eq!((root.name.as_str(), main.name.as_str()), ("all", "main"));
        assert_eq!(root.values[0].round(), 2000.0);
        let names: Vec<&str> = main.children.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "(1 smaller)"]);
        assert_eq!(main.children[0].children[0].values, [1600.0, 0.0]);
        assert_eq!(main.children[1].values[1], 7.0);
    }

    #[test]
    fn nothing_is_a_root_alone() {
        let flame = Flame {
            found: &Analysis::default(),
            peak: &[],
            sites: &SiteTable::new(),
        };
        let root = flame.tree(&[Kind::Live]);
        assert_eq!((root.values, root.children.len()), (vec![0.0], 0));
    }
}
