//! Which objects are dead, by marking from the roots.

use super::objects::{Color, Objects};
use super::slot::Slot;

/// Paints all that is reachable black.
pub fn mark(objects: &mut Objects, held: &[Slot]) {
    let (objects, fields) = objects.split();
    let mut pending: Vec<Slot> = Vec::with_capacity(256);
    for slot in held {
        objects[*slot as usize].color = Color::Black;
        pending.push(*slot);
    }
    for (slot, object) in objects.iter_mut().enumerate() {
        if object.is_root() && object.color != Color::Black {
            object.color = Color::Black;
            pending.push(slot as Slot);
        }
    }
    while let Some(slot) = pending.pop() {
        fields[slot as usize].each(|target| {
            let object = &mut objects[target as usize];
            if object.color != Color::Black && object.is_alive() {
                object.color = Color::Black;
                pending.push(target);
            }
        });
    }
}

/// The unmarked objects; the others are painted white again for the next time.
pub fn take_unmarked(objects: &mut Objects) -> Vec<Slot> {
    let mut dead = Vec::new();
    for slot in objects.slots() {
        let object = &mut objects[slot];
        if object.color == Color::Black {
            object.color = Color::White;
        } else if object.is_alive() {
            dead.push(slot);
        }
    }
    dead
}
