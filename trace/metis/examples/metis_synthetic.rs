//! The paper's experiment on made-up programs, with all groupings: `cargo run --release --example metis_synthetic`.

use metis::experiment::{self, Arm, ExperimentOptions, TraceInput};
use metis::grouping::Grouping;
use metis::metrics::Averages;
use metis::workload::{Kind, Style, generate};

fn main() {
    let mut arms = Arm::DEFAULT.to_vec();
    for grouping in [Grouping::Components, Grouping::Deaths, Grouping::Lifetimes] {
        arms.extend([Arm::Elsewhere(grouping), Arm::ElsewhereRandom(grouping)]);
        arms.extend([Arm::Chunks(grouping), Arm::ChunksRandom(grouping)]);
    }
    arms.extend([
        Arm::Ends,
        Arm::EndsRandom,
        Arm::Selected,
        Arm::SelectedRandom,
    ]);
    let mut options = ExperimentOptions {
        arms,
        ..ExperimentOptions::default()
    };
    options.repeat.repetitions = 4;
    println!(
        "| workload | arm | groups | FR | total free | holes | all holes | after | hole size | RGE | RGS | heap |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
    for kind in Kind::ALL {
        let testing = generate(kind, Style::Managed, 1, options.repeat.block);
        let training = generate(kind, Style::Managed, 2, 4 * options.repeat.block);
        let trace = TraceInput {
            name: kind.name(),
            testing: &testing,
            training: Some(&training),
        };
        match experiment::run(&options, &[trace], |_, _| {}) {
            Ok(report) => print(&report),
            Err(stopped) => eprintln!("{}: {stopped}", kind.name()),
        }
    }
}

fn print(report: &experiment::Report) {
    for trace in &report.traces {
        for arm in &trace.arms {
            let mean = |of: fn(&Averages) -> Option<f64>| {
                let values: Vec<f64> = arm
                    .runs
                    .iter()
                    .filter_map(|run| of(&run.activation))
                    .collect();
                values.iter().sum::<f64>() / values.len() as f64
            };
            println!(
                "| {} | {} | {} | {:.4} | {:.4} | {:.1} | {:.1} | {:.1} | {:.0} | {:.2} | {:.2} | {:.0} |",
                trace.name,
                arm.name,
                arm.runs[0].groups,
                mean(|averages| averages.fragmentation_ratio),
                mean(|averages| averages.total_free_ratio),
                mean(|averages| averages.global_holes),
                mean(|averages| averages.all_holes),
                mean(|averages| averages.holes_after),
                mean(|averages| averages.hole_size),
                mean(|averages| averages.region_group_efficiency),
                mean(|averages| averages.region_group_significance),
                mean(|averages| averages.heap_bytes),
            );
        }
        for one in &trace.comparisons {
            if one.to != "no-groups"
                && ["total-free-ratio", "all-holes", "holes-after"].contains(&one.metric.as_str())
            {
                let verdict = if one.difference.excludes_zero() {
                    ""
                } else {
                    " (undecided)"
                };
                let (low, high) = (one.difference.low, one.difference.high);
                let ratio = one.ratio.unwrap_or(f64::NAN);
                println!(
                    "{} {} to {}: {} {ratio:.3}, difference {low:.4} to {high:.4}{verdict}",
                    trace.name, one.arm, one.to, one.metric
                );
            }
        }
    }
}
