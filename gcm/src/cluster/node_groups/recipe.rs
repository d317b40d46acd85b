//! Records the recipe from which a group's machines are created.
//!
//! For the same spec, different gcm versions generate different node configurations. A KubeadmControlPlane or MachineDeployment
//! therefore carries one digest for the recipe and one for the configuration. If only the configuration differs, another gcm
//! version generated it. In this case, the configuration is kept, and nodes aren't replaced.

use api::gcm::parts::NodePool;
use api::names::{self, annotation};
use kube::Resource;
use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::control_plane::names_something;
use crate::cluster::input::{Input, content_of};
use crate::spec::node_fields::{Effect, NodeField, cluster_fields, control_plane_fields, pool_fields};

/// The number of digest bytes to keep. Only recipes for the same group are compared, and a collision doesn't help an attacker.
const DIGEST_BYTES: usize = 8;

/// The inputs that replace a group's machines when they change: the release, and the fields that replace nodes according to
/// [`node_fields`](crate::spec::node_fields).
///
/// The recipe's digest is computed from its JSON, which must stay stable: renaming a field, or writing a field that was omitted
/// before, replaces every machine of every cluster. A new field must be omitted when it isn't set.
#[derive(Serialize)]
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
}

/// The annotation on a KubeadmControlPlane or MachineDeployment that records how its machines were created.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RecipeMark {
    /// The recipe digest.
    recipe: String,
    /// The digest of the node configuration.
    texts: String,
}

impl RecipeMark {
    /// Returns the mark for a control plane. `texts` is the node configuration from which its machines are built.
    pub fn of_control_plane(input: &Input<'_>, texts: &impl Serialize) -> Self {
        Self::of(&Recipe::of_control_plane(input), texts)
    }

    /// Returns the mark for a pool. `texts` is the node configuration from which its machines are built.
    pub fn of_pool(input: &Input<'_>, pool: &NodePool, texts: &impl Serialize) -> Self {
        Self::of(&Recipe::new(input, pool_fields(pool)), texts)
    }

    fn of(recipe: &Recipe, texts: &impl Serialize) -> Self {
        Self { recipe: digest(recipe), texts: digest(texts) }
    }

    /// Reads an object's mark. Returns `None` if the annotation is missing or malformed.
    pub fn on<K: Resource>(object: &K) -> Option<Self> {
        let text = object.meta().annotations.as_ref()?.get(annotation::MACHINE_RECIPE)?;
        let (recipe, texts) = text.split_once('.')?;
        Some(Self { recipe: recipe.to_owned(), texts: texts.to_owned() })
    }

    /// Writes the mark to an object's annotation.
    pub fn put_on<K: Resource>(&self, object: &mut K) {
        let Self { recipe, texts } = self;
        let annotations = object.meta_mut().annotations.get_or_insert_default();
        annotations.insert(annotation::MACHINE_RECIPE.to_owned(), format!("{recipe}.{texts}"));
    }

    /// Returns the mark for machines that are kept although they were built from another configuration, or `None` if the
    /// machines already match or must be replaced. `live` is the current mark of the machines.
    pub fn kept(&self, live: Option<Self>) -> Option<Self> {
        live.filter(|live| live.recipe == self.recipe && live.texts != self.texts)
    }
}

fn digest(of: &impl Serialize) -> String {
    names::hex(&Sha256::digest(content_of(of))[..DIGEST_BYTES])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A version that adds a field writes other recipes and texts. Clusters that don't set the field keep their machines.
    #[test]
    fn a_new_field_replaces_only_machines_of_groups_that_set_it() {
        let mark = |new_field: Option<&str>, texts: &str| {
            let mut recipe = Recipe(Map::new());
            recipe.write("release", Some(&"v1.33.1"));
            recipe.write("newField", new_field.as_ref());
            RecipeMark::of(&recipe, &texts)
        };
        let live = mark(None, "of the version that created the machines");
        assert_eq!(mark(None, "of this version").kept(Some(live.clone())), Some(live.clone()));
        assert_eq!(mark(Some("x"), "of this version").kept(Some(live.clone())), None);
        assert_eq!(live.kept(Some(live.clone())), None, "they match already");
        assert_eq!(live.kept(None), None, "nothing shows how they were created");
    }
}
