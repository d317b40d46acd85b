//! Applies, creates, reads and deletes objects of any kind, as an administrator or a user does.
//!
//! A controller writes the kinds that it watches with [`crate::apply`], which compares them with a cache first.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::stream::{self, StreamExt, TryStreamExt};
use kube::Client;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams,
    ValidationDirective,
};
use kube::discovery::{Scope, oneshot};
use kube::error::DiscoveryError;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::api_error::{is_already_exists, is_not_served, message, words_of_refusal};

/// The default field manager.
const FIELD_MANAGER: &str = "layercake";
/// The maximum number of concurrent requests. More requests would only queue up in the API server.
const CONCURRENCY: usize = 8;
/// The default time limit for retries after transient errors.
const RETRY_FOR: Duration = Duration::from_secs(15);
/// The delay between two attempts to send a request.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// The interval between checks for served CRDs.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The reasons why an operation on an object fails.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The object can't be sent, for example because it has no kind.
    #[error("manifest {name}: {reason}")]
    Malformed {
        /// The object's name, which may be empty.
        name: String,
        /// The fault in the object.
        reason: String,
    },
    /// The API server doesn't serve the object's kind.
    #[error("the API server does not serve kind {kind} of {version}. {remedy}")]
    NotServed {
        /// The object's kind.
        kind: String,
        /// The object's group and version.
        version: String,
        /// The action that resolves the error.
        remedy: String,
    },
    /// The API server refuses the request or doesn't respond.
    #[error("cannot {what}: {}", words_of_refusal(&message(.error)))]
    Api {
        /// The operation and the object, such as `apply Secret dev/a`.
        what: String,
        /// The API server's or the client's error.
        error: Box<kube::Error>,
    },
    /// The API server doesn't serve new CRDs in time.
    #[error(
        "the API server does not serve the custom resource definitions yet within {} s: {missing} missing",
        .limit.as_secs()
    )]
    NotServedYet {
        /// The time limit.
        limit: Duration,
        /// A kind that is missing.
        missing: String,
    },
}

/// A client for objects of any kind.
///
/// By default, it takes over fields from other field managers and retries after transient errors, such as a namespace or CRD
/// that doesn't exist yet. Objects without a namespace are cluster-scoped, so no request is needed to find their scope.
#[derive(Clone)]
pub struct Objects {
    client: Client,
    manager: &'static str,
    retry_for: Duration,
    takes_over: bool,
    dry_run: bool,
    /// The namespace for objects of namespaced kinds that don't set one.
    default_namespace: Option<String>,
}

impl Objects {
    /// Creates a client that writes as field manager `layercake`.
    pub fn new(client: &Client) -> Self {
        Self {
            client: client.clone(),
            manager: FIELD_MANAGER,
            retry_for: RETRY_FOR,
            takes_over: true,
            dry_run: false,
            default_namespace: None,
        }
    }

    /// Writes as another field manager.
    #[must_use]
    pub fn managed_by(self, manager: &'static str) -> Self {
        Self { manager, ..self }
    }

    /// Retries after transient errors for at most `limit`.
    #[must_use]
    pub fn retry_for(self, limit: Duration) -> Self {
        Self { retry_for: limit, ..self }
    }

    /// Treats objects as a user's: doesn't retry, uses `namespace` for objects of namespaced kinds that don't set one, asks the
    /// API server for the scope of kinds where necessary, and refuses fields that a kind doesn't have.
    #[must_use]
    pub fn of_user(self, namespace: &str) -> Self {
        Self { retry_for: Duration::ZERO, default_namespace: Some(namespace.to_owned()), ..self }
    }

    /// Sets whether fields of other field managers are taken over. Otherwise they cause a conflict.
    #[must_use]
    pub fn take_over(self, takes_over: bool) -> Self {
        Self { takes_over, ..self }
    }

    /// Sets whether the API server only checks applied objects.
    #[must_use]
    pub fn dry_run(self, dry_run: bool) -> Self {
        Self { dry_run, ..self }
    }

    /// Creates or updates an object with server-side apply. Returns the resulting object.
    pub async fn apply(&self, object: &Value) -> Result<DynamicObject, Error> {
        let what = Described::new(object)?;
        let mut place = self.place(&what).await?;
        let mut applied = self.until_settled(|| self.patch(&what, &place, object)).await;
        // The API server gives the same answers for objects that are missing or forbidden as for a wrong guess.
        if let Err(kube::Error::Api(status)) = &applied
            && matches!(status.code, 403 | 404)
            && let Some(namespace) = &self.default_namespace
        {
            match self.discover(&what, namespace).await {
                Err(error @ Error::NotServed { .. }) => return Err(error),
                Ok(found) if !found.is_same(&place) => {
                    place = found;
                    applied = self.patch(&what, &place, object).await;
                }
                _ => {}
            }
        }
        applied.map_err(|error| what.failed("apply", &place, error))
    }

    async fn patch(&self, what: &Described, place: &Place, object: &Value) -> kube::Result<DynamicObject> {
        let params = PatchParams {
            dry_run: self.dry_run,
            force: self.takes_over,
            field_manager: Some(self.manager.to_owned()),
            field_validation: self.default_namespace.as_ref().map(|_| ValidationDirective::Strict),
        };
        place.api(&self.client).patch(&what.name, &params, &Patch::Apply(object)).await
    }

    /// Applies objects concurrently. Stops at the first error.
    pub async fn apply_all<'a>(&self, objects: impl IntoIterator<Item = &'a Value>) -> Result<(), Error> {
        stream::iter(objects)
            .map(|object| self.apply(object))
            .buffer_unordered(CONCURRENCY)
            .try_for_each(|_| std::future::ready(Ok(())))
            .await
    }

    /// Creates an object if it doesn't exist. Doesn't change an existing object.
    pub async fn create_if_missing(&self, object: &Value) -> Result<(), Error> {
        let what = Described::new(object)?;
        let place = self.place(&what).await?;
        let typed: DynamicObject =
            serde_json::from_value(object.clone()).map_err(|error| what.malformed(&error))?;
        match place.api(&self.client).create(&PostParams::default(), &typed).await {
            Err(error) if is_already_exists(&error) => Ok(()),
            created => created.map(drop).map_err(|error| what.failed("create", &place, error)),
        }
    }

    /// Deletes objects concurrently. Ignores objects that don't exist and kinds that aren't served.
    pub async fn delete_all<'a>(&self, objects: impl IntoIterator<Item = &'a Value>) -> Result<(), Error> {
        stream::iter(objects)
            .map(|object| self.delete(object))
            .buffer_unordered(CONCURRENCY)
            .try_for_each(|()| std::future::ready(Ok(())))
            .await
    }

    async fn delete(&self, object: &Value) -> Result<(), Error> {
        let what = Described::new(object)?;
        let place = self.place(&what).await?;
        let api = place.api(&self.client);
        let deleted = self.until_settled(|| async {
            match api.delete(&what.name, &DeleteParams::background()).await {
                Err(error) if is_not_served(&error) => Ok(()),
                deleted => deleted.map(drop),
            }
        });
        deleted.await.map_err(|error| what.failed("delete", &place, error))
    }

    /// Reads the live object with the kind, namespace and name in `object`. Returns `None` if the live object doesn't exist or
    /// its kind isn't served.
    pub async fn read(&self, object: &Value) -> Result<Option<DynamicObject>, Error> {
        let what = Described::new(object)?;
        let place = self.place(&what).await?;
        let found = place.api(&self.client).get_opt(&what.name).await;
        found.map_err(|error| what.failed("read", &place, error))
    }

    /// Waits until the API server serves every served version of the CRDs. Then the CRDs are established, and clients can watch
    /// their kinds.
    ///
    /// # Errors
    /// Returns an error if a version isn't served within `limit`.
    pub async fn wait_until_served(&self, definitions: &[Value], limit: Duration) -> Result<(), Error> {
        let deadline = Instant::now() + limit;
        let mut missing: BTreeSet<_> = definitions.iter().flat_map(served_resources).collect();
        loop {
            let groups: BTreeSet<_> = missing.iter().map(|(group, _)| group.clone()).collect();
            for group in groups {
                let found = self.client.list_api_group_resources(&group).await;
                let found = found.map(|found| found.resources).unwrap_or_default();
                missing.retain(|(of, plural)| *of != group || !found.iter().any(|one| one.name == *plural));
            }
            let Some((group, plural)) = missing.first() else { return Ok(()) };
            if Instant::now() >= deadline {
                return Err(Error::NotServedYet { limit, missing: format!("{plural} in {group}") });
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Sends a request until the API server accepts it or refuses it permanently, or until the time for retries has passed.
    async fn until_settled<T, F>(&self, request: impl Fn() -> F) -> kube::Result<T>
    where
        F: Future<Output = kube::Result<T>>,
    {
        let deadline = Instant::now() + self.retry_for;
        loop {
            match request().await {
                Err(error) if is_transient(&error) && Instant::now() < deadline => {
                    sleep(RETRY_INTERVAL).await;
                }
                settled => return settled,
            }
        }
    }

    /// Returns an object's place. Guesses the plural of its kind, and the scope if that isn't ambiguous.
    async fn place(&self, what: &Described) -> Result<Place, Error> {
        match (&what.namespace, &self.default_namespace) {
            (None, Some(default)) => self.discover(what, default).await,
            (namespace, _) => {
                let resource = ApiResource::from_gvk(&what.kind);
                Ok(Place { resource, namespace: namespace.clone() })
            }
        }
    }

    /// Asks the API server for an object's place.
    async fn discover(&self, what: &Described, default_namespace: &str) -> Result<Place, Error> {
        match oneshot::pinned_kind(&self.client, &what.kind).await {
            Ok((resource, capabilities)) => {
                let namespace = || what.namespace.as_deref().unwrap_or(default_namespace).to_owned();
                let namespace = (capabilities.scope == Scope::Namespaced).then(namespace);
                Ok(Place { resource, namespace })
            }
            Err(kube::Error::Discovery(DiscoveryError::MissingKind(_))) => {
                Err(what.not_served("Correct kind; `kubectl api-resources` lists what is served".to_owned()))
            }
            Err(error) if is_not_served(&error) => {
                let group = &what.kind.group;
                Err(what.not_served(match served_versions(&self.client, group).await {
                    Some(versions) => format!("Correct apiVersion: {group} has {versions}"),
                    None => "Correct apiVersion; `kubectl api-resources` lists what is served".to_owned(),
                }))
            }
            Err(error) => {
                let what = format!("find out the scope of {} of {}", what.kind.kind, what.kind.api_version());
                Err(Error::Api { what, error: Box::new(error) })
            }
        }
    }
}

/// The parts of an object that name it.
struct Described {
    kind: GroupVersionKind,
    namespace: Option<String>,
    name: String,
}

impl Described {
    fn new(object: &Value) -> Result<Self, Error> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (version, kind, name) = (text("/apiVersion"), text("/kind"), text("/metadata/name"));
        if version.is_empty() || kind.is_empty() {
            let reason = "no apiVersion and kind".to_owned();
            return Err(Error::Malformed { name: name.to_owned(), reason });
        }
        let (group, version) = version.rsplit_once('/').unwrap_or(("", version));
        let namespace = Some(text("/metadata/namespace")).filter(|namespace| !namespace.is_empty());
        Ok(Self {
            kind: GroupVersionKind::gvk(group, version, kind),
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
        })
    }

    fn malformed(&self, error: &serde_json::Error) -> Error {
        Error::Malformed { name: self.name.clone(), reason: error.to_string() }
    }

    fn not_served(&self, remedy: String) -> Error {
        Error::NotServed { kind: self.kind.kind.clone(), version: self.kind.api_version(), remedy }
    }

    fn failed(&self, verb: &str, place: &Place, error: kube::Error) -> Error {
        let namespace = place.namespace.as_ref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
        let what = format!("{verb} {} {namespace}{}", self.kind.kind, self.name);
        Error::Api { what, error: Box::new(error) }
    }
}

/// The resource and namespace under which the API server has an object.
struct Place {
    resource: ApiResource,
    /// The namespace, or `None` for a cluster-scoped kind.
    namespace: Option<String>,
}

impl Place {
    fn is_same(&self, other: &Self) -> bool {
        self.resource.plural == other.resource.plural && self.namespace == other.namespace
    }

    fn api(&self, client: &Client) -> Api<DynamicObject> {
        match &self.namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &self.resource),
            None => Api::all_with(client.clone(), &self.resource),
        }
    }
}

/// Returns true for errors that can resolve by themselves: connection errors, conflicts, a namespace or kind that doesn't exist
/// yet, and an overloaded or failing server.
fn is_transient(error: &kube::Error) -> bool {
    match error {
        // A manifest with an unknown field also causes a 500, but this error doesn't resolve by itself.
        kube::Error::Api(status) if status.message.contains("failed to create typed patch") => false,
        kube::Error::Api(status) => matches!(status.code, 404 | 409 | 429 | 500..),
        kube::Error::HyperError(_) | kube::Error::Service(_) => true,
        _ => false,
    }
}

/// Returns the group and version, and the plural, of each version of a CRD that the API server will serve.
fn served_resources(definition: &Value) -> Vec<(String, String)> {
    let text = |pointer: &str| definition.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (group, plural) = (text("/spec/group"), text("/spec/names/plural"));
    let versions = definition["spec"]["versions"].as_array().into_iter().flatten();
    let served = versions.filter(|version| version["served"] == true).filter_map(|one| one["name"].as_str());
    served.map(|version| (format!("{group}/{version}"), plural.to_owned())).collect()
}

/// Returns the served versions of an API group, separated by commas, or `None` if the API server doesn't list the group.
async fn served_versions(client: &Client, group: &str) -> Option<String> {
    let groups = client.list_api_groups().await.ok()?.groups;
    let versions = groups.into_iter().find(|served| served.name == group)?.versions;
    let mut names: Vec<_> = versions.into_iter().map(|version| version.version).collect();
    names.sort();
    Some(names.join(", "))
}

#[cfg(test)]
mod tests;
