//! The experiment as its callers see it: arms, controls, comparisons, and the same figures for the same seeds.

use metis::experiment::{self, Arm, Comparison, ExperimentOptions, Report, TraceInput};
use metis::grouping::Grouping;
use metis::heap::HeapOptions;
use metis::heap::placement::Phase;
use metis::workload::{Kind, Style, generate};
use trace_format::Event;

fn options(arms: Vec<Arm>) -> ExperimentOptions {
    let mut options = ExperimentOptions {
        arms,
        seeds: vec![1, 2, 3],
        ..ExperimentOptions::default()
    };
    options.repeat.block = 60_000;
    options.repeat.repetitions = 2;
    options
}

fn run(options: &ExperimentOptions, testing: &[Event], training: Option<&[Event]>) -> Report {
    let trace = TraceInput {
        name: "a server",
        testing,
        training,
    };
    experiment::run(options, &[trace], |_, _| {}).expect("options")
}

#[test]
fn the_default_arms_are_the_papers_two_and_three_controls() {
    let names: Vec<String> = Arm::DEFAULT.iter().map(|arm| arm.name()).collect();
    let expected = [
        "no-groups",
        "metis",
        "metis-random",
        "metis-elsewhere",
        "metis-elsewhere-random",
    ];
    assert_eq!(names, expected);
    assert_eq!(ExperimentOptions::default().arms, Arm::DEFAULT);
    assert_eq!(ExperimentOptions::default().seeds.len(), 10);
}

#[test]
fn every_arm_replays_the_same_events_and_the_same_seed_gives_the_same_figures() {
    let testing = generate(Kind::Lifetimes, Style::Managed, 1, 60_000);
    let training = generate(Kind::Lifetimes, Style::Managed, 2, 60_000);
    let mut arms = Arm::DEFAULT.to_vec();
    for grouping in Grouping::ALL {
        let past = [
            Arm::Elsewhere(grouping),
            Arm::Chunks(grouping),
            Arm::ChunksRandom(grouping),
        ];
        arms.extend(past);
    }
    arms.dedup();
    let options = options(arms);
    let report = run(&options, &testing, Some(&training));
    let trace = &report.traces[0];
    assert_eq!(trace.left_out, Vec::<String>::new());
    for arm in &trace.arms {
        for (run, plain) in arm.runs.iter().zip(&trace.arms[0].runs) {
            assert_eq!(run.events, plain.events, "{}", arm.name);
            assert_eq!(
                (run.malformed.total(), &run.stopped),
                (0, &None),
                "{}",
                arm.name
            );
            assert_eq!(
                run.peak_occupied_bytes > 0,
                plain.peak_occupied_bytes > 0,
                "{}",
                arm.name
            );
        }
    }
    assert_eq!(report, run(&options, &testing, Some(&training)));
}

#[test]
fn metis_profiles_and_then_groups_and_its_control_differs_only_from_then_on() {
    let testing = generate(Kind::Lifetimes, Style::Managed, 1, 60_000);
    let report = run(&options(Arm::DEFAULT.to_vec()), &testing, None);
    let find = |arm| {
        report.traces[0]
            .arms
            .iter()
            .find(|report| report.arm == arm)
    };
    let (Some(learned), Some(random)) = (find(Arm::Metis), find(Arm::MetisRandom)) else {
        panic!("both arms ran")
    };
    let activation = learned
        .series
        .iter()
        .position(|one| one.phase == Phase::Activation);
    let activation = activation.expect("enough collections");
    assert!(
        learned.series[..activation]
            .iter()
            .all(|one| one.phase == Phase::Profiling)
    );
    assert_eq!(activation, 5);
    assert_eq!(learned.series[..activation], random.series[..activation]);
    assert_ne!(learned.series, random.series);
    assert!(learned.series.last().expect("collections").regions > 0);
}

#[test]
fn where_sites_tell_survivors_they_are_put_apart_and_the_report_says_that_they_tell() {
    let testing = generate(Kind::Phases, Style::Managed, 1, 60_000);
    let training = generate(Kind::Phases, Style::Managed, 2, 60_000);
    let options = ExperimentOptions {
        foresight: true,
        ..options(vec![
            Arm::NoGroups,
            Arm::Starts,
            Arm::StartsRandom,
            Arm::KnownSurvivors,
            Arm::KnownDeaths,
        ])
    };
    let report = run(&options, &testing, Some(&training));
    let trace = &report.traces[0];
    let holes_after = |name: &str| {
        let arm = trace.arms.iter().find(|arm| arm.name == name).expect(name);
        let holes = arm.runs.iter().filter_map(|run| run.activation.holes_after);
        holes.sum::<f64>()
    };
    assert!(holes_after("starts") < 0.8 * holes_after("starts-random"));
    assert!(holes_after("known-survivors") < 0.8 * holes_after("no-groups"));
    assert!(holes_after("known-deaths") > 0.0);
    let foresight = trace.foresight.as_ref().expect("asked for");
    assert!(foresight.entropy_by_site < foresight.entropy_by_shuffled_site.low);
    assert!(foresight.foretold > Some(0.0), "{foresight:?}");
    assert!(foresight.foretold_rightly > Some(0.5), "{foresight:?}");
    assert_eq!(report, run(&options, &testing, Some(&training)));
    let silent = run(
        &ExperimentOptions {
            foresight: false,
            arms: vec![Arm::NoGroups],
            ..options
        },
        &testing,
        None,
    );
    assert_eq!(silent.traces[0].foresight, None);
}

#[test]
fn arms_that_need_another_trace_say_so() {
    let testing = generate(Kind::Requests, Style::Managed, 1, 20_000);
    let report = run(&options(Arm::DEFAULT.to_vec()), &testing, None);
    let trace = &report.traces[0];
    assert_eq!(trace.arms.len(), 3);
    assert_eq!(trace.left_out.len(), 2);
    assert!(trace.left_out[0].contains("no other trace to learn from"));
}

#[test]
fn an_arm_compared_with_itself_differs_by_nothing() {
    let testing = generate(Kind::Requests, Style::Managed, 1, 60_000);
    // A plan learned from nothing groups nothing.
    let report = run(
        &options(vec![Arm::NoGroups, Arm::Elsewhere(Grouping::Metis)]),
        &testing,
        Some(&testing[..1]),
    );
    assert!(!report.traces[0].comparisons.is_empty());
    for comparison in &report.traces[0].comparisons {
        let difference = comparison.difference;
        assert_eq!(
            (difference.low, difference.mean, difference.high),
            (0.0, 0.0, 0.0)
        );
        assert_eq!(comparison.ratio, Some(1.0));
    }
}

#[test]
fn progress_counts_every_run() {
    let testing = generate(Kind::Requests, Style::Managed, 1, 5_000);
    let trace = TraceInput {
        name: "a",
        testing: &testing,
        training: None,
    };
    let mut seen = Vec::new();
    let options = options(vec![Arm::NoGroups, Arm::Metis]);
    experiment::run(&options, &[trace, trace], |done, all| {
        seen.push((done, all))
    })
    .expect("runs");
    assert_eq!(seen, (0..12).map(|done| (done, 12)).collect::<Vec<_>>());
}

#[test]
fn out_of_memory_ends_a_run_and_is_reported() {
    let testing = generate(Kind::Survivors, Style::Managed, 1, 60_000);
    let mut options = options(vec![Arm::NoGroups]);
    options.heap = HeapOptions {
        max_heap_bytes: 100_000,
        ..HeapOptions::default()
    };
    let report = run(&options, &testing, None);
    let stopped = report.traces[0].arms[0].runs[0]
        .stopped
        .as_deref()
        .expect("out of memory");
    assert!(stopped.contains("no room for"), "{stopped}");
}

#[test]
fn impossible_options_and_empty_traces() {
    let mut impossible = options(vec![Arm::NoGroups]);
    impossible.heap.granule_bytes = 0;
    let trace = TraceInput {
        name: "a",
        testing: &[],
        training: Some(&[]),
    };
    assert!(experiment::run(&impossible, &[trace], |_, _| {}).is_err());
    let report = run(&options(Arm::DEFAULT.to_vec()), &[], Some(&[]));
    assert_eq!(report.traces[0].arms.len(), 5);
    assert_eq!(report.traces[0].comparisons, []);
}

#[test]
fn a_report_survives_json() {
    let testing = generate(Kind::Threads, Style::Managed, 1, 60_000);
    let report = run(&options(Arm::DEFAULT.to_vec()), &testing, Some(&testing));
    let text = serde_json::to_string(&report).expect("serialises");
    let back: Report = serde_json::from_str(&text).expect("parses");
    assert_eq!(back.options, report.options);
    assert_eq!(back.traces[0].arms.len(), 5);
}

fn selected(kind: Kind) -> (Vec<String>, Vec<Comparison>) {
    let testing = generate(kind, Style::Managed, 1, 120_000);
    let training = generate(kind, Style::Managed, 2, 4 * 120_000);
    let mut options = options(vec![Arm::NoGroups, Arm::Selected, Arm::SelectedRandom]);
    options.repeat.block = 120_000;
    let report = run(&options, &testing, Some(&training));
    let trace = &report.traces[0];
    let layouts = trace.arms.iter().map(|arm| arm.layout.clone()).collect();
    (layouts, trace.comparisons.clone())
}

#[test]
fn a_profile_that_predicts_no_gain_switches_itself_off() {
    let (layouts, comparisons) = selected(Kind::Uncorrelated);
    assert_eq!(layouts, ["no-groups"; 3]);
    assert!(comparisons.iter().all(|one| one.ratio == Some(1.0)));
}

#[test]
fn where_sites_tell_survivors_apart_the_selection_beats_both_controls_on_another_input() {
    let (layouts, comparisons) = selected(Kind::Phases);
    assert_eq!(layouts, ["no-groups", "ends", "ends-random"]);
    let selected = comparisons.iter().filter(|one| one.arm == "selected");
    let decisive = selected.filter(|one| ["total-free-ratio", "all-holes"].contains(&&*one.metric));
    let decisive: Vec<&Comparison> = decisive.collect();
    assert_eq!(decisive.len(), 4);
    for one in decisive {
        assert!(
            one.difference.high < 0.0,
            "{} to {}: {:?}",
            one.metric,
            one.to,
            one.difference
        );
        assert!(one.ratio.is_some_and(|ratio| ratio < 0.8), "{one:?}");
    }
}
