//! The IPAM provider of the site: answers IPAddressClaims of its pools with IPAddresses.
//!
//! It plays Cluster API's in-cluster provider: names, finalizers and owners are that one's, so that whoever waits for an
//! address, deletes a claim or moves objects sees what it would see there.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::pin::pin;
use std::time::Duration;

use futures::{StreamExt, stream};
use ipnet::Ipv4Net;
use k8s_openapi::jiff::Timestamp;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams,
};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tracing::{info, warn};
use watcher::Event;

use crate::objects::key;

const GROUP: &str = "ipam.cluster.x-k8s.io";
const MANAGER: &str = "cluster-api-ipam-provider-in-cluster";
/// On a claim: its address is taken back before it goes.
const RELEASE: &str = "ipam.cluster.x-k8s.io/ReleaseAddress";
/// On an address: it stays as long as its claim.
const PROTECT: &str = "ipam.cluster.x-k8s.io/ProtectAddress";
/// A claim whose pool is exhausted, or not there yet, is looked at again.
const AGAIN: Duration = Duration::from_secs(2);

/// The provider at work; dropping it ends it.
#[derive(Debug)]
pub struct Ipam {
    working: JoinHandle<()>,
}

impl Ipam {
    /// Starts serving the cluster behind `client`.
    pub(crate) fn serving(client: Client) -> Self {
        Self { working: tokio::spawn(Provider { client }.work()) }
    }
}

impl Drop for Ipam {
    fn drop(&mut self) {
        self.working.abort();
    }
}

struct Provider {
    client: Client,
}

/// Why a claim has no address yet.
enum Refused {
    Because(&'static str, String),
    Api(kube::Error),
}

impl From<kube::Error> for Refused {
    fn from(error: kube::Error) -> Self {
        Self::Api(error)
    }
}

impl Provider {
    async fn work(self) {
        let claims = watcher(self.claims(None), watcher::Config::default()).default_backoff();
        let changes = claims.filter_map(async |event| match event {
            Ok(Event::Apply(claim) | Event::InitApply(claim)) => Some(Some(claim)),
            Ok(_) => None,
            Err(error) => {
                warn!(%error, "the watch of address claims was interrupted");
                None
            }
        });
        let ticks = stream::unfold((), async |()| {
            tokio::time::sleep(AGAIN).await;
            Some((None, ()))
        });
        let mut events = pin!(stream::select(changes.boxed(), ticks.boxed()));
        let mut waiting: Vec<(Option<String>, String)> = Vec::new();
        while let Some(event) = events.next().await {
            let due = match event {
                Some(claim) => vec![(claim.namespace(), claim.name_any())],
                None => std::mem::take(&mut waiting),
            };
            for (namespace, name) in due {
                if !self.settle(namespace.as_deref(), &name).await {
                    waiting.push((namespace, name));
                }
            }
        }
    }

    /// Brings a claim to its end; whether there is nothing left to do.
    async fn settle(&self, namespace: Option<&str>, name: &str) -> bool {
        let claim = match self.claims(namespace).get_opt(name).await {
            Ok(Some(claim)) => claim,
            Ok(None) => return true,
            Err(_) => return false,
        };
        let reference = &claim.data["spec"]["poolRef"];
        if reference["apiGroup"] != GROUP || pool_kind(reference).is_none() {
            return true;
        }
        if self.is_paused(&claim).await {
            return false;
        }
        let done = if claim.metadata.deletion_timestamp.is_some() {
            self.release(&claim).await.map_err(Refused::Api)
        } else if claim.data["status"]["addressRef"]["name"].is_string() {
            Ok(())
        } else {
            self.give(&claim).await
        };
        match done {
            Ok(()) => true,
            Err(Refused::Because(reason, message)) => {
                self.report(&claim, json!({ "conditions": [ready(false, reason, &message)] })).await;
                false
            }
            Err(Refused::Api(error)) => {
                warn!(claim = key(&claim), %error, "the claim can't be answered");
                false
            }
        }
    }

    /// Whether the claim's Cluster rests: neither is it given an address then, nor does it lose one.
    async fn is_paused(&self, claim: &DynamicObject) -> bool {
        let Some(cluster) = claim.labels().get("cluster.x-k8s.io/cluster-name") else { return false };
        let kind = GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", "Cluster");
        let resource = ApiResource::from_gvk_with_plural(&kind, "clusters");
        let namespace = claim.namespace().unwrap_or_default();
        let clusters: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &namespace, &resource);
        match clusters.get_opt(cluster).await {
            Ok(found) => found.is_some_and(|cluster| cluster.data["spec"]["paused"] == true),
            Err(_) => true,
        }
    }

    async fn give(&self, claim: &DynamicObject) -> Result<(), Refused> {
        let (namespace, name) = (claim.namespace().unwrap_or_default(), claim.name_any());
        let reference = claim.data["spec"]["poolRef"].clone();
        let pool_name = reference["name"].as_str().unwrap_or_default();
        let kind = pool_kind(&reference).unwrap_or_default();
        let pool = self.pools(kind, &namespace).get_opt(pool_name).await?;
        let pool = pool
            .ok_or_else(|| Refused::Because("PoolNotReady", format!("{kind} {pool_name} does not exist")))?;
        self.mark(claim, RELEASE, true).await?;
        let addresses = self.addresses(&namespace);
        if addresses.get_opt(&name).await?.is_none() {
            let used = self.used(&reference, kind, &namespace).await?;
            let free = listed(&pool.data["spec"]["addresses"]).into_iter().find(|one| !used.contains(one));
            let free = free.ok_or_else(|| {
                Refused::Because("PoolExhausted", format!("{kind} {pool_name} has no free address"))
            })?;
            let owner = |object: &DynamicObject, api_version: &str, kind: &str, controller: bool| {
                json!({
                    "apiVersion": api_version, "kind": kind, "name": object.name_any(),
                    "uid": object.uid(), "controller": controller, "blockOwnerDeletion": true,
                })
            };
            let mut spec = json!({
                "address": free.to_string(), "claimRef": { "name": name }, "poolRef": reference,
                "prefix": pool.data["spec"]["prefix"],
            });
            if pool.data["spec"]["gateway"].is_string() {
                spec["gateway"] = pool.data["spec"]["gateway"].clone();
            }
            let address = json!({
                "apiVersion": format!("{GROUP}/v1beta2"), "kind": "IPAddress",
                "metadata": {
                    "name": name, "namespace": namespace, "finalizers": [PROTECT],
                    "labels": claim.metadata.labels,
                    "ownerReferences": [
                        owner(claim, &format!("{GROUP}/v1beta2"), "IPAddressClaim", true),
                        owner(&pool, &format!("{GROUP}/v1alpha2"), kind, false),
                    ],
                },
                "spec": spec,
            });
            let address: DynamicObject = serde_json::from_value(address)
                .map_err(|error| Refused::Because("Internal", error.to_string()))?;
            addresses.create(&PostParams::default(), &address).await?;
        }
        let status =
            json!({ "addressRef": { "name": name }, "conditions": [ready(true, "AddressAllocated", "")] });
        self.report(claim, status).await;
        info!(claim = key(claim), "address given");
        Ok(())
    }

    /// The addresses of the pool that are in use.
    async fn used(
        &self,
        reference: &Value,
        kind: &str,
        namespace: &str,
    ) -> Result<BTreeSet<Ipv4Addr>, kube::Error> {
        let all = self.of("IPAddress", "ipaddresses", "v1beta2", None).list(&ListParams::default()).await?;
        let local = kind == "InClusterIPPool";
        let of_pool = |one: &&DynamicObject| {
            one.data["spec"]["poolRef"] == *reference
                && (!local || one.namespace().as_deref() == Some(namespace))
        };
        let read = |one: &DynamicObject| one.data["spec"]["address"].as_str()?.parse().ok();
        Ok(all.iter().filter(of_pool).filter_map(read).collect())
    }

    async fn release(&self, claim: &DynamicObject) -> Result<(), kube::Error> {
        let namespace = claim.namespace().unwrap_or_default();
        let addresses = self.addresses(&namespace);
        if let Some(address) = addresses.get_opt(&claim.name_any()).await? {
            addresses.delete(&address.name_any(), &DeleteParams::default()).await?;
            self.unmark(&addresses, &address, PROTECT).await?;
        }
        self.mark(claim, RELEASE, false).await?;
        info!(claim = key(claim), "address taken back");
        Ok(())
    }

    async fn mark(&self, claim: &DynamicObject, finalizer: &str, on: bool) -> Result<(), kube::Error> {
        let there = claim.finalizers().iter().any(|one| one == finalizer);
        let claims = self.claims(claim.namespace().as_deref());
        match (there, on) {
            (false, true) => {
                let mut finalizers = claim.finalizers().to_vec();
                finalizers.push(finalizer.to_owned());
                let patch = json!({ "metadata": {
                    "finalizers": finalizers, "resourceVersion": claim.resource_version(),
                }});
                claims.patch(&claim.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await.map(drop)
            }
            (true, false) => self.unmark(&claims, claim, finalizer).await,
            _ => Ok(()),
        }
    }

    async fn unmark(
        &self,
        api: &Api<DynamicObject>,
        object: &DynamicObject,
        finalizer: &str,
    ) -> Result<(), kube::Error> {
        let left: Vec<_> = object.finalizers().iter().filter(|one| *one != finalizer).collect();
        let patch = Patch::Merge(json!({ "metadata": { "finalizers": left } }));
        match api.patch(&object.name_any(), &PatchParams::default(), &patch).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            other => other.map(drop),
        }
    }

    async fn report(&self, claim: &DynamicObject, status: Value) {
        let patch =
            json!({ "apiVersion": format!("{GROUP}/v1beta2"), "kind": "IPAddressClaim", "status": status });
        let params = PatchParams::apply(MANAGER).force();
        let claims = self.claims(claim.namespace().as_deref());
        if let Err(error) = claims.patch_status(&claim.name_any(), &params, &Patch::Apply(&patch)).await {
            warn!(claim = key(claim), %error, "the claim's status can't be written");
        }
    }

    fn claims(&self, namespace: Option<&str>) -> Api<DynamicObject> {
        self.of("IPAddressClaim", "ipaddressclaims", "v1beta2", namespace)
    }

    fn addresses(&self, namespace: &str) -> Api<DynamicObject> {
        self.of("IPAddress", "ipaddresses", "v1beta2", Some(namespace))
    }

    fn pools(&self, kind: &str, namespace: &str) -> Api<DynamicObject> {
        match kind {
            "InClusterIPPool" => self.of(kind, "inclusterippools", "v1alpha2", Some(namespace)),
            _ => self.of(kind, "globalinclusterippools", "v1alpha2", None),
        }
    }

    fn of(&self, kind: &str, plural: &str, version: &str, namespace: Option<&str>) -> Api<DynamicObject> {
        let resource =
            ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GROUP, version, kind), plural);
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }
}

/// The kind of the pool that a claim names, if it is one of ours.
fn pool_kind(reference: &Value) -> Option<&'static str> {
    ["InClusterIPPool", "GlobalInClusterIPPool"].into_iter().find(|kind| reference["kind"] == *kind)
}

fn ready(ready: bool, reason: &str, message: &str) -> Value {
    json!({
        "type": "Ready", "status": if ready { "True" } else { "False" }, "reason": reason, "message": message,
        "lastTransitionTime": Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    })
}

/// The addresses of a pool, in order; what can't be read is left out.
fn listed(addresses: &Value) -> Vec<Ipv4Addr> {
    let entries = addresses.as_array().into_iter().flatten().filter_map(Value::as_str);
    entries.flat_map(range).collect()
}

fn range(entry: &str) -> Vec<Ipv4Addr> {
    if let Ok(net) = entry.parse::<Ipv4Net>() {
        return net.hosts().collect();
    }
    let (first, last) = entry.split_once('-').unwrap_or((entry, entry));
    match (first.trim().parse::<Ipv4Addr>(), last.trim().parse::<Ipv4Addr>()) {
        (Ok(first), Ok(last)) => (u32::from(first)..=u32::from(last)).map(Ipv4Addr::from).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_lists_addresses_ranges_and_networks() {
        let of = |entries: &[&str]| -> Vec<String> {
            listed(&json!(entries)).iter().map(ToString::to_string).collect()
        };
        assert_eq!(of(&["127.9.255.1"]), ["127.9.255.1"]);
        assert_eq!(of(&["127.9.255.1-127.9.255.3"]).len(), 3);
        assert_eq!(of(&["127.9.255.0/29"]), ["1", "2", "3", "4", "5", "6"].map(|n| format!("127.9.255.{n}")));
        assert!(of(&["x", "127.9.255.3-127.9.255.1"]).is_empty());
    }
}
