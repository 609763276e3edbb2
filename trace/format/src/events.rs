//! Event blocks: operation and first operand in one byte, everything else in varints.

use super::block::MAX_PAYLOAD;
use super::error::{Error, Result};
use super::event::{Event, ObjectId, SiteId, ThreadId};
use super::limits::{MAX_RECORDS, MAX_THREADS};
use super::manners::{Manner, Manners};
use super::varint::{self, Cursor, unzigzag, zigzag};

const ALLOCATE: u8 = 0;
const FREE: u8 = 1;
const ASSIGN: u8 = 2;
const ADD_ROOT: u8 = 3;
const REMOVE_ROOT: u8 = 4;
const JUMP: u8 = 5;
const THREAD: u8 = 6;
const TIME: u8 = 7;

/// The largest first operand that fits into the operation's byte, plus 1.
const INLINE: u64 = 31;
/// Operation and three varints, before it a thread and a time.
const LONGEST_RECORD: usize = 64;
const ADDRESS_UNIT: u64 = 8;

/// Events of one stretch of a trace, in order.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The events themselves.
    pub events: Vec<Event>,
    /// For each `Allocate` in `events`, in order, the object's address; empty where none were recorded.
    pub addresses: Vec<u64>,
    /// (n, t): `events[n]` and those after it happened at t nanoseconds or later.
    pub times: Vec<(usize, u64)>,
    /// (n, t): `events[n]` and those after it are thread t's. Recorders may leave out whose a `Free` or an `Assign` is:
    /// it then seems to be that of the event before.
    pub threads: Vec<(usize, ThreadId)>,
    /// (n, m): how `events[n]` came about, for the few where there is something to say, in order.
    pub manners: Vec<(usize, Manner)>,
    /// Number of `events[0]` in the trace, counted from 0.
    pub first_event: u64,
}

/// An event with all that its trace says about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occurrence<'a> {
    pub event: &'a Event,
    /// Of an `Allocate`, where addresses were recorded.
    pub address: Option<u64>,
    /// Nanoseconds since the start; it happened then or later.
    pub time: u64,
    /// Whose it is, as far as that is known: see [`Batch::threads`].
    pub thread: ThreadId,
    pub manner: Option<Manner>,
}

impl Batch {
    /// The events, each with what is said about it.
    pub fn iter(&self) -> impl Iterator<Item = Occurrence<'_>> {
        let mut addresses = self.addresses.iter();
        let mut times = self.times.iter().peekable();
        let mut threads = self.threads.iter().peekable();
        let mut manners = self.manners.iter().peekable();
        let (mut time, mut thread) = (0, 0);
        self.events.iter().enumerate().map(move |(index, event)| {
            while let Some((_, next)) = times.next_if(|(place, _)| *place <= index) {
                time = *next;
            }
            while let Some((_, next)) = threads.next_if(|(place, _)| *place <= index) {
                thread = *next;
            }
            let address = match event {
                Event::Allocate { .. } => addresses.next().copied(),
                _ => None,
            };
            let manner = manners.next_if(|(place, _)| *place == index);
            Occurrence {
                event,
                address,
                time,
                thread,
                manner: manner.map(|(_, manner)| *manner),
            }
        })
    }

    pub(super) fn clear(&mut self) {
        self.events.clear();
        self.addresses.clear();
        self.times.clear();
        self.threads.clear();
        self.manners.clear();
    }
}

/// Encodes the events of one block.
pub struct Encoder {
    payload: Vec<u8>,
    events: u32,
    manners: Manners,
    has_addresses: bool,
    /// First object and time of the block.
    first: ObjectId,
    start: u64,
    /// Number of the latest object.
    latest: ObjectId,
    thread: ThreadId,
    time: u64,
    address: u64,
}

impl Encoder {
    pub fn new(has_addresses: bool) -> Self {
        Self {
            payload: Vec::new(),
            events: 0,
            manners: Manners::new(),
            has_addresses,
            first: 1,
            start: 0,
            latest: 0,
            thread: 0,
            time: 0,
            address: 0,
        }
    }

    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    pub fn events(&self) -> u32 {
        self.events
    }

    pub fn manners(&self) -> &Manners {
        &self.manners
    }

    /// Of the event that comes next.
    pub fn manner(&mut self, manner: Manner) {
        match self.manners.last_mut() {
            Some(last) if last.0 == self.events => last.1 = manner,
            _ => self.manners.push((self.events, manner)),
        }
    }

    pub fn first(&self) -> ObjectId {
        self.first
    }

    pub fn start(&self) -> u64 {
        self.start
    }

    pub fn latest(&self) -> ObjectId {
        self.latest
    }

    pub fn is_full(&self, events: u32) -> bool {
        self.events >= events || self.payload.len() + LONGEST_RECORD > MAX_PAYLOAD
    }

    /// The block has been written: begin the next.
    pub fn begin(&mut self) {
        self.payload.clear();
        self.manners.clear();
        self.events = 0;
        self.first = self.latest + 1;
        self.start = self.time;
        self.thread = 0;
        self.address = 0;
    }

    /// Going back is ignored: clocks of several threads may differ by a little.
    pub fn time(&mut self, time: u64) {
        if time <= self.time {
            return;
        }
        if self.payload.is_empty() {
            self.start = time;
        } else {
            self.operation(TIME, time - self.time);
        }
        self.time = time;
    }

    pub fn event(&mut self, event: &Event, address: u64) -> Result<()> {
        match *event {
            Event::Allocate {
                object,
                site,
                size,
                thread,
            } => {
                if object != self.latest + 1 {
                    return Err(Error::Invalid(format!(
                        "object {object} is allocated after object {}",
                        self.latest
                    )));
                }
                check_site(site)?;
                self.switch_to(thread)?;
                self.operation(ALLOCATE, u64::from(site));
                varint::put(&mut self.payload, size);
                if self.has_addresses {
                    let address = address / ADDRESS_UNIT;
                    let step = address.wrapping_sub(self.address) as i64;
                    varint::put(&mut self.payload, zigzag(step));
                    self.address = address;
                }
                self.latest = object;
            }
            Event::Free { object } => {
                let distance = self.distance(object)?;
                self.operation(FREE, distance);
            }
            Event::Assign {
                object,
                field,
                target,
            } => {
                let distance = self.distance(object)?;
                let target = match target {
                    0 => 0,
                    target => self.distance(target)? + 1,
                };
                self.operation(ASSIGN, distance);
                varint::put(&mut self.payload, u64::from(field));
                varint::put(&mut self.payload, target);
            }
            Event::AddRoot { object, thread } => {
                let distance = self.distance(object)?;
                self.switch_to(thread)?;
                self.operation(ADD_ROOT, distance);
            }
            Event::RemoveRoot { object, thread } => {
                let distance = self.distance(object)?;
                self.switch_to(thread)?;
                self.operation(REMOVE_ROOT, distance);
            }
            Event::Jump { site, thread } => {
                check_site(site)?;
                self.switch_to(thread)?;
                self.operation(JUMP, u64::from(site));
            }
        }
        self.events += 1;
        Ok(())
    }

    /// The free of an object by a known thread.
    pub fn free_by(&mut self, object: ObjectId, thread: ThreadId) -> Result<()> {
        self.distance(object)?;
        self.switch_to(thread)?;
        self.event(&Event::Free { object }, 0)
    }

    fn distance(&self, object: ObjectId) -> Result<u64> {
        if object == 0 || object > self.latest {
            return Err(Error::Invalid(format!("there is no object {object} yet")));
        }
        Ok(self.latest - object)
    }

    fn switch_to(&mut self, thread: ThreadId) -> Result<()> {
        if thread >= MAX_THREADS {
            return Err(Error::Invalid(format!(
                "thread number {thread} is too large"
            )));
        }
        if thread != self.thread {
            self.operation(THREAD, u64::from(thread));
            self.thread = thread;
        }
        Ok(())
    }

    fn operation(&mut self, operation: u8, operand: u64) {
        if operand < INLINE {
            self.payload.push(operation | (operand as u8) << 3);
        } else {
            self.payload.push(operation | (INLINE as u8) << 3);
            varint::put(&mut self.payload, operand - INLINE);
        }
    }
}

fn check_site(site: SiteId) -> Result<()> {
    if site >= MAX_RECORDS {
        return Err(Error::Invalid(format!("site number {site} is too large")));
    }
    Ok(())
}

/// Where decoding of a block stands.
#[derive(Clone, Copy, Debug, Default)]
pub struct Decoder {
    at: usize,
    left: u32,
    has_addresses: bool,
    latest: ObjectId,
    thread: ThreadId,
    time: u64,
    address: u64,
}

/// Why a payload cannot be decoded; the block's offset is added further out.
type Step<T> = std::result::Result<T, &'static str>;

impl Decoder {
    pub fn new(events: u32, first: ObjectId, time: u64, has_addresses: bool) -> Self {
        Self {
            left: events,
            has_addresses,
            latest: first.saturating_sub(1),
            time,
            ..Self::default()
        }
    }

    /// Number of the latest object.
    pub fn latest(&self) -> ObjectId {
        self.latest
    }

    pub fn time(&self) -> u64 {
        self.time
    }

    /// Whose the next event is, as long as nothing else is said.
    pub fn thread(&self) -> ThreadId {
        self.thread
    }

    /// Events of the block that are still to come.
    pub fn left(&self) -> u32 {
        self.left
    }

    /// Adds up to `count` events to `batch`.
    pub fn decode(&mut self, payload: &[u8], count: u32, batch: &mut Batch) -> Step<()> {
        let mut cursor = Cursor::at(payload, self.at);
        let mut left = count.min(self.left);
        self.left -= left;
        while left > 0 {
            if let Some(event) = self.record(&mut cursor, batch)? {
                batch.events.push(event);
                left -= 1;
            }
        }
        // What stands behind the last event is a time at most, and nobody's.
        while self.left == 0 && !cursor.is_at_end() {
            if self.record(&mut cursor, batch)?.is_some() {
                return Err("a block holds more than its events");
            }
        }
        self.at = cursor.position();
        Ok(())
    }

    #[inline(always)]
    fn record(&mut self, cursor: &mut Cursor, batch: &mut Batch) -> Step<Option<Event>> {
        const CUT: &str = "a block holds fewer than its events";
        let byte = cursor.byte().ok_or(CUT)?;
        let mut operand = u64::from(byte >> 3);
        if operand == INLINE {
            let more = cursor.varint().ok_or(CUT)?;
            operand = more.checked_add(INLINE).ok_or("a number is too large")?;
        }
        Ok(Some(match byte & 7 {
            ALLOCATE => {
                let site = site(operand)?;
                let size = cursor.varint().ok_or(CUT)?;
                if self.has_addresses {
                    let step = unzigzag(cursor.varint().ok_or(CUT)?);
                    self.address = self.address.wrapping_add(step as u64);
                    batch
                        .addresses
                        .push(self.address.wrapping_mul(ADDRESS_UNIT));
                }
                self.latest += 1;
                Event::Allocate {
                    object: self.latest,
                    site,
                    size,
                    thread: self.thread,
                }
            }
            FREE => Event::Free {
                object: self.object(operand)?,
            },
            ASSIGN => {
                let object = self.object(operand)?;
                let field = cursor.varint().ok_or(CUT)?;
                let target = match cursor.varint().ok_or(CUT)? {
                    0 => 0,
                    distance => self.object(distance - 1)?,
                };
                Event::Assign {
                    object,
                    field: u32::try_from(field).map_err(|_| "a field's number is too large")?,
                    target,
                }
            }
            ADD_ROOT => Event::AddRoot {
                object: self.object(operand)?,
                thread: self.thread,
            },
            REMOVE_ROOT => Event::RemoveRoot {
                object: self.object(operand)?,
                thread: self.thread,
            },
            JUMP => Event::Jump {
                site: site(operand)?,
                thread: self.thread,
            },
            THREAD => {
                if operand >= u64::from(MAX_THREADS) {
                    return Err("a thread's number is too large");
                }
                self.thread = operand as ThreadId;
                let place = batch.events.len();
                match batch.threads.last_mut() {
                    Some(last) if last.0 == place => last.1 = self.thread,
                    _ => batch.threads.push((place, self.thread)),
                }
                return Ok(None);
            }
            // TIME: there are no more operations.
            _ => {
                self.time = self
                    .time
                    .checked_add(operand)
                    .ok_or("a time is too large")?;
                // Of several at one place the last one counts.
                let place = batch.events.len();
                match batch.times.last_mut() {
                    Some(last) if last.0 == place => last.1 = self.time,
                    _ => batch.times.push((place, self.time)),
                }
                return Ok(None);
            }
        }))
    }

    #[inline(always)]
    fn object(&self, distance: u64) -> Step<ObjectId> {
        if distance < self.latest {
            Ok(self.latest - distance)
        } else {
            Err("an object is used that was never allocated")
        }
    }
}

#[inline(always)]
fn site(operand: u64) -> Step<SiteId> {
    if operand < u64::from(MAX_RECORDS) {
        Ok(operand as SiteId)
    } else {
        Err("a site's number is too large")
    }
}
