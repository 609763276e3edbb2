//! The paper's experiment with its controls: one call, one report.
//!
//! A trace's block is repeated as section 6 says, once for each seed and arm. Arms are compared over the same stretch
//! of time: from the moment when the learning arm of the same seed enters its activation phase.

mod selection;

use serde::{Deserialize, Serialize};

use crate::event::Event;
use crate::grouping::chunks::{ChunkOptions, Chunks};
use crate::grouping::ends::Ends;
use crate::grouping::fates::{Fate, Fates, Foresight, Known, Use};
use crate::grouping::{Grouping, learn};
use crate::heap::free_space::Direction;
use crate::heap::simulator::Malformed;
use crate::heap::{HeapOptions, NoGroups, Placement, Simulator, Stopped};
use crate::interval::{Interval, of_mean};
use crate::metis::{Control, Metis, MetisOptions, Plan};
use crate::metrics::{Averages, Collection, Series};
use crate::workload::blocks::{EARLIER, blocks, joined};
use crate::workload::repeat::{RepeatOptions, repeat};

/// One workload: the trace that is replayed, and one of the same program on another input to learn from.
#[derive(Clone, Copy, Debug)]
pub struct TraceInput<'a> {
    pub name: &'a str,
    pub testing: &'a [Event],
    /// Its sites must have the same numbers as in `testing`.
    pub training: Option<&'a [Event]>,
}

/// One way to place the objects of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arm {
    /// The paper's DEFAULT.
    NoGroups,
    /// The paper's METIS: profiles the beginning of the run.
    Metis,
    /// The same until activation, then random groups of the same sizes.
    MetisRandom,
    /// Groups learned from the training trace.
    Elsewhere(Grouping),
    /// Random groups of the sizes learned there.
    ElsewhereRandom(Grouping),
    /// Groups learned from the training trace, in chunks that reserve nothing instead of region groups.
    Chunks(Grouping),
    ChunksRandom(Grouping),
    /// Sites whose objects survive collections fill the heap from its end; learned from the training trace.
    Ends,
    EndsRandom,
    /// The same the other way round, as the heap grows at its end; learned from the training trace's repeated block, where
    /// the heap has grown to what it will be.
    Starts,
    StartsRandom,
    /// Whichever of the layouts past the paper promises a gain on the training trace, or no groups.
    Selected,
    SelectedRandom,
    /// No allocator's: objects that will outlive a collection fill the heap from its start, all others from its end.
    KnownSurvivors,
    /// No allocator's: objects that the same collection will find dead share chunks.
    KnownDeaths,
}

impl Arm {
    /// The paper's two, and the controls.
    pub const DEFAULT: [Self; 5] = [
        Self::NoGroups,
        Self::Metis,
        Self::MetisRandom,
        Self::Elsewhere(Grouping::Metis),
        Self::ElsewhereRandom(Grouping::Metis),
    ];

    pub fn name(self) -> String {
        match self {
            Self::NoGroups => "no-groups".to_owned(),
            Self::Metis => "metis".to_owned(),
            Self::MetisRandom => "metis-random".to_owned(),
            Self::Elsewhere(grouping) => format!("{}-elsewhere", grouping.name()),
            Self::ElsewhereRandom(grouping) => format!("{}-elsewhere-random", grouping.name()),
            Self::Chunks(grouping) => format!("{}-chunks", grouping.name()),
            Self::ChunksRandom(grouping) => format!("{}-chunks-random", grouping.name()),
            Self::Ends => "ends".to_owned(),
            Self::EndsRandom => "ends-random".to_owned(),
            Self::Starts => "starts".to_owned(),
            Self::StartsRandom => "starts-random".to_owned(),
            Self::Selected => "selected".to_owned(),
            Self::SelectedRandom => "selected-random".to_owned(),
            Self::KnownSurvivors => "known-survivors".to_owned(),
            Self::KnownDeaths => "known-deaths".to_owned(),
        }
    }

    /// Of another trace.
    pub fn needs_training(self) -> bool {
        self.grouping().is_some() || matches!(self, Self::Selected | Self::SelectedRandom)
    }

    /// The arm that shows what this one owes to chance.
    fn control(self) -> Option<Self> {
        match self {
            Self::Metis => Some(Self::MetisRandom),
            Self::Elsewhere(grouping) => Some(Self::ElsewhereRandom(grouping)),
            Self::Chunks(grouping) => Some(Self::ChunksRandom(grouping)),
            Self::Ends => Some(Self::EndsRandom),
            Self::Starts => Some(Self::StartsRandom),
            Self::Selected => Some(Self::SelectedRandom),
            _ => None,
        }
    }

    fn grouping(self) -> Option<Grouping> {
        match self {
            Self::Elsewhere(grouping) | Self::ElsewhereRandom(grouping) => Some(grouping),
            Self::Chunks(grouping) | Self::ChunksRandom(grouping) => Some(grouping),
            Self::Ends | Self::EndsRandom | Self::Starts | Self::StartsRandom => {
                Some(Grouping::Survival)
            }
            Self::NoGroups | Self::Metis | Self::MetisRandom => None,
            Self::Selected | Self::SelectedRandom => None,
            Self::KnownSurvivors | Self::KnownDeaths => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExperimentOptions {
    pub heap: HeapOptions,
    pub metis: MetisOptions,
    /// Region groups of `Arm::Elsewhere`'s groupings past the paper.
    pub region_groups: MetisOptions,
    /// Placement of `Arm::Chunks`.
    pub chunks: ChunkOptions,
    pub repeat: RepeatOptions,
    /// Blocks of the training trace that the layouts past the paper learn from; the paper's learn from the first.
    pub training_blocks: usize,
    pub seeds: Vec<u64>,
    pub arms: Vec<Arm>,
    /// Say how much of objects' deaths their sites foretell.
    pub foresight: bool,
}

impl Default for ExperimentOptions {
    fn default() -> Self {
        Self {
            heap: HeapOptions::default(),
            metis: MetisOptions::default(),
            region_groups: MetisOptions {
                regions_per_group: usize::MAX,
                ..MetisOptions::default()
            },
            chunks: ChunkOptions::default(),
            repeat: RepeatOptions::default(),
            training_blocks: 20,
            seeds: (1..=10).collect(),
            arms: Arm::DEFAULT.to_vec(),
            foresight: false,
        }
    }
}

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

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    pub seed: u64,
    pub events: u64,
    pub allocations: u64,
    /// Groups and sites of the plan in use at the end.
    pub groups: usize,
    pub sites: usize,
    pub overall: Averages,
    /// From the learning arm's activation on; the whole run if it never activated.
    pub activation: Averages,
    pub heap_bytes: u64,
    pub peak_occupied_bytes: u64,
    pub malformed: Malformed,
    /// Out of memory, as the paper's runs end.
    pub stopped: Option<String>,
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

/// What becomes of every object of a seed's events in a heap without groups.
fn fates(
    options: &ExperimentOptions,
    trace: &TraceInput<'_>,
    seed: u64,
) -> Result<Vec<Fate>, Stopped> {
    let watch = Fates::new(options.heap.granule_bytes);
    let mut heap = Simulator::new(options.heap, watch)?;
    // One that runs out of memory has fates until then.
    repeat(trace.testing, &options.repeat, seed, |events| {
        heap.run(events).is_ok()
    });
    Ok(std::mem::take(&mut heap.placement_mut().fates))
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

/// None: the layout has no plan.
fn learn_layout<'a>(
    layout: Arm,
    options: &ExperimentOptions,
    blocks: impl Iterator<Item = &'a Vec<Event>>,
) -> Result<Option<Plan>, Stopped> {
    let Some(grouping) = layout.grouping() else {
        return Ok(None);
    };
    let mut events = joined(blocks);
    if repeats(layout) {
        let once = std::mem::take(&mut events);
        let whole = RepeatOptions {
            block: once.len(),
            ..options.repeat
        };
        repeat(&once, &whole, TRAINING_SEED, |more| {
            events.extend_from_slice(more);
            events.len() < LONGEST_TRAINING
        });
    }
    let mut plan = learn::learn(grouping, &events, &options.heap, &options.metis)?;
    // Their fate is the cutting's, and no site's: a plan that knows it would promise what no allocator can keep.
    plan.group_of.remove(&EARLIER);
    Ok(Some(plan))
}

/// Of the training block's repetitions; the experiment's seeds are of the testing block's.
const TRAINING_SEED: u64 = 0;
/// Repeated until there are so many events: they are kept in memory.
const LONGEST_TRAINING: usize = 10_000_000;

fn repeats(arm: Arm) -> bool {
    matches!(arm, Arm::Starts | Arm::StartsRandom)
}

fn run_arm(
    arm: Arm,
    plan: Option<&Plan>,
    options: &ExperimentOptions,
    trace: &TraceInput<'_>,
    seed: u64,
) -> Result<(Run, Series), Stopped> {
    let granule = options.heap.granule_bytes;
    let plan = plan.cloned().unwrap_or_default();
    let plan = match arm {
        Arm::ElsewhereRandom(_) | Arm::ChunksRandom(_) | Arm::EndsRandom | Arm::StartsRandom => {
            plan.randomized(seed)
        }
        _ => plan,
    };
    match arm {
        // A selection has become another arm by now.
        Arm::NoGroups | Arm::Selected | Arm::SelectedRandom => {
            replay(NoGroups, options, trace, seed, |_| (0, 0))
        }
        Arm::Metis => {
            let metis = Metis::new(options.metis, Control::Learned, granule);
            replay(metis, options, trace, seed, size_of_plan)
        }
        Arm::MetisRandom => {
            let metis = Metis::new(options.metis, Control::Random { seed }, granule);
            replay(metis, options, trace, seed, size_of_plan)
        }
        Arm::Elsewhere(_) | Arm::ElsewhereRandom(_) => {
            let paper = arm.grouping() == Some(Grouping::Metis);
            let region_groups = if paper {
                options.metis
            } else {
                options.region_groups
            };
            let metis = Metis::with_plan(region_groups, plan, granule);
            replay(metis, options, trace, seed, size_of_plan)
        }
        Arm::Ends | Arm::EndsRandom | Arm::Starts | Arm::StartsRandom => {
            let size = (plan.groups.len(), plan.group_of.len());
            let survivors = match arm {
                Arm::Ends | Arm::EndsRandom => Direction::Backward,
                _ => Direction::Forward,
            };
            replay(Ends::new(plan, survivors), options, trace, seed, |_| size)
        }
        Arm::KnownSurvivors | Arm::KnownDeaths => {
            let to = if arm == Arm::KnownDeaths {
                Use::Deaths
            } else {
                Use::Survivors
            };
            let fates = fates(options, trace, seed)?;
            let known = Known::new(fates, to, options.chunks, granule);
            replay(known, options, trace, seed, |_| (0, 0))
        }
        Arm::Chunks(_) | Arm::ChunksRandom(_) => {
            let size = (plan.groups.len(), plan.group_of.len());
            replay(
                Chunks::new(plan, options.chunks, granule),
                options,
                trace,
                seed,
                |_| size,
            )
        }
    }
}

fn size_of_plan(metis: &Metis) -> (usize, usize) {
    metis
        .plan()
        .map_or((0, 0), |plan| (plan.groups.len(), plan.group_of.len()))
}

fn replay<P: Placement>(
    placement: P,
    options: &ExperimentOptions,
    trace: &TraceInput<'_>,
    seed: u64,
    size_of_plan: impl Fn(&P) -> (usize, usize),
) -> Result<(Run, Series), Stopped> {
    let mut heap = Simulator::new(options.heap, placement)?;
    let mut stopped = None;
    repeat(trace.testing, &options.repeat, seed, |events| {
        stopped = heap.run(events).err();
        stopped.is_none()
    });
    let (groups, sites) = size_of_plan(heap.placement());
    let run = Run {
        seed,
        events: heap.events(),
        allocations: heap.allocations(),
        groups,
        sites,
        overall: heap.series().averages(0),
        activation: Averages::default(),
        heap_bytes: heap.heap_bytes(),
        peak_occupied_bytes: heap.peak_occupied_bytes(),
        malformed: *heap.malformed(),
        stopped: stopped.map(|stopped| stopped.to_string()),
    };
    Ok((run, heap.into_series()))
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
