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
    for row in rows(configurations, &[]) {
        table.add_row(row);
    }
    for ratio in ratios {
        let figures = ratio_figures(ratio);
        let coloured = figures.iter().map(|one| match has_colour {
            true => coloured(ratio, one),
            false => Cell::new(&one.text),
        });
        table.add_row([Cell::new(name_of(ratio))].into_iter().chain(coloured));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}

/// The same in words alone: a name, and four figures.
pub fn rows(configurations: &[Configuration], ratios: &[Ratio]) -> Vec<Vec<String>> {
    let of_ratio = |ratio| {
        let figures = ratio_figures(ratio).into_iter().map(|one| one.text);
        std::iter::once(name_of(ratio)).chain(figures).collect()
    };
    let configurations = configurations.iter().map(row);
    configurations.chain(ratios.iter().map(of_ratio)).collect()
}

fn row(one: &Configuration) -> Vec<String> {
    let runs = &one.measurements;
    let memory = |figure: fn(&Measured) -> f64, interval: &Interval| {
        let of = |run: &Measured| run.has_memory.then(|| figure(run));
        figures(interval, runs.iter().map(of).collect(), units::bytes)
    };
    let time = |figure: fn(&Measured) -> f64, interval: &Interval| {
        let values = runs.iter().map(|run| Some(figure(run)));
        figures(interval, values.collect(), units::seconds)
    };
    vec![
        name(&one.name, "run", runs.len()),
        memory(|run| run.peak_bytes, &one.peak_bytes),
        memory(|run| run.average_bytes, &one.average_bytes),
        time(|run| run.cpu_seconds, &one.cpu_seconds),
        time(|run| run.wall_seconds, &one.wall_seconds),
    ]
}

fn name_of(ratio: &Ratio) -> String {
    let pair = format!("{} / {}", ratio.name, ratio.to);
    name(&pair, "pair", ratio.pairs.len())
}

struct RatioFigure {
    name: &'static str,
    interval: Option<Interval>,
    text: String,
}

fn ratio_figures(ratio: &Ratio) -> [RatioFigure; 4] {
    let figure = |name, interval: Option<Interval>, of: fn(&Pair) -> Option<f64>| {
        let pairs: Vec<Option<f64>> = ratio.pairs.iter().map(of).collect();
        let mut text = match &interval {
            Some(interval) => with_values(interval, &pairs, units::ratio),
            None => NOT_MEASURED.to_owned(),
        };
        if interval.is_some() && ratio.undecided.contains(&name) {
            text.push_str("\nundecided");
        }
        RatioFigure {
            name,
            interval,
            text,
        }
    };
    [
        figure("peak", ratio.peak, |pair| pair.peak),
        figure("average", ratio.average, |pair| pair.average),
        figure("cpu", ratio.cpu, |pair| pair.cpu),
        figure("wall", ratio.wall, |pair| pair.wall),
    ]
}

/// Green is less than the first configuration, red is more; uncoloured is no difference that was shown.
fn coloured(ratio: &Ratio, figure: &RatioFigure) -> Cell {
    let cell = Cell::new(&figure.text);
    let is_undecided = ratio.is_control || ratio.undecided.contains(&figure.name);
    match figure.interval {
        Some(interval) if is_undecided || interval.contains(1.0) => cell,
        Some(interval) if interval.mean < 1.0 => cell.fg(Color::Green),
        Some(_) => cell.fg(Color::Red),
        None => cell,
    }
}

/// Are there so few that each is shown? One is the mean already.
fn are_shown(count: usize) -> bool {
    (2..ENOUGH_PAIRS).contains(&count)
}

fn name(name: &str, of: &str, count: usize) -> String {
    let mut text = name.to_owned();
    if are_shown(count) {
        (1..=count).for_each(|number| text.push_str(&format!("\n  {of} {number}")));
    }
    text
}

fn figures(interval: &Interval, values: Vec<Option<f64>>, unit: fn(f64) -> String) -> String {
    match values.iter().any(Option::is_some) {
        true => with_values(interval, &values, unit),
        false => NOT_MEASURED.to_owned(),
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
