//! The text form of a trace, as docs/reference/trace-format.md describes it: for people, tests and small tools.

use std::io::{BufRead, Read, Seek, Write};

use super::error::{Error, Result};
use super::event::{Event, SiteId, ThreadId};
use super::events::{Batch, Occurrence};
use super::manners::Manner;
use super::properties::Properties;
use super::reader::TraceReader;
use super::tables::{Frame, Module, Site, SiteTable};
use super::writer::{Options, TraceWriter};

const FIRST_LINE: &str = "pagewise-trace 1";
/// After the first line's version: all allocations carry addresses.
const ADDRESSES: &str = " addresses";
/// A line holds at most one text of 64 KiB three times over, escaped.
const MAX_LINE: u64 = 1 << 20;

// --- writing ---------------------------------------------------------------------

/// Writes a whole trace as text.
pub fn write<R: Read + Seek>(trace: &mut TraceReader<R>, mut out: impl Write) -> Result<()> {
    let addresses = if trace.has_addresses() { ADDRESSES } else { "" };
    writeln!(out, "{FIRST_LINE}{addresses}")?;
    for (name, value) in trace.properties().iter() {
        writeln!(out, "property {} {}", escape(name), escape_value(value))?;
    }
    trace.rewind();
    let mut said = Said::default();
    while let Some(batch) = trace.next_batch()? {
        write_batch(batch, usize::MAX, &mut said, &mut out)?;
    }
    write_sites(trace.sites(), &mut out)
}

/// What the lines before have said.
#[derive(Clone, Copy, Debug, Default)]
pub struct Said {
    time: u64,
    thread: ThreadId,
}

/// Writes up to `count` events of a batch, with what is new about them.
pub fn write_batch(
    batch: &Batch,
    count: usize,
    said: &mut Said,
    mut out: impl Write,
) -> Result<()> {
    for occurrence in batch.iter().take(count) {
        if occurrence.time > said.time {
            said.time = occurrence.time;
            writeln!(out, "time {}", said.time)?;
        }
        if matches!(occurrence.event, Event::Free { .. }) && occurrence.thread != said.thread {
            writeln!(out, "thread {}", occurrence.thread)?;
            said.thread = occurrence.thread;
        }
        // Their lines name the thread; those of other events do not.
        if let Event::Allocate { thread, .. }
        | Event::AddRoot { thread, .. }
        | Event::RemoveRoot { thread, .. }
        | Event::Jump { thread, .. } = occurrence.event
        {
            said.thread = *thread;
        }
        match occurrence.manner {
            Some(Manner::Resized) => writeln!(out, "resized")?,
            Some(Manner::Aligned(power)) => writeln!(out, "aligned {}", 1_u64 << (power & 63))?,
            None => {}
        }
        write_event(occurrence.event, occurrence.address, &mut out)?;
    }
    Ok(())
}

/// Writes one event as a line.
pub fn write_event(event: &Event, address: Option<u64>, mut out: impl Write) -> Result<()> {
    match *event {
        Event::Allocate {
            object,
            site,
            size,
            thread,
        } => match address {
            Some(at) => writeln!(out, "allocate {object} {site} {size} {thread} {at:#x}"),
            None => writeln!(out, "allocate {object} {site} {size} {thread}"),
        },
        Event::Free { object } => writeln!(out, "free {object}"),
        Event::Assign {
            object,
            field,
            target,
        } => writeln!(out, "assign {object} {field} {target}"),
        Event::AddRoot { object, thread } => writeln!(out, "add-root {object} {thread}"),
        Event::RemoveRoot { object, thread } => writeln!(out, "remove-root {object} {thread}"),
        Event::Jump { site, thread } => writeln!(out, "jump {site} {thread}"),
    }?;
    Ok(())
}

fn write_sites(sites: &SiteTable, out: &mut impl Write) -> Result<()> {
    for number in 0..sites.len() as SiteId {
        let Some(site) = sites.get(number) else {
            continue;
        };
        writeln!(
            out,
            "site {number} type={} depth={} class={}",
            escape_or_dash(site.kind),
            number_or_dash(site.depth),
            number_or_dash(site.size_class),
        )?;
        for frame in &site.frames {
            writeln!(
                out,
                "frame {:#x} symbol={} file={} line={} module={} build={}",
                frame.offset,
                escape_or_dash(frame.symbol),
                escape_or_dash(frame.file),
                frame.line,
                escape_or_dash(frame.module.path),
                escape_or_dash(frame.module.build_id),
            )?;
        }
    }
    Ok(())
}

fn number_or_dash(number: Option<u64>) -> String {
    number.map_or_else(|| "-".into(), |number| number.to_string())
}

fn escape_or_dash(text: &str) -> String {
    match text {
        "" => "-".into(),
        "-" => "%2D".into(),
        text => escape(text),
    }
}

fn escape(text: &str) -> String {
    escape_if(text, |c| c == ' ' || c == '%' || c.is_control())
}

fn escape_value(text: &str) -> String {
    escape_if(text, |c| c == '%' || c.is_control())
}

fn escape_if(text: &str, is_special: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_special(c) {
            let mut bytes = [0; 4];
            for byte in c.encode_utf8(&mut bytes).bytes() {
                out.push_str(&format!("%{byte:02X}"));
            }
        } else {
            out.push(c);
        }
    }
    out
}

// --- reading ---------------------------------------------------------------------

/// Reads a text and writes it as a binary trace. The text says whether allocations carry addresses.
pub fn read<W: Write>(input: impl BufRead, out: W, options: Options) -> Result<W> {
    let mut lines = Lines {
        input,
        line: Vec::new(),
        number: 0,
    };
    let first = lines.next()?.unwrap_or_default();
    let with_addresses = match first.strip_prefix(FIRST_LINE) {
        Some("") => false,
        Some(ADDRESSES) => true,
        _ => return Err(lines.error(format!("a trace's text begins with \"{FIRST_LINE}\""))),
    };
    let mut reading = Reading {
        out: Some(out),
        options: Options {
            with_addresses,
            ..options
        },
        properties: Properties::new(),
        writer: None,
        site: None,
        time: 0,
        thread: 0,
        manner: None,
    };
    while let Some(line) = lines.next()? {
        let result = reading.line(line);
        result.map_err(|what| lines.error(what))?;
    }
    let end = reading.end();
    end.map_err(|what| lines.error(what))
}

/// The lines that say something.
struct Lines<B> {
    input: B,
    line: Vec<u8>,
    number: u64,
}

impl<B: BufRead> Lines<B> {
    fn next(&mut self) -> Result<Option<&str>> {
        loop {
            self.line.clear();
            self.number += 1;
            let length = (&mut self.input)
                .take(MAX_LINE)
                .read_until(b'\n', &mut self.line)?;
            if length == 0 {
                return Ok(None);
            }
            if length as u64 == MAX_LINE {
                return Err(self.error("the line is too long"));
            }
            if self.line.last() == Some(&b'\n') {
                self.line.pop();
            }
            if !self.line.is_empty() && self.line[0] != b'#' {
                break;
            }
        }
        let number = self.number;
        std::str::from_utf8(&self.line)
            .map(Some)
            .map_err(|_| Error::Text {
                line: number,
                what: "this is not UTF-8".into(),
            })
    }

    fn error(&self, what: impl Into<String>) -> Error {
        Error::Text {
            line: self.number,
            what: what.into(),
        }
    }
}

/// What has been read so far. The writer begins with the first event, when the properties are known.
struct Reading<W: Write> {
    out: Option<W>,
    options: Options,
    properties: Properties,
    writer: Option<TraceWriter<W>>,
    site: Option<OwnedSite>,
    time: u64,
    /// Whose the next event is, unless it says so itself.
    thread: ThreadId,
    /// Of the next event.
    manner: Option<Manner>,
}

#[derive(Default)]
struct OwnedSite {
    kind: String,
    depth: Option<u64>,
    size_class: Option<u64>,
    frames: Vec<OwnedFrame>,
}

struct OwnedFrame {
    offset: u64,
    symbol: String,
    file: String,
    line: u32,
    module: String,
    build_id: String,
}

impl<W: Write> Reading<W> {
    fn line(&mut self, line: &str) -> Result<(), String> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "property" => self.property(rest),
            "site" => self.site(rest),
            "frame" => self.frame(rest),
            "time" => {
                let [time] = numbers(rest)?;
                self.time = self.time.max(time);
                Ok(())
            }
            "thread" => {
                let [thread] = numbers(rest)?;
                self.thread = small(thread)?;
                Ok(())
            }
            "resized" if rest.is_empty() => {
                self.manner = Some(Manner::Resized);
                Ok(())
            }
            "aligned" => {
                let [bytes] = numbers(rest)?;
                if bytes < 2 || !bytes.is_power_of_two() {
                    return Err(format!("{bytes} is no alignment: a power of two is"));
                }
                self.manner = Some(Manner::Aligned(bytes.ilog2() as u8));
                Ok(())
            }
            _ => self.event(word, rest),
        }
    }

    fn property(&mut self, rest: &str) -> Result<(), String> {
        let (name, value) = rest.split_once(' ').unwrap_or((rest, ""));
        let (name, value) = (unescape(name)?, unescape(value)?);
        match &mut self.writer {
            Some(writer) => writer.set_property(&name, value),
            None => self.properties.set(name, value),
        }
        Ok(())
    }

    fn event(&mut self, word: &str, rest: &str) -> Result<(), String> {
        let event = match word {
            "allocate" => return self.allocate(rest),
            "free" => {
                let [object] = numbers(rest)?;
                Event::Free { object }
            }
            "assign" => {
                let [object, field, target] = numbers(rest)?;
                Event::Assign {
                    object,
                    field: small(field)?,
                    target,
                }
            }
            "add-root" | "remove-root" => {
                let [object, thread] = numbers(rest)?;
                let thread = small(thread)?;
                if word == "add-root" {
                    Event::AddRoot { object, thread }
                } else {
                    Event::RemoveRoot { object, thread }
                }
            }
            "jump" => {
                let [site, thread] = numbers(rest)?;
                Event::Jump {
                    site: small(site)?,
                    thread: small(thread)?,
                }
            }
            other => return Err(format!("\"{other}\" is no kind of line")),
        };
        self.append(&event, None)
    }

    fn append(&mut self, event: &Event, address: Option<u64>) -> Result<(), String> {
        self.thread = match *event {
            Event::Allocate { thread, .. }
            | Event::AddRoot { thread, .. }
            | Event::RemoveRoot { thread, .. }
            | Event::Jump { thread, .. } => thread,
            Event::Free { .. } | Event::Assign { .. } => self.thread,
        };
        let manner = self.manner.take();
        let is_fitting = match (manner, event) {
            (Some(Manner::Resized), event) => matches!(event, Event::Free { .. }),
            (Some(Manner::Aligned(_)), event) => matches!(event, Event::Allocate { .. }),
            (None, _) => true,
        };
        if !is_fitting {
            return Err("what the line before says fits no such event".into());
        }
        let occurrence = Occurrence {
            event,
            address,
            time: self.time,
            thread: self.thread,
            manner,
        };
        self.writer()?.occurrence(&occurrence).map_err(text_of)
    }

    fn allocate(&mut self, rest: &str) -> Result<(), String> {
        let mut fields = rest.split(' ');
        let mut next = || number(fields.next().ok_or("a field is missing")?);
        let event = Event::Allocate {
            object: next()?,
            site: small(next()?)?,
            size: next()?,
            thread: small(next()?)?,
        };
        let address = fields.next().map(number).transpose()?;
        if fields.next().is_some() {
            return Err("there are more fields than expected".into());
        }
        let with_addresses = self.options.with_addresses;
        match address {
            Some(_) if with_addresses => self.append(&event, address),
            None if !with_addresses => self.append(&event, None),
            Some(_) => Err("an address, and the first line does not announce them".into()),
            None => Err("the address is missing that the first line announces".into()),
        }
    }

    fn site(&mut self, rest: &str) -> Result<(), String> {
        self.end_site()?;
        let (head, fields) = rest.split_once(' ').unwrap_or((rest, ""));
        let sites = self.writer()?.sites_mut();
        if number(head)? != sites.len() as u64 {
            return Err(format!("the next site is {}", sites.len()));
        }
        self.site = Some(OwnedSite {
            kind: text_field(fields, "type")?,
            depth: number_field(fields, "depth")?,
            size_class: number_field(fields, "class")?,
            frames: Vec::new(),
        });
        Ok(())
    }

    fn frame(&mut self, rest: &str) -> Result<(), String> {
        let (offset, fields) = rest.split_once(' ').unwrap_or((rest, ""));
        let site = self
            .site
            .as_mut()
            .ok_or("a frame without a site before it")?;
        site.frames.push(OwnedFrame {
            offset: number(offset)?,
            symbol: text_field(fields, "symbol")?,
            file: text_field(fields, "file")?,
            line: small(number_field(fields, "line")?.unwrap_or(0))?,
            module: text_field(fields, "module")?,
            build_id: text_field(fields, "build")?,
        });
        Ok(())
    }

    /// The site has all its frames.
    fn end_site(&mut self) -> Result<(), String> {
        let Some(site) = self.site.take() else {
            return Ok(());
        };
        let frames = site.frames.iter().map(|frame| Frame {
            module: Module {
                path: &frame.module,
                build_id: &frame.build_id,
            },
            offset: frame.offset,
            symbol: &frame.symbol,
            file: &frame.file,
            line: frame.line,
        });
        let whole = Site {
            kind: &site.kind,
            depth: site.depth,
            size_class: site.size_class,
            frames: frames.collect(),
        };
        let added = self.writer()?.sites_mut().add(&whole);
        added.map(|_| ()).map_err(text_of)
    }

    fn writer(&mut self) -> Result<&mut TraceWriter<W>, String> {
        if self.writer.is_none() {
            let out = self.out.take().ok_or("an earlier line failed")?;
            let properties = std::mem::take(&mut self.properties);
            let writer = TraceWriter::new(out, properties, self.options).map_err(text_of)?;
            self.writer = Some(writer);
        }
        self.writer.as_mut().ok_or_else(String::new)
    }

    fn end(mut self) -> Result<W, String> {
        self.end_site()?;
        self.writer()?;
        let writer = self.writer.take().ok_or_else(String::new)?;
        writer.finish().map_err(text_of)
    }
}

fn text_of(error: Error) -> String {
    error.to_string()
}

fn numbers<const N: usize>(rest: &str) -> Result<[u64; N], String> {
    let mut found = [0; N];
    let mut fields = rest.split(' ');
    for place in &mut found {
        *place = number(fields.next().ok_or("a field is missing")?)?;
    }
    match fields.next() {
        None => Ok(found),
        Some(_) => Err("there are more fields than expected".into()),
    }
}

fn number(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("\"{text}\" is no number"))
}

fn small(number: u64) -> Result<u32, String> {
    u32::try_from(number).map_err(|_| format!("{number} is too large"))
}

fn field<'a>(fields: &'a str, name: &str) -> Result<&'a str, String> {
    fields
        .split(' ')
        .find_map(|field| field.strip_prefix(name)?.strip_prefix('='))
        .ok_or_else(|| format!("the field {name}= is missing"))
}

fn text_field(fields: &str, name: &str) -> Result<String, String> {
    match field(fields, name)? {
        "-" => Ok(String::new()),
        text => unescape(text),
    }
}

fn number_field(fields: &str, name: &str) -> Result<Option<u64>, String> {
    match field(fields, name)? {
        "-" => Ok(None),
        text => number(text).map(Some),
    }
}

fn unescape(text: &str) -> Result<String, String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let mut digit = || char::from(bytes.next()?).to_digit(16);
            let (high, low) = (digit(), digit());
            let (Some(high), Some(low)) = (high, low) else {
                return Err("a percent sign without two hexadecimal digits".into());
            };
            out.push((high << 4 | low) as u8);
        } else {
            out.push(byte);
        }
    }
    String::from_utf8(out).map_err(|_| "an escaped text is not UTF-8".into())
}
