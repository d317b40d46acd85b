//! One connected vCenter: its client, its inventory, and what this process knows of it.

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
use crate::vcenter::settings::Settings;

/// How long a reconcile waits for the VMs of a folder to be read.
const FOLDER_READ: Duration = Duration::from_secs(20);

/// What is wrong with a content library, or with one of its items.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LibraryProblem {
    /// The ContentSource that is wrong, if one is: nobody knows its library.
    pub source: Option<String>,
    /// The library's UUID. Without a source and a library, there is no library at all.
    pub library: Option<String>,
    /// The item's UUID, if only that item is concerned.
    pub item: Option<String>,
    /// The name of the item's VirtualMachineImage, where it is known.
    pub image: Option<String>,
    /// What is wrong, for people.
    pub message: String,
}

/// A connected vCenter.
pub struct VCenter {
    /// What was configured.
    pub settings: Settings,
    /// Its client; every call goes through this one.
    pub client: Client,
    /// The cache of all VMs in the folders of our namespaces.
    pub inventory: Inventory,
    /// The resource policies that are realized.
    pub realized_policies: RealizedPolicies,
    /// The members of cluster modules.
    pub memberships: Memberships,
    /// Held while cluster modules are created.
    pub making_modules: tokio::sync::Mutex<()>,
    /// Held while folders and pools are created or removed.
    pub making_children: tokio::sync::Mutex<()>,
    /// The cluster modules, folders and pools that this process knows to be a policy's, by their ids.
    pub claimed: Mutex<HashSet<String>>,
    /// The kinds of devices that clones are known to get from their settings.
    pub proven_devices: Mutex<DeviceKinds>,
    /// The control plane endpoints of all VMs.
    pub endpoints: EndpointReads,
    /// Cancelled when the connection is given up.
    pub gone: CancellationToken,
    watched_folders: tokio::sync::Mutex<HashSet<MoRef>>,
    library_problems: Mutex<Arc<Vec<LibraryProblem>>>,
    pub(super) lookups: LookupCache,
    pub(super) storage: StorageCache,
    pub(super) devices: DeviceCache,
}

impl VCenter {
    /// A vCenter of which nothing is known yet.
    pub fn new(settings: Settings, client: Client, inventory: Inventory) -> Arc<Self> {
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

    /// Ends the stream and the session.
    pub async fn disconnect(&self) {
        self.gone.cancel();
        self.inventory.stop().await;
        self.client.logout().await;
    }

    /// A failure of this vCenter, for people.
    pub fn problem(&self, error: &vsphere::Error) -> Problem {
        Problem::of(&self.settings.address(), error)
    }

    /// A call that failed although vCenter can be used, as a problem.
    pub fn call_problem(&self, error: &vsphere::Error) -> Problem {
        Problem::of_call(&self.settings.address(), error)
    }

    /// Has the inventory hold every VM below `folder` from now on.
    pub async fn watch_folder(&self, folder: &MoRef) -> Result<(), vsphere::Error> {
        // Held while a folder is read: a folder that is only being read may not be asked about.
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

    /// Destroys the object, and waits until that has ended.
    pub async fn destroy(&self, object: &MoRef) -> Result<(), vsphere::Error> {
        let task = self.client.destroy(object).await?;
        self.inventory.wait_for_task(&task).await.map(drop)
    }

    /// Why the inventory can't be asked, if it can't.
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

    /// What is wrong with content libraries and their items.
    pub fn library_problems(&self) -> Arc<Vec<LibraryProblem>> {
        Arc::clone(&self.library_problems.lock())
    }

    /// Keeps what is wrong with content libraries and their items.
    pub fn set_library_problems(&self, problems: Vec<LibraryProblem>) {
        *self.library_problems.lock() = Arc::new(problems);
    }
}
