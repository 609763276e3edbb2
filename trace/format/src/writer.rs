//! Writing a trace, block by block.

use std::io::Write;

use super::block::{Codec, Description, Kind, MAX_EVENTS, Packer, WITH_ADDRESSES};
use super::error::{Error, Result};
use super::event::{Event, ObjectId};
use super::events::{Encoder, Occurrence};
use super::index::{self, Entry};
use super::limits::{FILE_HEADER, MAGIC, MAJOR, MINOR};
use super::manners;
use super::properties::Properties;
use super::tables::{SiteTable, Written};

/// How a trace is stored.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub codec: Codec,
    /// Allocations carry addresses: [`TraceWriter::allocate_at`].
    pub with_addresses: bool,
    /// Smaller blocks are found faster and lose less in a crash; larger ones compress better.
    pub events_in_a_block: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            codec: Codec::Zstd,
            with_addresses: false,
            events_in_a_block: 32_768,
        }
    }
}

/// Writes a trace. Without [`TraceWriter::finish`] the file is readable up to its last whole block.
///
/// ```
/// use trace_format::{Frame, Options, Properties, Site, TraceWriter};
/// use trace_format::Event;
/// # fn main() -> trace_format::Result<()> {
/// let properties = Properties::new().with("recorder", "example 1.0");
/// let mut writer = TraceWriter::new(Vec::new(), properties, Options::default())?;
/// let frame = Frame { symbol: "make_list", ..Frame::default() };
/// let site = writer.sites_mut().add(&Site { frames: vec![frame], ..Site::default() })?;
/// writer.event(&Event::Allocate { object: 1, site, size: 24, thread: 0 })?;
/// writer.event(&Event::Free { object: 1 })?;
/// let bytes = writer.finish()?;
/// # assert!(bytes.starts_with(b"\x89PWTR"));
/// # Ok(())
/// # }
/// ```
pub struct TraceWriter<W: Write> {
    out: W,
    packer: Packer,
    options: Options,
    encoder: Encoder,
    sites: SiteTable,
    sites_written: Written,
    properties: Properties,
    /// Properties were set since they were last written.
    has_news: bool,
    entries: Vec<Entry>,
    offset: u64,
    events: u64,
}

impl<W: Write> TraceWriter<W> {
    pub fn new(mut out: W, properties: Properties, options: Options) -> Result<Self> {
        let mut header = [0; FILE_HEADER];
        header[..8].copy_from_slice(&MAGIC);
        header[8..10].copy_from_slice(&MAJOR.to_le_bytes());
        header[10..12].copy_from_slice(&MINOR.to_le_bytes());
        out.write_all(&header)?;
        let options = Options {
            events_in_a_block: options.events_in_a_block.clamp(1, MAX_EVENTS),
            ..options
        };
        let mut writer = Self {
            out,
            packer: Packer::new(options.codec)?,
            options,
            encoder: Encoder::new(options.with_addresses),
            sites: SiteTable::new(),
            sites_written: Written::default(),
            properties,
            has_news: true,
            entries: Vec::new(),
            offset: FILE_HEADER as u64,
            events: 0,
        };
        writer.write_properties()?;
        Ok(writer)
    }

    /// Appends an event. An object's number must be one more than that of the object before it.
    pub fn event(&mut self, event: &Event) -> Result<()> {
        if self.options.with_addresses && matches!(event, Event::Allocate { .. }) {
            return Err(Error::Invalid("an allocation without its address".into()));
        }
        self.append(event, 0)
    }

    /// Appends an `Allocate` with the object's address.
    pub fn allocate_at(&mut self, event: &Event, address: u64) -> Result<()> {
        self.append(event, address)
    }

    /// Appends an event with all that is said about it.
    pub fn occurrence(&mut self, occurrence: &Occurrence) -> Result<()> {
        if self.encoder.is_full(self.options.events_in_a_block) {
            self.end_block()?;
        }
        self.encoder.time(occurrence.time);
        if let Some(manner) = occurrence.manner {
            self.encoder.manner(manner);
        }
        match *occurrence.event {
            Event::Free { object } => self.encoder.free_by(object, occurrence.thread)?,
            ref event => self.encoder.event(event, occurrence.address.unwrap_or(0))?,
        }
        self.events += 1;
        Ok(())
    }

    #[inline]
    fn append(&mut self, event: &Event, address: u64) -> Result<()> {
        if self.encoder.is_full(self.options.events_in_a_block) {
            self.end_block()?;
        }
        self.encoder.event(event, address)?;
        self.events += 1;
        Ok(())
    }

    /// What follows happened `nanoseconds` after the start of the recording, or later.
    pub fn time(&mut self, nanoseconds: u64) -> Result<()> {
        if self.encoder.is_full(self.options.events_in_a_block) {
            self.end_block()?;
        }
        self.encoder.time(nanoseconds);
        Ok(())
    }

    /// Number of the latest object, 0 before the first.
    pub fn latest_object(&self) -> ObjectId {
        self.encoder.latest()
    }

    /// The site table; what is added goes into the file at the next `flush` or at the end.
    pub fn sites_mut(&mut self) -> &mut SiteTable {
        &mut self.sites
    }

    /// Sets a property; it goes into the file at the next `flush` or at the end.
    pub fn set_property(&mut self, name: &str, value: impl Into<String>) {
        self.properties.set(name, value);
        self.has_news = true;
    }

    /// Writes everything so far: a crash after this loses nothing before it.
    pub fn flush(&mut self) -> Result<()> {
        self.end_block()?;
        self.write_tables()?;
        self.write_properties()?;
        self.out.flush()?;
        Ok(())
    }

    /// Writes everything, the index and the end, and returns what was written to.
    pub fn finish(mut self) -> Result<W> {
        self.flush()?;
        let mut previous = 0;
        let entries = std::mem::take(&mut self.entries);
        let mut rest = &entries[..];
        while !rest.is_empty() {
            let (payload, count) = index::encode(previous, rest);
            previous = self.offset;
            self.block(Kind::Index, count as u32, (0, 0), &payload)?;
            rest = &rest[count..];
        }
        let mut end = [0; index::END_PAYLOAD];
        end[..8].copy_from_slice(&previous.to_le_bytes());
        end[8..].copy_from_slice(&self.events.to_le_bytes());
        self.block(Kind::End, 0, (0, 0), &end)?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn end_block(&mut self) -> Result<()> {
        if self.encoder.payload().is_empty() {
            return Ok(());
        }
        let place = (self.encoder.first(), self.encoder.start());
        let manners = self.encoder.manners();
        if !manners.is_empty() {
            let payload = manners::encode(manners);
            let count = manners.len() as u32;
            self.block(Kind::Manners, count, place, &payload)?;
        }
        let encoder = &self.encoder;
        let description = Description {
            kind: Kind::Events,
            flags: if self.options.with_addresses {
                WITH_ADDRESSES
            } else {
                0
            },
            records: encoder.events(),
            first: encoder.first(),
            time: encoder.start(),
        };
        let length = self
            .packer
            .write(&mut self.out, description, encoder.payload())?;
        self.note(&description, length);
        self.encoder.begin();
        Ok(())
    }

    fn write_tables(&mut self) -> Result<()> {
        for part in self.sites.new_parts(&mut self.sites_written) {
            self.block(part.kind, part.records, (part.first, 0), &part.payload)?;
        }
        Ok(())
    }

    fn write_properties(&mut self) -> Result<()> {
        if std::mem::take(&mut self.has_news) {
            let mut payload = Vec::new();
            self.properties.encode(&mut payload);
            if payload.len() > super::block::MAX_PAYLOAD {
                return Err(Error::Invalid("the properties are too long".into()));
            }
            let count = self.properties.len() as u32;
            self.block(Kind::Properties, count, (0, 0), &payload)?;
        }
        Ok(())
    }

    fn block(
        &mut self,
        kind: Kind,
        records: u32,
        (first, time): (u64, u64),
        payload: &[u8],
    ) -> Result<()> {
        let description = Description {
            kind,
            flags: 0,
            records,
            first,
            time,
        };
        let length = self.packer.write(&mut self.out, description, payload)?;
        self.note(&description, length);
        Ok(())
    }

    fn note(&mut self, description: &Description, length: u64) {
        self.entries.push(Entry {
            kind: description.kind,
            offset: self.offset,
            records: description.records,
            first: description.first,
            time: description.time,
        });
        self.offset += length;
    }
}
