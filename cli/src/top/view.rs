//! The live view: a table that is looked at again every second, sorted by a key, and one process in detail.

use std::io;
use std::time::{Duration, Instant};

use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::crossterm::terminal;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Block, Cell, Paragraph, Row as TableRow, Table, TableState, Wrap};

use super::columns::{HEADINGS, cells, details};
use super::order::Order;
use crate::processes::{Observer, Row};
use crate::report::units;

const KEYS: &str = "q quit   up/down choose   Enter one process   sort: p physical, s saved, w warm, f faults, i process";
const NOBODY: &str =
    "No process of yours runs under Pagewise.\nIn another terminal: pagewise run -- Rscript my.R";

/// Cells of the largest terminal that is drawn on; a screen is kept twice, with some 40 bytes a cell.
const MOST_CELLS: u32 = 1 << 20;

#[derive(Default)]
pub struct View {
    rows: Vec<Row>,
    order: Order,
    chosen: TableState,
    is_detailed: bool,
}

/// Does this terminal move its cursor, so that a view can be drawn anew in the same place?
pub fn is_drawable() -> bool {
    std::env::var_os("TERM").is_some_and(|name| !name.is_empty() && name != "dumb")
}

/// What is told of a terminal's size need not be true.
fn check_size((columns, lines): (u16, u16)) -> io::Result<()> {
    if u32::from(columns) * u32::from(lines) <= MOST_CELLS {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "it says that it has {lines} lines of {columns} columns"
    )))
}

/// Until q, Escape or Ctrl-C.
pub fn show(observer: &mut Observer, period: Duration) -> io::Result<()> {
    check_size(terminal::size()?)?;
    let mut terminal = ratatui::try_init()?;
    let mut view = View::default();
    let outcome = loop {
        view.take(observer.look());
        let until = Instant::now() + period;
        match watch(&mut terminal, &mut view, until) {
            Ok(true) => {}
            Ok(false) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    ratatui::restore();
    outcome
}

/// Draws and takes keys until it is time for another look. False: the user has had enough.
fn watch(
    terminal: &mut ratatui::DefaultTerminal,
    view: &mut View,
    until: Instant,
) -> io::Result<bool> {
    loop {
        check_size(terminal::size()?)?;
        terminal.draw(|frame| view.draw(frame))?;
        let left = until.saturating_duration_since(Instant::now());
        if !event::poll(left)? {
            return Ok(true);
        }
        if let Event::Key(key) = event::read()?
            && key.kind == KeyEventKind::Press
        {
            let is_interrupt =
                key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c');
            if is_interrupt || !view.press(key.code) {
                return Ok(false);
            }
        }
    }
}

impl View {
    pub fn take(&mut self, rows: Vec<Row>) {
        let chosen = self.chosen().map(|row| row.process);
        self.rows = rows;
        self.sort(chosen);
    }

    /// The process that was chosen stays so, wherever it is now.
    fn sort(&mut self, chosen: Option<i32>) {
        self.order.sort(&mut self.rows);
        let place = self.rows.iter().position(|row| Some(row.process) == chosen);
        self.chosen
            .select(place.or((!self.rows.is_empty()).then_some(0)));
        self.is_detailed &= place.is_some();
    }

    fn chosen(&self) -> Option<&Row> {
        self.rows.get(self.chosen.selected()?)
    }

    /// False: it is the end.
    pub fn press(&mut self, key: KeyCode) -> bool {
        match key {
            KeyCode::Esc if self.is_detailed => self.is_detailed = false,
            KeyCode::Char('q') | KeyCode::Esc => return false,
            KeyCode::Down => self.chosen.select_next(),
            KeyCode::Up => self.chosen.select_previous(),
            KeyCode::Enter => self.is_detailed = !self.is_detailed && self.chosen().is_some(),
            KeyCode::Char(letter) => {
                if let Some(order) = Order::of_key(letter) {
                    self.order = order;
                    let chosen = self.chosen().map(|row| row.process);
                    self.sort(chosen);
                }
            }
            _ => {}
        }
        true
    }

    pub fn draw(&mut self, frame: &mut Frame) {
        let [head, middle, foot] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Min(1),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        frame.render_widget(Line::from(self.total()), head);
        frame.render_widget(Line::from(KEYS).style(Modifier::DIM), foot);
        match self.chosen().filter(|_| self.is_detailed) {
            Some(row) => {
                let lines = details(row).into_iter();
                let lines: Vec<Line> = lines
                    .map(|(name, value)| format!("{name:16} {value}").into())
                    .collect();
                let text = Paragraph::new(Text::from(lines)).wrap(Wrap { trim: false });
                frame.render_widget(text.block(Block::bordered()), middle);
            }
            None if self.rows.is_empty() => frame.render_widget(Paragraph::new(NOBODY), middle),
            None => frame.render_stateful_widget(table(&self.rows), middle, &mut self.chosen),
        }
    }

    fn total(&self) -> String {
        let physical = self.rows.iter().map(|row| row.physical_bytes);
        let physical = physical.fold(0, u64::saturating_add);
        let saved = self.rows.iter().filter_map(|row| row.saved_bytes);
        let saved = saved.fold(0, u64::saturating_add);
        format!(
            "{} under Pagewise, {} of physical memory, {} saved",
            units::counted(self.rows.len() as u64, "process").replace("processs", "processes"),
            units::bytes(physical as f64),
            units::bytes(saved as f64)
        )
    }
}

fn table(rows: &[Row]) -> Table<'static> {
    let last = HEADINGS.len() - 1;
    let aligned = |(place, text): (usize, String)| match place {
        0 | 2..8 => Cell::from(Text::from(text).right_aligned()),
        _ => Cell::from(text),
    };
    let widths = HEADINGS
        .iter()
        .enumerate()
        .map(|(place, heading)| match place {
            place if place == last => Constraint::Fill(1),
            _ => Constraint::Length(heading.len().max(9) as u16),
        });
    let headings = HEADINGS
        .map(str::to_owned)
        .into_iter()
        .enumerate()
        .map(aligned);
    let lines = rows
        .iter()
        .map(|row| TableRow::new(cells(row).into_iter().enumerate().map(aligned)));
    Table::new(lines, widths)
        .header(TableRow::new(headings).style(Modifier::BOLD))
        .row_highlight_style(Style::from(Modifier::REVERSED))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn row(process: i32, physical: u64, saved: u64) -> Row {
        Row {
            process,
            name: "R".into(),
            command: format!("Rscript {process}.R"),
            policy: Some("auto".into()),
            physical_bytes: physical,
            saved_bytes: Some(saved),
            ..Row::default()
        }
    }

    fn screen(view: &mut View) -> String {
        let mut terminal = Terminal::new(TestBackend::new(120, 12)).expect("terminal");
        terminal.draw(|frame| view.draw(frame)).expect("drawn");
        terminal.backend().to_string()
    }

    fn order(view: &mut View) -> [Option<usize>; 2] {
        let shown = screen(view);
        ["1.R", "2.R"].map(|name| shown.find(name))
    }

    #[test]
    fn processes_are_sorted_as_asked_and_looked_at_one_by_one() {
        let mut view = View::default();
        assert!(screen(&mut view).contains("pagewise run -- Rscript my.R"));
        view.take(vec![row(1, 5_000_000, 9_000_000), row(2, 7_000_000, 0)]);
        let shown = screen(&mut view);
        assert!(
            shown.contains("2 processes under Pagewise, 12.0 MB of physical memory, 9.00 MB saved"),
            "{shown}"
        );
        let [one, two] = order(&mut view);
        assert!(two < one, "most memory first: {shown}");
        assert!(view.press(KeyCode::Char('s')));
        let [one, two] = order(&mut view);
        assert!(one < two, "most saved first");
        view.press(KeyCode::Enter);
        let shown = screen(&mut view);
        assert!(
            shown.contains("Rscript 2.R") && !shown.contains("Rscript 1.R"),
            "{shown}"
        );
        // It has ended: back to the table.
        view.take(vec![row(1, 1, 1)]);
        assert!(screen(&mut view).contains("Rscript 1.R"));
        assert!(!view.press(KeyCode::Char('q')));
    }

    #[test]
    fn absurd_sizes_of_a_terminal_are_refused() {
        assert!(check_size((500, 200)).is_ok());
        let refused = check_size((65535, 65535)).expect_err("too large");
        assert!(refused.to_string().contains("65535 columns"), "{refused}");
    }

    #[test]
    fn absurd_figures_of_a_block_end_no_view() {
        let mut view = View::default();
        view.take(vec![row(1, u64::MAX, u64::MAX), row(2, u64::MAX, 1)]);
        assert!(screen(&mut view).contains("2 processes under Pagewise"));
    }
}
