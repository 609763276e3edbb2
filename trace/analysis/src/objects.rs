//! From a process's records to events: addresses become objects, and places become sites.

use metis::heap::size_class;
use rustc_hash::FxHashMap;
use trace_format::{Event, Manner, ObjectId, Occurrence, Result, SiteId, ThreadId};

use super::spool::{Action, PlaceId, Record};

/// One more site would not fit the format: all others share the last one.
const MAX_SITES: usize = (1 << 22) - 1;

/// What makes a site: the place, and the size class.
pub type SiteKey = (PlaceId, u64);

type Write<'a> = &'a mut dyn FnMut(&Occurrence) -> Result<()>;

#[derive(Default)]
pub struct Objects {
    live: FxHashMap<u64, ObjectId>,
    latest: ObjectId,
    /// Of addresses that became another block's before the first one's free was written down: when the latest was born.
    taken_over: FxHashMap<u64, u64>,
    sites: FxHashMap<SiteKey, SiteId>,
    /// Of each site.
    pub keys: Vec<SiteKey>,
    threads: FxHashMap<u32, ThreadId>,
    pub counts: Counts,
}

#[derive(Default)]
pub struct Counts {
    pub events: u64,
    pub allocations: u64,
    /// Frees of blocks that are not in the trace.
    pub foreign: u64,
    /// Blocks that were allocated again although nobody had freed them.
    pub lost: u64,
}

impl Objects {
    /// Hands on what the record comes to: nothing, an event, or two.
    pub fn record(&mut self, record: &Record, time: u64, write: Write) -> Result<()> {
        match record.action {
            Action::Allocate {
                address,
                size,
                place,
                alignment,
            } => {
                self.latest += 1;
                let object = self.latest;
                let thread = self.thread_of(record.thread);
                if let Some(lost) = self.live.insert(address, object) {
                    self.counts.lost += 1;
                    self.taken_over.insert(address, record.stamp);
                    self.counts.events += 1;
                    write(&Occurrence {
                        event: &Event::Free { object: lost },
                        address: None,
                        time,
                        thread,
                        manner: None,
                    })?;
                }
                let site = self.site_of(place, size);
                self.counts.allocations += 1;
                self.counts.events += 1;
                write(&Occurrence {
                    event: &Event::Allocate {
                        object,
                        site,
                        size,
                        thread,
                    },
                    address: Some(address),
                    time,
                    thread,
                    manner: (alignment > 0).then_some(Manner::Aligned(alignment)),
                })
            }
            Action::Free { .. } if self.is_of_an_earlier_block(record) => Ok(()),
            Action::Free {
                address,
                is_resized,
            } => match self.live.remove(&address) {
                Some(object) => {
                    self.counts.events += 1;
                    write(&Occurrence {
                        event: &Event::Free { object },
                        address: None,
                        time,
                        thread: self.thread_of(record.thread),
                        manner: is_resized.then_some(Manner::Resized),
                    })
                }
                None => {
                    self.counts.foreign += 1;
                    Ok(())
                }
            },
        }
    }

    /// A free that comes late: its block's end is known already, by another one in its place.
    fn is_of_an_earlier_block(&self, record: &Record) -> bool {
        let Action::Free { address, .. } = record.action else {
            return false;
        };
        let born = self.taken_over.get(&address);
        born.is_some_and(|born| record.stamp < *born)
    }

    fn thread_of(&mut self, thread: u32) -> ThreadId {
        let next = self.threads.len() as ThreadId;
        *self.threads.entry(thread).or_insert(next)
    }

    fn site_of(&mut self, place: PlaceId, size: u64) -> SiteId {
        let key = (place, size_class(size));
        if let Some(&site) = self.sites.get(&key) {
            return site;
        }
        if self.keys.len() >= MAX_SITES {
            return self.keys.len() as SiteId - 1;
        }
        let site = self.keys.len() as SiteId;
        self.keys.push(key);
        self.sites.insert(key, site);
        site
    }
}
