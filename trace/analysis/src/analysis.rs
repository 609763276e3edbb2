//! What a trace says about each site: what it allocated, what of that was live at a moment, which pages that holds.

use std::io::{Read, Seek};

use rustc_hash::FxHashMap;
use serde::Serialize;
use thiserror::Error;
use trace_format::{
    Batch, Event, Manner, ObjectId, Occurrence, Properties, SiteId, ThreadId, TraceReader,
};

use super::pages::{PAGE, PageTable, pages_of};

/// A page is sparse when less than this part of it is live.
pub const SPARSE: f64 = 0.25;
const CURVE_POINTS: u64 = 160;
/// Lifetimes in bytes allocated meanwhile: below 1 kB, 10 kB, ... and above 1 GB.
pub const LIFETIME_CLASSES: usize = 8;

/// The moment for which live and pinned bytes are given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum Moment {
    /// When most bytes were live
    #[default]
    Peak,
    /// When most bytes of held pages were free: the worst moment
    Pinned,
    /// At the end of the trace
    End,
}

/// Why a trace does not tell which pages its blocks hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WithoutPages {
    #[error("it is a sample")]
    Sample,
    #[error("it is of a JVM, whose collector moves and frees objects as it likes")]
    Jvm,
    #[error("it has no addresses, or no frees")]
    NoAddresses,
}

impl WithoutPages {
    /// Of a trace that does not.
    pub fn of(properties: &Properties) -> Self {
        if properties.number("sample-bytes").unwrap_or(0) > 0 {
            Self::Sample
        } else if properties.get("runtime") == Some("jvm") {
            Self::Jvm
        } else {
            Self::NoAddresses
        }
    }
}

#[derive(Debug, Error)]
pub enum Error {
    #[error(transparent)]
    Trace(#[from] trace_format::Error),
    #[error("the trace does not tell which pages are held: {0}")]
    WithoutPages(#[from] WithoutPages),
}

/// What is told of progress: how many events more were read.
pub type Progress<'a> = &'a mut dyn FnMut(u64);

/// Estimates where the trace is a sample.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SiteFigures {
    pub allocations: f64,
    pub allocated_bytes: f64,
    pub frees: f64,
    /// Bytes that the program allocated while the freed objects lived, summed over them.
    #[serde(skip)]
    pub lifetimes: f64,
    /// Allocations that the same thread freed before it allocated anything else. Of a sample none are known.
    #[serde(skip)]
    pub temporary: f64,
    pub live_objects: f64,
    pub live_bytes: f64,
    /// Free bytes of sparse pages, shared out among the sites whose blocks hold them.
    pub pinned_bytes: f64,
}

impl SiteFigures {
    pub fn add(&mut self, other: &Self) {
        self.allocations += other.allocations;
        self.allocated_bytes += other.allocated_bytes;
        self.frees += other.frees;
        self.lifetimes += other.lifetimes;
        self.temporary += other.temporary;
        self.live_objects += other.live_objects;
        self.live_bytes += other.live_bytes;
        self.pinned_bytes += other.pinned_bytes;
    }
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Point {
    pub event: u64,
    pub seconds: f64,
    pub live_bytes: f64,
    /// 0 where the trace has no addresses.
    pub held_bytes: f64,
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct PageFigures {
    pub held_bytes: u64,
    pub sparse_pages: u64,
    pub pinned_bytes: u64,
}

#[derive(Default)]
pub struct Analysis {
    pub sites: Vec<SiteFigures>,
    pub total: SiteFigures,
    pub events: u64,
    pub assigns: u64,
    pub roots: u64,
    pub jumps: u64,
    pub threads: u32,
    pub seconds: f64,
    /// Frees of what had been freed before.
    pub double_frees: u64,
    /// When most bytes were live.
    pub peak: Point,
    pub lifetimes: [f64; LIFETIME_CLASSES],
    pub sizes: Vec<(u64, f64)>,
    pub curve: Vec<Point>,
    pub moment: Point,
    /// None where the trace has no addresses, or is a sample.
    pub pages: Option<PageFigures>,
}

impl Analysis {
    /// Do objects' ends stand in the trace? With a collector they do not.
    pub fn has_ends(&self) -> bool {
        self.total.frees > 0.0 || self.assigns + self.roots == 0
    }

    /// With what was live when most was, in the place of what was live at the moment.
    pub fn set_live(&mut self, peak: &[SiteFigures]) {
        let set = |figures: &mut SiteFigures, objects: f64, bytes: f64| {
            (figures.live_objects, figures.live_bytes) = (objects, bytes);
        };
        for (place, figures) in self.sites.iter_mut().enumerate() {
            let (objects, bytes) = peak
                .get(place)
                .map_or((0.0, 0.0), |site| (site.live_objects, site.live_bytes));
            set(figures, objects, bytes);
        }
        let sum = |of: fn(&SiteFigures) -> f64| peak.iter().map(of).sum();
        let objects = sum(|site| site.live_objects);
        let bytes = sum(|site| site.live_bytes);
        set(&mut self.total, objects, bytes);
    }
}

#[derive(Clone, Copy)]
pub struct Block {
    pub site: SiteId,
    pub size: u64,
    pub address: u64,
    /// Bytes allocated before it.
    born: f64,
}

/// The blocks that are live, and their pages.
#[derive(Default)]
pub struct Heap {
    pub blocks: FxHashMap<ObjectId, Block>,
    pub pages: Option<PageTable>,
    pub live_bytes: f64,
    allocated: f64,
    sample_bytes: f64,
}

impl Heap {
    pub fn of<R: Read + Seek>(trace: &TraceReader<R>, with_pages: bool) -> Self {
        let sample = trace.properties().number("sample-bytes").unwrap_or(0);
        Self::of_sample(sample, with_pages && trace.has_addresses())
    }

    /// `sample_bytes` 0: of everything.
    pub(crate) fn of_sample(sample_bytes: u64, with_pages: bool) -> Self {
        let has_pages = with_pages && sample_bytes == 0;
        Self {
            pages: has_pages.then(PageTable::default),
            sample_bytes: sample_bytes as f64,
            ..Self::default()
        }
    }

    /// How many allocations one recorded allocation of this size stands for.
    pub fn weight(&self, size: u64) -> f64 {
        if self.sample_bytes == 0.0 {
            return 1.0;
        }
        1.0 / -(-(size.max(1) as f64) / self.sample_bytes).exp_m1()
    }

    pub fn allocate(&mut self, object: ObjectId, site: SiteId, size: u64, address: u64) {
        let bytes = size as f64 * self.weight(size);
        self.allocated += bytes;
        self.live_bytes += bytes;
        // Its own bytes, which may stand for many allocations, are not of its lifetime.
        let born = self.allocated;
        self.blocks.insert(
            object,
            Block {
                site,
                size,
                address,
                born,
            },
        );
        if let Some(pages) = &mut self.pages {
            pages.add(address, size);
        }
    }

    /// The block, unless it was freed before.
    pub fn free(&mut self, object: ObjectId) -> Option<Block> {
        let block = self.blocks.remove(&object)?;
        self.live_bytes -= block.size as f64 * self.weight(block.size);
        if let Some(pages) = &mut self.pages {
            pages.remove(block.address, block.size);
        }
        Some(block)
    }

    pub fn held_bytes(&self) -> f64 {
        self.pages
            .as_ref()
            .map_or(0.0, |pages| pages.held_bytes() as f64)
    }
}

/// Goes through events one by one, until `limit` events have been seen.
pub fn each_event<R: Read + Seek>(
    trace: &mut TraceReader<R>,
    limit: u64,
    progress: Progress,
    mut visit: impl FnMut(u64, &Occurrence),
) -> trace_format::Result<()> {
    trace.rewind();
    while let Some(batch) = trace.next_batch()? {
        each_of_batch(batch, limit, &mut visit);
        if batch.first_event + batch.events.len() as u64 >= limit {
            break;
        }
        progress(batch.events.len() as u64);
    }
    Ok(())
}

fn each_of_batch(batch: &Batch, limit: u64, visit: &mut impl FnMut(u64, &Occurrence)) {
    for (number, occurrence) in (batch.first_event..limit).zip(batch.iter()) {
        visit(number, &occurrence);
    }
}

/// Reads the trace once for everything but the moment, and again up to the moment.
pub fn analyse<R: Read + Seek>(
    trace: &mut TraceReader<R>,
    moment: Moment,
    progress: Progress,
) -> Result<Analysis, Error> {
    let with_pages = moment == Moment::Pinned;
    let mut heap = Heap::of(trace, with_pages);
    if with_pages && heap.pages.is_none() {
        return Err(WithoutPages::of(trace.properties()).into());
    }
    let mut found = Analysis::default();
    let step = (trace.event_count() / CURVE_POINTS).max(1);
    let mut best = (f64::MIN, Point::default());
    let mut counting = Counting {
        sizes: FxHashMap::default(),
        latest: Latest::of(trace.properties()),
    };
    each_event(trace, u64::MAX, progress, |number, occurrence| {
        found.count(&mut heap, occurrence, &mut counting);
        let seconds = occurrence.time as f64 / 1e9;
        found.seconds = seconds;
        let point = Point {
            event: number + 1,
            seconds,
            live_bytes: heap.live_bytes,
            held_bytes: heap.held_bytes(),
        };
        if point.live_bytes > found.peak.live_bytes {
            found.peak = point;
        }
        let worth = match moment {
            Moment::Peak => point.live_bytes,
            Moment::Pinned => point.held_bytes - point.live_bytes,
            Moment::End => number as f64,
        };
        if worth > best.0 {
            best = (worth, point);
        }
        if number.is_multiple_of(step) {
            found.curve.push(point);
        }
    })?;
    found.curve.push(Point {
        event: found.events,
        seconds: found.seconds,
        live_bytes: heap.live_bytes,
        held_bytes: heap.held_bytes(),
    });
    found.moment = best.1;
    found.sizes = counting.sizes.into_iter().collect();
    found.sizes.sort_by_key(|(class, _)| *class);
    let heap = heap_at(trace, found.moment.event, progress)?;
    found.take(&heap);
    Ok(found)
}

/// The heap as it was before event number `event`.
pub fn heap_at<R: Read + Seek>(
    trace: &mut TraceReader<R>,
    event: u64,
    progress: Progress,
) -> trace_format::Result<Heap> {
    replayed(trace, event, true, progress)
}

/// Of each site what was live when most was; no other figures.
pub fn at_peak<R: Read + Seek>(
    trace: &mut TraceReader<R>,
    found: &Analysis,
    progress: Progress,
) -> trace_format::Result<Vec<SiteFigures>> {
    let mut peak = Analysis::default();
    let heap = replayed(trace, found.peak.event, false, progress)?;
    peak.take(&heap);
    Ok(peak.sites)
}

fn replayed<R: Read + Seek>(
    trace: &mut TraceReader<R>,
    event: u64,
    with_pages: bool,
    progress: Progress,
) -> trace_format::Result<Heap> {
    let mut heap = Heap::of(trace, with_pages);
    each_event(trace, event, progress, |_, occurrence| {
        match *occurrence.event {
            Event::Allocate {
                object, site, size, ..
            } => heap.allocate(object, site, size, occurrence.address.unwrap_or(0)),
            Event::Free { object } => drop(heap.free(object)),
            _ => {}
        }
    })?;
    Ok(heap)
}

/// What is counted of events on the way.
#[derive(Default)]
pub(crate) struct Counting {
    sizes: FxHashMap<u64, f64>,
    latest: Latest,
}

impl Analysis {
    pub(crate) fn count(
        &mut self,
        heap: &mut Heap,
        occurrence: &Occurrence,
        counting: &mut Counting,
    ) {
        self.events += 1;
        match *occurrence.event {
            Event::Allocate {
                object,
                site,
                size,
                thread,
            } => {
                let weight = heap.weight(size);
                heap.allocate(object, site, size, occurrence.address.unwrap_or(0));
                counting.latest.set(thread, object);
                self.threads = self.threads.max(thread.saturating_add(1));
                let class = size.next_power_of_two_or_max();
                *counting.sizes.entry(class).or_insert(0.0) += weight;
                for figures in [&mut self.total, site_figures(&mut self.sites, site)] {
                    figures.allocations += weight;
                    figures.allocated_bytes += size as f64 * weight;
                }
            }
            Event::Free { object } => {
                let Some(block) = heap.free(object) else {
                    self.double_frees += 1;
                    return;
                };
                let weight = heap.weight(block.size);
                let lifetime = heap.allocated - block.born;
                self.lifetimes[lifetime_class(lifetime)] += weight;
                let temporary =
                    f64::from(u8::from(counting.latest.is_freed_by(occurrence, object)));
                for figures in [&mut self.total, site_figures(&mut self.sites, block.site)] {
                    figures.frees += weight;
                    figures.lifetimes += lifetime * weight;
                    figures.temporary += temporary;
                }
            }
            Event::Assign { .. } => self.assigns += 1,
            Event::AddRoot { .. } | Event::RemoveRoot { .. } => self.roots += 1,
            Event::Jump { .. } => self.jumps += 1,
        }
    }

    /// Figures of what is live in `heap` in the place of an earlier moment's.
    pub(crate) fn take_anew(&mut self, heap: &Heap) {
        for figures in self.sites.iter_mut().chain([&mut self.total]) {
            (figures.live_objects, figures.live_bytes) = (0.0, 0.0);
            figures.pinned_bytes = 0.0;
        }
        self.take(heap);
    }

    /// Takes over what is live in `heap`, and the pages that it holds.
    fn take(&mut self, heap: &Heap) {
        for block in heap.blocks.values() {
            let weight = heap.weight(block.size);
            for figures in [&mut self.total, site_figures(&mut self.sites, block.site)] {
                figures.live_objects += weight;
                figures.live_bytes += block.size as f64 * weight;
            }
        }
        let Some(pages) = &heap.pages else {
            return;
        };
        self.moment.held_bytes = pages.held_bytes() as f64;
        let limit = (PAGE as f64 * SPARSE) as u32;
        let sparse = |live: u32| live < limit;
        let mut figures = PageFigures {
            held_bytes: pages.held_bytes(),
            ..PageFigures::default()
        };
        for (_, live) in pages.iter().filter(|(_, live)| sparse(*live)) {
            figures.sparse_pages += 1;
            figures.pinned_bytes += PAGE - u64::from(live);
        }
        for block in heap.blocks.values() {
            for (page, bytes) in pages_of(block.address, block.size).0 {
                let live = pages.live(page);
                if sparse(live) {
                    let share = f64::from(bytes) / f64::from(live.max(1));
                    let pinned = share * (PAGE - u64::from(live)) as f64;
                    site_figures(&mut self.sites, block.site).pinned_bytes += pinned;
                    self.total.pinned_bytes += pinned;
                }
            }
        }
        self.pages = Some(figures);
    }
}

/// Of each thread its latest allocation.
#[derive(Default)]
struct Latest {
    /// None where it is not known who frees, or what was allocated meanwhile.
    objects: Option<Vec<Option<ObjectId>>>,
}

impl Latest {
    fn of(properties: &Properties) -> Self {
        Self {
            objects: knows_temporary(properties).then(Vec::new),
        }
    }

    fn set(&mut self, thread: ThreadId, object: ObjectId) {
        if let Some(objects) = &mut self.objects {
            let thread = thread as usize;
            if thread >= objects.len() {
                objects.resize(thread + 1, None);
            }
            objects[thread] = Some(object);
        }
    }

    /// A realloc is no free.
    fn is_freed_by(&self, occurrence: &Occurrence, object: ObjectId) -> bool {
        let objects = self.objects.as_deref().unwrap_or_default();
        let latest = objects.get(occurrence.thread as usize).copied().flatten();
        latest == Some(object) && occurrence.manner != Some(Manner::Resized)
    }
}

/// Does the trace tell which allocations are temporary?
pub fn knows_temporary(properties: &Properties) -> bool {
    let is_sample = properties.number("sample-bytes").unwrap_or(0) > 0;
    !is_sample && properties.get("frees") == Some("by-thread")
}

fn site_figures(sites: &mut Vec<SiteFigures>, site: SiteId) -> &mut SiteFigures {
    let place = site as usize;
    if place >= sites.len() {
        sites.resize_with(place + 1, SiteFigures::default);
    }
    &mut sites[place]
}

fn lifetime_class(bytes: f64) -> usize {
    let mut limit = 1e3;
    for class in 0..LIFETIME_CLASSES - 1 {
        if bytes < limit {
            return class;
        }
        limit *= 10.0;
    }
    LIFETIME_CLASSES - 1
}

trait PowerOfTwo {
    fn next_power_of_two_or_max(self) -> Self;
}

impl PowerOfTwo for u64 {
    fn next_power_of_two_or_max(self) -> Self {
        self.max(16)
            .checked_next_power_of_two()
            .unwrap_or(Self::MAX)
    }
}
