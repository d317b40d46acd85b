//! Where a bundle's objects are read, and how: page by page, with a limit for each answer.

use std::time::Duration;

use api::names::{CAPW_NAMESPACE, GCM_NAMESPACE, VMOP_NAMESPACE};
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::allowlist::{KindRule, Place};
use crate::connection::dynamic_api_in;

/// The namespaces of the programs, of Cluster API and of what gives their webhooks certificates.
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
/// Objects of one answer.
const PAGE: u32 = 200;
/// How long one answer may take.
const ANSWER: Duration = Duration::from_secs(30);

/// Which namespaces a bundle is about.
#[derive(Clone, Debug)]
pub enum Scope {
    All,
    Only(Vec<String>),
}

/// The API server, and what is read of it.
pub struct Source {
    pub client: Client,
    /// Which namespaces the bundle is about.
    pub scope: Scope,
}

impl Source {
    /// The namespaces to read, `None` for all at once; with those of the programs if `programs`.
    pub fn namespaces(&self, programs: bool) -> Vec<Option<String>> {
        match &self.scope {
            Scope::All => vec![None],
            Scope::Only(named) => {
                let programs =
                    CONTROLLER_NAMESPACES.iter().filter(|_| programs).map(|name| (*name).to_owned());
                let mut all: Vec<_> = named.iter().cloned().chain(programs).map(Some).collect();
                all.sort();
                all.dedup();
                all
            }
        }
    }

    /// The lists in which the objects of a kind are.
    pub fn lists(&self, rule: &KindRule) -> Vec<Objects> {
        let kind = (&*rule.group, &*rule.version, &*rule.kind, &*rule.plural);
        let within = |namespace: Option<String>| {
            let api = dynamic_api_in(&self.client, kind, namespace.as_deref());
            Objects { api, names: rule.names.clone(), pages: Pages::default(), namespace }
        };
        match (rule.place, &self.scope) {
            // Who may not list namespaces may read their own.
            (Place::Cluster, Scope::Only(named)) if rule.kind == "Namespace" => {
                vec![Objects { names: named.clone(), ..within(None) }]
            }
            (Place::Cluster, _) => vec![within(None)],
            // What happened to the programs matters for all.
            (Place::Namespaces, _) => self.namespaces(rule.kind == "Event").into_iter().map(within).collect(),
            (Place::Controllers, _) => {
                CONTROLLER_NAMESPACES.iter().map(|name| within(Some((*name).to_owned()))).collect()
            }
        }
    }
}

/// Objects of one kind, in one namespace or in all.
pub struct Objects {
    api: Api<DynamicObject>,
    names: Vec<String>,
    pages: Pages,
    /// The namespace; `None` for all, or where there is none.
    pub namespace: Option<String>,
}

impl Objects {
    /// The next of them; `None` after the last.
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

/// As JSON; the fields' order is that of their names.
fn json(object: &DynamicObject) -> Result<Value, Unread> {
    serde_json::to_value(object).map_err(|error| Unread::Failed(error.to_string()))
}

/// A list that is read page by page.
#[derive(Default)]
pub struct Pages {
    token: Option<String>,
    ended: bool,
}

impl Pages {
    /// The next page; `None` after the last.
    pub async fn next<K>(&mut self, api: &Api<K>, limit: u32) -> Result<Option<Vec<K>>, Unread>
    where
        K: Clone + DeserializeOwned + std::fmt::Debug,
    {
        if self.ended {
            return Ok(None);
        }
        // Whatever ends this page badly ends the list.
        self.ended = true;
        let mut params = ListParams::default().limit(limit);
        params.continue_token = self.token.take();
        let list = answer(api.list(&params)).await?;
        self.token = list.metadata.continue_.filter(|token| !token.is_empty());
        self.ended = self.token.is_none();
        Ok(Some(list.items))
    }
}

/// Why something could not be read, in words for an administrator.
#[derive(Debug)]
pub enum Unread {
    /// The user has no right to it.
    Forbidden,
    /// The API server does not know the kind.
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

/// The API server's answer, or why there is none.
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

/// Sets apiVersion and kind, which the items of a list lack.
pub fn set_types(object: &mut Value, rule: &KindRule) {
    let api_version =
        if rule.group.is_empty() { rule.version.clone() } else { format!("{}/{}", rule.group, rule.version) };
    object["apiVersion"] = api_version.into();
    object["kind"] = rule.kind.as_str().into();
}
