//! `pagewise top`: the processes under Pagewise, as they are now.

mod columns;
mod order;
mod view;

use std::io::{self, IsTerminal};
use std::time::Duration;

use anyhow::{Context, Result};
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use self::order::Order;
use crate::commandline::TopArguments;
use crate::ending::Ending;
use crate::processes::{Observer, Row};
use crate::report::json::{Destination, SCHEMA, publish};

#[derive(Serialize)]
struct Report<'a> {
    schema: u32,
    processes: &'a [Row],
}

pub fn top(arguments: &TopArguments) -> Result<Ending> {
    let destination = arguments
        .json
        .as_deref()
        .map(Destination::open)
        .transpose()?;
    let mut observer = Observer::default();
    let is_live = io::stdout().is_terminal() && io::stdin().is_terminal() && view::is_drawable();
    if is_live && !arguments.once && destination.is_none() {
        let period = Duration::from_millis(arguments.every_ms);
        view::show(&mut observer, period)
            .context("cannot draw on this terminal (--once prints one look)")?;
        return Ok(Ending::Exit(0));
    }
    let mut rows = observer.look();
    Order::default().sort(&mut rows);
    let figures = Report {
        schema: SCHEMA,
        processes: &rows,
    };
    publish(&text(&rows), destination, &figures)?;
    Ok(Ending::Exit(0))
}

fn text(rows: &[Row]) -> String {
    if rows.is_empty() {
        return "no process of yours runs under Pagewise; start one by: pagewise run -- Rscript my.R\n".into();
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(columns::HEADINGS);
    for row in rows {
        table.add_row(columns::cells(row));
    }
    for column in [0, 2, 3, 4, 5, 6, 7] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt() + "\n"
}
