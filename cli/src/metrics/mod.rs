//! `pagewise metrics`: figures of the processes under Pagewise, for Prometheus and whatever else reads OpenMetrics.

mod serve;
mod text;
mod totals;

use std::net::SocketAddr;
use std::time::Instant;

use anyhow::{Context, Result};

use self::text::Form;
use self::totals::Totals;
use crate::commandline::MetricsArguments;
use crate::ending::Ending;
use crate::http::{self, Usual};
use crate::processes::Observer;
use crate::report::json::publish;
use crate::tell::tell;

const USUAL: Usual = Usual {
    // Below the ports that Linux hands out itself, and beyond those that other exporters have among themselves.
    port: 19797,
    command: |address| format!("pagewise metrics --listen {address}"),
};

pub fn metrics(arguments: &MetricsArguments) -> Result<Ending> {
    if arguments.once {
        let mut totals = Totals::default();
        totals.take(&Observer::default().look(), Instant::now());
        publish(&text::of(&totals, Form::Prometheus), None, &())?;
        return Ok(Ending::Exit(0));
    }
    // Before any thread is started: threads inherit what is blocked.
    let asked_to_end = serve::asked_to_end().context("cannot wait for signals")?;
    let listener = http::listen(&arguments.listen, &USUAL)?;
    let address = listener.local_addr().context("no address to listen on")?;
    tell(&greeting(address));
    serve::serve(listener, &asked_to_end)?;
    Ok(Ending::Exit(0))
}

fn greeting(address: SocketAddr) -> String {
    let who = http::reach(address);
    format!("metrics are at http://{address}/metrics{who} (Ctrl-C ends)")
}
