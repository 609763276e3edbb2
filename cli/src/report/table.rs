//! The table that `compare` ends with.

use comfy_table::{Cell, CellAlignment, Color, Table, presets};

use super::json::{Configuration, Measured, Pair, Ratio};
use super::units;
use intervals::Interval;

/// Fewer say too little for an interval: each of them is shown in its place.
pub const ENOUGH_PAIRS: usize = 5;

const NOT_MEASURED: &str = "not measured";

/// One row a configuration, then one row a ratio.
pub fn render(configurations: &[Configuration], ratios: &[Ratio], has_colour: bool) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header(["", "peak", "average", "CPU", "wall"]);
    for one in configurations {
        let runs = &one.measurements;
        let memory = |figure: fn(&Measured) -> f64, interval: &Interval| {
            let of = |run: &Measured| run.has_memory.then(|| figure(run));
            figures(interval, runs.iter().map(of).collect(), units::bytes)
        };
        let time = |figure: fn(&Measured) -> f64, interval: &Interval| {
            let values = runs.iter().map(|run| Some(figure(run)));
            figures(interval, values.collect(), units::seconds)
        };
        table.add_row([
            name(&one.name, "run", runs.len()),
            memory(|run| run.peak_bytes, &one.peak_bytes),
            memory(|run| run.average_bytes, &one.average_bytes),
            time(|run| run.cpu_seconds, &one.cpu_seconds),
            time(|run| run.wall_seconds, &one.wall_seconds),
        ]);
    }
    for ratio in ratios {
        let cell = |name, interval, figure: fn(&Pair) -> Option<f64>| {
            let pairs = ratio.pairs.iter().map(figure).collect();
            ratio_figure(ratio, name, interval, pairs, has_colour)
        };
        let pair = format!("{} / {}", ratio.name, ratio.to);
        table.add_row([
            name(&pair, "pair", ratio.pairs.len()),
            cell("peak", ratio.peak, |pair| pair.peak),
            cell("average", ratio.average, |pair| pair.average),
            cell("cpu", ratio.cpu, |pair| pair.cpu),
            cell("wall", ratio.wall, |pair| pair.wall),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}

/// Are there so few that each is shown? One is the mean already.
fn are_shown(count: usize) -> bool {
    (2..ENOUGH_PAIRS).contains(&count)
}

fn name(name: &str, of: &str, count: usize) -> Cell {
    let mut text = name.to_owned();
    if are_shown(count) {
        (1..=count).for_each(|number| text.push_str(&format!("\n  {of} {number}")));
    }
    Cell::new(text)
}

fn figures(interval: &Interval, values: Vec<Option<f64>>, unit: fn(f64) -> String) -> Cell {
    match values.iter().any(Option::is_some) {
        true => Cell::new(with_values(interval, &values, unit)),
        false => Cell::new(NOT_MEASURED),
    }
}

/// The mean, and below it its interval, or of few values each.
fn with_values(interval: &Interval, values: &[Option<f64>], unit: fn(f64) -> String) -> String {
    let mean = unit(interval.mean);
    if are_shown(values.len()) {
        let one = |value: &Option<f64>| value.map_or("-".into(), unit);
        let lines: Vec<String> = values.iter().map(one).collect();
        return format!("{mean}\n{}", lines.join("\n"));
    }
    if interval.low == interval.high {
        return mean;
    }
    format!("{mean}\n{} – {}", unit(interval.low), unit(interval.high))
}

/// Green is less than the first configuration, red is more; uncoloured is no difference that was shown.
fn ratio_figure(
    ratio: &Ratio,
    name: &str,
    interval: Option<Interval>,
    pairs: Vec<Option<f64>>,
    has_colour: bool,
) -> Cell {
    let Some(interval) = interval else {
        return Cell::new(NOT_MEASURED);
    };
    let mut text = with_values(&interval, &pairs, units::ratio);
    let is_undecided = ratio.undecided.contains(&name);
    if is_undecided {
        text.push_str("\nundecided");
    }
    let cell = Cell::new(text);
    match () {
        () if !has_colour || ratio.is_control || is_undecided || interval.contains(1.0) => cell,
        () if interval.mean < 1.0 => cell.fg(Color::Green),
        () => cell.fg(Color::Red),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_stands_below_its_mean() {
        let interval = Interval {
            mean: 0.31,
            low: 0.3,
            high: 0.32,
        };
        let many = [Some(0.31); ENOUGH_PAIRS];
        assert_eq!(
            with_values(&interval, &many, units::ratio),
            ".31\n.30 – .32"
        );
        let one = Interval::point(2.0);
        assert_eq!(with_values(&one, &[Some(2.0)], units::seconds), "2.00 s");
    }

    #[test]
    fn few_values_are_shown_in_place_of_an_interval() {
        let wide = Interval {
            mean: 1.0,
            low: 0.0,
            high: 15_285.0,
        };
        let shown = with_values(&wide, &[Some(0.9), Some(1.1)], units::seconds);
        assert_eq!(shown, "1.00 s\n0.90 s\n1.10 s");
        assert_eq!(
            with_values(&wide, &[Some(2.0), None], units::ratio),
            "1.00\n2.00\n-"
        );
    }
}
