//! Limits the bytes that guests' responses hold in memory at the same time.
//!
//! A reader takes bytes from the limits while a response arrives, and returns them when the response is decoded. If the
//! limits are reached, the reader waits. Then the guest also waits, because unread data stays in the guest's buffers. So all
//! guests together hold at most [`OF_ALL`], and one guest or one namespace leaves room for others.

use std::sync::{Arc, LazyLock};

use bounds::{Lane, Turn};

/// The maximum number of response bytes for all guests together.
pub const OF_ALL: usize = 32 << 20;
/// The maximum number of response bytes for all guests in one namespace.
pub const OF_A_NAMESPACE: usize = 8 << 20;
/// The maximum number of response bytes for one guest. This is enough for one whole object and parts of watches.
pub const OF_A_GUEST: usize = 4 << 20;

static GUESTS: LazyLock<Lane> = LazyLock::new(|| Lane::per_share(OF_A_GUEST));
static NAMESPACES: LazyLock<Lane> = LazyLock::new(|| Lane::new(OF_ALL, OF_A_NAMESPACE));

/// The limits that apply to one guest: the guest's, its namespace's and the total. All values for the same guest share the
/// limits.
#[derive(Clone)]
pub struct ResponseLimits {
    namespace: Arc<str>,
    /// The guest's key, `namespace/cluster`.
    guest: Arc<str>,
}

/// The bytes that a response holds. They are returned on drop.
#[derive(Default)]
pub struct HeldBytes {
    of_guest: Option<Turn>,
    of_namespace: Option<Turn>,
}

impl HeldBytes {
    /// Releases all but `bytes` bytes.
    pub fn keep(&mut self, bytes: usize) {
        for held in [&mut self.of_guest, &mut self.of_namespace].into_iter().flatten() {
            held.keep(bytes);
        }
    }
}

impl ResponseLimits {
    /// Returns the limits for a cluster.
    pub fn of(namespace: &str, cluster: &str) -> Self {
        Self { namespace: namespace.into(), guest: crate::index::key(Some(namespace), cluster).into() }
    }

    /// Waits until `bytes` more bytes are free, and adds them to `held`. Takes from the guest's own limit first, so that
    /// a reader that waits for its own guest doesn't hold bytes that other guests need.
    pub async fn take(&self, bytes: usize, held: &mut HeldBytes) {
        let HeldBytes { of_guest, of_namespace } = held;
        add(of_guest, GUESTS.enter_with(&self.guest, bytes).await);
        add(of_namespace, NAMESPACES.enter_with(&self.namespace, bytes).await);
    }
}

fn add(held: &mut Option<Turn>, more: Turn) {
    match held {
        Some(held) => held.merge(more),
        None => *held = Some(more),
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn a_guest_takes_its_share_and_leaves_those_of_others() {
        let (bad, good) = (ResponseLimits::of("intake", "bad"), ResponseLimits::of("intake", "good"));
        let (mut held, mut other) = (HeldBytes::default(), HeldBytes::default());
        let takes = |limits: &ResponseLimits, bytes: usize| {
            limits.take(bytes, &mut HeldBytes::default()).now_or_never().is_some()
        };
        assert!(bad.take(OF_A_GUEST, &mut held).now_or_never().is_some());
        assert!(!takes(&ResponseLimits::of("intake", "bad"), 1), "another connection is the same guest");
        assert!(good.take(OF_A_GUEST, &mut other).now_or_never().is_some());
        let third = ResponseLimits::of("intake", "third");
        assert!(!takes(&third, 1), "the limit of the namespace is reached");
        assert!(takes(&ResponseLimits::of("other", "third"), 1), "other namespaces have their own limit");
        held.keep(OF_A_GUEST - 2);
        assert!(takes(&third, 2) && !takes(&third, 3));
        drop(held);
        assert!(takes(&bad, OF_A_GUEST));
    }
}
