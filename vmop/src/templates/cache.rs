//! The cache of the known and requested golden templates.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use vsphere::inventory::Presence;
use vsphere::{Devices, MoRef, VAppProperty};

use super::key::TemplateKey;
use crate::vcenter::{Problem, VCenter};

/// The callback that receives an image's name when a template of the image is ready or can't be deployed.
pub type OnChange = Arc<dyn Fn(&str) + Send + Sync>;

/// The callback that returns true if a VM in the namespace waits for a template of the image. Arguments: namespace, image name.
pub type IsWanted = Arc<dyn Fn(&str, &str) -> bool + Send + Sync>;

/// A template that is ready to be cloned.
#[derive(Clone, Debug, PartialEq)]
pub struct GoldenTemplate {
    pub moref: MoRef,
    /// The name in vCenter.
    pub name: String,
    /// The snapshot that linked clones are based on.
    pub snapshot: MoRef,
    /// The disks, controllers and NICs.
    pub devices: Devices,
    /// The OVF properties.
    pub properties: Vec<VAppProperty>,
    /// True if the guest's cloud-init can wait for VMware Tools.
    pub defers: bool,
}

/// A template's state.
#[derive(Clone, Debug, PartialEq)]
pub enum TemplateState {
    /// The template is being deployed or wasn't requested yet.
    Deploying,
    /// Deployment failed and will be retried.
    Failed(Problem),
    Ready(Arc<GoldenTemplate>),
}

impl TemplateState {
    /// Returns true if the template was ready but doesn't exist in vCenter anymore.
    fn is_gone(&self, vcenter: &VCenter) -> bool {
        matches!(self, Self::Ready(template) if vcenter.inventory.vm(&template.moref) == Presence::Absent)
    }
}

/// The templates in the connected vCenter.
pub struct TemplateCache {
    known: Mutex<Known>,
    requests: mpsc::UnboundedSender<TemplateRequest>,
    on_change: OnChange,
    is_wanted: IsWanted,
}

/// The templates of one connection. A new connection starts without any.
#[derive(Default)]
struct Known {
    vcenter: Weak<VCenter>,
    states: HashMap<TemplateKey, TemplateState>,
    /// The namespaces that wait for each template that isn't ready.
    requesters: HashMap<TemplateKey, watch::Sender<BTreeSet<String>>>,
}

/// A template to deploy.
pub(super) struct TemplateRequest {
    pub(super) vcenter: Arc<VCenter>,
    pub(super) key: TemplateKey,
    /// The namespaces that wait for the template. Other namespaces can be added later.
    pub(super) requesters: watch::Receiver<BTreeSet<String>>,
}

/// The requests for [`super::deploy_requested`].
pub struct TemplateRequests(pub(super) mpsc::UnboundedReceiver<TemplateRequest>);

impl TemplateCache {
    /// Returns an empty cache and the requests for the [`super::deploy_requested`] loop.
    pub fn new(on_change: OnChange, is_wanted: IsWanted) -> (Arc<Self>, TemplateRequests) {
        let (requests, receiver) = mpsc::unbounded_channel();
        (
            Arc::new(Self { known: Mutex::default(), requests, on_change, is_wanted }),
            TemplateRequests(receiver),
        )
    }

    /// Returns the template's state. Doesn't start a deployment.
    pub fn get(&self, vcenter: &VCenter, key: &TemplateKey) -> TemplateState {
        let known = self.known.lock();
        let state = known.is_of(vcenter).then(|| known.states.get(key)).flatten();
        state.filter(|state| !state.is_gone(vcenter)).cloned().unwrap_or(TemplateState::Deploying)
    }

    /// Requests the template for `namespace` unless it is ready. Namespaces that request the same template share one
    /// deployment, which begins when the first of them gets a turn.
    pub fn request(&self, vcenter: &Arc<VCenter>, key: &TemplateKey, namespace: &str) {
        let mut known = self.known.lock();
        if !known.is_of(vcenter) {
            *known = Known { vcenter: Arc::downgrade(vcenter), ..Known::default() };
        }
        if known.states.get(key).is_some_and(|state| !state.is_gone(vcenter)) {
            if let Some(requesters) = known.requesters.get(key) {
                requesters.send_if_modified(|requesters| requesters.insert(namespace.to_owned()));
            }
            return;
        }
        let (sender, requesters) = watch::channel(BTreeSet::from([namespace.to_owned()]));
        known.states.insert(key.clone(), TemplateState::Deploying);
        known.requesters.insert(key.clone(), sender);
        let (vcenter, key) = (Arc::clone(vcenter), key.clone());
        // The receiver is dropped only at shutdown.
        let _ = self.requests.send(TemplateRequest { vcenter, key, requesters });
    }

    /// Discards a template that can't be cloned, so that the next request looks for it again.
    pub fn forget(&self, template: &MoRef) {
        let ready =
            |state: &TemplateState| matches!(state, TemplateState::Ready(ready) if ready.moref == *template);
        self.known.lock().states.retain(|_, state| !ready(state));
    }

    /// Forgets a template whose deployment failed, unless a VM in a requesting namespace still waits for it. Returns true if
    /// the template was forgotten.
    ///
    /// This doesn't race with a new VM: the VM cache contains the VM before the VM requests the template, and a request for a
    /// forgotten template starts a new deployment.
    pub(super) fn end_unless_wanted(&self, vcenter: &VCenter, key: &TemplateKey) -> bool {
        let mut known = self.known.lock();
        if !known.is_of(vcenter) {
            return true;
        }
        known.end_unless_wanted(key, &self.is_wanted)
    }

    /// Records the template's state. Calls `on_change` if the state differs. Ignored if the connection has been replaced.
    pub(super) fn record(&self, vcenter: &VCenter, key: &TemplateKey, state: TemplateState) {
        let mut known = self.known.lock();
        if !known.is_of(vcenter) {
            return;
        }
        if matches!(state, TemplateState::Ready(_)) {
            known.requesters.remove(key);
        }
        let old = known.states.insert(key.clone(), state.clone());
        drop(known);
        if old != Some(state) {
            (self.on_change)(&key.image);
        }
    }
}

impl Known {
    fn is_of(&self, vcenter: &VCenter) -> bool {
        std::ptr::eq(self.vcenter.as_ptr(), vcenter)
    }

    fn end_unless_wanted(&mut self, key: &TemplateKey, is_wanted: &IsWanted) -> bool {
        let requesters = self.requesters.get(key).map(|requesters| requesters.borrow().clone());
        let wanted = requesters.unwrap_or_default().iter().any(|namespace| is_wanted(namespace, &key.image));
        if !wanted {
            self.states.remove(key);
            self.requesters.remove(key);
        }
        !wanted
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::vcenter::Placement;

    #[test]
    fn a_template_that_fails_ends_with_the_last_vm_that_waits_for_it() {
        let waits = Arc::new(AtomicBool::new(true));
        let is_wanted = {
            let waits = Arc::clone(&waits);
            move |namespace: &str, image: &str| {
                (namespace, image) == ("ns", "photon") && waits.load(Ordering::Relaxed)
            }
        };
        let (cache, _requests) = TemplateCache::new(Arc::new(|_: &str| {}), Arc::new(is_wanted));
        let placement = Placement { folder: MoRef::folder("group-v1"), pool: MoRef::pool("resgroup-1") };
        let key = TemplateKey {
            image: "photon".into(),
            item: "item-1".into(),
            content: "1".into(),
            placement,
            datastore: None,
            policy: None,
        };
        let mut known = Known::default();
        known.states.insert(key.clone(), TemplateState::Deploying);
        known.requesters.insert(key.clone(), watch::Sender::new(BTreeSet::from(["ns".to_owned()])));
        assert!(!known.end_unless_wanted(&key, &cache.is_wanted), "a VM waits");
        waits.store(false, Ordering::Relaxed);
        assert!(known.end_unless_wanted(&key, &cache.is_wanted));
        assert!(known.states.is_empty() && known.requesters.is_empty(), "nothing of it is kept");
    }
}
