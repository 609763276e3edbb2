//! Stretches of a trace that can be replayed alone: other inputs to learn from, and to test what was learned.

use rustc_hash::FxHashMap;

use trace_format::{Event, ObjectId, SiteId};

use super::repeat::{remove_roots, shifted};

/// The site of objects from before a block.
pub const EARLIER: SiteId = SiteId::MAX;
const EARLIER_BYTES: u64 = 16;

/// The first `most` blocks of so many events. Each numbers its objects from 1. One from an earlier block is allocated where it is first
/// mentioned and rooted to the block's end: who holds it is not in the block.
pub fn blocks(trace: &[Event], length: usize, most: usize) -> Vec<Vec<Event>> {
    let whole = trace.chunks(length.max(1)).take(most);
    whole
        .enumerate()
        .filter(|(at, block)| *at == 0 || block.len() == length)
        .map(|(_, block)| by_itself(block))
        .collect()
}

fn by_itself(block: &[Event]) -> Vec<Event> {
    let mut numbers: FxHashMap<ObjectId, ObjectId> = FxHashMap::default();
    let mut events = Vec::with_capacity(block.len());
    for event in block {
        let mut event = *event;
        match &mut event {
            Event::Allocate { object, .. } => {
                let number = numbers.len() as ObjectId + 1;
                numbers.insert(*object, number);
                *object = number;
            }
            Event::Assign { object, target, .. } => {
                *object = number_of(*object, &mut numbers, &mut events);
                *target = number_of(*target, &mut numbers, &mut events);
            }
            Event::Free { object }
            | Event::AddRoot { object, .. }
            | Event::RemoveRoot { object, .. } => {
                *object = number_of(*object, &mut numbers, &mut events);
            }
            Event::Jump { .. } => {}
        }
        events.push(event);
    }
    events
}

fn number_of(
    object: ObjectId,
    numbers: &mut FxHashMap<ObjectId, ObjectId>,
    events: &mut Vec<Event>,
) -> ObjectId {
    if object == 0 {
        return 0;
    }
    let next = numbers.len() as ObjectId + 1;
    *numbers.entry(object).or_insert_with(|| {
        events.push(Event::Allocate {
            object: next,
            site: EARLIER,
            size: EARLIER_BYTES,
            thread: 0,
        });
        // Once for the block, and once for the root that an event of it may take away.
        events.extend(
            [Event::AddRoot {
                object: next,
                thread: 0,
            }; 2],
        );
        next
    })
}

/// One after the other, as one run: what a block has left behind has lost its roots when the next begins.
pub fn joined<'a>(blocks: impl IntoIterator<Item = &'a Vec<Event>>) -> Vec<Event> {
    let mut all = Vec::new();
    let mut highest = 0;
    for block in blocks {
        let mut events: Vec<Event> = block.iter().map(|event| shifted(event, highest)).collect();
        remove_roots(&mut events);
        highest = events.iter().fold(highest, |highest, event| match event {
            Event::Allocate { object, .. } => highest.max(*object),
            _ => highest,
        });
        all.append(&mut events);
    }
    all
}
