//! What a command returns.

/// How this process is to end, once everything has been cleaned up.
pub enum Ending {
    Exit(u8),
    Signal(i32),
}
