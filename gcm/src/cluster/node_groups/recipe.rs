//! Records the recipe from which a group's machines are created.
//!
//! For the same spec, different gcm versions generate different node configurations. A KubeadmControlPlane or MachineDeployment
//! therefore carries one digest for the recipe and one for the configuration. If only the configuration differs, another gcm
//! version generated it. In this case, the configuration is kept, and nodes aren't replaced.

use api::gcm::parts::{NodePool, Proxy};
use api::names::{self, annotation};
use kube::Resource;
use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::control_plane::names_something;
use crate::cluster::input::{Input, content_of};
use crate::spec::node_fields::{Effect, NodeField, cluster_fields, control_plane_fields, pool_fields};

/// The key of the proxy in a recipe.
const PROXY: &str = "proxy";
/// The number of digest bytes to keep. Only recipes for the same group are compared, and a collision doesn't help an attacker.
const DIGEST_BYTES: usize = 8;

/// The inputs that replace a group's machines when they change: the release, and the fields that replace nodes according to
/// [`node_fields`](crate::spec::node_fields).
///
/// The recipe's digest is computed from its JSON, which must stay stable: renaming a field, or writing a field that was omitted
/// before, replaces every machine of every cluster. A new field must be omitted when it isn't set.
#[derive(Clone, Serialize)]
struct Recipe(Map<String, Value>);

impl Recipe {
    /// Returns the recipe for a group with these fields, without the container images, which only a control plane's recipe
    /// contains.
    fn new(input: &Input<'_>, group: Vec<NodeField>) -> Self {
        let mut recipe = Self(Map::new());
        recipe.write("release", Some(&input.release_label()));
        recipe.write("kubernetes", Some(&input.release.kubernetes));
        recipe.write("image", Some(&input.image.name));
        for field in cluster_fields(&input.tkc.spec).into_iter().chain(group) {
            let name = field.name();
            match field.effect {
                Effect::Replaces(value) => recipe.write(name, value.as_ref()),
                Effect::ClusterApiReplaces(_)
                | Effect::FollowsRelease
                | Effect::InPlace
                | Effect::Refused => {}
            }
        }
        recipe
    }

    fn of_control_plane(input: &Input<'_>) -> Self {
        let mut recipe = Self::new(input, control_plane_fields(&input.tkc.spec.topology.control_plane));
        recipe.write("imageRepository", input.release.image_repository.as_ref());
        recipe.write("etcd", input.release.etcd.as_ref().filter(|image| names_something(image)));
        recipe
    }

    fn write(&mut self, name: &str, value: Option<&impl Serialize>) {
        let value = value.and_then(|value| serde_json::to_value(value).ok());
        self.0.extend(value.map(|value| (name.to_owned(), value)));
    }

    /// Returns this recipe as earlier gcm versions wrote it, or `None` if they wrote the same. Without a proxy, they wrote an
    /// empty one.
    fn of_earlier(&self) -> Option<Self> {
        if self.0.contains_key(PROXY) {
            return None;
        }
        let mut earlier = self.clone();
        earlier.write(PROXY, Some(&Proxy::default()));
        Some(earlier)
    }
}

/// The annotation on a KubeadmControlPlane or MachineDeployment that records how its machines were created.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Mark {
    /// The recipe digest.
    recipe: String,
    /// The recipe digest as earlier gcm versions computed it, if it differs.
    earlier: Option<String>,
    /// The digest of the node configuration. Empty if the machines are older than marks.
    texts: String,
}

impl Mark {
    /// Returns the mark for a control plane. `texts` is the node configuration from which its machines are built.
    pub fn of_control_plane(input: &Input<'_>, texts: &impl Serialize) -> Self {
        Self::of(&Recipe::of_control_plane(input), texts)
    }

    /// Returns the mark for a pool. `texts` is the node configuration from which its machines are built.
    pub fn of_pool(input: &Input<'_>, pool: &NodePool, texts: &impl Serialize) -> Self {
        Self::of(&Recipe::new(input, pool_fields(pool)), texts)
    }

    fn of(recipe: &Recipe, texts: &impl Serialize) -> Self {
        let earlier = recipe.of_earlier().map(|earlier| digest(&earlier));
        Self { recipe: digest(recipe), earlier, texts: digest(texts) }
    }

    /// Reads an object's mark. Returns `None` if the annotation is missing or malformed.
    pub fn on<K: Resource>(object: &K) -> Option<Self> {
        let text = object.meta().annotations.as_ref()?.get(annotation::MACHINE_RECIPE)?;
        let (recipe, texts) = text.split_once('.')?;
        Some(Self { recipe: recipe.to_owned(), earlier: None, texts: texts.to_owned() })
    }

    /// Writes the mark to an object's annotation.
    pub fn put_on<K: Resource>(&self, object: &mut K) {
        let Self { recipe, earlier: _, texts } = self;
        let annotations = object.meta_mut().annotations.get_or_insert_default();
        annotations.insert(annotation::MACHINE_RECIPE.to_owned(), format!("{recipe}.{texts}"));
    }

    /// Returns the mark for machines that are kept although they were built from another configuration, or `None` if the
    /// machines already match or must be replaced.
    ///
    /// `live` is the current mark of the machines. Machines without a mark are kept if the cluster ran with the current spec
    /// (`ran`).
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
