//! A bar on a terminal, nothing elsewhere.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Time left included. `total` of 0: it is not known how much there is.
pub fn bar(what: &'static str, total: u64) -> ProgressBar {
    let is_terminal = std::io::stderr().is_terminal();
    let target = if is_terminal {
        ProgressDrawTarget::stderr_with_hz(5)
    } else {
        ProgressDrawTarget::hidden()
    };
    let length = (total > 0).then_some(total);
    let bar = ProgressBar::with_draw_target(length, target);
    let template = match length {
        Some(_) => "{msg} {wide_bar} {percent} % (left: {eta})",
        None => "{msg} {spinner} {human_pos} events",
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_message(what);
    bar
}
