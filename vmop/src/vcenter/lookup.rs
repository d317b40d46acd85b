//! Cached lookups of datastores, networks, clusters and hosts by name or id.

use vsphere::{MoRef, Network, Vm};

use crate::vcenter::connection::VCenter;
use crate::vcenter::memo::Host;

impl VCenter {
    /// Returns the configured datastore, if one is configured. Fails with `NotFound` if that datastore doesn't exist.
    pub async fn datastore(&self) -> Result<Option<MoRef>, vsphere::Error> {
        let Some(name) = &self.settings.datastore else { return Ok(None) };
        let found = self.lookups.datastore.get_or_try_init(|| async {
            let all = self.client.list_datastores(&self.datacenter()).await?;
            let named = all.iter().find(|datastore| datastore.name == *name || datastore.moref.id() == *name);
            match named {
                Some(datastore) => Ok(Some(datastore.moref.clone())),
                None => Err(not_found("datastores", &format!("datastore {name}"))),
            }
        });
        found.await.cloned()
    }

    /// Returns the network with that name or MoID. Fails with `NotFound` if it doesn't exist.
    pub async fn network(&self, name: &str) -> Result<Network, vsphere::Error> {
        let named = |networks: &[Network]| find_network(networks, name).cloned();
        let mut networks = self.lookups.networks.lock().await;
        if let Some(network) = named(&networks) {
            return Ok(network);
        }
        *networks = self.client.networks(&self.datacenter()).await?;
        named(&networks).ok_or_else(|| not_found("networks", &format!("network {name}")))
    }

    /// Returns the network of an NSX segment. If several switches have a network for the segment, returns the network in the
    /// cluster of `pool`.
    pub async fn segment(&self, id: &str, pool: Option<&MoRef>) -> Result<Network, vsphere::Error> {
        let of_segment = |networks: &[Network]| -> Vec<Network> {
            networks.iter().filter(|network| network.segment.as_deref() == Some(id)).cloned().collect()
        };
        let mut networks = self.lookups.networks.lock().await;
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

    /// Returns the compute resource (cluster or standalone host) that owns a resource pool.
    pub async fn cluster(&self, pool: &MoRef) -> Result<MoRef, vsphere::Error> {
        let mut clusters = self.lookups.clusters.lock().await;
        if let Some(cluster) = clusters.get(pool) {
            return Ok(cluster.clone());
        }
        let read = self.client.retrieve(std::slice::from_ref(pool), &["owner"]).await?;
        let owner = read.first().and_then(|pool| pool.get("owner").as_moref().cloned());
        let cluster = owner.ok_or_else(|| not_found("owner", &pool.to_string()))?;
        clusters.insert(pool.clone(), cluster.clone());
        Ok(cluster)
    }

    /// Returns the CPU frequency, in MHz, of the slowest host below a resource pool. Reservations in cores are converted with
    /// this frequency.
    pub async fn megahertz(&self, pool: &MoRef) -> Result<i64, vsphere::Error> {
        let hosts = self.hosts(pool, |hosts| !hosts.is_empty()).await?;
        let slowest = hosts.iter().filter_map(|host| host.megahertz).min();
        slowest.ok_or_else(|| not_found("host", &format!("host of {pool}")))
    }

    /// Returns the largest number of CPU threads of a host below a resource pool, if known. The hosts are read again if all of
    /// them have fewer than `wanted` threads.
    pub async fn threads(&self, pool: &MoRef, wanted: i64) -> Result<Option<i64>, vsphere::Error> {
        let enough = |hosts: &[Host]| hosts.iter().any(|host| host.threads.is_some_and(|has| has >= wanted));
        let hosts = self.hosts(pool, enough).await?;
        Ok(hosts.iter().filter_map(|host| host.threads).max())
    }

    /// Returns the name of the VM's host, or the host's MoID if the name can't be read. Returns `None` if the VM's host isn't
    /// known.
    pub async fn host_name(&self, vm: &Vm) -> Option<String> {
        let host = vm.host.as_ref()?;
        let known = |hosts: &[Host]| hosts.iter().any(|known| known.moref == *host);
        let hosts = match &vm.pool {
            Some(pool) => self.hosts(pool, known).await.unwrap_or_default(),
            None => Vec::new(),
        };
        let named = hosts.into_iter().find(|known| known.moref == *host);
        Some(named.map_or_else(|| host.id().to_owned(), |named| named.name))
    }

    /// Returns the hosts below a resource pool. The hosts are read again if `enough` returns false for the cached ones.
    async fn hosts(
        &self,
        pool: &MoRef,
        enough: impl Fn(&[Host]) -> bool,
    ) -> Result<Vec<Host>, vsphere::Error> {
        let cluster = self.cluster(pool).await?;
        // Locked during the read, because many reconciles ask at once.
        let mut known = self.lookups.hosts.lock().await;
        if let Some(hosts) = known.get(&cluster).filter(|hosts| enough(hosts)) {
            return Ok(hosts.clone());
        }
        let paths = ["name", "summary.hardware.cpuMhz", "summary.hardware.numCpuThreads"];
        let read = self.client.retrieve_members(&cluster, "host", "HostSystem", &paths).await?;
        let hosts: Vec<_> = read
            .iter()
            .map(|host| Host {
                moref: host.obj.clone(),
                name: host.get("name").as_str().unwrap_or(host.obj.id()).to_owned(),
                megahertz: host.get("summary.hardware.cpuMhz").as_i64(),
                threads: host.get("summary.hardware.numCpuThreads").as_i64(),
            })
            .collect();
        known.insert(cluster, hosts.clone());
        Ok(hosts)
    }

    fn datacenter(&self) -> MoRef {
        MoRef::datacenter(self.settings.datacenter.as_str())
    }
}

fn not_found(method: &'static str, what: &str) -> vsphere::Error {
    vsphere::Error::new(method, vsphere::Kind::NotFound { missing: None }).on(what)
}

/// Returns the network with this name or MoID. govc and the API write a slash in a name as `%2f`.
fn find_network<'a>(networks: &'a [Network], name: &str) -> Option<&'a Network> {
    let by = |name: &str| networks.iter().find(|network| network.name == name || network.moref.id() == name);
    by(name).or_else(|| by(&vsphere::unescape_name(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_found_as_people_and_as_tools_write_its_name() {
        let network = |name: &str, id: &str| Network {
            moref: MoRef::new("DistributedVirtualPortgroup", id),
            name: name.to_owned(),
            segment: None,
            backing: vsphere::Backing::Network { name: name.to_owned(), network: None },
            is_uplink: false,
        };
        let networks = [network("VLAN 20/21", "dvportgroup-1"), network("a%2fb", "dvportgroup-2")];
        let found = |name: &str| find_network(&networks, name).map(|network| network.moref.id());
        assert_eq!(found("VLAN 20/21"), Some("dvportgroup-1"));
        assert_eq!(found("VLAN 20%2f21"), Some("dvportgroup-1"));
        assert_eq!(found("a%2fb"), Some("dvportgroup-2"), "the name itself comes first");
        assert_eq!(found("dvportgroup-2"), Some("dvportgroup-2"));
        assert_eq!(found("a/b"), None);
    }
}
