//! One connected vCenter: its client, its inventory, and what was looked up in it once.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;
use vsphere::{Client, Inventory, MoRef, Network, Vm};

use super::Problem;
use super::module_members::Memberships;
use super::realized_policy::RealizedPolicies;
use super::settings::Settings;

/// How long a reconcile waits for a folder's machines to be read.
const FOLDER_READ: Duration = Duration::from_secs(20);

/// Where machines lie: a folder and a resource pool.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Placement {
    /// The folder.
    pub folder: MoRef,
    /// The resource pool.
    pub pool: MoRef,
}

/// A connected vCenter.
pub struct VCenter {
    /// What was configured.
    pub settings: Settings,
    /// Its client; every call goes through this one.
    pub client: Client,
    /// The cache of all machines in the folders of our namespaces.
    pub inventory: Inventory,
    /// What resource policies have come to.
    pub realized_policies: RealizedPolicies,
    /// Who is in which cluster module.
    pub memberships: Memberships,
    /// Held while cluster modules are made.
    pub making_modules: tokio::sync::Mutex<()>,
    /// The cluster modules that this process knows to be a policy's.
    pub claimed_modules: Mutex<HashSet<String>>,
    /// Cancelled when the connection is given up.
    pub gone: CancellationToken,
    datastore: OnceCell<Option<MoRef>>,
    networks: tokio::sync::Mutex<Vec<Network>>,
    covered: tokio::sync::Mutex<HashSet<MoRef>>,
    clusters: tokio::sync::Mutex<HashMap<MoRef, MoRef>>,
    hosts: tokio::sync::Mutex<HashMap<MoRef, Vec<Host>>>,
    library_problem: Mutex<Option<String>>,
    pub(super) storage: super::storage::StorageCache,
    pub(super) hardware: super::devices::DeviceCache,
}

#[derive(Clone, Debug)]
struct Host {
    moref: MoRef,
    name: String,
    megahertz: Option<i64>,
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
            claimed_modules: Mutex::default(),
            datastore: OnceCell::new(),
            networks: tokio::sync::Mutex::default(),
            covered: tokio::sync::Mutex::default(),
            clusters: tokio::sync::Mutex::default(),
            hosts: tokio::sync::Mutex::default(),
            library_problem: Mutex::default(),
            storage: super::storage::StorageCache::default(),
            hardware: super::devices::DeviceCache::default(),
        })
    }

    /// Ends the stream and the session.
    pub async fn leave(&self) {
        self.gone.cancel();
        self.inventory.stop().await;
        self.client.logout().await;
    }

    /// A failure of this vCenter, for people.
    pub fn problem(&self, error: &vsphere::Error) -> Problem {
        Problem::of(&self.settings.address(), error)
    }

    /// The inventory holds every machine below `folder` from now on, and may be asked.
    pub async fn watch_folder(&self, folder: &MoRef) -> Result<(), vsphere::Error> {
        // Held while a folder is read: a folder that is only being read may not be asked about.
        let mut covered = self.covered.lock().await;
        if covered.contains(folder) {
            return Ok(());
        }
        match tokio::time::timeout(FOLDER_READ, self.inventory.add_root(folder)).await {
            Ok(result) => result?,
            Err(_elapsed) => {
                let late = || vsphere::Error::new("WaitForUpdatesEx", vsphere::Kind::TimedOut).on(folder);
                return Err(self.inventory.trouble().unwrap_or_else(late));
            }
        }
        covered.insert(folder.clone());
        Ok(())
    }

    /// Why the inventory can't be asked, if it can't.
    pub fn inventory_problem(&self) -> Option<Problem> {
        if self.inventory.complete() {
            return None;
        }
        Some(match self.inventory.trouble() {
            Some(error) => self.problem(&error),
            None => Problem::transient(format!(
                "vCenter {}: the inventory is being read",
                self.settings.address()
            )),
        })
    }

    /// The configured datastore; `None` where the image's own shall be used. An unknown name is `NotFound`.
    pub async fn datastore(&self) -> Result<Option<MoRef>, vsphere::Error> {
        let Some(name) = &self.settings.datastore else { return Ok(None) };
        let found = self.datastore.get_or_try_init(|| async {
            let all = self.client.datastores(&self.datacenter()).await?;
            let named = all.iter().find(|datastore| datastore.name == *name || datastore.moref.id() == *name);
            match named {
                Some(datastore) => Ok(Some(datastore.moref.clone())),
                None => Err(not_found("datastores", &format!("datastore {name}"))),
            }
        });
        found.await.cloned()
    }

    /// The network of that name or MoID. An unknown one is `NotFound`.
    pub async fn network(&self, name: &str) -> Result<Network, vsphere::Error> {
        let named = |networks: &[Network]| {
            networks.iter().find(|network| network.name == name || network.moref.id() == name).cloned()
        };
        let mut networks = self.networks.lock().await;
        if let Some(network) = named(&networks) {
            return Ok(network);
        }
        *networks = self.client.networks(&self.datacenter()).await?;
        named(&networks).ok_or_else(|| not_found("networks", &format!("network {name}")))
    }

    /// The network of an NSX segment; where each switch has one, that of the pool's cluster.
    pub async fn segment(&self, id: &str, pool: Option<&MoRef>) -> Result<Network, vsphere::Error> {
        let of_segment = |networks: &[Network]| -> Vec<Network> {
            networks.iter().filter(|network| network.segment.as_deref() == Some(id)).cloned().collect()
        };
        let mut networks = self.networks.lock().await;
        let mut found = of_segment(&networks);
        if found.is_empty() {
            *networks = self.client.networks(&self.datacenter()).await?;
            found = of_segment(&networks);
        }
        drop(networks);
        if let (2.., Some(pool)) = (found.len(), pool) {
            let cluster = self.cluster(pool).await?;
            let read = self.client.retrieve(std::slice::from_ref(&cluster), &["network"]).await?;
            let near = read.first().map(|cluster| cluster.get("network").items()).unwrap_or_default();
            found.retain(|network| near.iter().any(|near| near.as_moref() == Some(&network.moref)));
        }
        found.into_iter().next().ok_or_else(|| not_found("networks", &format!("network of NSX segment {id}")))
    }

    /// The cluster (or single host) that a resource pool belongs to.
    pub async fn cluster(&self, pool: &MoRef) -> Result<MoRef, vsphere::Error> {
        let mut clusters = self.clusters.lock().await;
        if let Some(cluster) = clusters.get(pool) {
            return Ok(cluster.clone());
        }
        let read = self.client.retrieve(std::slice::from_ref(pool), &["owner"]).await?;
        let owner = read.first().and_then(|pool| pool.get("owner").as_moref().cloned());
        let cluster = owner.ok_or_else(|| not_found("owner", &pool.to_string()))?;
        clusters.insert(pool.clone(), cluster.clone());
        Ok(cluster)
    }

    /// The clock of the slowest host below a resource pool, in MHz: what a reserved core is worth there.
    pub async fn megahertz(&self, pool: &MoRef) -> Result<i64, vsphere::Error> {
        let hosts = self.hosts(pool, |hosts| !hosts.is_empty()).await?;
        let slowest = hosts.iter().filter_map(|host| host.megahertz).min();
        slowest.ok_or_else(|| not_found("host", &format!("host of {pool}")))
    }

    /// The name of the host that a machine is on; its MoID where the name can't be had.
    pub async fn host_name(&self, machine: &Vm) -> Option<String> {
        let host = machine.host.as_ref()?;
        let known = |hosts: &[Host]| hosts.iter().any(|known| known.moref == *host);
        let hosts = match &machine.pool {
            Some(pool) => self.hosts(pool, known).await.unwrap_or_default(),
            None => Vec::new(),
        };
        let named = hosts.into_iter().find(|known| known.moref == *host);
        Some(named.map_or_else(|| host.id().to_owned(), |named| named.name))
    }

    /// The hosts below a resource pool, read again where the ones at hand are not `enough`.
    async fn hosts(
        &self,
        pool: &MoRef,
        enough: impl Fn(&[Host]) -> bool,
    ) -> Result<Vec<Host>, vsphere::Error> {
        let cluster = self.cluster(pool).await?;
        // Held while they are read: many machines ask at once.
        let mut known = self.hosts.lock().await;
        if let Some(hosts) = known.get(&cluster).filter(|hosts| enough(hosts)) {
            return Ok(hosts.clone());
        }
        let paths = ["name", "summary.hardware.cpuMhz"];
        let read = self.client.retrieve_members(&cluster, "host", "HostSystem", &paths).await?;
        let hosts: Vec<_> = read
            .iter()
            .map(|host| Host {
                moref: host.obj.clone(),
                name: host.get("name").as_str().unwrap_or(host.obj.id()).to_owned(),
                megahertz: host.get("summary.hardware.cpuMhz").as_i64(),
            })
            .collect();
        known.insert(cluster, hosts.clone());
        Ok(hosts)
    }

    /// What is wrong with the content library, if something is.
    pub fn library_problem(&self) -> Option<String> {
        self.library_problem.lock().clone()
    }

    /// The content library is in this trouble, or in none.
    pub fn set_library_problem(&self, trouble: Option<String>) {
        *self.library_problem.lock() = trouble;
    }

    fn datacenter(&self) -> MoRef {
        MoRef::datacenter(self.settings.datacenter.as_str())
    }
}

fn not_found(method: &'static str, what: &str) -> vsphere::Error {
    vsphere::Error::new(method, vsphere::Kind::NotFound { missing: None }).on(what)
}
