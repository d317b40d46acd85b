//! One vCenter connection: its client, its inventory and its caches.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use vsphere::{Client, Inventory, MoRef};

use crate::device_check::DeviceKinds;
use crate::vcenter::endpoints::EndpointReads;
use crate::vcenter::memo::{DeviceCache, LookupCache, StorageCache};
use crate::vcenter::module_members::Memberships;
use crate::vcenter::problem::Problem;
use crate::vcenter::realized_policy::RealizedPolicies;
use crate::vcenter::settings::ProviderSettings;

/// The timeout for reading a folder's VMs in a reconcile.
const FOLDER_READ: Duration = Duration::from_secs(20);

/// A problem with a content library or one of its items.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LibraryProblem {
    /// The ContentSource with the problem, if its library can't be determined.
    pub source: Option<String>,
    /// The library's UUID. If `source` and `library` are both `None`, the cause is that a library isn't configured.
    pub library: Option<String>,
    /// The item's UUID, if only that item is affected.
    pub item: Option<String>,
    /// The name of the item's VirtualMachineImage, if it is known.
    pub image: Option<String>,
    /// The message for users.
    pub message: String,
}

/// A connected vCenter.
pub struct VCenter {
    /// The provider configuration of this connection.
    pub settings: ProviderSettings,
    /// The client. All calls use it.
    pub client: Client,
    /// The cache of all VMs in the namespaces' folders.
    pub inventory: Inventory,
    /// The realized resource policies.
    pub realized_policies: RealizedPolicies,
    /// The known cluster module members.
    pub memberships: Memberships,
    /// Locked while cluster modules are created or removed.
    pub making_modules: tokio::sync::Mutex<()>,
    /// Locked while folders and resource pools are created or removed.
    pub making_children: tokio::sync::Mutex<()>,
    /// The ids of cluster modules, folders and pools that are known to belong to a policy.
    pub claimed: Mutex<HashSet<String>>,
    /// The device kinds for which a clone proved that clones get all devices that they request.
    pub proven_devices: Mutex<DeviceKinds>,
    /// The control plane endpoints of all VMs.
    pub endpoints: EndpointReads,
    /// Canceled when the connection ends.
    pub gone: CancellationToken,
    watched_folders: tokio::sync::Mutex<HashSet<MoRef>>,
    library_problems: Mutex<Arc<Vec<LibraryProblem>>>,
    pub(super) lookups: LookupCache,
    pub(super) storage: StorageCache,
    pub(super) devices: DeviceCache,
}

impl VCenter {
    /// Creates a connection with empty caches.
    pub fn new(settings: ProviderSettings, client: Client, inventory: Inventory) -> Arc<Self> {
        Arc::new(Self {
            gone: CancellationToken::new(),
            settings,
            client,
            inventory,
            realized_policies: RealizedPolicies::default(),
            memberships: Memberships::default(),
            making_modules: tokio::sync::Mutex::default(),
            making_children: tokio::sync::Mutex::default(),
            claimed: Mutex::default(),
            proven_devices: Mutex::default(),
            endpoints: EndpointReads::default(),
            watched_folders: tokio::sync::Mutex::default(),
            library_problems: Mutex::default(),
            lookups: LookupCache::default(),
            storage: StorageCache::default(),
            devices: DeviceCache::default(),
        })
    }

    /// Stops the inventory and logs out.
    pub async fn disconnect(&self) {
        self.gone.cancel();
        self.inventory.stop().await;
        self.client.logout().await;
    }

    /// Converts an error to a problem with this vCenter.
    pub fn problem(&self, error: &vsphere::Error) -> Problem {
        Problem::of(&self.settings.address(), error)
    }

    /// Converts an error to a problem with one call, while other calls can succeed.
    pub fn call_problem(&self, error: &vsphere::Error) -> Problem {
        Problem::of_call(&self.settings.address(), error)
    }

    /// Adds the folder to the inventory and waits until its VMs are known.
    pub async fn watch_folder(&self, folder: &MoRef) -> Result<(), vsphere::Error> {
        // Locked during the read, so that the folder isn't queried before its VMs are known.
        let mut watched = self.watched_folders.lock().await;
        if watched.contains(folder) {
            return Ok(());
        }
        match tokio::time::timeout(FOLDER_READ, self.inventory.add_root(folder)).await {
            Ok(result) => result?,
            Err(_elapsed) => {
                let late = || vsphere::Error::new("WaitForUpdatesEx", vsphere::Kind::TimedOut).on(folder);
                return Err(self.inventory.last_error().unwrap_or_else(late));
            }
        }
        watched.insert(folder.clone());
        Ok(())
    }

    /// Destroys the object and waits for the task.
    pub async fn destroy(&self, object: &MoRef) -> Result<(), vsphere::Error> {
        let task = self.client.destroy(object).await?;
        self.inventory.wait_for_task(&task).await.map(drop)
    }

    /// Returns why the inventory can't be used, or `None` if it is complete.
    pub fn inventory_problem(&self) -> Option<Problem> {
        if self.inventory.complete() {
            return None;
        }
        Some(match self.inventory.last_error() {
            Some(error) => self.problem(&error),
            None => Problem::transient(format!(
                "vCenter {}: the inventory is being read",
                self.settings.address()
            )),
        })
    }

    /// Returns the problems with content libraries and their items.
    pub fn library_problems(&self) -> Arc<Vec<LibraryProblem>> {
        Arc::clone(&self.library_problems.lock())
    }

    /// Replaces the problems with content libraries and their items.
    pub fn set_library_problems(&self, problems: Vec<LibraryProblem>) {
        *self.library_problems.lock() = Arc::new(problems);
    }
}
