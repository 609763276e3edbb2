//! The table that `compare` ends with.

use comfy_table::{Cell, CellAlignment, Color, Table, presets};

use super::json::{Configuration, Ratio};
use super::units;
use intervals::Interval;

const NOT_MEASURED: &str = "not measured";

/// One row a configuration, then one row a ratio.
pub fn render(configurations: &[Configuration], ratios: &[Ratio], has_colour: bool) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header(["", "peak", "average", "CPU", "wall"]);
    for configuration in configurations {
        table.add_row([
            Cell::new(&configuration.name),
            memory(configuration, &configuration.peak_bytes),
            memory(configuration, &configuration.average_bytes),
            figure(&configuration.cpu_seconds, units::seconds),
            figure(&configuration.wall_seconds, units::seconds),
        ]);
    }
    for ratio in ratios {
        table.add_row([
            Cell::new(format!("{} / {}", ratio.name, ratio.to)),
            ratio_figure(ratio, "peak", ratio.peak, has_colour),
            ratio_figure(ratio, "average", ratio.average, has_colour),
            ratio_figure(ratio, "cpu", ratio.cpu, has_colour),
            ratio_figure(ratio, "wall", ratio.wall, has_colour),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}

fn memory(configuration: &Configuration, interval: &Interval) -> Cell {
    match configuration.measurements.iter().any(|one| one.has_memory) {
        true => figure(interval, units::bytes),
        false => Cell::new(NOT_MEASURED),
    }
}

fn figure(interval: &Interval, unit: fn(f64) -> String) -> Cell {
    Cell::new(with_interval(interval, unit))
}

fn with_interval(interval: &Interval, unit: fn(f64) -> String) -> String {
    if interval.low == interval.high {
        return unit(interval.mean);
    }
    format!(
        "{}\n{} – {}",
        unit(interval.mean),
        unit(interval.low),
        unit(interval.high)
    )
}

/// Green is less than the first configuration, red is more; uncoloured is no difference that was shown.
fn ratio_figure(ratio: &Ratio, name: &str, interval: Option<Interval>, has_colour: bool) -> Cell {
    let Some(interval) = interval else {
        return Cell::new(NOT_MEASURED);
    };
    let mut text = with_interval(&interval, units::ratio);
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
        assert_eq!(with_interval(&interval, units::ratio), ".31\n.30 – .32");
        assert_eq!(
            with_interval(&Interval::point(2.0), units::seconds),
            "2.00 s"
        );
    }
}
