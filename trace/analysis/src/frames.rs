//! Names for sites: the modules, functions and lines of their return addresses.

use std::path::{Path, PathBuf};

use trace_format::{Frame, JIT, Module, Result, Site, SiteTable};

use super::objects::SiteKey;
use super::perf_map::{self, Foldable, PerfMap};
use super::spool::{Header, Place, PlaceId, Return, Spool, Tables};
use super::symbols::Symbols;

/// Adds what is known of these sites.
pub fn add_sites(
    sites: &mut SiteTable,
    keys: &[SiteKey],
    spool: &Spool,
    symbols: &mut Symbols,
    generated: &PerfMap,
) -> Result<()> {
    if keys.is_empty() {
        return Ok(());
    }
    let started_as = started_as(&spool.header);
    for &(place, class) in keys {
        let mut resolved = Vec::new();
        let depth = addresses_of(&spool.tables, place, &mut resolved);
        let mut frames: Vec<Resolved> = resolved
            .iter()
            .map(|&(at, seen)| Resolved::of(&spool.tables, at, seen, symbols, generated))
            .collect();
        perf_map::fold(&mut frames);
        for frame in &mut frames {
            if let Some(name) = started_as
                .as_ref()
                .filter(|_| frame.path == spool.header.program)
            {
                frame.path.clone_from(name);
            }
        }
        sites.add(&Site {
            kind: "",
            depth,
            size_class: Some(class),
            frames: frames.iter().map(Resolved::frame).collect(),
        })?;
    }
    Ok(())
}

/// The name by which the program was started, where that is a link to it: nobody knows Debian's redis-server as redis-check-rdb.
fn started_as(header: &Header) -> Option<String> {
    let word = header.name.as_str();
    let is_program = |path: &PathBuf| {
        path.canonicalize()
            .is_ok_and(|real| real == Path::new(&header.program))
    };
    let found = if word.contains('/') {
        Some(PathBuf::from(word)).filter(is_program)
    } else {
        let folders = std::env::var_os("PATH")?;
        std::env::split_paths(&folders)
            .map(|folder| folder.join(word))
            .find(is_program)
    };
    let found = std::path::absolute(found?).ok()?;
    (found != Path::new(&header.program)).then(|| found.to_string_lossy().into_owned())
}

/// The return addresses of a place, each with the time at which it was seen; its depth.
fn addresses_of(tables: &Tables, place: PlaceId, out: &mut Vec<(Return, u64)>) -> Option<u64> {
    match tables.place(place)? {
        (Place::Caller { at, depth }, stamp) => {
            out.push((*at, *stamp));
            // 0 is a stack that is not the thread's own.
            u64::from(*depth).checked_sub(1)
        }
        (Place::Stack(stack), stamp) => {
            out.extend(stack.iter().map(|&at| (at, *stamp)));
            None
        }
    }
}

struct Resolved {
    path: String,
    build_id: String,
    offset: u64,
    symbol: String,
    file: String,
    line: u32,
    is_python: bool,
}

impl Foldable for Resolved {
    fn symbol(&self) -> &str {
        &self.symbol
    }

    fn path(&self) -> &str {
        &self.path
    }

    fn is_python(&self) -> bool {
        self.is_python
    }
}

impl Resolved {
    fn of(
        tables: &Tables,
        at: Return,
        seen: u64,
        symbols: &mut Symbols,
        generated: &PerfMap,
    ) -> Self {
        let Some(module) = tables.module_of(at, seen) else {
            return Self::outside_modules(at, generated);
        };
        let offset = at.address.wrapping_sub(module.bias);
        let mut found = symbols.find(&module.path, &module.build_id, offset);
        if found.symbol.is_empty() {
            // A runtime names the parts that it has brought along, such as node its builtins.
            found = generated.find(at.address).unwrap_or_default().found;
        }
        Self {
            path: module.path.clone(),
            build_id: module.build_id.clone(),
            offset,
            symbol: found.symbol,
            file: found.file,
            line: found.line,
            is_python: false,
        }
    }

    /// By the process's perf map, where it tells.
    fn outside_modules(at: Return, generated: &PerfMap) -> Self {
        let known = generated.find(at.address);
        let path = if known.is_some() { JIT } else { "" };
        let offset = known.as_ref().map_or(at.address, |known| known.offset);
        let is_python = known.as_ref().is_some_and(|known| known.is_python);
        let found = known.map(|known| known.found).unwrap_or_default();
        Self {
            path: path.to_owned(),
            build_id: String::new(),
            offset,
            symbol: found.symbol,
            file: found.file,
            line: found.line,
            is_python,
        }
    }

    fn frame(&self) -> Frame<'_> {
        Frame {
            module: Module {
                path: &self.path,
                build_id: &self.build_id,
            },
            offset: self.offset,
            symbol: &self.symbol,
            file: &self.file,
            line: self.line,
        }
    }
}
