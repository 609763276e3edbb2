//! How the thread that looks at memory is asked to end.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

#[derive(Default)]
pub struct Stop {
    requested: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    pub fn request(&self) {
        *self.lock() = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, bool> {
        self.requested
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true when asked to stop.
    pub fn wait_until(&self, due: Instant) -> bool {
        let rest = due.saturating_duration_since(Instant::now());
        let waited = self
            .changed
            .wait_timeout_while(self.lock(), rest, |requested| !*requested);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}
