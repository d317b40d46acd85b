//! Every read of a reconcile.

use std::sync::Arc;

use api::capi::{
    Cluster, KubeadmConfigTemplate, KubeadmControlPlane, Machine, MachineDeployment, MachineHealthCheck,
    MachineSet,
};
use api::capw::{ProviderServiceAccount, WCPCluster, WCPMachine, WCPMachineTemplate};
use api::gcm::{OSImage, TanzuKubernetesCluster};
use api::names::{self, label};
use kit::apply;
use kit::controller::controller_of;
use kit::events::Events;
use kit::expectations::StaleCache;
use kit::index::{Index, key};
use kit::watch::{Cache, Watchable};
use kube::ResourceExt;

use crate::releases::NodeImage;
use crate::releases::catalogue::Catalogue;
use crate::resolution::Offer;

/// A watched kind, by the cluster its objects belong to.
#[derive(Clone)]
pub struct Kind<K: Watchable> {
    /// The objects.
    pub cache: Cache<K>,
    /// The objects by `namespace/cluster`.
    pub of: Index<K>,
}

impl<K: Watchable> Kind<K> {
    /// Objects by the TanzuKubernetesCluster that controls them.
    pub fn owned(cache: Cache<K>) -> Self {
        let of = cache.index(|object| {
            let owner = controller_of::<TanzuKubernetesCluster, K>(object);
            owner.map(|owner| key(object.namespace().as_deref(), &owner.name)).into_iter().collect()
        });
        Self { cache, of }
    }

    /// Objects by Cluster API's label.
    pub fn labelled(cache: Cache<K>) -> Self {
        let of = cache.index(|object| {
            let cluster = object.labels().get(label::CLUSTER_NAME);
            cluster.map(|cluster| key(object.namespace().as_deref(), cluster)).into_iter().collect()
        });
        Self { cache, of }
    }

    fn sorted(&self, cluster: &str) -> Vec<Arc<K>> {
        let mut objects = self.of.objects(cluster);
        objects.sort_by_key(|object| object.name_any());
        objects
    }

    /// The cluster's objects by name, none of them older than our own last write.
    fn settled(&self, cluster: &str) -> Result<Vec<Arc<K>>, StaleCache> {
        let objects = self.sorted(cluster);
        for object in &objects {
            self.cache.current(object.namespace().as_deref(), &object.name_any())?;
        }
        Ok(objects)
    }
}

/// What the reconcile of clusters works with.
pub struct Context {
    /// Writes as `gcm/cluster`.
    pub api: apply::Api,
    /// Tells of milestones.
    pub events: Events,
    /// The releases.
    pub catalogue: Catalogue,
    /// The node images.
    pub os_images: Cache<OSImage>,
    /// The caches of the kinds a cluster is made of.
    pub kinds: Kinds,
}

/// The kinds a cluster is made of.
#[derive(Clone)]
pub struct Kinds {
    /// Clusters.
    pub clusters: Kind<Cluster>,
    /// Infrastructure of clusters.
    pub wcp_clusters: Kind<WCPCluster>,
    /// Control planes.
    pub control_planes: Kind<KubeadmControlPlane>,
    /// Templates of machines.
    pub machine_templates: Kind<WCPMachineTemplate>,
    /// Templates of bootstrap configurations.
    pub config_templates: Kind<KubeadmConfigTemplate>,
    /// Node pools.
    pub deployments: Kind<MachineDeployment>,
    /// Health checks.
    pub checks: Kind<MachineHealthCheck>,
    /// Accounts of programs in the guest.
    pub accounts: Kind<ProviderServiceAccount>,
    /// Generations of node pools.
    pub sets: Kind<MachineSet>,
    /// Machines.
    pub machines: Kind<Machine>,
    /// Infrastructure of machines.
    pub wcp_machines: Kind<WCPMachine>,
}

/// Everything a reconcile knows of one cluster; lists are sorted by name.
#[derive(Clone, Default)]
pub struct Facts {
    /// What resolution chooses from.
    pub offers: Arc<Vec<Offer>>,
    /// The releases of the offers, and the images of each.
    pub library: Library,
    /// The Cluster.
    pub cluster: Option<Arc<Cluster>>,
    /// Its infrastructure.
    pub wcp_cluster: Option<Arc<WCPCluster>>,
    /// Its control plane.
    pub control_plane: Option<Arc<KubeadmControlPlane>>,
    /// Templates of its machines.
    pub machine_templates: Vec<Arc<WCPMachineTemplate>>,
    /// Templates of its workers' bootstrap configurations.
    pub config_templates: Vec<Arc<KubeadmConfigTemplate>>,
    /// Its node pools.
    pub deployments: Vec<Arc<MachineDeployment>>,
    /// Its health checks.
    pub checks: Vec<Arc<MachineHealthCheck>>,
    /// Its accounts.
    pub accounts: Vec<Arc<ProviderServiceAccount>>,
    /// The MachineSets of its pools.
    pub sets: Vec<Arc<MachineSet>>,
    /// Its machines.
    pub machines: Vec<Arc<Machine>>,
    /// The infrastructure of its machines.
    pub wcp_machines: Vec<Arc<WCPMachine>>,
}

impl Facts {
    /// Takes in a node pool as it was just written.
    pub fn took(&mut self, deployment: Arc<MachineDeployment>) {
        match self.deployments.iter_mut().find(|known| known.name_any() == deployment.name_any()) {
            Some(known) => *known = deployment,
            None => self.deployments.push(deployment),
        }
        self.deployments.sort_by_key(|deployment| deployment.name_any());
    }
}

/// Releases with their images, as far as a plan may ask for them.
#[derive(Clone, Default)]
pub struct Library {
    catalogue: Catalogue,
    images: Option<Cache<OSImage>>,
    #[cfg(test)]
    pub(crate) fixed: Vec<NodeImage>,
}

impl Library {
    /// The release of an offer.
    pub fn release(&self, offer: &Offer) -> Option<Arc<crate::releases::Release>> {
        self.catalogue.release(offer)
    }

    /// The images of a release that are there.
    pub fn images(&self, names: &[String]) -> Vec<NodeImage> {
        #[cfg(test)]
        if self.images.is_none() {
            return self.fixed.clone();
        }
        let Some(cache) = &self.images else { return Vec::new() };
        names.iter().filter_map(|name| NodeImage::of(&*cache.get(None, name)?)).collect()
    }

    #[cfg(test)]
    pub(crate) fn of(catalogue: Catalogue, fixed: Vec<NodeImage>) -> Self {
        Self { catalogue, images: None, fixed }
    }
}

/// Reads everything about one cluster.
pub fn facts(tkc: &TanzuKubernetesCluster, ctx: &Context) -> Result<Facts, StaleCache> {
    let namespace = tkc.namespace();
    let (namespace, name) = (namespace.as_deref(), tkc.name_any());
    let of = key(namespace, &name);
    let kinds = &ctx.kinds;
    let cluster = kinds.clusters.cache.current(namespace, &name)?;
    // The machines of another's Cluster of the same name are none of ours.
    let others = cluster.as_deref().is_some_and(|cluster| !is_of(cluster, tkc));
    Ok(Facts {
        offers: ctx.catalogue.offers(),
        library: Library {
            catalogue: ctx.catalogue.clone(),
            images: Some(ctx.os_images.clone()),
            #[cfg(test)]
            fixed: Vec::new(),
        },
        cluster: cluster.filter(|_| !others),
        wcp_cluster: kinds.wcp_clusters.cache.current(namespace, &name)?.filter(|found| is_of(&**found, tkc)),
        control_plane: kinds
            .control_planes
            .cache
            .current(namespace, &names::control_plane(&name))?
            .filter(|found| is_of(&**found, tkc)),
        machine_templates: kinds.machine_templates.settled(&of)?,
        config_templates: kinds.config_templates.settled(&of)?,
        deployments: kinds.deployments.settled(&of)?,
        checks: kinds.checks.settled(&of)?,
        accounts: kinds.accounts.settled(&of)?,
        sets: if others { Vec::new() } else { kinds.sets.sorted(&of) },
        machines: if others { Vec::new() } else { kinds.machines.sorted(&of) },
        wcp_machines: if others { Vec::new() } else { kinds.wcp_machines.sorted(&of) },
    })
}

fn is_of<K: Watchable>(object: &K, tkc: &TanzuKubernetesCluster) -> bool {
    controller_of::<TanzuKubernetesCluster, K>(object).is_some_and(|owner| owner.name == tkc.name_any())
}
