//! From what the agent leaves of a JVM to its trace: references become objects, and slots of frames become roots.

use std::io::Write;

use rustc_hash::FxHashMap;
use trace_format::{
    Event, Frame, ObjectId, Options, Properties, Site, SiteId, ThreadId, TraceWriter,
};

use super::spool::{COUNTS, Header, Record, Reference, Spool};
use crate::assemble::{Assembled, Error, Known, Progress};
use crate::clock;
use crate::stop::Stop;

const MAX_SLOTS: u32 = 1 << 22;
/// Of all threads together.
const MOST_SLOTS: usize = 1 << 24;
const STATICS_BYTES: u64 = 16;

/// Where a site is: `method`, `file`, `line`, instruction and type, as the agent has put them into one text.
#[derive(Default)]
struct Place {
    text: String,
}

impl Place {
    fn site(&self) -> Site<'_> {
        let mut parts = self.text.split('\t');
        let mut part = || parts.next().unwrap_or_default();
        let (symbol, file, line, index, kind) = (part(), part(), part(), part(), part());
        let frame = Frame {
            offset: index.parse().unwrap_or(0),
            symbol,
            file,
            line: line.parse().unwrap_or(0),
            ..Frame::default()
        };
        Site {
            kind,
            frames: if symbol.is_empty() {
                Vec::new()
            } else {
                vec![frame]
            },
            ..Site::default()
        }
    }
}

/// A thread's frames, slot by slot, and which objects the trace says that it roots.
#[derive(Default)]
struct Thread {
    slots: Vec<Reference>,
    /// Slots that hold the object, and whether the trace has it as a root.
    held: FxHashMap<Reference, (u32, bool)>,
    /// Objects whose count has changed since the trace was last told.
    changed: Vec<Reference>,
}

impl Thread {
    fn put(&mut self, slot: u32, object: Reference) {
        let slot = slot as usize;
        if self.slots.len() <= slot {
            self.slots.resize(slot + 1, 0);
        }
        let before = std::mem::replace(&mut self.slots[slot], object);
        if object != 0 {
            self.held.entry(object).or_default().0 += 1;
            self.changed.push(object);
        }
        self.let_go(before);
    }

    fn cut(&mut self, top: u32) {
        while self.slots.len() > top as usize {
            if let Some(object) = self.slots.pop() {
                self.let_go(object);
            }
        }
    }

    fn let_go(&mut self, object: Reference) {
        if let Some(held) = self.held.get_mut(&object) {
            held.0 = held.0.saturating_sub(1);
            self.changed.push(object);
        }
    }
}

struct Assembly<W: Write> {
    writer: TraceWriter<W>,
    objects: FxHashMap<Reference, ObjectId>,
    places: Vec<Place>,
    /// Numbers in the trace, by the agent's; only sites with events get one.
    sites: FxHashMap<u32, SiteId>,
    used: Vec<u32>,
    threads: Vec<Thread>,
    current: usize,
    /// Of all threads' frames.
    slots: usize,
    /// The object whose fields are all static fields; 0 before the first.
    statics: ObjectId,
    start: Option<u64>,
    assembled: Assembled,
}

/// The site of the object that stands for all static fields.
const STATICS_SITE: u32 = u32::MAX;

/// Writes the trace of one JVM, telling of progress every now and then.
pub fn assemble<W: Write>(
    spool: &mut Spool,
    out: W,
    known: &Known,
    progress: Progress,
) -> Result<(W, Assembled), Error> {
    let properties = properties_of(&spool.header, known);
    let mut assembly = Assembly::new(out, properties)?;
    while let Some(record) = spool.next_record()? {
        assembly.record(record)?;
        if assembly.assembled.events.is_multiple_of(1 << 18)
            && progress(assembly.assembled.events).is_break()
        {
            return Err(Error::Stopped);
        }
    }
    assembly.end(spool)
}

impl<W: Write> Assembly<W> {
    fn new(out: W, properties: Properties) -> trace_format::Result<Self> {
        Ok(Self {
            writer: TraceWriter::new(out, properties, Options::default())?,
            objects: FxHashMap::default(),
            places: Vec::new(),
            sites: FxHashMap::default(),
            used: Vec::new(),
            threads: vec![Thread::default()],
            current: 0,
            slots: 0,
            statics: 0,
            start: None,
            assembled: Assembled::default(),
        })
    }

    fn record(&mut self, record: Record) -> Result<(), Error> {
        match record {
            Record::Slot { slot, object } if slot < MAX_SLOTS => {
                let others = self.slots - self.threads[self.current].slots.len();
                if others + slot as usize >= MOST_SLOTS {
                    let what = format!("its frames have more than {MOST_SLOTS} slots");
                    return Err(Error::Damaged(what));
                }
                self.change_frames(|thread| thread.put(slot, object));
                return Ok(());
            }
            Record::Top(top) => {
                self.change_frames(|thread| thread.cut(top));
                return Ok(());
            }
            Record::Site { number, text } => {
                self.name(number, text);
                return Ok(());
            }
            Record::Time(time) => {
                let start = *self.start.get_or_insert(time);
                return Ok(self.writer.time(time.saturating_sub(start))?);
            }
            _ => {}
        }
        self.tell_roots()?;
        match record {
            Record::Thread(number) => self.switch_to(number),
            Record::Allocate { site, object, size } => self.allocate(site, object, size),
            Record::Assign {
                object,
                field,
                target,
            } => self.assign(self.objects.get(&object).copied(), field, target),
            Record::Pin(object) => self.pin(object),
            Record::Static { field, target } => {
                self.need_statics()?;
                self.assign(Some(self.statics), field, target)
            }
            Record::Jump(site) => {
                let site = self.site(site);
                let thread = self.thread();
                self.event(&Event::Jump { site, thread })
            }
            _ => Ok(()),
        }
    }

    fn change_frames(&mut self, change: impl FnOnce(&mut Thread)) {
        let thread = &mut self.threads[self.current];
        let others = self.slots - thread.slots.len();
        change(thread);
        self.slots = others + thread.slots.len();
    }

    /// The thread's roots, as they are now: an object is one of them or is not, in however many slots it lies.
    fn tell_roots(&mut self) -> Result<(), Error> {
        if self.threads[self.current].changed.is_empty() {
            return Ok(());
        }
        let thread = self.thread();
        let changed = std::mem::take(&mut self.threads[self.current].changed);
        for add in [true, false] {
            for reference in &changed {
                let held = self.threads[self.current].held.get_mut(reference);
                let Some(held) = held.filter(|held| (held.0 > 0) == add && held.1 != add) else {
                    continue;
                };
                // One that is not allocated yet is told of when it is.
                let Some(&object) = self.objects.get(reference) else {
                    continue;
                };
                held.1 = add;
                self.event(&if add {
                    Event::AddRoot { object, thread }
                } else {
                    Event::RemoveRoot { object, thread }
                })?;
            }
        }
        let state = &mut self.threads[self.current];
        for reference in &changed {
            if state.held.get(reference).is_some_and(|held| held.0 == 0) {
                state.held.remove(reference);
            }
        }
        // Its memory is used again.
        state.changed = changed;
        state.changed.clear();
        Ok(())
    }

    fn switch_to(&mut self, number: u32) -> Result<(), Error> {
        let number = number as usize;
        if number >= 1 << 20 {
            return Err(Error::Damaged(format!("thread {number}")));
        }
        if self.threads.len() <= number {
            self.threads.resize_with(number + 1, Thread::default);
        }
        self.current = number;
        Ok(())
    }

    fn thread(&self) -> ThreadId {
        self.current as ThreadId
    }

    fn allocate(&mut self, site: u32, reference: Reference, size: u64) -> Result<(), Error> {
        let object = self.writer.latest_object() + 1;
        self.objects.insert(reference, object);
        self.assembled.allocations += 1;
        let event = Event::Allocate {
            object,
            site: self.site(site),
            size,
            thread: self.thread(),
        };
        let thread = &mut self.threads[self.current];
        if thread.held.contains_key(&reference) {
            thread.changed.push(reference);
        }
        self.event(&event)
    }

    fn assign(
        &mut self,
        object: Option<ObjectId>,
        field: u32,
        target: Reference,
    ) -> Result<(), Error> {
        let target = match target {
            0 => Some(0),
            other => self.objects.get(&other).copied(),
        };
        let (Some(object), Some(target)) = (object, target) else {
            self.assembled.dropped += 1;
            return Ok(());
        };
        self.event(&Event::Assign {
            object,
            field,
            target,
        })
    }

    fn pin(&mut self, reference: Reference) -> Result<(), Error> {
        let thread = self.thread();
        match self.objects.get(&reference) {
            Some(&object) => self.event(&Event::AddRoot { object, thread }),
            None => Ok(()),
        }
    }

    fn need_statics(&mut self) -> Result<(), Error> {
        if self.statics != 0 {
            return Ok(());
        }
        let (object, thread) = (self.writer.latest_object() + 1, self.thread());
        self.statics = object;
        self.assembled.allocations += 1;
        let event = Event::Allocate {
            object,
            site: self.site(STATICS_SITE),
            size: STATICS_BYTES,
            thread,
        };
        self.event(&event)?;
        self.event(&Event::AddRoot { object, thread })
    }

    fn event(&mut self, event: &Event) -> Result<(), Error> {
        self.assembled.events += 1;
        Ok(self.writer.event(event)?)
    }

    fn name(&mut self, number: u32, text: String) {
        let number = number as usize;
        // The agent numbers them one by one, and takes a number again if something came in between.
        let place = Place { text };
        if number == self.places.len() {
            self.places.push(place);
        } else if let Some(again) = self.places.get_mut(number) {
            *again = place;
        }
    }

    fn site(&mut self, number: u32) -> SiteId {
        let next = self.used.len() as SiteId;
        let used = &mut self.used;
        *self.sites.entry(number).or_insert_with(|| {
            used.push(number);
            next
        })
    }

    fn end(mut self, spool: &Spool) -> Result<(W, Assembled), Error> {
        self.tell_roots()?;
        let header = &spool.header;
        let statics = Site {
            kind: "(static fields)",
            ..Site::default()
        };
        for number in &self.used {
            let site = match self.places.get(*number as usize) {
                _ if *number == STATICS_SITE => statics.clone(),
                Some(place) => place.site(),
                None => Site::default(),
            };
            self.writer.sites_mut().add(&site)?;
        }
        for (name, count) in COUNTS.iter().zip(header.counts) {
            self.writer.set_property(name, count.to_string());
        }
        self.writer
            .set_property("dropped-assignments", self.assembled.dropped.to_string());
        self.assembled.sites = self.used.len();
        self.assembled.stop = match spool.is_damaged {
            true => Some(Stop::Damage),
            false => header.has_stopped.then_some(Stop::Room),
        };
        if let Some(stop) = self.assembled.stop {
            self.writer.set_property("stopped", stop.to_string());
        }
        Ok((self.writer.finish()?, self.assembled))
    }
}

fn properties_of(header: &Header, known: &Known) -> Properties {
    let mut properties = Properties::new()
        .with("recorder", concat!("pagewise ", env!("CARGO_PKG_VERSION")))
        .with("runtime", "jvm")
        .with("events", "allocate assign add-root remove-root jump")
        .with("site", "frame type")
        .with("command", &*header.command)
        .with("process", header.process.to_string())
        .with("start", clock::rfc_3339(header.start_real_ns));
    if let Some(ended) = &known.ended {
        properties.set("ended", ended.as_str());
    }
    properties
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_threads_together_have_so_many_slots_and_no_more() {
        let mut assembly = Assembly::new(Vec::new(), Properties::new()).expect("trace");
        // As if others held the rest: tests beside this one measure memory.
        assembly.slots = MOST_SLOTS - 200;
        let mut deepen = |thread, top| {
            assembly.record(Record::Thread(thread))?;
            let (slot, object) = (99, 0);
            assembly.record(Record::Slot { slot, object })?;
            assembly.record(Record::Top(top))
        };
        // Room that has been left may be had again.
        for (thread, top) in [(1, 0), (2, 100), (3, 100)] {
            deepen(thread, top).expect("room");
        }
        let error = deepen(4, 100).expect_err("too many").to_string();
        assert!(error.contains("damaged"), "{error}");
    }
}
