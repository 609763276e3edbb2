//! A bar on a terminal, one line a round elsewhere, nothing when asked to be quiet.

use std::cell::Cell;
use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::configuration::Series;
use crate::tell::tell;

pub struct Progress {
    bar: ProgressBar,
    has_lines: bool,
    rounds: u32,
    last_told: Cell<Option<u32>>,
}

impl Progress {
    pub fn new(series: &[Series], rounds: u32, is_quiet: bool) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        let bar = ProgressBar::with_draw_target(
            Some(series.len() as u64 * u64::from(rounds)),
            if is_quiet || !is_terminal {
                ProgressDrawTarget::hidden()
            } else {
                ProgressDrawTarget::stderr()
            },
        );
        let template = "{wide_bar} run {pos} of {len}, {msg}, {elapsed} (left: {eta})";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(500));
        Self {
            bar,
            has_lines: !is_quiet && !is_terminal,
            rounds,
            last_told: Cell::new(None),
        }
    }

    pub fn begin(&self, series: &Series, round: u32) {
        self.bar.set_message(series.name.clone());
        if self.has_lines && self.last_told.replace(Some(round)) != Some(round) {
            tell(&format!("round {} of {}", round + 1, self.rounds));
        }
    }

    pub fn end(&self) {
        self.bar.inc(1);
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
