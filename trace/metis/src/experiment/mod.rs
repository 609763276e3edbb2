//! The paper's experiment with its controls: one call, one report.
//!
//! A trace's block is repeated as section 6 says, once for each seed and arm. Arms are compared over the same stretch
//! of time: from the moment when the learning arm of the same seed enters its activation phase.

mod arm;
mod lesson;
mod options;
mod runs;
mod selection;

use serde::{Deserialize, Serialize};

pub use arm::Arm;
pub use options::{ExperimentOptions, TraceInput};
pub use runs::Run;

use crate::algorithm::Plan;
use crate::grouping::fates::Foresight;
use crate::grouping::{Grouping, learn};
use crate::heap::Stopped;
use crate::metrics::{Averages, Collection, Series};
use crate::workload::blocks::blocks;
use intervals::{Interval, of_mean};
use lesson::{learn_layout, repeats};
use runs::{fates, run_arm};
use trace_format::Event;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub schema: u32,
    pub options: ExperimentOptions,
    pub traces: Vec<TraceReport>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceReport {
    pub name: String,
    pub arms: Vec<ArmReport>,
    pub comparisons: Vec<Comparison>,
    /// Arms that could not be run, and why.
    pub left_out: Vec<String>,
    /// If asked for; of the first seed's events.
    #[serde(default)]
    pub foresight: Option<Foresight>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArmReport {
    pub arm: Arm,
    pub name: String,
    /// What was run under that name: another arm where one was selected.
    pub layout: String,
    pub runs: Vec<Run>,
    /// The first seed's collections, for the figures over time.
    pub series: Vec<Collection>,
}

/// An arm against another over the activation phase: the mean difference of pairs of one seed, and the ratio of means.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    pub arm: String,
    pub to: String,
    pub metric: String,
    pub difference: Interval,
    pub ratio: Option<f64>,
}

/// The metrics compared, smaller being better for all but the last.
type Metric = (&'static str, fn(&Averages) -> Option<f64>);
const COMPARED: [Metric; 6] = [
    ("total-free-ratio", |averages| averages.total_free_ratio),
    ("all-holes", |averages| averages.all_holes),
    ("holes-after", |averages| averages.holes_after),
    ("fragmentation-ratio", |averages| {
        averages.fragmentation_ratio
    }),
    ("global-holes", |averages| averages.global_holes),
    ("hole-size", |averages| averages.hole_size),
];

/// Runs every arm on every trace, `progress` being called before each run with how many are done and how many there
/// are. Errors are those of the options; a run that ends early says so in the report.
pub fn run(
    options: &ExperimentOptions,
    traces: &[TraceInput<'_>],
    mut progress: impl FnMut(usize, usize),
) -> Result<Report, Stopped> {
    let all = traces.len() * options.seeds.len() * options.arms.len();
    let mut done = 0;
    let mut reports = Vec::new();
    for trace in traces {
        let report = run_trace(options, trace, || {
            progress(done, all);
            done += 1;
        })?;
        reports.push(report);
    }
    Ok(Report {
        schema: 1,
        options: options.clone(),
        traces: reports,
    })
}

fn run_trace(
    options: &ExperimentOptions,
    trace: &TraceInput<'_>,
    mut progress: impl FnMut(),
) -> Result<TraceReport, Stopped> {
    let mut arms: Vec<(ArmReport, Vec<Series>)> = Vec::new();
    let mut left_out = Vec::new();
    let mut school = School::new(options, trace);
    for arm in &options.arms {
        let (layout, plan) = match school.learn_for(*arm)? {
            Ok(learned) => learned,
            Err(why) => {
                left_out.push(format!("{}: {why}", arm.name()));
                continue;
            }
        };
        let mut runs = Vec::new();
        let mut series = Vec::new();
        for seed in &options.seeds {
            progress();
            let (run, collections) = run_arm(layout, plan.as_ref(), options, trace, *seed)?;
            runs.push(run);
            series.push(collections);
        }
        let first = series
            .first()
            .map(|series| series.collections.clone())
            .unwrap_or_default();
        arms.push((
            ArmReport {
                arm: *arm,
                name: arm.name(),
                layout: layout.name(),
                runs,
                series: first,
            },
            series,
        ));
    }
    average_from_activation(&mut arms);
    let arms: Vec<ArmReport> = arms.into_iter().map(|(report, _)| report).collect();
    let comparisons = compare(&arms);
    Ok(TraceReport {
        name: trace.name.to_owned(),
        arms,
        comparisons,
        left_out,
        foresight: foresee(&mut school, trace)?,
    })
}

fn foresee(school: &mut School<'_>, trace: &TraceInput<'_>) -> Result<Option<Foresight>, Stopped> {
    let options = school.options;
    let Some(seed) = options.seeds.first().filter(|_| options.foresight) else {
        return Ok(None);
    };
    let trained = match school.learn_for(Arm::Ends)? {
        Ok((_, plan)) => plan,
        Err(_) => None,
    };
    let fates = fates(options, trace, *seed)?;
    Ok(Some(Foresight::of(&fates, trained.as_ref())))
}

/// What the training trace teaches. A layout and its control learn the same, once.
struct School<'a> {
    options: &'a ExperimentOptions,
    training: Option<&'a [Event]>,
    /// Of the training trace, each by itself.
    blocks: Vec<Vec<Event>>,
    plans: Vec<((Grouping, bool), Plan)>,
    selected: Option<selection::Choice>,
}

impl<'a> School<'a> {
    fn new(options: &'a ExperimentOptions, trace: &TraceInput<'a>) -> Self {
        let needs_blocks =
            |arm: &Arm| arm.needs_training() && arm.grouping() != Some(Grouping::Metis);
        let training = trace
            .training
            .filter(|_| options.arms.iter().any(needs_blocks));
        Self {
            options,
            training: trace.training,
            blocks: blocks(
                training.unwrap_or_default(),
                options.repeat.block,
                options.training_blocks,
            ),
            plans: Vec::new(),
            selected: None,
        }
    }

    /// The arm that is to be run for this one, and its plan. The outer error is one of the options, the inner one a reason
    /// to leave the arm out.
    fn learn_for(&mut self, arm: Arm) -> Result<Result<(Arm, Option<Plan>), String>, Stopped> {
        if !arm.needs_training() {
            return Ok(Ok((arm, None)));
        }
        if self.training.is_none() {
            return Ok(Err("there is no other trace to learn from".to_owned()));
        }
        let layout = match arm {
            Arm::Selected => self.select()?.learned,
            Arm::SelectedRandom => self.select()?.random,
            _ => arm,
        };
        let Some(grouping) = layout.grouping() else {
            return Ok(Ok((layout, None)));
        };
        let lesson = (grouping, repeats(layout));
        if let Some((_, plan)) = self.plans.iter().find(|(known, _)| *known == lesson) {
            return Ok(Ok((layout, Some(plan.clone()))));
        }
        let plan = match (grouping, self.training) {
            (Grouping::Metis, Some(training)) => {
                let block = &training[..self.options.repeat.block.min(training.len())];
                learn::learn(grouping, block, &self.options.heap, &self.options.metis)?
            }
            _ => learn_layout(layout, self.options, self.blocks.iter())?.unwrap_or_default(),
        };
        self.plans.push((lesson, plan.clone()));
        Ok(Ok((layout, Some(plan))))
    }

    fn select(&mut self) -> Result<selection::Choice, Stopped> {
        if self.selected.is_none() {
            self.selected = Some(selection::select(self.options, &self.blocks)?);
        }
        Ok(self.selected.unwrap_or_default())
    }
}

fn average_from_activation(arms: &mut [(ArmReport, Vec<Series>)]) {
    let starts: Vec<u64> = arms
        .iter()
        .find(|(report, _)| report.arm == Arm::Metis)
        .map(|(_, series)| series.iter().map(activation_of).collect())
        .unwrap_or_default();
    for (report, series) in arms {
        for (at, (run, series)) in report.runs.iter_mut().zip(series).enumerate() {
            run.activation = series.averages(starts.get(at).copied().unwrap_or(0));
        }
    }
}

fn activation_of(series: &Series) -> u64 {
    use crate::heap::placement::Phase::Activation;
    let first = series
        .collections
        .iter()
        .find(|collection| collection.phase == Activation);
    first.map_or(0, |collection| collection.allocations)
}

fn compare(arms: &[ArmReport]) -> Vec<Comparison> {
    let find = |arm: Arm| arms.iter().find(|report| report.arm == arm);
    let mut comparisons = Vec::new();
    for report in arms {
        let bases = [
            Some(Arm::NoGroups).filter(|base| *base != report.arm),
            report.arm.control(),
        ];
        for base in bases.into_iter().flatten().filter_map(find) {
            for (metric, of) in COMPARED {
                comparisons.extend(compare_metric(report, base, metric, of));
            }
        }
    }
    comparisons
}

fn compare_metric(
    arm: &ArmReport,
    base: &ArmReport,
    metric: &str,
    of: fn(&Averages) -> Option<f64>,
) -> Option<Comparison> {
    let pairs: Vec<(f64, f64)> = arm
        .runs
        .iter()
        .zip(&base.runs)
        .filter_map(|(one, other)| Some((of(&one.activation)?, of(&other.activation)?)))
        .collect();
    let differences: Vec<f64> = pairs.iter().map(|(one, other)| one - other).collect();
    if differences.is_empty() {
        return None;
    }
    let sums = pairs
        .iter()
        .fold((0.0, 0.0), |sums, pair| (sums.0 + pair.0, sums.1 + pair.1));
    Some(Comparison {
        arm: arm.name.clone(),
        to: base.name.clone(),
        metric: metric.to_owned(),
        difference: of_mean(&differences),
        ratio: (sums.1 != 0.0).then(|| sums.0 / sums.1),
    })
}
