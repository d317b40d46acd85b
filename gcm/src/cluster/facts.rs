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

/// Everything a reconcile knows of one cluster. Lists are sorted by name. Facts do not change after they were read.
#[derive(Clone, Default)]
pub struct Facts {
    /// The programs that hold the addresses of new control planes.
    pub virtual_ip: VirtualIpFlags,
    /// When nodes are replaced.
    pub health: HealthFlags,
    /// Ranges that nodes must reach outside their clusters.
    pub management: Vec<IpNet>,
    /// When all this was read.
    pub now: Timestamp,
    /// The releases that resolution chooses from.
    pub available_releases: Arc<Vec<AvailableRelease>>,
    /// The available releases, and the images of each.
    pub releases: ReleaseLookup,
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
    /// The ConfigMaps of its namespace that are bundles of add-ons.
    pub bundles: Vec<Arc<PartialObjectMeta<ConfigMap>>>,
    /// The state of its add-ons. `None` before the engine has looked at the guest.
    pub addons: Option<Arc<Vec<AddonReport>>>,
    /// The objects that its namespace gives.
    pub namespace: NamespaceFacts,
    /// The state of these objects in the guest. `None` before the engine has looked at the guest.
    pub synced: Option<Arc<Vec<AddonReport>>>,
    /// The last survey of the guest. `None` before the engine has looked at the guest.
    pub survey: Option<Arc<GuestSurvey>>,
    /// The version of Kubernetes that its add-ons were last looked at for.
    pub addons_for: Option<String>,
}

impl Facts {
    /// Whether its API server has answered once.
    pub fn is_initialized(&self) -> bool {
        let initialization =
            self.cluster.as_ref().and_then(|cluster| cluster.status.as_ref()?.initialization.as_ref());
        initialization.is_some_and(|done| done.control_plane_initialized == Some(true))
    }
}

/// Releases with their images, as far as a plan may ask for them.
#[derive(Clone, Default)]
pub struct ReleaseLookup {
    release_cache: ReleaseCache,
    images: Option<Cache<OSImage>>,
    vm_images: Option<Cache<VirtualMachineImage>>,
    #[cfg(test)]
    pub(crate) fixed: Vec<ReleaseImage>,
}

impl ReleaseLookup {
    /// Looks releases and images up in these caches.
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

    /// The release that resolution chose.
    pub fn release(&self, candidate: &AvailableRelease) -> Option<Arc<KubernetesRelease>> {
        self.release_cache.release(candidate)
    }

    /// The images of a release that are there.
    pub fn images(&self, names: &[String]) -> Vec<ReleaseImage> {
        #[cfg(test)]
        if self.images.is_none() {
            return self.fixed.clone();
        }
        let Some(cache) = &self.images else { return Vec::new() };
        names.iter().filter_map(|name| ReleaseImage::of(&*cache.get(None, name)?)).collect()
    }

    /// The VirtualMachineImage of this name.
    pub fn vm_image(&self, name: &str) -> Option<Arc<VirtualMachineImage>> {
        self.vm_images.as_ref()?.get(None, name)
    }

    #[cfg(test)]
    pub(crate) fn of(release_cache: ReleaseCache, fixed: Vec<ReleaseImage>) -> Self {
        Self { release_cache, images: None, vm_images: None, fixed }
    }
}
