//! The facts about one cluster.

use std::sync::Arc;

use api::capi::{
    Cluster, KubeadmConfigTemplate, KubeadmControlPlane, Machine, MachineDeployment, MachineHealthCheck,
    MachineSet,
};
use api::capw::{ProviderServiceAccount, WCPCluster, WCPMachine, WCPMachineTemplate};
use api::gcm::OSImage;
use api::vmop::VirtualMachineImage;
use ipnet::IpNet;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kit::watch::Cache;
use kube::core::PartialObjectMeta;

use super::flags::health::HealthFlags;
use crate::addons::report::AddonReport;
use crate::addons::survey::GuestSurvey;
use crate::release::cache::ReleaseCache;
use crate::release::resolution::AvailableRelease;
use crate::release::virtual_ip::VirtualIpFlags;
use crate::release::{KubernetesRelease, ReleaseImage};
use crate::sync::namespace::NamespaceFacts;

/// The facts that `gather` read for one reconcile. Lists of Cluster API objects are sorted by name. Facts are immutable.
#[derive(Clone, Default)]
pub struct Facts {
    /// The flags that decide which program announces a new control plane's address.
    pub virtual_ip: VirtualIpFlags,
    /// The settings for node remediation.
    pub health: HealthFlags,
    /// The address ranges outside the cluster that its nodes must be able to reach.
    pub management: Vec<IpNet>,
    /// The time when the facts were read.
    pub now: Timestamp,
    /// The releases that resolution chooses from.
    pub available_releases: Arc<Vec<AvailableRelease>>,
    /// The lookup for available releases and their images.
    pub releases: ReleaseLookup,
    pub cluster: Option<Arc<Cluster>>,
    pub wcp_cluster: Option<Arc<WCPCluster>>,
    pub control_plane: Option<Arc<KubeadmControlPlane>>,
    pub machine_templates: Vec<Arc<WCPMachineTemplate>>,
    /// The pools' bootstrap configuration templates.
    pub config_templates: Vec<Arc<KubeadmConfigTemplate>>,
    /// The MachineDeployments of the node pools.
    pub deployments: Vec<Arc<MachineDeployment>>,
    pub checks: Vec<Arc<MachineHealthCheck>>,
    pub accounts: Vec<Arc<ProviderServiceAccount>>,
    /// The pools' MachineSets.
    pub sets: Vec<Arc<MachineSet>>,
    pub machines: Vec<Arc<Machine>>,
    pub wcp_machines: Vec<Arc<WCPMachine>>,
    /// The add-on bundles in the cluster's namespace.
    pub bundles: Vec<Arc<PartialObjectMeta<ConfigMap>>>,
    /// The add-on state, or `None` until the add-ons have been applied for the first time.
    pub addons: Option<Arc<Vec<AddonReport>>>,
    /// The settings that the namespace provides to its clusters.
    pub namespace: NamespaceFacts,
    /// The state of the namespace's objects in the workload cluster, or `None` before the first round.
    pub synced: Option<Arc<Vec<AddonReport>>>,
    /// The last survey of the workload cluster. `None` before the first one.
    pub survey: Option<Arc<GuestSurvey>>,
    /// The Kubernetes version for which `addons` were applied.
    pub addons_for: Option<String>,
}

impl Facts {
    /// Returns true if Cluster API has reported that the workload cluster's API server answered once.
    pub fn is_initialized(&self) -> bool {
        let initialization =
            self.cluster.as_ref().and_then(|cluster| cluster.status.as_ref()?.initialization.as_ref());
        initialization.is_some_and(|done| done.control_plane_initialized == Some(true))
    }

    /// Returns true if a client deleted the Cluster directly. gcm doesn't recreate the Cluster until Cluster API has finished the
    /// deletion.
    pub fn is_cluster_deleted(&self) -> bool {
        self.cluster.as_ref().is_some_and(|cluster| cluster.metadata.deletion_timestamp.is_some())
    }
}

/// Looks up releases and their images in caches.
#[derive(Clone, Default)]
pub struct ReleaseLookup {
    release_cache: ReleaseCache,
    images: Option<Cache<OSImage>>,
    vm_images: Option<Cache<VirtualMachineImage>>,
    #[cfg(test)]
    pub(crate) fixed: Vec<ReleaseImage>,
}

impl ReleaseLookup {
    /// Creates a lookup in these caches.
    pub fn new(
        release_cache: ReleaseCache,
        images: Cache<OSImage>,
        vm_images: Cache<VirtualMachineImage>,
    ) -> Self {
        Self {
            release_cache,
            images: Some(images),
            vm_images: Some(vm_images),
            #[cfg(test)]
            fixed: Vec::new(),
        }
    }

    /// Returns the full release for this candidate, or `None` if the release has changed or is gone.
    pub fn release(&self, candidate: &AvailableRelease) -> Option<Arc<KubernetesRelease>> {
        self.release_cache.release(candidate)
    }

    /// Returns the images with these names. Leaves out images that don't exist.
    pub fn images(&self, names: &[String]) -> Vec<ReleaseImage> {
        #[cfg(test)]
        if self.images.is_none() {
            return self.fixed.clone();
        }
        let Some(cache) = &self.images else { return Vec::new() };
        names.iter().filter_map(|name| ReleaseImage::of(&*cache.get(None, name)?)).collect()
    }

    pub fn vm_image(&self, name: &str) -> Option<Arc<VirtualMachineImage>> {
        self.vm_images.as_ref()?.get(None, name)
    }

    #[cfg(test)]
    pub(crate) fn of(release_cache: ReleaseCache, fixed: Vec<ReleaseImage>) -> Self {
        Self { release_cache, images: None, vm_images: None, fixed }
    }
}
