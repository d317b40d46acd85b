//! Enqueues objects for events that don't come from the API server, but from vCenter, probes or templates.

use futures::Stream;
use kube::Resource;
use kube::runtime::reflector::ObjectRef;
use tokio::sync::mpsc;

/// Enqueues objects of one kind. Clones feed the same controller.
pub struct Enqueue<K: Resource<DynamicType = ()>>(mpsc::UnboundedSender<ObjectRef<K>>);

impl<K: Resource<DynamicType = ()>> Clone for Enqueue<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K: Resource<DynamicType = ()> + 'static> Enqueue<K> {
    /// Returns the sender and the stream that the controller consumes.
    pub fn new() -> (Self, impl Stream<Item = ObjectRef<K>> + Send + 'static) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self(sender), into_stream(receiver))
    }

    /// Requests a reconcile of the object.
    pub fn enqueue(&self, object: ObjectRef<K>) {
        // The receiver is dropped only at shutdown.
        let _ = self.0.send(object);
    }
}

/// Converts a channel receiver to a stream.
pub fn into_stream<T: Send + 'static>(
    receiver: mpsc::UnboundedReceiver<T>,
) -> impl Stream<Item = T> + Send + 'static {
    futures::stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|item| (item, receiver))
    })
}
