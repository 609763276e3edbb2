//! The objects alive: where they lie, what they refer to, who refers to them.

use rustc_hash::FxHashMap;

use trace_format::{ObjectId, SiteId, ThreadId};

use super::fields::Fields;
use super::object_index::ObjectIndex;
use super::place::Place;
use super::slot::Slot;

/// What a collector thinks of an object: see `mark_sweep` and `reference_counting`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Color {
    #[default]
    White,
    Black,
    Gray,
    Purple,
}

#[derive(Clone, Debug, Default)]
pub struct Object {
    /// 0 where the slot is vacant.
    pub id: ObjectId,
    pub place: Place,
    /// Granules.
    pub size: u32,
    pub site: SiteId,
    pub thread: ThreadId,
    /// References from `root_thread`'s root set; those of further threads are in `Objects::spread_roots`.
    roots: u32,
    root_thread: ThreadId,
    other_roots: u32,
    /// References from roots and fields (reference counting only).
    pub references: u32,
    pub color: Color,
    /// Some field has referred to this object, and may still.
    pub referred_to: bool,
}

impl Object {
    pub fn is_alive(&self) -> bool {
        self.id != 0
    }

    pub fn is_root(&self) -> bool {
        self.roots > 0 || self.other_roots > 0
    }
}

#[derive(Default)]
pub struct Objects {
    table: Vec<Object>,
    /// Beside the table, so that marking reads few cache lines.
    fields: Vec<Fields>,
    vacant: Vec<Slot>,
    /// Freed by the program while fields may still refer to them: vacant once no field does.
    limbo: Vec<Slot>,
    index: ObjectIndex,
    spread_roots: FxHashMap<(Slot, ThreadId), u32>,
    alive: usize,
}

impl std::ops::Index<Slot> for Objects {
    type Output = Object;

    #[inline]
    fn index(&self, slot: Slot) -> &Object {
        &self.table[slot as usize]
    }
}

impl std::ops::IndexMut<Slot> for Objects {
    #[inline]
    fn index_mut(&mut self, slot: Slot) -> &mut Object {
        &mut self.table[slot as usize]
    }
}

impl Objects {
    #[inline]
    pub fn find(&self, id: ObjectId) -> Option<Slot> {
        self.index.get(id)
    }

    pub fn alive(&self) -> usize {
        self.alive
    }

    /// All slots, vacant ones included.
    pub fn slots(&self) -> std::ops::Range<Slot> {
        0..self.table.len() as Slot
    }

    pub fn living(&self) -> impl Iterator<Item = Slot> + '_ {
        self.slots().filter(|slot| self[*slot].is_alive())
    }

    pub fn insert(
        &mut self,
        id: ObjectId,
        place: Place,
        size: u32,
        site: SiteId,
        thread: ThreadId,
    ) -> Slot {
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.table.push(Object::default());
            self.fields.push(Fields::default());
            self.table.len() as Slot - 1
        });
        let object = &mut self[slot];
        (object.id, object.place, object.size) = (id, place, size);
        (object.site, object.thread) = (site, thread);
        self.index.insert(id, slot);
        self.alive += 1;
        slot
    }

    /// Forgets an object that nothing alive refers to.
    pub fn remove(&mut self, slot: Slot) {
        self.forget(slot);
        self.vacant.push(slot);
    }

    /// Forgets an object that the program freed, whatever still refers to it.
    pub fn remove_freed(&mut self, slot: Slot) {
        let referred_to = self[slot].referred_to;
        if self[slot].other_roots > 0 {
            self.spread_roots.retain(|(rooted, _), _| *rooted != slot);
        }
        self.forget(slot);
        if referred_to {
            self.limbo.push(slot);
        } else {
            self.vacant.push(slot);
        }
        if self.limbo.len() > self.alive + 1024 {
            self.drop_dangling_references();
        }
    }

    /// Takes references to freed objects out of all fields, so that their slots can be used again.
    pub fn drop_dangling_references(&mut self) {
        if self.limbo.is_empty() {
            return;
        }
        for fields in &mut self.fields {
            if !fields.is_empty() {
                fields.retain(|target| self.table[target as usize].is_alive());
            }
        }
        self.vacant.append(&mut self.limbo);
    }

    fn forget(&mut self, slot: Slot) {
        let object = &mut self.table[slot as usize];
        self.index.remove(object.id);
        object.id = 0;
        (object.roots, object.other_roots, object.references) = (0, 0, 0);
        object.color = Color::White;
        object.referred_to = false;
        self.fields[slot as usize].clear();
        self.alive -= 1;
    }

    #[inline]
    pub fn add_root(&mut self, slot: Slot, thread: ThreadId) {
        let object = &mut self[slot];
        if object.roots == 0 {
            object.root_thread = thread;
        }
        if object.root_thread == thread {
            object.roots = object.roots.saturating_add(1);
        } else {
            object.other_roots = object.other_roots.saturating_add(1);
            *self.spread_roots.entry((slot, thread)).or_default() += 1;
        }
    }

    /// False where `thread` holds no such root.
    #[inline]
    pub fn remove_root(&mut self, slot: Slot, thread: ThreadId) -> bool {
        let object = &mut self[slot];
        if object.roots > 0 && object.root_thread == thread {
            object.roots -= 1;
            return true;
        }
        if object.other_roots == 0 {
            return false;
        }
        let Some(count) = self.spread_roots.get_mut(&(slot, thread)) else {
            return false;
        };
        *count -= 1;
        if *count == 0 {
            self.spread_roots.remove(&(slot, thread));
        }
        self[slot].other_roots -= 1;
        true
    }

    /// Makes a field refer to `target`; says which living object it referred to before.
    #[inline]
    pub fn set_field(&mut self, slot: Slot, field: u32, target: Option<Slot>) -> Option<Slot> {
        let before = self.fields[slot as usize].set(field, target);
        before.filter(|target| self[*target].is_alive())
    }

    /// The objects, and their fields, for walks that change the former while reading the latter.
    pub fn split(&mut self) -> (&mut [Object], &[Fields]) {
        (&mut self.table, &self.fields)
    }

    /// Calls `visit` with each living object that `slot` refers to.
    #[inline]
    pub fn each_target(&self, slot: Slot, mut visit: impl FnMut(Slot)) {
        self.fields[slot as usize].each(|target| {
            if self[target].is_alive() {
                visit(target);
            }
        });
    }
}
