//! Chooses a cluster's add-ons, and one bundle among those with the same name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::names::{annotation, label};
use api::vmop::VirtualMachineImage;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::core::PartialObjectMeta;

use super::builtin::{self, BuiltIn};
use super::bundle::AddonType;
use super::image;
use super::own_objects::Generated;

/// The maximum number of add-ons per cluster. The cluster's condition reports further bundles in the namespace.
pub const MAX_ADDONS: usize = 24;
/// The slot of the container network. Other add-ons can't have this name.
const NETWORK_SLOT: &str = "cni";

/// The source of a bundle.
#[derive(Clone, Debug)]
pub enum BundleSource {
    /// gcm itself.
    BuiltIn(BuiltIn),
    /// The release's node image.
    Image(Arc<VirtualMachineImage>),
    /// A ConfigMap in the cluster's namespace.
    ConfigMap {
        name: String,
        /// The resourceVersion. A different version counts as a different bundle.
        version: String,
    },
    /// Objects that gcm generates for this cluster. They are not an add-on.
    Generated(Arc<Generated>),
    /// The container network isn't provided by any source.
    Nowhere {
        /// The available container networks.
        known: Vec<String>,
    },
}

impl PartialEq for BundleSource {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::BuiltIn(a), Self::BuiltIn(b)) => a == b,
            (Self::Image(a), Self::Image(b)) => Arc::ptr_eq(a, b) || a.annotations() == b.annotations(),
            (Self::ConfigMap { name: a, version: v }, Self::ConfigMap { name: b, version: w }) => {
                (a, v) == (b, w)
            }
            (Self::Generated(a), Self::Generated(b)) => a == b,
            (Self::Nowhere { known: a }, Self::Nowhere { known: b }) => a == b,
            _ => false,
        }
    }
}

/// An add-on that a cluster should have.
#[derive(Clone, Debug, PartialEq)]
pub struct ChosenAddon {
    pub name: String,
    /// The add-on type, if known.
    pub type_: Option<AddonType>,
    pub source: BundleSource,
}

impl ChosenAddon {
    /// Returns the name under which the workload cluster records the add-on. All container networks share one slot.
    pub fn slot(&self) -> &str {
        if self.type_ == Some(AddonType::Cni) { NETWORK_SLOT } else { &self.name }
    }

    /// Describes the bundle's source, for messages.
    pub fn origin(&self) -> String {
        match &self.source {
            BundleSource::BuiltIn(_) => "the built-in bundle".to_owned(),
            BundleSource::Image(image) => format!("VirtualMachineImage {}", image.name_any()),
            BundleSource::ConfigMap { name, .. } => format!("ConfigMap {name}"),
            BundleSource::Generated(_) => "the configuration of the namespace".to_owned(),
            BundleSource::Nowhere { .. } => "no bundle".to_owned(),
        }
    }
}

/// The input of [`choose`].
pub struct Offer<'a> {
    /// The cluster name.
    pub cluster: &'a str,
    /// The container network that the cluster requests.
    pub cni: &'a str,
    /// The ConfigMaps in the cluster's namespace that contain bundles.
    pub config_maps: &'a [Arc<PartialObjectMeta<ConfigMap>>],
    /// The cluster's node image.
    pub image: Option<&'a Arc<VirtualMachineImage>>,
}

/// Returns a cluster's add-ons, at most [`MAX_ADDONS`], in the order of their types: the container network comes first.
///
/// A ConfigMap for this cluster takes precedence over a ConfigMap for the whole namespace, followed by the node image's bundle
/// and the built-in bundle. The cluster gets the container network that it names, and every other add-on for which the cluster's
/// namespace contains a ConfigMap.
pub fn choose(offer: &Offer<'_>) -> Vec<ChosenAddon> {
    let mut chosen = rank(offer);
    chosen.truncate(MAX_ADDONS);
    chosen
}

/// A bundle for the cluster that [`choose`] leaves out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedBundle {
    /// The bundle's source.
    pub origin: String,
    /// The reason and the remedy.
    pub reason: String,
}

/// Returns the bundles for the cluster that [`choose`] leaves out: the bundle with the reserved name, and the bundles beyond
/// [`MAX_ADDONS`]. Other container networks aren't included.
pub fn skipped(offer: &Offer<'_>) -> Vec<SkippedBundle> {
    let reserved =
        config_maps(offer).remove(NETWORK_SLOT).filter(|(_, type_)| is_reserved(NETWORK_SLOT, *type_, offer));
    let reserved = reserved.map(|(map, _)| SkippedBundle {
        origin: format!("ConfigMap {}", map.name_any()),
        reason: format!(
            "label {}: {NETWORK_SLOT} is the name under which clusters record their container network, so the add-on is not applied. Choose another name, or set the annotation {} to cni if the add-on is a container network",
            label::ADDON_NAME,
            annotation::ADDON_TYPE,
        ),
    });
    let ranked = rank(offer);
    let beyond = ranked.iter().skip(MAX_ADDONS).map(|addon| SkippedBundle {
        origin: addon.origin(),
        reason: format!(
            "add-on {} is not applied, because a cluster is limited to {MAX_ADDONS} add-ons, including the container network, and {} are requested. Combine bundles, delete bundles that the cluster does not need, or set the label {} on bundles for other clusters",
            addon.name,
            ranked.len(),
            label::ADDON_CLUSTER_NAME,
        ),
    });
    reserved.into_iter().chain(beyond).collect()
}

/// Returns true if the add-on's name is reserved for the container network.
fn is_reserved(name: &str, type_: Option<AddonType>, offer: &Offer<'_>) -> bool {
    name == NETWORK_SLOT && type_ != Some(AddonType::Cni) && name != offer.cni
}

/// Returns all add-ons for the cluster, in the order of their types.
fn rank(offer: &Offer<'_>) -> Vec<ChosenAddon> {
    let maps = config_maps(offer);
    let mut chosen = vec![container_network(offer, &maps)];
    let others = maps.iter().filter(|(name, (_, type_))| {
        *type_ != Some(AddonType::Cni) && name.as_str() != offer.cni && !is_reserved(name, *type_, offer)
    });
    chosen.extend(others.map(|(name, (map, type_))| ChosenAddon {
        name: name.clone(),
        type_: *type_,
        source: of_config_map(map),
    }));
    chosen.sort_by_key(|addon| (addon.type_.is_none(), addon.type_));
    chosen
}

/// The meaning of the storage class annotation, by which a bundle says that it contains the cluster's storage classes. If several
/// bundles carry the annotation, the first meaning in this order counts, so that the condition names an invalid annotation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BundledClasses {
    /// The annotation on this ConfigMap has a value other than `none`, or the bundle isn't a storage driver.
    Invalid(String),
    /// The storage driver in this ConfigMap provides the cluster's storage classes.
    InBundle(String),
}

/// Returns the meaning of the storage class annotation, if one of the cluster's bundles carries the annotation.
pub fn bundled_classes(maps: &[Arc<PartialObjectMeta<ConfigMap>>], cluster: &str) -> Option<BundledClasses> {
    let annotated =
        maps.iter().filter(|map| name_of(map).is_some() && is_for(map, cluster)).filter_map(|map| {
            let is_none = map.annotations().get(annotation::STORAGE_CLASSES)? == "none";
            let is_driver = type_of(map) == Some(AddonType::Csi);
            let meaning =
                if is_none && is_driver { BundledClasses::InBundle } else { BundledClasses::Invalid };
            Some(meaning(map.name_any()))
        });
    annotated.min()
}

/// Returns true if one of these ConfigMaps contains a login service for the cluster.
pub fn has_login_service(maps: &[PartialObjectMeta<ConfigMap>], cluster: &str) -> bool {
    maps.iter().any(|map| is_for(map, cluster) && type_of(map) == Some(AddonType::AuthService))
}

/// Returns true if a bundle is for this cluster, or for all clusters of its namespace.
fn is_for(map: &PartialObjectMeta<ConfigMap>, cluster: &str) -> bool {
    map.labels().get(label::ADDON_CLUSTER_NAME).is_none_or(|name| name == cluster)
}

/// Returns the names of the node image's bundles that aren't among the chosen add-ons.
pub fn left_in_image(image: Option<&VirtualMachineImage>, chosen: &[ChosenAddon]) -> Vec<String> {
    let is_left = |name: &&str| !chosen.iter().any(|addon| addon.name == **name);
    image.into_iter().flat_map(image::carried).filter(is_left).map(str::to_owned).collect()
}

/// Returns the names of the container networks among the bundles in these ConfigMaps. A bundle is recognized by its type or
/// name.
pub fn container_networks<'m>(
    maps: impl IntoIterator<Item = &'m PartialObjectMeta<ConfigMap>>,
) -> BTreeSet<String> {
    let names = maps.into_iter().filter_map(|map| Some((name_of(map)?, type_of(map))));
    let is_known = |name: &str| name == builtin::NETWORK || image::NETWORKS.contains(&name);
    let of_cni = names.filter(|(name, type_)| *type_ == Some(AddonType::Cni) || is_known(name));
    of_cni.map(|(name, _)| name.to_owned()).collect()
}

type Maps = BTreeMap<String, (Arc<PartialObjectMeta<ConfigMap>>, Option<AddonType>)>;

fn config_maps(offer: &Offer<'_>) -> Maps {
    let mut maps = Maps::new();
    let mut all: Vec<_> = offer.config_maps.iter().collect();
    // Sort ConfigMaps for one cluster last, so that they win. Among ConfigMaps of equal precedence, the last by name wins.
    all.sort_by_key(|map| (map.labels().contains_key(label::ADDON_CLUSTER_NAME), map.name_any()));
    for map in all {
        if let Some(name) = name_of(map)
            && is_for(map, offer.cluster)
        {
            let type_ = type_of(map).or_else(|| BuiltIn::named(name).map(|bundle| bundle.type_));
            maps.insert(name.to_owned(), (Arc::clone(map), type_));
        }
    }
    maps
}

fn container_network(offer: &Offer<'_>, maps: &Maps) -> ChosenAddon {
    let source = if let Some((map, _)) = maps.get(offer.cni) {
        of_config_map(map)
    } else if let Some(image) = offer.image.filter(|image| image::property(image, offer.cni).is_some()) {
        BundleSource::Image(Arc::clone(image))
    } else if let Some(bundle) = BuiltIn::named(offer.cni).filter(|bundle| bundle.type_ == AddonType::Cni) {
        BundleSource::BuiltIn(bundle)
    } else {
        let mut known = container_networks(offer.config_maps.iter().map(AsRef::as_ref));
        known.insert(builtin::NETWORK.to_owned());
        let carried = offer.image.into_iter().flat_map(|image| image::carried(image));
        known.extend(carried.filter(|name| image::NETWORKS.contains(name)).map(str::to_owned));
        BundleSource::Nowhere { known: known.into_iter().collect() }
    };
    ChosenAddon { name: offer.cni.to_owned(), type_: Some(AddonType::Cni), source }
}

fn of_config_map(map: &PartialObjectMeta<ConfigMap>) -> BundleSource {
    BundleSource::ConfigMap { name: map.name_any(), version: map.resource_version().unwrap_or_default() }
}

/// Returns the add-on's name if it consists of lowercase letters, digits and inner hyphens. The name becomes a label value and
/// part of object names in the workload cluster.
fn name_of(map: &PartialObjectMeta<ConfigMap>) -> Option<&str> {
    let name = map.labels().get(label::ADDON_NAME)?;
    let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let ends = name.starts_with('-') || name.ends_with('-');
    (!name.is_empty() && !ends && name.bytes().all(fits)).then_some(name.as_str())
}

fn type_of(map: &PartialObjectMeta<ConfigMap>) -> Option<AddonType> {
    map.annotations().get(annotation::ADDON_TYPE).and_then(|word| AddonType::of(word))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    type BundleMap = Arc<PartialObjectMeta<ConfigMap>>;

    fn map(name: &str, addon: &str, cluster: Option<&str>, type_: Option<&str>) -> BundleMap {
        let mut labels = json!({"tkg.tanzu.vmware.com/addon-name": addon});
        if let Some(cluster) = cluster {
            labels["tkg.tanzu.vmware.com/cluster-name"] = json!(cluster);
        }
        let annotations = type_.map(|type_| json!({"tkg.tanzu.vmware.com/addon-type": type_}));
        let object = json!({"metadata": {"name": name, "namespace": "ns", "resourceVersion": "7", "labels": labels, "annotations": annotations}});
        Arc::new(serde_json::from_value(object).unwrap())
    }

    fn image(addon: &str) -> Arc<VirtualMachineImage> {
        let mut image = VirtualMachineImage::new("photon", api::vmop::VirtualMachineImageSpec::default());
        image.annotations_mut().insert(format!("vmware-system.guest.kubernetes.addons.{addon}"), "{}".into());
        Arc::new(image)
    }

    fn shown(cni: &str, maps: &[BundleMap], image: Option<&Arc<VirtualMachineImage>>) -> String {
        let offer = Offer { cluster: "c", cni, config_maps: maps, image };
        let all = choose(&offer);
        all.iter().map(|addon| format!("{}={}", addon.slot(), addon.origin())).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_nearest_bundle_wins() {
        let antrea = image("antrea");
        assert_eq!(shown("flannel", &[], None), "cni=the built-in bundle");
        assert_eq!(shown("antrea", &[], None), "cni=no bundle");
        assert_eq!(shown("antrea", &[], Some(&antrea)), "cni=VirtualMachineImage photon");
        let all = map("of-all", "antrea", None, Some("cni"));
        let own = map("of-c", "antrea", Some("c"), Some("cni"));
        let other = map("of-d", "antrea", Some("d"), Some("cni"));
        let maps = [own.clone(), all.clone(), other.clone()];
        assert_eq!(shown("antrea", &maps, Some(&antrea)), "cni=ConfigMap of-c");
        assert_eq!(shown("antrea", &[all, other], Some(&antrea)), "cni=ConfigMap of-all");
    }

    #[test]
    fn other_networks_are_left_out_and_other_add_ons_follow_in_their_order() {
        let maps = [
            map("m1", "extra", None, None),
            map("m2", "metrics-server", None, None),
            map("m3", "calico", None, Some("CNI")),
            map("m4", "pvcsi", None, Some("CSI")),
            map("m5", "Not a name", None, None),
            // The names of generated object sets can't be add-on names.
            map("m6", crate::sync::ROLE_BINDINGS, None, None),
        ];
        assert_eq!(
            shown("flannel", &maps, None),
            "cni=the built-in bundle pvcsi=ConfigMap m4 metrics-server=ConfigMap m2 extra=ConfigMap m1"
        );
        let names = container_networks(maps.iter().map(AsRef::as_ref));
        assert_eq!(names.into_iter().collect::<Vec<_>>(), ["calico"]);
    }

    #[test]
    fn bundles_that_a_cluster_does_not_get_are_named_with_reason_and_remedy() {
        let mut maps: Vec<_> = (1..=25)
            .map(|number| map(&format!("m{number:02}"), &format!("a{number:02}"), None, None))
            .collect();
        maps.push(map("network", "calico", None, Some("cni")));
        let skipped = |maps: &[BundleMap], cni: &str| {
            let offer = Offer { cluster: "c", cni, config_maps: maps, image: None };
            assert!(choose(&offer).len() <= MAX_ADDONS);
            skipped(&offer)
                .into_iter()
                .map(|bundle| bundle.origin + ": " + &bundle.reason)
                .collect::<Vec<_>>()
        };
        assert_eq!(skipped(&maps[..23], "flannel"), [""; 0]);
        insta::assert_snapshot!(skipped(&maps, "flannel").join("\n"), @r"
        ConfigMap m24: add-on a24 is not applied, because a cluster is limited to 24 add-ons, including the container network, and 26 are requested. Combine bundles, delete bundles that the cluster does not need, or set the label tkg.tanzu.vmware.com/cluster-name on bundles for other clusters
        ConfigMap m25: add-on a25 is not applied, because a cluster is limited to 24 add-ons, including the container network, and 26 are requested. Combine bundles, delete bundles that the cluster does not need, or set the label tkg.tanzu.vmware.com/cluster-name on bundles for other clusters
        ");
        let reserved = [map("m", "cni", None, None)];
        insta::assert_snapshot!(skipped(&reserved, "flannel").join("\n"), @"ConfigMap m: label tkg.tanzu.vmware.com/addon-name: cni is the name under which clusters record their container network, so the add-on is not applied. Choose another name, or set the annotation tkg.tanzu.vmware.com/addon-type to cni if the add-on is a container network");
        assert_eq!(skipped(&reserved, "cni"), [""; 0], "it is the container network that the cluster names");
        assert_eq!(skipped(&[map("m", "cni", None, Some("CNI"))], "flannel"), [""; 0]);
        assert_eq!(skipped(&[map("m", "cni", Some("d"), None)], "flannel"), [""; 0], "for another cluster");
    }

    #[test]
    fn bundles_of_the_image_that_are_not_chosen_are_named() {
        let mut image = (*image("antrea")).clone();
        for name in ["pvcsi", "calico", "metrics-server"] {
            let key = format!("vmware-system.guest.kubernetes.addons.{name}");
            image.annotations_mut().insert(key, "{}".into());
        }
        let image = Arc::new(image);
        let left = |cni: &str, maps: &[BundleMap]| {
            let chosen = choose(&Offer { cluster: "c", cni, config_maps: maps, image: Some(&image) });
            left_in_image(Some(&image), &chosen).join(" ")
        };
        assert_eq!(left("antrea", &[]), "calico metrics-server pvcsi");
        let maps = [map("m", "metrics-server", None, None), map("other", "pvcsi", Some("d"), Some("csi"))];
        assert_eq!(
            left("flannel", &maps),
            "antrea calico pvcsi",
            "a bundle of another cluster does not count"
        );
        assert!(left_in_image(None, &[]).is_empty());
    }

    #[test]
    fn the_order_of_bundles_does_not_decide_which_contains_the_storage_classes() {
        let driver = |name: &str, classes: &str| {
            let mut map = (*map(name, name, None, Some("csi"))).clone();
            map.annotations_mut().insert(annotation::STORAGE_CLASSES.to_owned(), classes.to_owned());
            Arc::new(map)
        };
        let chosen = |maps: &[BundleMap]| bundled_classes(maps, "c").unwrap();
        let (a, b, invalid) = (driver("a", "none"), driver("b", "none"), driver("z", "all"));
        for maps in [[a.clone(), b.clone()], [b.clone(), a.clone()]] {
            assert_eq!(chosen(&maps), BundledClasses::InBundle("a".to_owned()));
        }
        for maps in [[a.clone(), invalid.clone()], [invalid, a]] {
            assert_eq!(chosen(&maps), BundledClasses::Invalid("z".to_owned()));
        }
    }

    #[test]
    fn a_change_of_a_config_map_is_another_bundle() {
        let offer = |maps: &[BundleMap]| {
            choose(&Offer { cluster: "c", cni: "flannel", config_maps: maps, image: None })
        };
        let before = map("m", "extra", None, None);
        let mut after = (*before).clone();
        after.metadata.resource_version = Some("8".into());
        assert_ne!(offer(&[before]), offer(&[Arc::new(after)]));
    }
}
