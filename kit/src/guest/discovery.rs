//! Discovers the kinds that a guest serves.

use axum::http;
use kube::core;
use serde::Deserialize;

use super::error::{ApiRejection, GuestError};
use super::few::Few;
use super::{GuestClient, MadeRequest};

/// The maximum size of a discovery response in bytes. A group with a hundred kinds needs a tenth of this.
const MOST: usize = 1 << 20;
/// The maximum number of kinds per version, including subresources.
const MAX_KINDS: usize = 2000;
/// The maximum number of versions per group.
const MAX_VERSIONS: usize = 32;
/// The namespace for objects that don't name one.
pub const DEFAULT_NAMESPACE: &str = "default";

/// A kind that a guest serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedKind {
    /// The API group, or an empty string for the core group.
    pub group: String,
    /// The version, without the group.
    pub version: String,
    /// The kind, such as `ConfigMap`.
    pub kind: String,
    /// The plural name, which is used in paths.
    pub plural: String,
    /// True if objects belong to namespaces.
    pub namespaced: bool,
}

impl ServedKind {
    /// Returns the path for objects in `namespace` ([`DEFAULT_NAMESPACE`] if `None`), or for all objects
    /// if the kind isn't namespaced.
    pub fn path(&self, namespace: Option<&str>) -> String {
        let namespace = self.namespaced.then(|| namespace.unwrap_or(DEFAULT_NAMESPACE));
        match namespace {
            Some(namespace) => {
                format!("{}/namespaces/{namespace}/{}", version_path(&self.group, &self.version), self.plural)
            }
            None => self.path_of_all(),
        }
    }

    /// Returns the path for objects in all namespaces.
    pub fn path_of_all(&self) -> String {
        format!("{}/{}", version_path(&self.group, &self.version), self.plural)
    }
}

#[derive(Deserialize)]
struct Resources {
    #[serde(default)]
    resources: Few<Resource, MAX_KINDS>,
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct Resource {
    #[serde(deserialize_with = "super::answer::word")]
    name: Option<String>,
    #[serde(deserialize_with = "super::answer::word")]
    kind: Option<String>,
    namespaced: bool,
}

#[derive(Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[derive(Default)]
struct Group {
    versions: Few<GroupVersion, MAX_VERSIONS>,
    preferred_version: Option<GroupVersion>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct GroupVersion {
    #[serde(deserialize_with = "super::answer::word")]
    version: Option<String>,
}

impl GuestClient {
    /// Looks up a kind in this API group and version. Returns `None` if the guest doesn't serve the kind.
    ///
    /// # Errors
    /// Same as [`GuestClient::read`].
    pub async fn served(
        &self,
        group: &str,
        version: &str,
        kind: &str,
    ) -> Result<Option<ServedKind>, GuestError> {
        let request = get(&version_path(group, version));
        let Some(read) = self.read_if_there::<Resources>(request, MOST).await? else { return Ok(None) };
        let of_kind = |resource: &Resource| {
            let plural = resource.name.as_deref().filter(|name| is_plain(name))?.to_owned();
            (resource.kind.as_deref() == Some(kind)).then_some((plural, resource.namespaced))
        };
        let found = read.resources.0.iter().find_map(of_kind);
        Ok(found.map(|(plural, namespaced)| ServedKind {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            plural,
            namespaced,
        }))
    }

    /// Looks up a kind in the group's preferred version, then in the other versions. Returns `None` if the guest doesn't serve
    /// the kind.
    ///
    /// # Errors
    /// Same as [`GuestClient::read`].
    pub async fn served_anyhow(&self, group: &str, kind: &str) -> Result<Option<ServedKind>, GuestError> {
        if group.is_empty() {
            return self.served(group, "v1", kind).await;
        }
        let request = get(&format!("/apis/{group}"));
        let Some(read) = self.read_if_there::<Group>(request, MOST).await? else { return Ok(None) };
        let versions = read.preferred_version.into_iter().chain(read.versions.0);
        let versions: Vec<String> =
            versions.filter_map(|of| of.version.filter(|version| is_plain(version))).collect();
        let mut asked: Vec<&String> = Vec::new();
        for version in &versions {
            if asked.contains(&version) {
                continue;
            }
            asked.push(version);
            if let Some(served) = self.served(group, version, kind).await? {
                return Ok(Some(served));
            }
        }
        Ok(None)
    }
}

fn version_path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") }
}

fn get(path: &str) -> MadeRequest {
    http::Request::get(path).body(Vec::new()).map_err(core::request::Error::BuildRequest)
}

/// Returns true if a name from the guest is safe in a path: it consists of lowercase letters, digits, `-` and `.`, and doesn't
/// begin with `.`. This excludes subresources such as `deployments/scale`, whose kind can differ from their object's kind.
fn is_plain(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.';
    !name.is_empty() && !name.starts_with('.') && name.bytes().all(plain)
}

impl ServedKind {
    /// Returns the refusal for an add-on object whose kind the guest doesn't serve.
    pub fn unserved(group: &str, version: &str, kind: &str) -> ApiRejection {
        let of = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        let remedy = "Add its CustomResourceDefinition to the bundle, or remove the object";
        ApiRejection::new(&format!("the cluster does not serve {kind} of {of}. {remedy}"))
    }
}
