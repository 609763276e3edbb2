//! What a recorder saw and could not keep, in words.

use trace_analysis::assemble::Assembled;
use trace_format::Properties;

use crate::report::units;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Allocations and frees.
    pub events: u64,
    /// Children that could not be recorded.
    pub children: u64,
    /// Sites whose modules are not known.
    pub modules: u64,
    /// Parts of the recording that make no sense from somewhere on.
    pub chunks: u64,
}

impl Losses {
    pub fn of(properties: &Properties) -> Self {
        let number = |name| properties.number(name).unwrap_or(0);
        Self {
            events: number("dropped-allocations").saturating_add(number("dropped-frees")),
            children: number("lost-children"),
            modules: number("lost-modules"),
            chunks: number("damaged-chunks"),
        }
    }

    pub fn add(&mut self, other: &Self) {
        self.events = self.events.saturating_add(other.events);
        self.children = self.children.saturating_add(other.children);
        self.modules = self.modules.saturating_add(other.modules);
        self.chunks = self.chunks.saturating_add(other.chunks);
    }

    /// Empty where nothing was lost.
    pub fn in_words(&self) -> Vec<String> {
        let mut said = Vec::new();
        if self.events > 0 {
            said.push(match self.events {
                1 => "1 event was dropped".to_owned(),
                more => format!("{} events were dropped", units::count(more)),
            });
        }
        if self.children > 0 {
            said.push(match self.children {
                1 => "1 forked process could not be recorded".to_owned(),
                more => format!(
                    "{} forked processes could not be recorded",
                    units::count(more)
                ),
            });
        }
        if self.modules > 0 {
            said.push(format!(
                "{} without a name: too many libraries were loaded",
                units::counted(self.modules, "place")
            ));
        }
        if self.chunks > 0 {
            said.push(match self.chunks {
                1 => "damaged: 1 chunk ends early".to_owned(),
                more => format!("damaged: {} chunks end early", units::count(more)),
            });
        }
        said
    }
}

impl From<&Assembled> for Losses {
    fn from(trace: &Assembled) -> Self {
        Self {
            events: trace.dropped,
            children: trace.lost_children,
            modules: trace.lost_modules,
            chunks: trace.damaged_chunks,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_lost_is_said_and_nothing_else() {
        assert!(Losses::default().in_words().is_empty());
        let properties = Properties::new()
            .with("dropped-allocations", "2")
            .with("dropped-frees", "1")
            .with("lost-children", "1")
            .with("damaged-chunks", "2");
        assert_eq!(
            Losses::of(&properties).in_words(),
            [
                "3 events were dropped",
                "1 forked process could not be recorded",
                "damaged: 2 chunks end early"
            ]
        );
    }
}
