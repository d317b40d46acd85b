//! How many bytes one computation may read and make.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Why a computation ended before its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Exceeded {
    /// It would read or make more bytes than it may: it exceeds them whenever it is repeated.
    #[error("the computation needs more than {limit} bytes of memory")]
    Bytes {
        /// How many bytes it may use.
        limit: usize,
    },
    /// Its time is up.
    #[error("the computation takes too long")]
    Time,
}

/// The bytes that one computation may read, copy and make, all together. Nothing is given back when a value is dropped, so
/// that the budget bounds work as well as memory.
///
/// Code that computes on untrusted input takes a `&Budget` and calls [`Budget::spend`] before it copies or makes a value
/// whose size the input decides.
#[derive(Debug)]
pub struct Budget {
    limit: usize,
    spent: AtomicUsize,
    stopped: AtomicBool,
}

impl Budget {
    /// A budget of so many bytes.
    pub const fn new(bytes: usize) -> Self {
        Self { limit: bytes, spent: AtomicUsize::new(0), stopped: AtomicBool::new(false) }
    }

    /// Takes bytes from the budget. Once one call has failed, all later ones fail.
    ///
    /// # Errors
    /// [`Exceeded::Bytes`] if fewer are left, [`Exceeded::Time`] after [`Budget::stop`].
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

    /// How many bytes are left.
    pub fn left(&self) -> usize {
        self.limit.saturating_sub(self.spent.load(Ordering::Relaxed))
    }

    /// Makes every later call of [`Budget::spend`] fail: the time is up.
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
