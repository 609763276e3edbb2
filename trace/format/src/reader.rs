//! Reading a trace: tables and properties when it is opened, events batch by batch.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use super::block::{HEADER, Header, Kind, Unpacker, WITH_ADDRESSES};
use super::error::{Error, Result};
use super::event::ObjectId;
use super::events::{Batch, Decoder};
use super::index::{self, Entry};
use super::limits::{FILE_HEADER, MAGIC, MAJOR};
use super::manners::{self, Manner};
use super::properties::Properties;
use super::tables::SiteTable;

/// Events of a batch: 128 KiB, which stay in the processor's second cache while they are used.
const BATCH: u32 = 4096;
/// Far from overflow, and more than any program allocates.
const MAX_OBJECT: u64 = 1 << 60;

/// Reads a trace with bounded memory: one block, one batch, the tables, and 40 bytes a block.
///
/// ```no_run
/// use trace_format::{Event, TraceReader};
/// # fn main() -> trace_format::Result<()> {
/// let mut trace = TraceReader::open("redis.trace")?;
/// while let Some(batch) = trace.next_batch()? {
///     for event in &batch.events {
///         if let Event::Allocate { site, size, .. } = event { /* ... */ }
///     }
/// }
/// # Ok(())
/// # }
/// ```
pub struct TraceReader<R = File> {
    input: R,
    length: u64,
    /// Every block but index and end, in file order.
    entries: Vec<Entry>,
    properties: Properties,
    sites: SiteTable,
    events: u64,
    cut_off: Option<u64>,
    unpacker: Unpacker,
    stored: Vec<u8>,
    payload: Vec<u8>,
    batch: Batch,
    decoder: Decoder,
    /// Of the events of the block that are still to come, and the number of the first of these in the block.
    manners: VecDeque<(u32, Manner)>,
    in_block: u32,
    /// The entry after the one being decoded.
    next_entry: usize,
    /// Where the block being decoded lies.
    block_offset: u64,
    /// What the next event block's `first` must be, where that is known.
    expected_first: Option<ObjectId>,
    next_event: u64,
    has_addresses: bool,
}

impl TraceReader<File> {
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let file = File::open(path)?;
        if !file.metadata()?.is_file() {
            return Err(Error::Foreign("it is not an ordinary file"));
        }
        Self::new(file)
    }
}

impl<R: Read + Seek> TraceReader<R> {
    /// Reads the tables. `input` is read in whole blocks and needs no buffer.
    pub fn new(mut input: R) -> Result<Self> {
        let length = input.seek(SeekFrom::End(0))?;
        input.seek(SeekFrom::Start(0))?;
        check_file_header(&mut input, length)?;
        let mut reader = Self {
            input,
            length,
            entries: Vec::new(),
            properties: Properties::new(),
            sites: SiteTable::new(),
            events: 0,
            cut_off: None,
            unpacker: Unpacker::new()?,
            stored: Vec::new(),
            payload: Vec::new(),
            batch: Batch::default(),
            decoder: Decoder::default(),
            manners: VecDeque::new(),
            in_block: 0,
            next_entry: 0,
            block_offset: 0,
            expected_first: Some(1),
            next_event: 0,
            has_addresses: false,
        };
        if !reader.read_index()? {
            reader.scan()?;
        }
        reader.read_tables()?;
        Ok(reader)
    }

    /// What was recorded, and how.
    pub fn properties(&self) -> &Properties {
        &self.properties
    }

    /// What is known about the sites.
    pub fn sites(&self) -> &SiteTable {
        &self.sites
    }

    /// Number of events in the trace.
    pub fn event_count(&self) -> u64 {
        self.events
    }

    /// Do allocations carry addresses?
    pub fn has_addresses(&self) -> bool {
        self.has_addresses
    }

    /// Where the file ends within a block, if it does: its writer did not come to an end. Everything before is valid.
    pub fn cut_off(&self) -> Option<u64> {
        self.cut_off
    }

    /// The next events, or none at the end. At most 4096 at a time.
    pub fn next_batch(&mut self) -> Result<Option<&Batch>> {
        while self.decoder.left() == 0 {
            if !self.next_block()? {
                return Ok(None);
            }
        }
        self.decode(BATCH)?;
        Ok(Some(&self.batch))
    }

    /// Goes to event number `event`, counted from 0; past the end there are no more.
    pub fn seek_to_event(&mut self, event: u64) -> Result<()> {
        let mut before = 0;
        let found = self.entries.iter().position(|entry| {
            if entry.kind != Kind::Events {
                return false;
            }
            let is_here = event < before + u64::from(entry.records);
            if !is_here {
                before += u64::from(entry.records);
            }
            is_here
        });
        self.decoder = Decoder::default();
        self.next_entry = found.unwrap_or(self.entries.len());
        let before_it = self
            .next_entry
            .checked_sub(1)
            .map(|entry| self.entries[entry].kind);
        if before_it == Some(Kind::Manners) {
            self.next_entry -= 1;
        }
        self.manners.clear();
        self.next_event = before;
        self.expected_first = None;
        if found.is_some() && self.next_block()? {
            let mut skip = (event - before) as u32;
            while skip > 0 {
                let step = skip.min(BATCH);
                self.decode(step)?;
                skip -= step;
            }
        }
        Ok(())
    }

    /// Starts over.
    pub fn rewind(&mut self) {
        self.decoder = Decoder::default();
        self.manners.clear();
        self.next_entry = 0;
        self.next_event = 0;
        self.expected_first = Some(1);
    }

    fn decode(&mut self, count: u32) -> Result<()> {
        self.batch.clear();
        self.batch.first_event = self.next_event;
        self.batch.times.push((0, self.decoder.time()));
        self.batch.threads.push((0, self.decoder.thread()));
        self.decoder
            .decode(&self.payload, count, &mut self.batch)
            .map_err(|what| Error::damaged(self.block_offset, what))?;
        let decoded = self.batch.events.len() as u32;
        let (start, end) = (self.in_block, self.in_block + decoded);
        let here = self.manners.partition_point(|(event, _)| *event < end);
        let manners = self.manners.drain(..here);
        self.batch
            .manners
            .extend(manners.map(|(event, manner)| ((event - start) as usize, manner)));
        self.in_block = end;
        self.next_event += u64::from(decoded);
        if self.decoder.left() == 0 {
            self.expected_first = Some(self.decoder.latest() + 1);
        }
        Ok(())
    }

    /// Goes to the next event block; false when there is none.
    fn next_block(&mut self) -> Result<bool> {
        while let Some(&entry) = self.entries.get(self.next_entry) {
            self.next_entry += 1;
            if entry.kind == Kind::Manners {
                self.load(&entry)?;
                let found = manners::decode(&self.payload, entry.records);
                let damaged = || Error::damaged(entry.offset, "a block of manners cannot be read");
                self.manners = found.ok_or_else(damaged)?.into();
            }
            if entry.kind != Kind::Events {
                continue;
            }
            self.in_block = 0;
            let header = self.load(&entry)?;
            let is_continued = self
                .expected_first
                .is_none_or(|first| first == header.first);
            if !is_continued || header.first == 0 || header.first > MAX_OBJECT {
                let what = "the numbers of objects do not go on from the block before";
                return Err(Error::damaged(entry.offset, what));
            }
            let has_addresses = header.flags & WITH_ADDRESSES != 0;
            self.decoder = Decoder::new(header.records, header.first, header.time, has_addresses);
            return Ok(true);
        }
        Ok(false)
    }

    /// Leaves a block's payload in `self.payload`.
    fn load(&mut self, entry: &Entry) -> Result<Header> {
        let header = self.header_at(entry.offset)?;
        if Entry::of(&header, entry.offset) != *entry {
            return Err(Error::damaged(entry.offset, "the index and a block differ"));
        }
        let start = entry.offset + HEADER as u64;
        let stored = u64::from(header.stored);
        if stored > self.length.saturating_sub(start) {
            return Err(Error::damaged(entry.offset, "a block ends after the file"));
        }
        self.stored.resize(header.stored as usize, 0);
        self.input.read_exact(&mut self.stored)?;
        self.unpacker
            .unpack(&header, &self.stored, &mut self.payload, entry.offset)?;
        self.block_offset = entry.offset;
        Ok(header)
    }

    fn header_at(&mut self, offset: u64) -> Result<Header> {
        if offset
            .checked_add(HEADER as u64)
            .is_none_or(|end| end > self.length)
        {
            return Err(Error::damaged(offset, "a block ends after the file"));
        }
        self.input.seek(SeekFrom::Start(offset))?;
        let mut bytes = [0; HEADER];
        self.input.read_exact(&mut bytes)?;
        Header::parse(&bytes, offset)
    }

    /// Takes the blocks' places from the index. False where there is none.
    fn read_index(&mut self) -> Result<bool> {
        let end_length = (HEADER + index::END_PAYLOAD) as u64;
        let Some(end_at) = self.length.checked_sub(end_length) else {
            return Ok(false);
        };
        let Ok(end) = self.header_at(end_at) else {
            return Ok(false);
        };
        if end.kind != Kind::End || end.stored as usize != index::END_PAYLOAD {
            return Ok(false);
        }
        self.load(&Entry::of(&end, end_at))?;
        // Of that length as stored, and of another when it is decompressed.
        let index = self
            .payload
            .first_chunk()
            .ok_or_else(|| Error::damaged(end_at, "the end does not say where the index is"))?;
        let mut at = u64::from_le_bytes(*index);
        let mut before = end_at;
        let mut parts = Vec::new();
        // More entries than there is room for blocks are none: little can decompress to many.
        let mut room = self.length / HEADER as u64;
        while at != 0 {
            if at >= before {
                return Err(Error::damaged(before, "the index goes round in a circle"));
            }
            let header = self.header_at(at)?;
            self.load(&Entry::of(&header, at))?;
            let (previous, entries) = index::decode(&self.payload, header.records)
                .filter(|_| header.kind == Kind::Index)
                .ok_or_else(|| Error::damaged(at, "the index cannot be read"))?;
            let is_within = entries.last().is_none_or(|entry| entry.offset < at);
            room = room
                .checked_sub(entries.len() as u64)
                .filter(|_| is_within)
                .ok_or_else(|| {
                    Error::damaged(at, "the index tells of blocks that are not there")
                })?;
            parts.push(entries);
            (before, at) = (at, previous);
        }
        self.entries = parts.into_iter().rev().flatten().collect();
        self.check_entries()?;
        Ok(true)
    }

    fn check_entries(&self) -> Result<()> {
        let is_rising = self
            .entries
            .windows(2)
            .all(|two| two[0].offset < two[1].offset);
        if is_rising {
            return Ok(());
        }
        Err(Error::damaged(self.length, "the index is not in order"))
    }

    /// Finds the blocks by their headers, to where the file ends or was cut off.
    fn scan(&mut self) -> Result<()> {
        let mut offset = FILE_HEADER as u64;
        while offset < self.length {
            let left = self.length - offset;
            if left < HEADER as u64 {
                self.cut_off = Some(offset);
                break;
            }
            let header = self.header_at(offset)?;
            let whole = HEADER as u64 + u64::from(header.stored);
            if left < whole {
                self.cut_off = Some(offset);
                break;
            }
            if !matches!(header.kind, Kind::Index | Kind::End) {
                self.entries.push(Entry::of(&header, offset));
            }
            offset += whole;
        }
        Ok(())
    }

    fn read_tables(&mut self) -> Result<()> {
        for at in 0..self.entries.len() {
            let entry = self.entries[at];
            let (records, offset) = (entry.records, entry.offset);
            match entry.kind {
                Kind::Properties => {
                    self.load(&entry)?;
                    self.properties.decode(&self.payload, records, offset)?;
                }
                Kind::Strings | Kind::Modules | Kind::Frames | Kind::Sites => {
                    let first = self.load(&entry)?.first;
                    self.sites
                        .decode(entry.kind, first, records, &self.payload, offset)?;
                }
                Kind::Events => {
                    if self.events == 0 {
                        let header = self.header_at(offset)?;
                        self.has_addresses = header.flags & WITH_ADDRESSES != 0;
                    }
                    self.events = self.events.saturating_add(u64::from(records));
                }
                Kind::Manners | Kind::Index | Kind::End | Kind::Other(_) => {}
            }
        }
        Ok(())
    }
}

fn check_file_header(input: &mut impl Read, length: u64) -> Result<()> {
    if length == 0 {
        return Err(Error::Foreign("the file is empty"));
    }
    let mut header = [0; FILE_HEADER];
    match input.read_exact(&mut header) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            return Err(Error::Foreign("it is too short"));
        }
        Err(error) => return Err(error.into()),
    }
    if header[..8] != MAGIC {
        return Err(Error::Foreign("it does not begin as one"));
    }
    let version = u16::from_le_bytes([header[8], header[9]]);
    if version != MAJOR {
        return Err(Error::Version(version));
    }
    Ok(())
}
