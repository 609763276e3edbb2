//! Traces made up so that the truth about them is known: which sites' objects die together, and which do not.
//! The same kind, seed and length give the same trace.

pub mod blocks;
pub mod repeat;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use trace_format::{Event, ObjectId, SiteId, ThreadId};

/// What a made-up program does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A server: requests of several kinds overlap; all objects of one die when it ends.
    Requests,
    /// The same, but one object in fifty, of any site, outlives its request by far.
    Survivors,
    /// Every object lives as long as chance has it, whatever its site.
    Uncorrelated,
    /// Lists and rings that grow link by link and are dropped whole.
    Structures,
    /// Requests on four threads; now and then a result is handed to another thread.
    Threads,
    /// Sites differ in lifetime, not in whom they die with: temporaries, caches, permanent tables.
    Lifetimes,
    /// Batches: each builds many objects from its kind's sites and frees them all at its end, while a cache that outlives
    /// batches is filled on the side. Quiet times between.
    Phases,
}

impl Kind {
    pub const ALL: [Self; 7] = [
        Self::Requests,
        Self::Survivors,
        Self::Uncorrelated,
        Self::Structures,
        Self::Threads,
        Self::Lifetimes,
        Self::Phases,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Survivors => "survivors",
            Self::Uncorrelated => "uncorrelated",
            Self::Structures => "structures",
            Self::Threads => "threads",
            Self::Lifetimes => "lifetimes",
            Self::Phases => "phases",
        }
    }

    /// Whether knowing a site helps to predict which objects die together.
    pub fn is_correlated(self) -> bool {
        self != Self::Uncorrelated
    }
}

/// How objects die in the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Style {
    /// They are no longer reachable: roots and fields, no `Free`.
    Managed,
    /// The program frees them: `Free`, no roots and fields.
    Native,
}

const REQUEST_KINDS: u32 = 6;
const STEPS: u32 = 24;
/// Sites that every kind of request uses.
const SHARED_SITES: u32 = 6;
/// Requests that are open at a time.
const OPEN: usize = 12;
const THREADS: u32 = 4;

/// Makes a trace piece by piece.
pub struct Generator {
    kind: Kind,
    style: Style,
    random: fastrand::Rng,
    next: ObjectId,
    /// Objects allocated so far: the time.
    clock: u64,
    open: Vec<Request>,
    /// Objects that die by themselves, by the time of their death.
    mortal: BTreeMap<(u64, ObjectId), ThreadId>,
    batch_kind: u32,
    batch_end: u64,
    batch_left: u64,
    out: Vec<Event>,
}

struct Request {
    kind: u32,
    thread: ThreadId,
    steps_left: u32,
    objects: Vec<ObjectId>,
}

impl Generator {
    pub fn new(kind: Kind, style: Style, seed: u64) -> Self {
        Self {
            kind,
            style,
            random: fastrand::Rng::with_seed(seed),
            next: 1,
            clock: 0,
            open: Vec::new(),
            mortal: BTreeMap::new(),
            batch_kind: 0,
            batch_end: 0,
            batch_left: 0,
            out: Vec::new(),
        }
    }

    /// About `count` further events.
    pub fn batch(&mut self, count: usize) -> Vec<Event> {
        while self.out.len() < count {
            match self.kind {
                Kind::Uncorrelated => self.uncorrelated_object(),
                Kind::Lifetimes => self.object_of_a_lifetime(),
                Kind::Phases => self.piece_of_a_batch(),
                _ => self.step_of_a_request(),
            }
            self.bury();
        }
        std::mem::take(&mut self.out)
    }

    fn step_of_a_request(&mut self) {
        if self.open.len() < OPEN {
            self.begin_request();
        }
        let at = self.random.usize(0..self.open.len());
        let mut request = self.open.swap_remove(at);
        self.work_on(&mut request);
        if request.steps_left == 0 {
            self.end_request(request);
        } else {
            self.open.push(request);
        }
    }

    fn begin_request(&mut self) {
        let kind = self.random.u32(0..REQUEST_KINDS);
        let thread = if self.kind == Kind::Threads {
            self.random.u32(0..THREADS)
        } else {
            0
        };
        let steps_left = self.random.u32(STEPS..4 * STEPS);
        let context = self.allocate(kind * STEPS, thread);
        self.root(context, thread);
        self.open.push(Request {
            kind,
            thread,
            steps_left,
            objects: vec![context],
        });
    }

    /// One object more, hanging from an earlier one.
    fn work_on(&mut self, request: &mut Request) {
        request.steps_left -= 1;
        let step = self.random.u32(1..STEPS);
        let shared = self.random.u32(0..5) == 0;
        let site = match shared {
            true => REQUEST_KINDS * STEPS + self.random.u32(0..SHARED_SITES),
            false => request.kind * STEPS + step,
        };
        self.jump(site, request.thread);
        let object = self.allocate(site, request.thread);
        let last = request.objects.len() - 1;
        let holder = match self.kind {
            Kind::Structures => request.objects[last],
            _ => request.objects[self.random.usize(0..=last)],
        };
        let keeper = match self.kind {
            Kind::Survivors if self.random.u32(0..50) == 0 => Some(request.thread),
            Kind::Threads if self.random.u32(0..40) == 0 => Some(self.random.u32(0..THREADS)),
            _ => None,
        };
        self.link(holder, object, &request.objects, keeper.is_none());
        match keeper {
            Some(thread) => self.outlive(object, thread),
            None => request.objects.push(object),
        }
    }

    /// `back`: the object refers to others of its request, and so keeps them alive as long as itself.
    fn link(&mut self, holder: ObjectId, object: ObjectId, others: &[ObjectId], back: bool) {
        if self.style == Style::Native {
            return;
        }
        let field = self.random.u32(0..4);
        self.out.push(Event::Assign {
            object: holder,
            field: field + 1,
            target: object,
        });
        if self.kind == Kind::Structures {
            // A ring back to the head, and a link to the one before.
            self.out.push(Event::Assign {
                object,
                field: 0,
                target: others[0],
            });
            self.out.push(Event::Assign {
                object,
                field: 5,
                target: holder,
            });
        } else if back && self.random.u32(0..3) == 0 {
            let target = others[self.random.usize(0..others.len())];
            self.out.push(Event::Assign {
                object,
                field: 0,
                target,
            });
        }
        // Fields are overwritten, as programs do, so keep the object reachable another way.
        let root = others[0];
        let field = 10 + others.len() as u32;
        self.out.push(Event::Assign {
            object: root,
            field,
            target: object,
        });
    }

    fn end_request(&mut self, request: Request) {
        match self.style {
            Style::Managed => {
                self.out.push(Event::RemoveRoot {
                    object: request.objects[0],
                    thread: request.thread,
                });
            }
            Style::Native => {
                let freed = request
                    .objects
                    .iter()
                    .rev()
                    .map(|object| Event::Free { object: *object });
                self.out.extend(freed);
            }
        }
    }

    /// The object is kept for up to 300 times as long as a request takes.
    fn outlive(&mut self, object: ObjectId, thread: ThreadId) {
        self.root(object, thread);
        let until = self.clock + self.random.u64(1_000..300_000);
        self.mortal.insert((until, object), thread);
    }

    /// `batch_left` counts down through a batch and then through the quiet time after it.
    fn piece_of_a_batch(&mut self) {
        if self.batch_left == 0 {
            self.batch_kind = self.random.u32(0..REQUEST_KINDS);
            self.batch_end = self.clock + self.random.u64(2_000..6_000);
            self.batch_left = 2 * (self.batch_end - self.clock);
        }
        self.batch_left -= 1;
        if self.random.u32(0..16) == 0 {
            let site = REQUEST_KINDS * STEPS + self.random.u32(0..SHARED_SITES);
            let lifetime = self.random.u64(5_000..40_000);
            self.mortal_object(site, lifetime);
        } else if self.clock < self.batch_end {
            let site = self.batch_kind * STEPS + self.random.u32(0..STEPS);
            self.mortal_object(site, self.batch_end - self.clock);
        } else {
            let site = (REQUEST_KINDS + 1) * STEPS + self.random.u32(0..STEPS);
            let lifetime = self.random.u64(0..20);
            self.mortal_object(site, lifetime);
        }
    }

    fn uncorrelated_object(&mut self) {
        let site = self.random.u32(0..REQUEST_KINDS * STEPS);
        let lifetime = (-self.random.f64().max(1e-9).ln() * 700.0) as u64;
        self.mortal_object(site, lifetime);
    }

    fn object_of_a_lifetime(&mut self) {
        let site = self.random.u32(0..REQUEST_KINDS * STEPS);
        let mean = match site % 8 {
            0 => 6_000.0,
            1 | 2 => 400.0,
            _ => 12.0,
        };
        let lifetime = (-self.random.f64().max(1e-9).ln() * mean) as u64;
        self.mortal_object(site, lifetime);
    }

    fn mortal_object(&mut self, site: SiteId, lifetime: u64) {
        self.jump(site, 0);
        let object = self.allocate(site, 0);
        self.root(object, 0);
        self.mortal.insert((self.clock + 1 + lifetime, object), 0);
    }

    fn bury(&mut self) {
        while let Some(entry) = self.mortal.first_entry()
            && entry.key().0 <= self.clock
        {
            let ((_, object), thread) = entry.remove_entry();
            self.out.push(match self.style {
                Style::Managed => Event::RemoveRoot { object, thread },
                Style::Native => Event::Free { object },
            });
        }
    }

    fn allocate(&mut self, site: SiteId, thread: ThreadId) -> ObjectId {
        let object = self.next;
        self.next += 1;
        self.clock += 1;
        let size = size_of(site, &mut self.random);
        self.out.push(Event::Allocate {
            object,
            site,
            size,
            thread,
        });
        object
    }

    fn root(&mut self, object: ObjectId, thread: ThreadId) {
        if self.style == Style::Managed {
            self.out.push(Event::AddRoot { object, thread });
        }
    }

    fn jump(&mut self, site: SiteId, thread: ThreadId) {
        if self.style == Style::Managed && self.random.u32(0..4) == 0 {
            self.out.push(Event::Jump { site, thread });
        }
    }
}

/// Most sites ask for one size between 16 and 256 bytes; every seventh for any.
fn size_of(site: SiteId, random: &mut fastrand::Rng) -> u64 {
    let usual = fastrand::Rng::with_seed(u64::from(site)).u64(2..=32) * 8;
    match site % 7 {
        3 => random.u64(2..=64) * 8,
        _ => usual,
    }
}

/// The first `count` events of a trace, at least.
pub fn generate(kind: Kind, style: Style, seed: u64, count: usize) -> Vec<Event> {
    Generator::new(kind, style, seed).batch(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::{Collector, HeapOptions, NoGroups, Simulator};

    #[test]
    fn every_kind_is_a_program_that_can_be_replayed() {
        for kind in Kind::ALL {
            for style in [Style::Managed, Style::Native] {
                let events = generate(kind, style, 3, 60_000);
                let options = match style {
                    Style::Managed => HeapOptions {
                        strict: true,
                        ..HeapOptions::default()
                    },
                    Style::Native => HeapOptions {
                        strict: true,
                        ..HeapOptions::native()
                    },
                };
                let mut heap = Simulator::new(options, NoGroups).expect("options");
                heap.run(&events)
                    .unwrap_or_else(|stopped| panic!("{kind:?} {style:?}: {stopped}"));
                assert!(heap.allocations() > 10_000, "{kind:?} {style:?}");
                let kept = heap.objects().alive() as u64;
                assert!(
                    kept < heap.allocations() / 2,
                    "{kind:?} {style:?}: things die"
                );
            }
        }
    }

    #[test]
    fn reference_counting_keeps_no_more_than_marking_would_and_cycles_besides() {
        let events = generate(Kind::Structures, Style::Managed, 5, 40_000);
        let options = HeapOptions {
            collector: Collector::ReferenceCounting,
            ..HeapOptions::default()
        };
        let mut heap = Simulator::new(
            HeapOptions {
                strict: true,
                ..options
            },
            NoGroups,
        )
        .expect("options");
        heap.run(&events).expect("replays");
        assert!(heap.series().count > 0, "rings die only in collections");
    }

    #[test]
    fn the_same_seed_gives_the_same_trace_and_another_seed_another() {
        let make = |seed| generate(Kind::Survivors, Style::Managed, seed, 5_000);
        assert_eq!(make(1), make(1));
        assert_ne!(make(1), make(2));
        let mut pieces = Generator::new(Kind::Survivors, Style::Managed, 1);
        let joined: Vec<Event> = (0..10).flat_map(|_| pieces.batch(500)).collect();
        assert_eq!(joined[..5_000], make(1)[..5_000], "in pieces too");
    }
}
