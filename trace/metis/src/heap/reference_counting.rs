//! Reference counting with cycle collection by trial deletion: Bacon and Rajan, "Concurrent Cycle Collection in
//! Reference Counted Systems" (2001), the synchronous form. Colours as there: black is in use, purple a
//! possible root of a garbage cycle, gray under trial, white garbage.

use trace_format::ObjectId;

use super::objects::{Color, Objects};
use super::slot::Slot;

#[derive(Default)]
pub struct ReferenceCounts {
    /// Objects that may be garbage although nothing has counted them down to zero. The number tells a slot's present object from an earlier one.
    candidates: Vec<(Slot, ObjectId)>,
}

impl ReferenceCounts {
    /// A thread lets go of its newest object without a count going down: nothing, or only a cycle, may refer
    /// to it.
    pub fn let_go(&mut self, objects: &mut Objects, slot: Slot) {
        objects[slot].color = Color::Purple;
        self.suspect(objects, slot);
    }

    pub fn increment(&mut self, objects: &mut Objects, slot: Slot) {
        let object = &mut objects[slot];
        object.references += 1;
        object.color = Color::Black;
    }

    /// True when the object is now dead. `held`: a thread may still have it in a register.
    pub fn decrement(&mut self, objects: &mut Objects, slot: Slot, held: bool) -> bool {
        let object = &mut objects[slot];
        object.references = object.references.saturating_sub(1);
        if object.references == 0 && !held {
            return true;
        }
        if object.color != Color::Purple {
            object.color = Color::Purple;
            self.suspect(objects, slot);
        }
        false
    }

    /// All objects that die with `dead`, whose counts are zero: their references are counted down.
    pub fn cascade(
        &mut self,
        objects: &mut Objects,
        dead: &mut Vec<Slot>,
        is_held: impl Fn(&Objects, Slot) -> bool,
    ) {
        let mut next = 0;
        while let Some(slot) = dead.get(next).copied() {
            next += 1;
            for target in targets(objects, slot) {
                let held = is_held(objects, target);
                if objects[target].references > 0 && self.decrement(objects, target, held) {
                    dead.push(target);
                }
            }
        }
    }

    /// The garbage among the candidates, in cycles and out of them. `held` objects are kept.
    pub fn collect(&mut self, objects: &mut Objects, held: &[Slot]) -> Vec<Slot> {
        for slot in held {
            objects[*slot].references += 1;
        }
        let candidates: Vec<Slot> = std::mem::take(&mut self.candidates)
            .into_iter()
            .filter(|(slot, id)| objects[*slot].id == *id)
            .map(|(slot, _)| slot)
            .collect();
        let mut dead: Vec<Slot> = candidates
            .iter()
            .copied()
            .filter(|slot| objects[*slot].references == 0)
            .collect();
        dead.sort_unstable();
        dead.dedup();
        self.cascade(objects, &mut dead, |_, _| false);
        for slot in &dead {
            objects[*slot].color = Color::Black;
        }
        // The cascade's own suspects are candidates too.
        let late = std::mem::take(&mut self.candidates)
            .into_iter()
            .map(|(slot, _)| slot);
        let mut roots: Vec<Slot> = candidates.into_iter().chain(late).collect();
        roots.retain(|slot| objects[*slot].color == Color::Purple);
        roots.iter().for_each(|slot| mark_gray(objects, *slot));
        roots.iter().for_each(|slot| scan(objects, *slot));
        roots
            .iter()
            .for_each(|slot| collect_white(objects, *slot, &mut dead));
        for slot in held {
            objects[*slot].references -= 1;
            self.let_go(objects, *slot);
        }
        dead
    }

    fn suspect(&mut self, objects: &Objects, slot: Slot) {
        if self.candidates.len() > 4 * objects.alive() + 4096 {
            self.candidates
                .retain(|(slot, id)| objects[*slot].id == *id);
            self.candidates.sort_unstable();
            self.candidates.dedup();
        }
        self.candidates.push((slot, objects[slot].id));
    }
}

fn targets(objects: &Objects, slot: Slot) -> smallvec::SmallVec<[Slot; 8]> {
    let mut targets = smallvec::SmallVec::new();
    objects.each_target(slot, |target| targets.push(target));
    targets
}

/// Takes away the references that come from inside the candidate's own graph.
fn mark_gray(objects: &mut Objects, root: Slot) {
    let mut pending = vec![root];
    while let Some(slot) = pending.pop() {
        if objects[slot].color == Color::Gray {
            continue;
        }
        objects[slot].color = Color::Gray;
        for target in targets(objects, slot) {
            objects[target].references = objects[target].references.saturating_sub(1);
            pending.push(target);
        }
    }
}

/// What is still referred to is in use, with all it refers to; the rest is white.
fn scan(objects: &mut Objects, root: Slot) {
    let mut pending = vec![root];
    while let Some(slot) = pending.pop() {
        if objects[slot].color != Color::Gray {
            continue;
        }
        if objects[slot].references > 0 {
            scan_black(objects, slot);
        } else {
            objects[slot].color = Color::White;
            pending.extend(targets(objects, slot));
        }
    }
}

fn scan_black(objects: &mut Objects, root: Slot) {
    let mut pending = vec![root];
    objects[root].color = Color::Black;
    while let Some(slot) = pending.pop() {
        for target in targets(objects, slot) {
            objects[target].references += 1;
            if objects[target].color != Color::Black {
                objects[target].color = Color::Black;
                pending.push(target);
            }
        }
    }
}

fn collect_white(objects: &mut Objects, root: Slot, dead: &mut Vec<Slot>) {
    let mut pending = vec![root];
    while let Some(slot) = pending.pop() {
        if objects[slot].color == Color::White {
            objects[slot].color = Color::Black;
            dead.push(slot);
            pending.extend(targets(objects, slot));
        }
    }
}
