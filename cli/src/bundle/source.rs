//! Reads objects from the API server, page by page and with a timeout for each request.

use std::time::Duration;

use api::names::{CAPW_NAMESPACE, GCM_NAMESPACE, VMOP_NAMESPACE};
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::allowlist::{KindRule, ReadScope};
use crate::kube::connection::dynamic_api_in;

/// The program namespaces, including Cluster API and cert-manager.
pub const CONTROLLER_NAMESPACES: [&str; 8] = [
    "capi-ipam-in-cluster-system",
    "capi-kubeadm-bootstrap-system",
    "capi-kubeadm-control-plane-system",
    "capi-system",
    "cert-manager",
    CAPW_NAMESPACE,
    GCM_NAMESPACE,
    VMOP_NAMESPACE,
];
/// The page size.
const PAGE: u32 = 200;
/// The timeout for one request.
const ANSWER: Duration = Duration::from_secs(30);

/// The namespaces to collect from.
#[derive(Clone, Debug)]
pub enum NamespaceScope {
    All,
    Only(Vec<String>),
}

/// The API server and the namespaces to read.
pub struct ObjectSource {
    pub client: Client,
    pub scope: NamespaceScope,
}

impl ObjectSource {
    /// Returns the namespaces to read, or `[None]` for all namespaces. Includes [`CONTROLLER_NAMESPACES`] if `programs`
    /// is set.
    pub fn namespaces(&self, programs: bool) -> Vec<Option<String>> {
        match &self.scope {
            NamespaceScope::All => vec![None],
            NamespaceScope::Only(named) => {
                let programs =
                    CONTROLLER_NAMESPACES.iter().filter(|_| programs).map(|name| (*name).to_owned());
                let mut all: Vec<_> = named.iter().cloned().chain(programs).map(Some).collect();
                all.sort();
                all.dedup();
                all
            }
        }
    }

    /// Returns the lists to read for a kind.
    pub fn lists(&self, rule: &KindRule) -> Vec<KindObjects> {
        let kind = (&*rule.group, &*rule.version, &*rule.kind, &*rule.plural);
        let within = |namespace: Option<String>| {
            let api = dynamic_api_in(&self.client, kind, namespace.as_deref());
            KindObjects { api, names: rule.names.clone(), pages: Pages::default(), namespace }
        };
        match (rule.place, &self.scope) {
            // Users who can't list namespaces may still be allowed to get the named namespaces.
            (ReadScope::Cluster, NamespaceScope::Only(named)) if rule.kind == "Namespace" => {
                vec![KindObjects { names: named.clone(), ..within(None) }]
            }
            (ReadScope::Cluster, _) => vec![within(None)],
            // Always include program events, because they can explain problems in any cluster.
            (ReadScope::Namespaces, _) => {
                self.namespaces(rule.kind == "Event").into_iter().map(within).collect()
            }
            (ReadScope::Controllers, _) => {
                CONTROLLER_NAMESPACES.iter().map(|name| within(Some((*name).to_owned()))).collect()
            }
        }
    }
}

/// The objects of one kind, in one namespace or all.
pub struct KindObjects {
    api: Api<DynamicObject>,
    names: Vec<String>,
    pages: Pages,
    /// The namespace, or `None` for all namespaces and cluster-scoped kinds.
    pub namespace: Option<String>,
}

impl KindObjects {
    /// Returns the next page, or `None` after the last one.
    pub async fn next(&mut self) -> Result<Option<Vec<Value>>, Unread> {
        let objects = if self.names.is_empty() {
            self.pages.next(&self.api, PAGE).await?
        } else {
            self.read_named().await?
        };
        objects.map(|objects| objects.iter().map(json).collect()).transpose()
    }

    async fn read_named(&mut self) -> Result<Option<Vec<DynamicObject>>, Unread> {
        if std::mem::replace(&mut self.pages.ended, true) {
            return Ok(None);
        }
        let mut found = Vec::new();
        for name in &self.names {
            found.extend(answer(self.api.get_opt(name)).await?);
        }
        Ok(Some(found))
    }
}

/// Converts to JSON with sorted field names.
fn json(object: &DynamicObject) -> Result<Value, Unread> {
    serde_json::to_value(object).map_err(|error| Unread::Failed(error.to_string()))
}

/// The position in a paginated list.
#[derive(Default)]
pub struct Pages {
    token: Option<String>,
    ended: bool,
}

impl Pages {
    /// Returns the next page, or `None` after the last one.
    pub async fn next<K>(&mut self, api: &Api<K>, limit: u32) -> Result<Option<Vec<K>>, Unread>
    where
        K: Clone + DeserializeOwned + std::fmt::Debug,
    {
        if self.ended {
            return Ok(None);
        }
        // An error ends the list.
        self.ended = true;
        let mut params = ListParams::default().limit(limit);
        params.continue_token = self.token.take();
        let list = answer(api.list(&params)).await?;
        self.token = list.metadata.continue_.filter(|token| !token.is_empty());
        self.ended = self.token.is_none();
        Ok(Some(list.items))
    }
}

/// The reasons why something could not be read, as shown to administrators.
#[derive(Debug)]
pub enum Unread {
    /// The user lacks permission.
    Forbidden,
    /// The API server doesn't serve the kind, or the object doesn't exist.
    NotServed,
    Failed(String),
}

impl std::error::Error for Unread {}

impl std::fmt::Display for Unread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Forbidden => f.write_str("forbidden for this user"),
            Self::NotServed => f.write_str("not served by this API server"),
            Self::Failed(why) => f.write_str(why),
        }
    }
}

/// Waits for a response, at most [`ANSWER`], and converts errors.
pub async fn answer<T>(call: impl Future<Output = kube::Result<T>>) -> Result<T, Unread> {
    match tokio::time::timeout(ANSWER, call).await {
        Err(_) => Err(Unread::Failed(format!("no answer within {} s", ANSWER.as_secs()))),
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(kube::Error::Api(status))) => Err(match status.code {
            403 => Unread::Forbidden,
            404 => Unread::NotServed,
            410 => Unread::Failed("the list changed while it was being read, so it is incomplete".to_owned()),
            _ => Unread::Failed(status.message),
        }),
        Ok(Err(error)) => Err(Unread::Failed(format!("{:#}", anyhow::Error::from(error)))),
    }
}

/// Sets `apiVersion` and `kind`, which list items lack.
pub fn set_types(object: &mut Value, rule: &KindRule) {
    let api_version =
        if rule.group.is_empty() { rule.version.clone() } else { format!("{}/{}", rule.group, rule.version) };
    object["apiVersion"] = api_version.into();
    object["kind"] = rule.kind.as_str().into();
}
