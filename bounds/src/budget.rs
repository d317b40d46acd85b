//! A limit for the bytes that one computation reads and creates.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The reasons why a computation ends without a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Exceeded {
    /// The computation would read or create more bytes than the limit. A retry doesn't help.
    #[error("the computation needs more than {limit} bytes of memory")]
    Bytes {
        /// The limit in bytes.
        limit: usize,
    },
    /// The time is up.
    #[error("the computation takes too long")]
    Time,
}

/// The total number of bytes that one computation may read, copy and create. Dropped values are not refunded, so that the
/// budget limits work as well as memory.
///
/// Code that processes untrusted input takes a `&Budget` and calls [`Budget::spend`] before it copies or creates a value.
/// Values of constant size are free.
#[derive(Debug)]
pub struct Budget {
    limit: usize,
    spent: AtomicUsize,
    stopped: AtomicBool,
}

impl Budget {
    /// Creates a budget of this many bytes.
    pub const fn new(bytes: usize) -> Self {
        Self { limit: bytes, spent: AtomicUsize::new(0), stopped: AtomicBool::new(false) }
    }

    /// Takes bytes from the budget. After one call has failed, all later calls fail too.
    ///
    /// # Errors
    /// Returns [`Exceeded::Bytes`] if fewer bytes are left, and [`Exceeded::Time`] after [`Budget::stop`].
    pub fn spend(&self, bytes: usize) -> Result<(), Exceeded> {
        if self.stopped.load(Ordering::Relaxed) {
            return Err(Exceeded::Time);
        }
        let add = |spent: usize| Some(spent.saturating_add(bytes));
        // The closure always returns a value, so the update never fails.
        let before =
            self.spent.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).unwrap_or_else(|spent| spent);
        if before.saturating_add(bytes) > self.limit {
            return Err(Exceeded::Bytes { limit: self.limit });
        }
        Ok(())
    }

    /// Returns the number of remaining bytes.
    pub fn left(&self) -> usize {
        self.limit.saturating_sub(self.spent.load(Ordering::Relaxed))
    }

    /// Makes all later calls to [`Budget::spend`] fail, because the time is up.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spends_no_more_than_its_bytes() {
        let budget = Budget::new(10);
        assert_eq!(budget.spend(7), Ok(()));
        assert_eq!(budget.left(), 3);
        assert_eq!(budget.spend(4), Err(Exceeded::Bytes { limit: 10 }));
        assert_eq!(budget.spend(0), Err(Exceeded::Bytes { limit: 10 }), "an exceeded budget stays exceeded");
        assert_eq!(budget.left(), 0);
        assert_eq!(budget.spend(usize::MAX), Err(Exceeded::Bytes { limit: 10 }));
    }

    #[test]
    fn a_stopped_budget_gives_nothing() {
        let budget = Budget::new(10);
        budget.stop();
        assert_eq!(budget.spend(1), Err(Exceeded::Time));
    }
}
