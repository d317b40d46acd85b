//! Parses OVF properties of node images, which VM Operator copies to annotations.
//!
//! There are three formats. vSphere 7 images contain one JSON document with versions. Later images contain whole objects,
//! either packed (base64 of gzipped YAML) or, if built by hand, as plain text. image-builder images have one property per
//! fact, including the Kubernetes version and the container images that kubeadm uses.

use std::io::Read;

use api::gcm::release::{ContainerImage, KubernetesSpec, LocalReference, OSInfo};
use api::gcm::{OSImageSpec, TanzuKubernetesReleaseSpec};
use api::names::{KEEPALIVED_IMAGE, image_builder, label};
use api::vmop::VirtualMachineImage;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bounds::{Budget, from_yaml};
use kube::ResourceExt;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::version::Version;

/// The property that contains the JSON document in a vSphere 7 image.
pub const DISTRIBUTION: &str = "vmware-system.guest.kubernetes.distribution.image.version";
/// The property that contains the embedded TanzuKubernetesRelease.
pub const RELEASE: &str = "vmware-system.tkr";
/// The property that contains the embedded OSImages.
pub const OS_IMAGES: &str = "vmware-system.tkr.osi";
/// The maximum size of an unpacked object, in bytes. A release takes about ten thousand bytes.
const LARGEST: u64 = 1 << 20;
/// The maximum memory for parsing one object, in bytes.
const BUDGET: usize = 16 << 20;

/// A release as one image describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct CarriedRelease {
    pub version: Version,
    /// The Kubernetes and component versions.
    pub kubernetes: KubernetesSpec,
    /// The packages in the release's `spec.bootstrapPackages`.
    pub packages: Vec<LocalReference>,
    pub os: OSInfo,
    /// The keepalived container image in the node image.
    pub keepalived: Option<String>,
    /// The reason why the image declares the release incompatible, or `None` if it doesn't.
    pub incompatible: Option<String>,
}

/// The reason why an image's release properties can't be parsed.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("VirtualMachineImage {image}: property {property}: {reason}")]
pub struct Unreadable {
    image: String,
    property: &'static str,
    reason: String,
}

impl Unreadable {
    /// The remedy. Importing another OVA under the same name is refused.
    pub const REMEDY: &str = "Correct the property in the OVA, and import the OVA again under another name";
}

/// Returns the release that an image contains, or `None` if it isn't a node image or is excluded by [`explain_exclusion`].
pub fn carried(image: &VirtualMachineImage) -> Option<Result<CarriedRelease, Unreadable>> {
    explain_exclusion(image).is_none().then(|| read(image)).flatten()
}

/// Returns the reason why gcm doesn't create a release from the image, or `None` if it does. Only images that an administrator
/// chose are used.
///
/// VM Operator labels images from libraries. An image without the label is used only if a ContentLibraryProvider doesn't own
/// it: images are cluster-scoped, so an administrator created it.
pub fn explain_exclusion(image: &VirtualMachineImage) -> Option<String> {
    let labels = image.labels();
    if labels.contains_key(label::PUBLISH_REQUEST) {
        return Some("it was published by a VirtualMachinePublishRequest".to_owned());
    }
    let of_source = || image.owner_references().iter().any(|owner| owner.kind == "ContentLibraryProvider");
    let designated = labels.get(label::RELEASE_LIBRARY).map_or_else(|| !of_source(), |value| value == "true");
    (!designated).then(|| {
        format!("no ContentSource of its library has the label {}: \"true\"", label::RELEASE_LIBRARY)
    })
}

/// Returns true if the image describes a release, even if it is excluded.
pub fn is_node_image(image: &VirtualMachineImage) -> bool {
    [RELEASE, DISTRIBUTION, image_builder::KUBERNETES_SEMVER].iter().any(|key| property(image, key).is_some())
}

fn property<'i>(image: &'i VirtualMachineImage, key: &str) -> Option<&'i str> {
    let annotation = image.annotations().get(key).map(String::as_str);
    let ovf = || image.spec.ovf_env.get(key).and_then(|property| property.default.as_deref());
    annotation.or_else(ovf).filter(|text| !text.trim().is_empty())
}

fn read(image: &VirtualMachineImage) -> Option<Result<CarriedRelease, Unreadable>> {
    let property = |key| property(image, key);
    let (key, read) = if let Some(text) = property(RELEASE) {
        (RELEASE, embedded(text, property(OS_IMAGES)))
    } else if let Some(text) = property(DISTRIBUTION) {
        (DISTRIBUTION, distribution(text))
    } else {
        let key = image_builder::KUBERNETES_SEMVER;
        (key, built(property(key)?))
    };
    let read = read.and_then(|read| {
        check_kubernetes(&read, property(image_builder::KUBERNETES_SEMVER))?;
        Ok(read)
    });
    Some(read.map(|read| complete(read, image)).map_err(|reason| Unreadable {
        image: image.name_any(),
        property: key,
        reason,
    }))
}

/// The properties that all formats provide.
struct ParsedProperties {
    version: Version,
    kubernetes: KubernetesSpec,
    packages: Vec<LocalReference>,
    os: Option<OSInfo>,
    keepalived: Option<String>,
    /// The keys with which the image declares itself incompatible.
    incompatible: Option<String>,
}

impl ParsedProperties {
    fn new(version: Version, kubernetes: KubernetesSpec) -> Self {
        Self { version, kubernetes, packages: Vec::new(), os: None, keepalived: None, incompatible: None }
    }
}

/// Checks that all versions in the image name the same Kubernetes version. Otherwise kubeadm would look for container images
/// that the node image doesn't contain.
fn check_kubernetes(read: &ParsedProperties, semver: Option<&str>) -> Result<(), String> {
    let release = read.version.kubernetes_text();
    let named = [
        ("kubernetes.version", Some(read.kubernetes.version.as_str())),
        (image_builder::KUBERNETES_SEMVER, semver),
    ];
    for (name, text) in named {
        let Some(text) = text else { continue };
        let version = Version::parse(text).map_err(|error| format!("{name}: {error}"))?;
        if version.kubernetes_text() != release {
            return Err(format!(
                "the image names two versions of Kubernetes: {release} (release {}) and {text} ({name})",
                read.version
            ));
        }
    }
    Ok(())
}

fn distribution(text: &str) -> Result<ParsedProperties, String> {
    let document: Value = serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))?;
    let text = |path: &str| document.pointer(path).and_then(Value::as_str).map(str::to_owned);
    let version = text("/distribution/version").ok_or("it has no distribution.version")?;
    let version = Version::parse(&version).map_err(|error| error.to_string())?;
    let repository = text("/kubernetes/imageRepository");
    let image = |part: &str| {
        let tag = text(&format!("/{part}/imageTag")).or_else(|| text(&format!("/{part}/version")))?;
        let repository = text(&format!("/{part}/imageRepository")).or_else(|| repository.clone());
        Some(ContainerImage { image_repository: repository, image_tag: Some(tag.replace('+', "_")) })
    };
    let kubernetes = KubernetesSpec {
        version: text("/kubernetes/version").map_or_else(|| version.to_string(), |text| with_v(&text)),
        etcd: image("etcd"),
        pause: image("pause"),
        coredns: image("coredns"),
        kube_vip: image("kube-vip"),
        image_repository: repository.clone(),
    };
    let keepalived = image("keepalived")
        .and_then(|image| Some(format!("{}:{}", image.image_repository?, image.image_tag?)));
    // Older Layercake images contain keepalived but don't declare it.
    let keepalived = keepalived
        .or_else(|| version.to_string().contains("+layercake.").then(|| KEEPALIVED_IMAGE.to_owned()));
    let incompatible = incompatibility(&document);
    Ok(ParsedProperties { keepalived, incompatible, ..ParsedProperties::new(version, kubernetes) })
}

/// Returns the image's `compatibility-*` keys, one per vSphere version, if all of them declare the image incompatible. Returns
/// `None` if one declares it compatible, or if there are none.
fn incompatibility(document: &Value) -> Option<String> {
    let offers = document.as_object()?.iter().filter(|(key, _)| key.starts_with("compatibility-"));
    let answers: Vec<(&str, bool)> = offers
        .filter_map(|(key, offer)| match offer.get("isCompatible")? {
            Value::Bool(fits) => Some((key.as_str(), *fits)),
            Value::String(text) => Some((key.as_str(), text.trim().eq_ignore_ascii_case("true"))),
            _ => None,
        })
        .collect();
    let none_fits = !answers.is_empty() && answers.iter().all(|(_, fits)| !fits);
    none_fits.then(|| answers.iter().map(|(key, _)| *key).collect::<Vec<_>>().join(", "))
}

fn built(version: &str) -> Result<ParsedProperties, String> {
    let version = Version::parse(version).map_err(|error| error.to_string())?;
    let kubernetes = KubernetesSpec { version: version.to_string(), ..KubernetesSpec::default() };
    Ok(ParsedProperties::new(version, kubernetes))
}

fn embedded(text: &str, os_images: Option<&str>) -> Result<ParsedProperties, String> {
    let spec: TanzuKubernetesReleaseSpec = spec_in(&unpacked(text)?)?;
    let version = Version::parse(&spec.version).map_err(|error| error.to_string())?;
    let os =
        os_images.map(first_os).transpose().map_err(|reason| format!("{OS_IMAGES}: {reason}"))?.flatten();
    let TanzuKubernetesReleaseSpec { version: _, mut kubernetes, os_images: _, bootstrap_packages } = spec;
    kubernetes.version = match kubernetes.version.as_str() {
        "" => version.to_string(),
        text => with_v(text),
    };
    Ok(ParsedProperties { packages: bootstrap_packages, os, ..ParsedProperties::new(version, kubernetes) })
}

fn first_os(text: &str) -> Result<Option<OSInfo>, String> {
    let list: Vec<Value> = match serde_json::from_str(text) {
        Ok(Value::Array(list)) => list,
        Ok(other) => vec![other],
        Err(error) => return Err(format!("it is not JSON: {error}")),
    };
    let Some(first) = list.first() else { return Ok(None) };
    spec_in::<OSImageSpec>(&unpacked(&first.to_string())?).map(|spec| Some(spec.os))
}

/// Returns the YAML in a property: the property itself, or the unpacked value of `{"value": base64 of gzip}`.
fn unpacked(text: &str) -> Result<String, String> {
    let Ok(wrapper) = serde_json::from_str::<Value>(text) else { return Ok(text.to_owned()) };
    let Some(packed) = wrapper.get("value").and_then(Value::as_str) else { return Ok(text.to_owned()) };
    let bytes =
        STANDARD.decode(packed.trim()).map_err(|error| format!("its value is not base64: {error}"))?;
    let mut yaml = Vec::new();
    flate2::read::GzDecoder::new(bytes.as_slice())
        .take(LARGEST + 1)
        .read_to_end(&mut yaml)
        .map_err(|error| format!("its value is not gzip: {error}"))?;
    if yaml.len() as u64 > LARGEST {
        return Err(format!(
            "its value of {} bytes unpacks to more than {LARGEST} bytes, which is the limit",
            packed.len()
        ));
    }
    String::from_utf8(yaml).map_err(|error| format!("its unpacked value is not UTF-8: {error}"))
}

fn spec_in<S: DeserializeOwned>(yaml: &str) -> Result<S, String> {
    #[derive(serde::Deserialize)]
    struct Object<S> {
        spec: S,
    }
    let body = yaml.trim_start().trim_start_matches("---");
    from_yaml::<Object<S>>(body, &Budget::new(BUDGET))
        .map(|object| object.spec)
        .map_err(|error| format!("it does not contain the expected object: it {error}"))
}

fn with_v(version: &str) -> String {
    format!("v{}", version.trim().trim_start_matches('v'))
}

fn complete(parsed: ParsedProperties, image: &VirtualMachineImage) -> CarriedRelease {
    let ParsedProperties { version, kubernetes, packages, os, keepalived, incompatible } = parsed;
    let os = os.filter(|os| !os.name.is_empty()).unwrap_or_else(|| guessed_os(image));
    let incompatible = incompatible.map(|keys| {
        format!(
            "VirtualMachineImage {} declares isCompatible false ({keys} in {DISTRIBUTION}). Use another release, or a compatible image",
            image.name_any()
        )
    });
    CarriedRelease { version, kubernetes, packages, os, keepalived, incompatible }
}

/// Substrings of guest ids and image names, with the operating system and version that they indicate. The fallback is Photon.
const GUESSED: [(&str, &str, &str); 7] = [
    ("ubuntu", "ubuntu", "22.04"),
    ("rhel", "rhel", "9"),
    ("rocky", "rockylinux", "9"),
    ("almalinux", "almalinux", "9"),
    ("centos", "centos", "9"),
    ("oraclelinux", "oraclelinux", "9"),
    ("amazonlinux", "amazon", "2"),
];

/// Determines the operating system if the image doesn't describe it: from properties, or otherwise from the guest id and the
/// image name.
fn guessed_os(image: &VirtualMachineImage) -> OSInfo {
    let property = |key: &str, or: &str| {
        let key = format!("{RELEASE}.{key}");
        property(image, &key).or_else(|| property(image, or)).map(|text| text.trim().to_ascii_lowercase())
    };
    let guest = image.spec.os_info.as_ref().and_then(|os| os.type_.clone()).unwrap_or_default();
    let hints = format!("{} {guest}", image.name_any()).to_ascii_lowercase();
    let known = GUESSED.iter().find(|(hint, ..)| hints.contains(hint));
    let (name, version) = known.map_or(("photon", "3.0"), |(_, name, version)| (*name, *version));
    let name = property("os-name", image_builder::DISTRO_NAME).unwrap_or_else(|| name.to_owned());
    let type_ = if name.contains("windows") { "windows" } else { "linux" };
    OSInfo {
        type_: property("os-type", "").unwrap_or_else(|| type_.to_owned()),
        name,
        version: property("os-version", image_builder::DISTRO_VERSION).unwrap_or_else(|| version.to_owned()),
        arch: property("os-arch", image_builder::DISTRO_ARCH).unwrap_or_else(|| "amd64".to_owned()),
    }
}
