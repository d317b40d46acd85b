//! TanzuKubernetesRelease and OSImage: which versions of Kubernetes there are, and on which images.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::conditions::release::{COMPATIBLE, MISSING_OS_IMAGE, VALID};
use crate::conditions::{Condition, find};

/// A version of Kubernetes and everything that belongs to it.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "run.tanzu.vmware.com",
    version = "v1alpha3",
    kind = "TanzuKubernetesRelease",
    shortname = "tkr",
    status = "TanzuKubernetesReleaseStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A version of Kubernetes that clusters can run.",
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
    /// The version of the release, such as `v1.33.1+vmware.1-tkg.1`.
    #[schemars(length(max = 256))]
    pub version: String,
    /// The version of Kubernetes and the images of its parts.
    pub kubernetes: KubernetesSpec,
    /// The node images that contain this release, as OSImages.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub os_images: Vec<LocalReference>,
    /// The packages that are installed in a cluster. A release without packages is a legacy release.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bootstrap_packages: Vec<LocalReference>,
}

/// The version of Kubernetes and the images of its parts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["version"]))]
pub struct KubernetesSpec {
    /// The version of Kubernetes, such as `v1.33.1+vmware.1`.
    #[schemars(length(max = 256))]
    pub version: String,
    /// The registry that provides the images of Kubernetes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_repository: Option<String>,
    /// The image of etcd.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etcd: Option<ContainerImage>,
    /// The image of the sandbox of each pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause: Option<ContainerImage>,
    /// The image of CoreDNS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coredns: Option<ContainerImage>,
    /// The image of kube-vip.
    #[serde(rename = "kube-vip", skip_serializing_if = "Option::is_none")]
    pub kube_vip: Option<ContainerImage>,
}

/// The location of a container image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerImage {
    /// The repository, without the image's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_repository: Option<String>,
    /// The tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_tag: Option<String>,
}

/// The name of an object whose kind and namespace are understood.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name"]))]
pub struct LocalReference {
    /// The name.
    pub name: String,
}

impl TanzuKubernetesRelease {
    /// Returns true if gcm has checked the release and has seen an OSImage of it: conditions `Compatible` and `Valid` are there, and
    /// the reason of `Valid` is not `MissingOSImage`. Until then gcm can refuse clusters of the release.
    pub fn is_checked(&self) -> bool {
        let conditions = self.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        let valid = find(conditions, VALID);
        find(conditions, COMPATIBLE).is_some()
            && valid.is_some_and(|valid| valid.reason.as_deref() != Some(MISSING_OS_IMAGE))
    }
}

/// The observed state of a release.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TanzuKubernetesReleaseStatus {
    /// The conditions of the release.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// `Legacy` for a release without packages.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// The generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// A node image that contains a version of Kubernetes.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "run.tanzu.vmware.com",
    version = "v1alpha3",
    kind = "OSImage",
    shortname = "osimg",
    status = "OSImageStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A node image that contains a version of Kubernetes.",
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
    /// The version of Kubernetes in the image.
    #[schemars(length(max = 256))]
    pub kubernetes_version: String,
    /// The operating system of the image.
    pub os: OSInfo,
    /// The machine image itself.
    pub image: MachineImage,
}

/// The operating system of a node image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["type", "name", "version", "arch"]))]
pub struct OSInfo {
    /// `linux`.
    #[serde(rename = "type")]
    pub type_: String,
    /// `photon`, `ubuntu` …
    pub name: String,
    /// Its own version.
    pub version: String,
    /// `amd64` …
    pub arch: String,
}

/// A machine image: `vmop` names a VirtualMachineImage under the key `name`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["type", "ref"]))]
pub struct MachineImage {
    /// `vmop` or `vmi`; other types belong to other infrastructures.
    #[serde(rename = "type")]
    pub type_: String,
    /// The location of the image; the form depends on the type.
    #[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
    pub r#ref: BTreeMap<String, serde_json::Value>,
}

/// The observed state of a node image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OSImageStatus {
    /// The conditions of the image.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
