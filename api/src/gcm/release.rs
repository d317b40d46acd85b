//! TanzuKubernetesRelease and OSImage: the available Kubernetes versions and node images.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::conditions::release::{COMPATIBLE, MISSING_OS_IMAGE, VALID};
use crate::conditions::{Condition, find};

/// Kubernetes release with its component images, node images and packages.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "run.tanzu.vmware.com",
    version = "v1alpha3",
    kind = "TanzuKubernetesRelease",
    shortname = "tkr",
    status = "TanzuKubernetesReleaseStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Kubernetes release with its component images, node images and packages.",
    printcolumn(name = "Version", type_ = "string", json_path = ".spec.version"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].status"
    ),
    printcolumn(
        name = "Compatible",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Compatible')].status"
    ),
    printcolumn(name = "Created", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Type", type_ = "string", json_path = ".status.type", priority = 1)
)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["version", "kubernetes"]))]
pub struct TanzuKubernetesReleaseSpec {
    /// Release version, such as `v1.33.1+vmware.1-tkg.1`.
    #[schemars(length(max = 256))]
    pub version: String,
    /// Kubernetes version and component images.
    pub kubernetes: KubernetesSpec,
    /// OSImages that contain this release.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub os_images: Vec<LocalReference>,
    /// Packages that are installed in each cluster. A release without packages is a legacy release.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bootstrap_packages: Vec<LocalReference>,
}

/// Kubernetes version and component images.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["version"]))]
pub struct KubernetesSpec {
    /// Kubernetes version, such as `v1.33.1+vmware.1`.
    #[schemars(length(max = 256))]
    pub version: String,
    /// Registry that provides the Kubernetes images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_repository: Option<String>,
    /// etcd image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etcd: Option<ContainerImage>,
    /// Pod sandbox image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause: Option<ContainerImage>,
    /// CoreDNS image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coredns: Option<ContainerImage>,
    /// kube-vip image.
    #[serde(rename = "kube-vip", skip_serializing_if = "Option::is_none")]
    pub kube_vip: Option<ContainerImage>,
}

/// Container image location.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerImage {
    /// Repository, without the image name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_repository: Option<String>,
    /// Image tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_tag: Option<String>,
}

/// Reference to an object whose kind and namespace follow from the context.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name"]))]
pub struct LocalReference {
    /// Object name.
    pub name: String,
}

impl TanzuKubernetesRelease {
    /// Returns true if gcm has checked the release and has found an OSImage for it: the conditions `Compatible` and
    /// `Valid` exist, and the reason of `Valid` isn't `MissingOSImage`. Until then, gcm can reject clusters that use
    /// the release.
    pub fn is_checked(&self) -> bool {
        let conditions = self.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        let valid = find(conditions, VALID);
        find(conditions, COMPATIBLE).is_some()
            && valid.is_some_and(|valid| valid.reason.as_deref() != Some(MISSING_OS_IMAGE))
    }
}

/// Observed release state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TanzuKubernetesReleaseStatus {
    /// Release conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// `Legacy` for a release without packages.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// Spec generation that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// Node image that contains a Kubernetes release.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "run.tanzu.vmware.com",
    version = "v1alpha3",
    kind = "OSImage",
    shortname = "osimg",
    status = "OSImageStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Node image that contains a Kubernetes release.",
    printcolumn(name = "K8s Version", type_ = "string", json_path = ".spec.kubernetesVersion"),
    printcolumn(name = "OS Name", type_ = "string", json_path = ".spec.os.name"),
    printcolumn(name = "OS Version", type_ = "string", json_path = ".spec.os.version"),
    printcolumn(name = "Arch", type_ = "string", json_path = ".spec.os.arch"),
    printcolumn(name = "Type", type_ = "string", json_path = ".spec.image.type"),
    printcolumn(
        name = "Compatible",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Compatible')].status"
    ),
    printcolumn(name = "Created", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["kubernetesVersion", "os", "image"]))]
pub struct OSImageSpec {
    /// Kubernetes version in the image.
    #[schemars(length(max = 256))]
    pub kubernetes_version: String,
    /// Operating system in the image.
    pub os: OSInfo,
    /// Location of the machine image.
    pub image: MachineImage,
}

/// Operating system in a node image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["type", "name", "version", "arch"]))]
pub struct OSInfo {
    /// Operating system type: `linux`.
    #[serde(rename = "type")]
    pub type_: String,
    /// Distribution name, such as `photon` or `ubuntu`.
    pub name: String,
    /// Distribution version.
    pub version: String,
    /// CPU architecture, such as `amd64`.
    pub arch: String,
}

/// Location of a machine image. For the type `vmop`, the key `name` in `ref` contains a VirtualMachineImage name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["type", "ref"]))]
pub struct MachineImage {
    /// Image type: `vmop` or `vmi`. Other types belong to other infrastructure providers.
    #[serde(rename = "type")]
    pub type_: String,
    /// Image location. Its format depends on the type.
    #[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
    pub r#ref: BTreeMap<String, serde_json::Value>,
}

/// Observed node image state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OSImageStatus {
    /// Image conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Spec generation that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
