//! Wakes objects for causes outside the API server: vCenter, probes, templates.

use futures::Stream;
use kube::Resource;
use kube::runtime::reflector::ObjectRef;
use tokio::sync::mpsc;

/// Wakes objects of one kind. Clones wake the same controller.
pub struct Waker<K: Resource<DynamicType = ()>>(mpsc::UnboundedSender<ObjectRef<K>>);

impl<K: Resource<DynamicType = ()>> Clone for Waker<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K: Resource<DynamicType = ()> + 'static> Waker<K> {
    /// A waker, and the stream for the controller.
    pub fn new() -> (Self, impl Stream<Item = ObjectRef<K>> + Send + 'static) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self(sender), received(receiver))
    }

    /// The object is reconciled soon.
    pub fn wake(&self, object: ObjectRef<K>) {
        // The receiver is gone only when the program ends.
        let _ = self.0.send(object);
    }
}

/// A channel as a stream.
pub fn received<T: Send + 'static>(
    receiver: mpsc::UnboundedReceiver<T>,
) -> impl Stream<Item = T> + Send + 'static {
    futures::stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|item| (item, receiver))
    })
}
