//! What the machines of a group are made from, in the words of those who ask for it.
//!
//! The texts that nodes are given change between versions of this program; what their cluster's author asks for does
//! not. So a KubeadmControlPlane or MachineDeployment bears a digest of both. Texts that differ where the recipe is the
//! same are another version's, and stay: no node is replaced for them.

use api::gcm::parts::{NodePool, Proxy};
use api::names::{self, annotation};
use kube::Resource;
use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::control_plane::names_something;
use crate::cluster::input::{Input, content_of};
use crate::spec::node_fields::{Effect, NodeField, cluster_fields, control_plane_fields, pool_fields};

/// The name of the proxy in a recipe.
const PROXY: &str = "proxy";
/// Bytes of a digest that are kept: recipes of one group are compared, and nobody gains by two that meet.
const DIGEST_BYTES: usize = 8;

/// Everything that replaces the machines of a group when it changes, and nothing else: the release, and the fields that replace
/// nodes according to [`node_fields`](crate::spec::node_fields).
///
/// Its JSON is what is digested, and it must stay as it is: a name that changes, or a field that is written where it
/// was left out, replaces every machine of every cluster. What joins it is left out where it says nothing.
#[derive(Clone, Serialize)]
struct Recipe(Map<String, Value>);

impl Recipe {
    /// Returns the recipe of a group with these fields, without the images that only a control plane has.
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

    /// The same recipe as earlier versions wrote it, if they wrote it differently: they wrote an empty proxy where there is none.
    fn of_earlier(&self) -> Option<Self> {
        if self.0.contains_key(PROXY) {
            return None;
        }
        let mut earlier = self.clone();
        earlier.write(PROXY, Some(&Proxy::default()));
        Some(earlier)
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
        Self::of(&Recipe::of_control_plane(input), texts)
    }

    /// The mark of a pool whose machines are given these texts.
    pub fn of_pool(input: &Input<'_>, pool: &NodePool, texts: &impl Serialize) -> Self {
        Self::of(&Recipe::new(input, pool_fields(pool)), texts)
    }

    fn of(recipe: &Recipe, texts: &impl Serialize) -> Self {
        let earlier = recipe.of_earlier().map(|earlier| digest(&earlier));
        Self { recipe: digest(recipe), earlier, texts: digest(texts) }
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
