//! How a recorder finds stacks.

/// How a stack is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Stacks {
    /// By unwind tables, which nearly every binary has
    Tables,
    /// By frame pointers: cheaper, and short where code was compiled without
    FramePointers,
}

impl Stacks {
    /// As the recorder knows it (core/src/record/spool.h).
    pub fn number(self) -> u32 {
        match self {
            Self::FramePointers => 1,
            Self::Tables => 2,
        }
    }

    /// As traces have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::FramePointers => "frame-pointers",
            Self::Tables => "unwind-tables",
        }
    }
}
