//! Determines which of a node image's container networks a cluster can apply, and the reasons why it can't apply the others.
//!
//! vSphere 7 images contain manifests whose kinds Kubernetes serves. vSphere 8 images contain Carvel Packages, which require
//! kapp-controller in the cluster.

use std::collections::{BTreeMap, BTreeSet};

use api::names::annotation;
use api::vmop::VirtualMachineImage;
use kit::bounded::{Exceeded, compute};

use super::version::Version;
use crate::addons::bundle::{BundleError, LIMITS};
use crate::addons::manifest::{Manifest, parse};
use crate::addons::render::Values;
use crate::addons::{builtin, image};

/// The placeholder namespace for computations about node images, so that they don't wait for a real namespace's computations.
const LANE: &str = "";
/// The API groups that Kubernetes itself serves.
const SERVED: [&str; 21] = [
    "",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "apps",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
];

/// The container networks in a node image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CarriedNetworks {
    /// Networks that a cluster can apply.
    pub usable: BTreeSet<String>,
    /// Networks that clusters can't apply, with the reason.
    pub unusable: BTreeMap<String, String>,
}

impl CarriedNetworks {
    /// Reads the bundles in an image that contains this release, within the limits for bundles.
    ///
    /// # Errors
    /// Returns an error if reading a bundle takes too long. A later attempt can succeed.
    pub async fn of(image: &VirtualMachineImage, release: &Version) -> Result<Self, Exceeded> {
        let mut networks = Self::default();
        if release.vendor() == "layercake" {
            networks.usable.insert(builtin::NETWORK.to_owned());
        }
        for name in image::NETWORKS {
            let Some(property) = image::property(image, name) else { continue };
            match explain_unusable(property.to_owned()).await? {
                None => drop(networks.usable.insert(name.to_owned())),
                Some(reason) => drop(networks.unusable.insert(name.to_owned(), reason)),
            }
        }
        Ok(networks)
    }

    /// Returns the OSImage annotations that record these networks.
    pub fn annotations(&self) -> impl Iterator<Item = (String, String)> {
        let usable = self.usable.iter().map(String::as_str).collect::<Vec<_>>().join(",");
        let unusable = serde_json::to_string(&self.unusable).ok().filter(|_| !self.unusable.is_empty());
        let unusable = unusable.map(|text| (annotation::UNUSABLE_CONTAINER_NETWORKS.to_owned(), text));
        [(annotation::CONTAINER_NETWORKS.to_owned(), usable)].into_iter().chain(unusable)
    }

    /// Parses an OSImage's annotations. Returns `None` if they don't record the networks.
    pub fn read(annotations: &BTreeMap<String, String>) -> Option<Self> {
        let names = annotations.get(annotation::CONTAINER_NETWORKS)?.split(',').map(str::trim);
        let unusable = annotations.get(annotation::UNUSABLE_CONTAINER_NETWORKS);
        Some(Self {
            usable: names.filter(|name| !name.is_empty()).map(str::to_owned).collect(),
            unusable: unusable.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default(),
        })
    }
}

/// Returns the reason why clusters can't apply the bundle in a property, or `None` if they can.
async fn explain_unusable(property: String) -> Result<Option<String>, Exceeded> {
    let read = compute(LANE, LIMITS, move |budget| {
        let bundle = image::read(&property, budget)?;
        parse(&bundle.files, &Values::default(), budget)
    });
    match read.await {
        Ok(manifests) => Ok(unserved(&manifests).map(|manifest| {
            let (kind, group) = (&manifest.key.kind, &manifest.key.group);
            format!("{kind} is of API group {group}, which Kubernetes does not serve")
        })),
        Err(BundleError::Exceeded(late @ Exceeded::Time)) => Err(late),
        Err(error) => Ok(Some(error.to_string())),
    }
}

/// Returns the first object whose API group neither Kubernetes nor a CustomResourceDefinition in the bundle provides.
fn unserved(manifests: &[Manifest]) -> Option<&Manifest> {
    let definitions = manifests.iter().filter(|manifest| manifest.key.kind == "CustomResourceDefinition");
    let defined: BTreeSet<String> = definitions
        .filter_map(|definition| definition.value()["spec"]["group"].as_str().map(str::to_owned))
        .collect();
    let is_served = |manifest: &&Manifest| {
        SERVED.contains(&manifest.key.group.as_str()) || defined.contains(&manifest.key.group)
    };
    manifests.iter().find(|manifest| !is_served(manifest))
}

#[cfg(test)]
mod tests {
    use kube::ResourceExt;
    use serde_json::json;

    use super::*;
    use crate::testing::packed;

    const PACKAGE: &str = "
apiVersion: data.packaging.carvel.dev/v1alpha1
kind: Package
metadata: {name: antrea.tanzu.vmware.com.1.13.0}
";
    const DEFINED: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ippools.crd.projectcalico.org}
spec: {group: crd.projectcalico.org}
---
{apiVersion: crd.projectcalico.org/v1, kind: IPPool, metadata: {name: default}}
---
{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: calico-node, namespace: kube-system}}
";

    fn image(addons: &[(&str, &str)]) -> VirtualMachineImage {
        let mut image = VirtualMachineImage::new("image", api::vmop::VirtualMachineImageSpec::default());
        for (name, text) in addons {
            let value = packed(text.as_bytes());
            let property = json!({"name": name, "type": "inline", "version": "v1", "value": value});
            let key = format!("vmware-system.guest.kubernetes.addons.{name}");
            image.annotations_mut().insert(key, property.to_string());
        }
        image
    }

    #[tokio::test]
    async fn a_cluster_applies_kinds_of_kubernetes_and_of_the_bundle() {
        let image = image(&[
            ("antrea", PACKAGE),
            ("calico", DEFINED),
            ("antrea-nsx-routed", "{{ template }}"),
            ("metrics-server", DEFINED),
        ]);
        let of = async |image: &VirtualMachineImage, release: &str| {
            CarriedNetworks::of(image, &Version::parse(release).unwrap()).await.unwrap()
        };
        let networks = of(&image, "v1.33.1+vmware.1-fips-vkr.2").await;
        assert_eq!(networks.usable, BTreeSet::from(["calico".to_owned()]));
        assert_eq!(
            networks.unusable["antrea"],
            "Package is of API group data.packaging.carvel.dev, which Kubernetes does not serve"
        );
        assert!(networks.unusable["antrea-nsx-routed"].contains("manifests.yaml"), "{networks:?}");
        let annotations: BTreeMap<_, _> = networks.annotations().collect();
        assert_eq!(CarriedNetworks::read(&annotations), Some(networks));
        assert_eq!(CarriedNetworks::read(&BTreeMap::new()), None);
        let own = of(&self::image(&[]), "v1.36.3+layercake.1").await;
        let annotations: BTreeMap<_, _> = own.annotations().collect();
        assert_eq!(annotations.values().collect::<Vec<_>>(), ["flannel"]);
        assert_eq!(CarriedNetworks::read(&annotations), Some(own));
    }
}
