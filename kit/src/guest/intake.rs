//! Limits the bytes that guests' responses hold in memory at the same time.
//!
//! A reader takes bytes from the limits while a response arrives, and returns them when the response is decoded. If the
//! limits are reached, the reader waits. Then the guest also waits, because unread data stays in the guest's buffers. So all
//! guests together hold at most [`OF_ALL`], and one guest or one namespace leaves room for others.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Weak};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::error::Refusal;

/// The maximum number of response bytes for all guests together.
pub const OF_ALL: usize = 32 << 20;
/// The maximum number of response bytes for all guests in one namespace.
pub const OF_A_NAMESPACE: usize = 8 << 20;
/// The maximum number of response bytes for one guest. This is enough for one whole object and parts of watches.
pub const OF_A_GUEST: usize = 4 << 20;

static ALL: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(OF_ALL)));
static SHARES: LazyLock<Mutex<HashMap<String, Weak<Semaphore>>>> = LazyLock::new(Mutex::default);

/// The limits that apply to one guest: the guest's, its namespace's and the total. Clones share the limits.
#[derive(Clone)]
pub struct Share([Arc<Semaphore>; 3]);

/// The bytes that a response holds from each limit in a [`Share`]. They are returned on drop.
#[derive(Default)]
pub struct Held([Option<OwnedSemaphorePermit>; 3]);

impl Held {
    /// Releases all but `bytes` bytes.
    pub fn keep(&mut self, bytes: usize) {
        for held in self.0.iter_mut().flatten() {
            let more = held.num_permits().saturating_sub(bytes);
            drop(held.split(more));
        }
    }
}

impl Share {
    /// Returns the limits for a cluster. All calls for the same namespace and cluster share the same limits.
    pub fn of(namespace: &str, cluster: &str) -> Self {
        let mut shares = SHARES.lock();
        shares.retain(|_, share| share.strong_count() > 0);
        let mut named = |key: String, bytes: usize| {
            if let Some(share) = shares.get(&key).and_then(Weak::upgrade) {
                return share;
            }
            let share = Arc::new(Semaphore::new(bytes));
            shares.insert(key, Arc::downgrade(&share));
            share
        };
        let of_guest = named(format!("{namespace}/{cluster}"), OF_A_GUEST);
        Self([of_guest, named(namespace.to_owned(), OF_A_NAMESPACE), Arc::clone(&ALL)])
    }

    /// Waits until `bytes` more bytes are free, and adds them to `held`. Takes from the guest's own limit first, so that
    /// a reader that waits for its own guest doesn't hold bytes that other guests need.
    ///
    /// # Errors
    /// Fails if `bytes` doesn't fit into a `u32`.
    pub async fn take(&self, bytes: usize, held: &mut Held) -> Result<(), Refusal> {
        let bytes = u32::try_from(bytes).map_err(|_| Refusal::new("its answer is too large"))?;
        for (share, held) in self.0.iter().zip(&mut held.0) {
            let more = Arc::clone(share).acquire_many_owned(bytes).await;
            let more = more.map_err(|_closed| Refusal::new("this program is shutting down"))?;
            match held {
                Some(held) => held.merge(more),
                None => *held = Some(more),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn a_guest_takes_its_share_and_leaves_those_of_others() {
        let (bad, good) = (Share::of("intake", "bad"), Share::of("intake", "good"));
        let (mut held, mut other) = (Held::default(), Held::default());
        let takes =
            |share: &Share, bytes: usize| share.take(bytes, &mut Held::default()).now_or_never().is_some();
        assert!(bad.take(OF_A_GUEST, &mut held).now_or_never().is_some());
        assert!(!takes(&Share::of("intake", "bad"), 1), "another connection is the same guest");
        assert!(good.take(OF_A_GUEST, &mut other).now_or_never().is_some());
        let third = Share::of("intake", "third");
        assert!(!takes(&third, 1), "the namespace has no more");
        assert!(takes(&Share::of("other", "third"), 1), "others have");
        held.keep(OF_A_GUEST - 2);
        assert!(takes(&third, 2) && !takes(&third, 3));
        drop(held);
        assert!(takes(&bad, OF_A_GUEST));
    }
}
