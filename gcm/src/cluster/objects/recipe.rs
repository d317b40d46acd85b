//! What the machines of a group are made from, in the words of those who ask for it.
//!
//! The texts that nodes are given change between versions of this program; what their cluster's author asks for does
//! not. So a KubeadmControlPlane or MachineDeployment bears a digest of both. Texts that differ where the recipe is the
//! same are another version's, and stay: no node is replaced for them.

use std::collections::BTreeMap;

use api::gcm::parts::{ControlPlane, NodePool, Proxy, Trust, Volume};
use api::gcm::release::ContainerImage;
use api::names::{self, annotation};
use k8s_openapi::api::core::v1::Taint;
use kube::Resource;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::control_plane::names_something;
use super::input::{Input, content_of};
use crate::admission::network;
use crate::admission::nodes::{kubelet_may_set, machine_label_reaches_node};

/// How earlier versions digested a proxy that names nothing.
static NO_PROXY: Proxy = Proxy { http_proxy: None, https_proxy: None, no_proxy: None };

/// Bytes of a digest that are kept: recipes of one group are compared, and nobody gains by two that meet.
const DIGEST_BYTES: usize = 8;

/// Everything that replaces the machines of a group when it changes, and nothing else.
///
/// Its JSON is what is digested, and it must stay as it is: a name that changes, or a field that is written where it
/// was left out, replaces every machine of every cluster. What joins it is left out where it says nothing.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Recipe<'a> {
    release: String,
    kubernetes: &'a str,
    image: &'a str,
    vm_class: &'a str,
    storage_class: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    volumes: Vec<RecipeVolume<'a>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<&'a str, &'a str>,
    #[serde(skip_serializing_if = "<[Taint]>::is_empty")]
    taints: &'a [Taint],
    #[serde(skip_serializing_if = "Option::is_none")]
    image_repository: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    etcd: Option<&'a ContainerImage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    proxy: Option<&'a Proxy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trust: Option<&'a Trust>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RecipeVolume<'a> {
    name: &'a str,
    mount_path: &'a str,
    capacity: &'a BTreeMap<String, api::Quantity>,
    storage_class: &'a str,
}

fn volumes<'a>(volumes: Option<&'a [Volume]>, otherwise: &'a str) -> Vec<RecipeVolume<'a>> {
    let written = |volume: &'a Volume| {
        let Volume { name, mount_path, capacity, storage_class } = volume;
        let class = storage_class.as_deref().filter(|class| !class.is_empty());
        RecipeVolume { name, mount_path, capacity, storage_class: class.unwrap_or(otherwise) }
    };
    volumes.unwrap_or_default().iter().map(written).collect()
}

impl<'a> Recipe<'a> {
    /// What every machine of the cluster is made from.
    fn new(input: &Input<'a>, class: &'a str, storage: &'a str, disks: Option<&'a [Volume]>) -> Self {
        let network = network::network(&input.tkc.spec);
        Self {
            release: input.release_label(),
            kubernetes: &input.release.kubernetes,
            image: &input.image.name,
            vm_class: class,
            storage_class: storage,
            volumes: volumes(disks, storage),
            labels: BTreeMap::new(),
            taints: &[],
            image_repository: None,
            etcd: None,
            proxy: network::proxy(&input.tkc.spec),
            trust: network.and_then(|network| network.trust.as_ref()),
        }
    }

    fn of_control_plane(input: &Input<'a>) -> Self {
        let ControlPlane { replicas: _, vm_class, storage_class, volumes, tkr: _, node_drain_timeout: _ } =
            &input.tkc.spec.topology.control_plane;
        Self {
            image_repository: input.release.image_repository.as_deref(),
            etcd: input.release.etcd.as_ref().filter(|image| names_something(image)),
            ..Self::new(input, vm_class, storage_class, volumes.as_deref())
        }
    }

    fn of_pool(input: &Input<'a>, pool: &'a NodePool) -> Self {
        let NodePool {
            name: _,
            labels,
            taints,
            // Cluster API itself replaces the machines of a pool that moves.
            failure_domain: _,
            replicas: _,
            vm_class,
            storage_class,
            volumes,
            tkr: _,
            node_drain_timeout: _,
        } = pool;
        // Only what the kubelet registers: Cluster API copies the others to nodes that are there.
        let registered = |key: &str| kubelet_may_set(key) && !machine_label_reaches_node(key);
        let labels = labels.iter().flatten().filter(|(key, _)| registered(key));
        Self {
            labels: labels.map(|(key, value)| (key.as_str(), value.as_str())).collect(),
            taints: taints.as_deref().unwrap_or_default(),
            ..Self::new(input, vm_class, storage_class, volumes.as_deref())
        }
    }
}

/// What a KubeadmControlPlane or MachineDeployment says of how its machines came about.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Mark {
    /// The digest of the recipe.
    recipe: String,
    /// That of the same recipe as earlier versions digested it, where they did it in another way.
    earlier: Option<String>,
    /// The digest of the texts that the recipe came to; nothing where they are older than marks.
    texts: String,
}

impl Mark {
    /// The mark of a control plane whose machines are given these texts.
    pub fn of_control_plane(input: &Input<'_>, texts: &impl Serialize) -> Self {
        Self::of(Recipe::of_control_plane(input), texts)
    }

    /// The mark of a pool whose machines are given these texts.
    pub fn of_pool(input: &Input<'_>, pool: &NodePool, texts: &impl Serialize) -> Self {
        Self::of(Recipe::of_pool(input, pool), texts)
    }

    fn of(recipe: Recipe<'_>, texts: &impl Serialize) -> Self {
        let newest = digest(&recipe);
        let earlier = recipe.proxy.is_none().then(|| digest(&Recipe { proxy: Some(&NO_PROXY), ..recipe }));
        Self { recipe: newest, earlier, texts: digest(texts) }
    }

    /// The mark that an object bears.
    pub fn on<K: Resource>(object: &K) -> Option<Self> {
        let text = object.meta().annotations.as_ref()?.get(annotation::MACHINE_RECIPE)?;
        let (recipe, texts) = text.split_once('.')?;
        Some(Self { recipe: recipe.to_owned(), earlier: None, texts: texts.to_owned() })
    }

    /// Puts the mark on an object.
    pub fn put_on<K: Resource>(&self, object: &mut K) {
        let Self { recipe, earlier: _, texts } = self;
        let annotations = object.meta_mut().annotations.get_or_insert_default();
        annotations.insert(annotation::MACHINE_RECIPE.to_owned(), format!("{recipe}.{texts}"));
    }

    /// The mark of machines that stay though they were made from other texts, or nothing if they do not.
    ///
    /// `live` is the mark they bear. Machines older than marks are taken to be what is asked for if their cluster ran
    /// with just this spec: `ran`.
    pub fn kept(&self, live: Option<Self>, ran: bool) -> Option<Self> {
        let same = |live: &Self| live.recipe == self.recipe || Some(&live.recipe) == self.earlier.as_ref();
        match live {
            Some(live) => (same(&live) && live.texts != self.texts).then_some(live),
            None => ran.then(|| Self { texts: String::new(), ..self.clone() }),
        }
    }
}

fn digest(of: &impl Serialize) -> String {
    names::hex(&Sha256::digest(content_of(of))[..DIGEST_BYTES])
}
