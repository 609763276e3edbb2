//! Learned groups on a native program's trace, beside their controls: no groups, and random groups of the same sizes.

use serde::{Deserialize, Serialize};

use crate::algorithm::{MetisOptions, Plan};
use crate::heap::{HeapOptions, SpanOptions, Stopped};
use intervals::{Interval, of_mean};
use trace_format::{Event, SiteId};

use super::Grouping;
use super::learn::learn;
use super::selection::{CANDIDATES, select};
use super::spans::{Residence, SpanHeap};

/// How one way of grouping did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Arm {
    /// None: what the profile chose, which may be no groups at all.
    pub grouping: Option<Grouping>,
    pub groups: usize,
    /// Average resident pages over those of ungrouped spans.
    pub ratio: f64,
    /// The same for random groups, over the seeds. None where every site is a group of its own: shuffled, it is the same.
    pub random: Option<Interval>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub ungrouped: Residence,
    pub arms: Vec<Arm>,
    /// What the profile chose, and the ratio that it predicted; none: it predicts no gain.
    pub chosen: Option<(Grouping, f64)>,
}

struct Contender {
    grouping: Option<Grouping>,
    groups: usize,
    learned: SpanHeap,
    random: Vec<SpanHeap>,
}

/// Several heaps over one stream of events.
pub struct Trial {
    ungrouped: SpanHeap,
    contenders: Vec<Contender>,
    chosen: Option<(Grouping, f64)>,
}

impl Trial {
    /// Learns from `training`. `translate` gives a training site's number in the trace that is tested, if it has one.
    pub fn new(
        training: &[Event],
        spans: SpanOptions,
        seeds: u64,
        translate: impl Fn(SiteId) -> Option<SiteId>,
    ) -> Result<Self, Stopped> {
        let selection = select(training, spans)?;
        let chosen = selection.grouping.map(|one| (one, selection.predicted));
        let mut plans = vec![(None, selection.plan)];
        for grouping in CANDIDATES {
            let (heap, metis) = (HeapOptions::native(), MetisOptions::default());
            plans.push((Some(grouping), learn(grouping, training, &heap, &metis)?));
        }
        let contender = |(grouping, plan): (Option<Grouping>, Plan)| {
            let plan = translated(&plan, &translate);
            Contender {
                grouping,
                groups: plan.groups.len(),
                learned: SpanHeap::new(&plan, spans),
                random: (1..=if plan.has_shared_groups() { seeds } else { 0 })
                    .map(|seed| SpanHeap::new(&plan.randomized(seed), spans))
                    .collect(),
            }
        };
        Ok(Self {
            ungrouped: SpanHeap::new(&Plan::default(), spans),
            contenders: plans.into_iter().map(contender).collect(),
            chosen,
        })
    }

    pub fn run(&mut self, events: &[Event]) {
        self.heaps().for_each(|heap| heap.run(events));
    }

    /// Averages begin here: what was before has only filled the heaps.
    pub fn begin_averages(&mut self) {
        self.heaps().for_each(SpanHeap::begin_averages);
    }

    fn heaps(&mut self) -> impl Iterator<Item = &mut SpanHeap> {
        let contenders = self
            .contenders
            .iter_mut()
            .flat_map(|one| std::iter::once(&mut one.learned).chain(&mut one.random));
        std::iter::once(&mut self.ungrouped).chain(contenders)
    }

    pub fn outcome(&self) -> Outcome {
        let ungrouped = self.ungrouped.residence();
        let ratio = |heap: &SpanHeap| match ungrouped.average_pages {
            pages if pages > 0.0 => heap.residence().average_pages / pages,
            _ => 1.0,
        };
        let arm = |one: &Contender| Arm {
            grouping: one.grouping,
            groups: one.groups,
            ratio: ratio(&one.learned),
            random: (!one.random.is_empty())
                .then(|| of_mean(&one.random.iter().map(ratio).collect::<Vec<_>>())),
        };
        Outcome {
            ungrouped,
            arms: self.contenders.iter().map(arm).collect(),
            chosen: self.chosen,
        }
    }
}

fn translated(plan: &Plan, translate: impl Fn(SiteId) -> Option<SiteId>) -> Plan {
    let group_of = plan
        .group_of
        .iter()
        .filter_map(|(site, group)| Some((translate(*site)?, *group)));
    Plan {
        groups: plan.groups.clone(),
        group_of: group_of.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Kind, Style, generate};

    fn outcome(kind: Kind) -> Outcome {
        let training = generate(kind, Style::Native, 4, 150_000);
        let mut trial = Trial::new(&training, SpanOptions::default(), 3, Some).expect("no limits");
        trial.run(&generate(kind, Style::Native, 5, 150_000));
        trial.outcome()
    }

    /// The bars of correlated and of uncorrelated deaths.
    #[test]
    fn what_dies_together_is_found_and_chance_is_left_alone() {
        let phases = outcome(Kind::Phases);
        let chosen = &phases.arms[0];
        assert!(phases.chosen.is_some() && chosen.ratio < 0.85, "{chosen:?}");
        let random = chosen.random.expect("sites share groups");
        assert!(chosen.ratio < 0.95 * random.low, "{chosen:?}");
        assert_eq!(phases.arms[3].random, None, "every site for itself");
        let chance = outcome(Kind::Uncorrelated);
        assert_eq!(chance.chosen, None);
        assert!(chance.arms[0].ratio <= 1.03);
    }

    #[test]
    fn sites_are_known_by_their_numbers_in_the_tested_trace() {
        let shift = |events: Vec<Event>| -> Vec<Event> {
            let shifted = events.into_iter().map(|event| match event {
                Event::Allocate {
                    object,
                    site,
                    size,
                    thread,
                } => Event::Allocate {
                    object,
                    site: site + 1000,
                    size,
                    thread,
                },
                other => other,
            });
            shifted.collect()
        };
        let training = generate(Kind::Phases, Style::Native, 4, 150_000);
        let testing = shift(generate(Kind::Phases, Style::Native, 5, 150_000));
        let ratio = |translate: fn(SiteId) -> Option<SiteId>| {
            let spans = SpanOptions::default();
            let mut trial = Trial::new(&training, spans, 1, translate).expect("no limits");
            trial.run(&testing);
            trial.outcome().arms[0].ratio
        };
        assert!(ratio(|site| Some(site + 1000)) < 0.85);
        assert_eq!(ratio(|_| None), 1.0);
    }

    #[test]
    fn averages_can_begin_late() {
        let events = generate(Kind::Phases, Style::Native, 4, 50_000);
        let mut trial = Trial::new(&events, SpanOptions::default(), 1, Some).expect("no limits");
        trial.run(&events);
        let all = trial.outcome().ungrouped.events;
        trial.begin_averages();
        trial.run(&[]);
        assert_eq!((trial.outcome().ungrouped.events, all > 0), (0, true));
    }
}
