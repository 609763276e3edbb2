//! Section 6: the first block of a trace, repeated with a random n-th assignment left out and object numbers
//! shifted, "to simulate a large scope of loop operations".

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use trace_format::{Event, ObjectId, ThreadId};

/// "Repeats this block with a random integer value n, indicating whether to execute the n-th assignment
/// instruction."
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Assignments {
    /// Each repetition draws n and leaves out its n-th assignment.
    LeaveOutNth,
    /// Each repetition draws n from 2 to 16 and leaves out every n-th assignment.
    LeaveOutEveryNth,
    All,
}

/// What becomes of the roots that the block, cut off in the middle of the program, leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RootsAtEnd {
    /// They stay: live memory grows with every repetition.
    Keep,
    /// They are removed before the next repetition, as if the loop's body had returned.
    Remove,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RepeatOptions {
    /// Operations (table 1); a shorter trace is repeated whole.
    pub block: usize,
    pub repetitions: u32,
    pub assignments: Assignments,
    pub roots_at_end: RootsAtEnd,
}

impl Default for RepeatOptions {
    fn default() -> Self {
        Self {
            block: 230_000,
            repetitions: 10,
            assignments: Assignments::LeaveOutNth,
            roots_at_end: RootsAtEnd::Remove,
        }
    }
}

/// Calls `replay` with each repetition's events until it says false.
pub fn repeat(
    trace: &[Event],
    options: &RepeatOptions,
    seed: u64,
    mut replay: impl FnMut(&[Event]) -> bool,
) {
    let block = &trace[..options.block.min(trace.len())];
    let highest = block.iter().map(highest_object).max().unwrap_or(0);
    let assignments = block
        .iter()
        .filter(|event| matches!(event, Event::Assign { .. }))
        .count();
    let mut random = fastrand::Rng::with_seed(seed);
    let mut events = Vec::with_capacity(block.len());
    let last = options.repetitions.saturating_sub(1);
    for repetition in 0..options.repetitions {
        let Some(shift) = highest.checked_mul(u64::from(repetition)) else {
            return;
        };
        if highest.checked_add(shift).is_none() {
            return;
        }
        events.clear();
        let mut leave_out = choose(options.assignments, assignments, &mut random);
        for event in block {
            if !(matches!(event, Event::Assign { .. }) && leave_out()) {
                events.push(shifted(event, shift));
            }
        }
        if options.roots_at_end == RootsAtEnd::Remove && repetition < last {
            remove_roots(&mut events);
        }
        if !replay(&events) {
            return;
        }
    }
}

fn choose(
    assignments: Assignments,
    count: usize,
    random: &mut fastrand::Rng,
) -> Box<dyn FnMut() -> bool> {
    let mut at = 0;
    match assignments {
        Assignments::All => Box::new(|| false),
        Assignments::LeaveOutNth => {
            let n = random.usize(1..=count.max(1));
            Box::new(move || {
                at += 1;
                at == n
            })
        }
        Assignments::LeaveOutEveryNth => {
            let n = random.usize(2..=16);
            Box::new(move || {
                at += 1;
                at % n == 0
            })
        }
    }
}

fn highest_object(event: &Event) -> ObjectId {
    match *event {
        Event::Allocate { object, .. } => object,
        _ => 0,
    }
}

/// Object 0 stays "nothing".
pub(super) fn shifted(event: &Event, shift: u64) -> Event {
    let moved = |object: ObjectId| {
        if object == 0 {
            0
        } else {
            object.saturating_add(shift)
        }
    };
    let mut event = *event;
    match &mut event {
        Event::Assign { object, target, .. } => {
            *object = moved(*object);
            *target = moved(*target);
        }
        Event::Allocate { object, .. }
        | Event::Free { object }
        | Event::AddRoot { object, .. }
        | Event::RemoveRoot { object, .. } => *object = moved(*object),
        Event::Jump { .. } => {}
    }
    event
}

pub(super) fn remove_roots(events: &mut Vec<Event>) {
    let mut held: BTreeMap<(ObjectId, ThreadId), u64> = BTreeMap::new();
    for event in events.iter() {
        match *event {
            Event::AddRoot { object, thread } => *held.entry((object, thread)).or_default() += 1,
            Event::RemoveRoot { object, thread } => {
                if let Some(count) = held.get_mut(&(object, thread)) {
                    *count = count.saturating_sub(1);
                }
            }
            _ => {}
        }
    }
    for ((object, thread), count) in held {
        events.extend((0..count).map(|_| Event::RemoveRoot { object, thread }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block() -> Vec<Event> {
        let allocate = |object| Event::Allocate {
            object,
            site: 1,
            size: 8,
            thread: 0,
        };
        vec![
            allocate(1),
            Event::AddRoot {
                object: 1,
                thread: 2,
            },
            allocate(2),
            Event::Assign {
                object: 1,
                field: 0,
                target: 2,
            },
            Event::Assign {
                object: 1,
                field: 0,
                target: 0,
            },
            Event::Jump { site: 3, thread: 0 },
        ]
    }

    fn repetitions(trace: &[Event], options: RepeatOptions) -> Vec<Vec<Event>> {
        let mut all = Vec::new();
        repeat(trace, &options, 1, |events| {
            all.push(events.to_vec());
            true
        });
        all
    }

    #[test]
    fn defaults_are_table_1() {
        assert_eq!(RepeatOptions::default().block, 230_000);
    }

    #[test]
    fn numbers_are_shifted_and_one_assignment_is_left_out() {
        let options = RepeatOptions {
            repetitions: 3,
            ..RepeatOptions::default()
        };
        let all = repetitions(
            &block(),
            RepeatOptions {
                roots_at_end: RootsAtEnd::Keep,
                ..options
            },
        );
        assert!(all.iter().all(|events| events.len() == block().len() - 1));
        assert_eq!(
            all[2][2],
            Event::Allocate {
                object: 6,
                site: 1,
                size: 8,
                thread: 0
            }
        );
        let whole = repetitions(
            &block(),
            RepeatOptions {
                assignments: Assignments::All,
                ..options
            },
        );
        let to_nothing = Event::Assign {
            object: 3,
            field: 0,
            target: 0,
        };
        assert_eq!(whole[1][4], to_nothing, "nothing stays nothing");
        assert_eq!(
            whole[1].last(),
            Some(&Event::RemoveRoot {
                object: 3,
                thread: 2
            })
        );
        assert_eq!(
            whole[2].len(),
            block().len(),
            "the last repetition ends as the block does"
        );
    }

    #[test]
    fn only_the_block_is_taken() {
        let options = RepeatOptions {
            block: 2,
            repetitions: 2,
            ..RepeatOptions::default()
        };
        assert_eq!(repetitions(&block(), options)[1].len(), 2);
        assert!(repetitions(&[], options).iter().all(Vec::is_empty));
    }

    #[test]
    fn hostile_numbers_end_the_repetition() {
        let object = u64::MAX - 1;
        let trace = [Event::Allocate {
            object,
            site: 0,
            size: 1,
            thread: 0,
        }];
        assert_eq!(repetitions(&trace, RepeatOptions::default()).len(), 1);
    }
}
