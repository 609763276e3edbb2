//! Whether to group at all: candidates learned from the first half of a training trace are tried on its second half,
//! and a profile that predicts no gain switches itself off.

use serde::{Deserialize, Serialize};

use crate::algorithm::{MetisOptions, Plan};
use crate::heap::{HeapOptions, SpanOptions, Stopped};
use trace_format::Event;

use super::Grouping;
use super::learn::learn;
use super::spans::replay;

/// Predicted resident pages over ungrouped ones from which grouping is not worth it.
const WORTH_IT: f64 = 0.98;

pub const CANDIDATES: [Grouping; 3] = [Grouping::Lifetimes, Grouping::Deaths, Grouping::Sites];

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Selection {
    /// None: the profile predicts no gain, and the plan is empty.
    pub grouping: Option<Grouping>,
    /// Average resident pages over those of ungrouped spans, on the half not learned from.
    pub predicted: f64,
    pub tried: Vec<(Grouping, f64)>,
    pub plan: Plan,
}

/// Chooses for a native program's spans.
pub fn select(training: &[Event], spans: SpanOptions) -> Result<Selection, Stopped> {
    let (heap, metis) = (HeapOptions::native(), MetisOptions::default());
    let half = &training[..training.len() / 2];
    let plain = replayed_second_half(&Plan::default(), spans, training);
    let mut tried = Vec::new();
    for grouping in CANDIDATES {
        let plan = learn(grouping, half, &heap, &metis)?;
        let grouped = replayed_second_half(&plan, spans, training);
        tried.push((grouping, if plain > 0.0 { grouped / plain } else { 1.0 }));
    }
    let best = tried.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1));
    Ok(match best.filter(|(_, ratio)| *ratio < WORTH_IT) {
        None => Selection {
            grouping: None,
            predicted: 1.0,
            tried,
            plan: Plan::default(),
        },
        Some((grouping, predicted)) => {
            let plan = learn(grouping, training, &heap, &metis)?;
            Selection {
                grouping: Some(grouping),
                predicted,
                tried,
                plan,
            }
        }
    })
}

/// Average pages over the second half, after the first has filled the heap.
fn replayed_second_half(plan: &Plan, spans: SpanOptions, training: &[Event]) -> f64 {
    let first = replay(plan, spans, &training[..training.len() / 2]);
    let all = replay(plan, spans, training);
    let sum = |of: &super::spans::Residence| of.average_pages * of.events as f64;
    (sum(&all) - sum(&first)) / (all.events - first.events).max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Kind, Style, generate};

    #[test]
    fn phases_are_worth_grouping_and_chance_is_not() {
        let spans = SpanOptions::default();
        let chosen = |kind| {
            let training = generate(kind, Style::Native, 4, 200_000);
            select(&training, spans).expect("no limits").grouping
        };
        assert!(chosen(Kind::Phases).is_some());
        assert_eq!(chosen(Kind::Uncorrelated), None);
    }

    #[test]
    fn the_prediction_holds_on_another_input() {
        let training = generate(Kind::Phases, Style::Native, 4, 200_000);
        let testing = generate(Kind::Phases, Style::Native, 5, 200_000);
        let selection = select(&training, SpanOptions::default()).expect("no limits");
        let pages = |plan: &Plan| replay(plan, SpanOptions::default(), &testing).average_pages;
        let plain = pages(&Plan::default());
        let learned = pages(&selection.plan) / plain;
        assert!(learned < 0.85, "{learned}");
        let random = pages(&selection.plan.randomized(1)) / plain;
        assert!(learned < 0.95 * random, "{learned} against {random}");
    }

    #[test]
    fn an_empty_trace_predicts_nothing() {
        let selection = select(&[], SpanOptions::default()).expect("no limits");
        assert_eq!(
            (selection.grouping, selection.plan.is_empty()),
            (None, true)
        );
    }
}
