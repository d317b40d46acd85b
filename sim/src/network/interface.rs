//! Assigns addresses to network interfaces: to NetworkInterfaces on port groups like net-operator, and to
//! VirtualNetworkInterfaces like NSX Container Plug-in (NCP).
//!
//! Every interface leases an address from the site's subnet until the interface object is deleted.

use std::net::Ipv4Addr;
use std::pin::pin;

use futures::{StreamExt, stream};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;
use tracing::{info, warn};
use watcher::Event;

use super::networks::Networks;
use super::virtual_network::virtual_networks;
use crate::addresses::Subnet;
use crate::objects::{condition, has_condition, key, log_interruption};

/// The subnet mask for all interfaces.
const MASK: &str = "255.255.0.0";

/// The running interface providers. They stop on drop.
#[derive(Debug)]
pub struct Interfaces {
    _working: AbortOnDropHandle<()>,
}

impl Interfaces {
    pub(crate) fn serving(client: Client, subnet: Subnet, networks: Networks) -> Self {
        let working = tokio::spawn(Provider { client, subnet, networks }.work());
        Self { _working: AbortOnDropHandle::new(working) }
    }
}

/// The provider that serves an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Serves NetworkInterfaces.
    NetOperator,
    /// Serves VirtualNetworkInterfaces.
    Nsx,
}

impl Kind {
    fn resource(self) -> ApiResource {
        let (group, kind, plural) = match self {
            Self::NetOperator => ("netoperator.vmware.com", "NetworkInterface", "networkinterfaces"),
            Self::Nsx => ("vmware.com", "VirtualNetworkInterface", "virtualnetworkinterfaces"),
        };
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, "v1alpha1", kind), plural)
    }

    fn manager(self) -> &'static str {
        match self {
            Self::NetOperator => "net-operator",
            Self::Nsx => "nsx-container-ncp",
        }
    }

    /// Returns the condition that reports a failed interface.
    fn failed(self, why: &str) -> Value {
        match self {
            Self::NetOperator => condition("Failure", "True", "NetworkNotFound", why),
            Self::Nsx => condition("Ready", "False", "NetworkNotRealized", why),
        }
    }
}

/// The addresses and the id that an interface gets.
struct Given {
    address: Ipv4Addr,
    gateway: Ipv4Addr,
    mac: String,
    id: String,
}

struct Provider {
    client: Client,
    subnet: Subnet,
    networks: Networks,
}

impl Provider {
    async fn work(self) {
        let events = |kind: Kind| {
            watcher(self.api(kind, None), watcher::Config::default())
                .default_backoff()
                .map(move |event| (kind, event))
                .boxed()
        };
        // A new VirtualNetwork can unblock interfaces that were created before it.
        let networks = watcher(self.networks_of(None), watcher::Config::default())
            .default_backoff()
            .filter_map(async |event| matches!(event, Ok(Event::Apply(_))).then_some(()))
            .boxed();
        let events = stream::select(events(Kind::NetOperator), events(Kind::Nsx)).map(Some);
        let mut events = pin!(stream::select(events, networks.map(|()| None)));
        while let Some(event) = events.next().await {
            match event {
                Some((kind, Ok(Event::Apply(interface) | Event::InitApply(interface)))) => {
                    self.settle(kind, &interface).await;
                }
                Some((kind, Ok(Event::Delete(interface)))) => {
                    self.subnet.release_guest_address(&lease(kind, &interface));
                }
                Some((kind, Err(error))) => {
                    log_interruption(&kind.resource().kind, &error);
                }
                Some(_) => {}
                None => self.settle_all().await,
            }
        }
    }

    async fn settle_all(&self) {
        match self.api(Kind::Nsx, None).list(&kube::api::ListParams::default()).await {
            Ok(all) => {
                for interface in all {
                    self.settle(Kind::Nsx, &interface).await;
                }
            }
            Err(error) => warn!(%error, "interfaces can't be listed"),
        }
    }

    async fn settle(&self, kind: Kind, interface: &DynamicObject) {
        if has_condition(interface, "Ready", "True", None) || interface.metadata.deletion_timestamp.is_some()
        {
            return;
        }
        let status = match self.status(kind, interface).await {
            Ok(status) => status,
            Err(why) => {
                let failed = kind.failed(&why);
                let (type_, state) = (failed["type"].as_str(), failed["status"].as_str());
                if has_condition(interface, type_.unwrap_or_default(), state.unwrap_or_default(), Some(&why))
                {
                    return;
                }
                json!({"conditions": [failed]})
            }
        };
        let resource = kind.resource();
        let patch = json!({"apiVersion": resource.api_version, "kind": resource.kind, "status": status});
        let api = self.api(kind, interface.namespace().as_deref());
        let params = PatchParams::apply(kind.manager()).force();
        match api.patch_status(&interface.name_any(), &params, &Patch::Apply(&patch)).await {
            Ok(_) => info!(interface = key(interface), "answered"),
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => warn!(interface = key(interface), %error, "can't be answered"),
        }
    }

    /// Returns the interface status, or the reason why the interface can't be realized.
    async fn status(&self, kind: Kind, interface: &DynamicObject) -> Result<Value, String> {
        match kind {
            Kind::NetOperator => {
                let name = interface.data["spec"]["networkName"].as_str().unwrap_or(&self.networks.default);
                let group = self.networks.port_groups.get(name);
                let group = group.ok_or_else(|| format!("network {name} does not exist"))?;
                Ok(on_port_group(&self.given(kind, interface)?, group))
            }
            Kind::Nsx => {
                let name = interface.data["spec"]["virtualNetwork"].as_str().unwrap_or_default();
                let network = self.networks_of(interface.namespace().as_deref()).get_opt(name).await;
                if network.map_err(|error| error.to_string())?.is_none() {
                    return Err(format!("VirtualNetwork {name} does not exist"));
                }
                let segment = self.networks.segment.as_ref().ok_or("vCenter has no segment of NSX")?;
                Ok(on_segment(&self.given(kind, interface)?, segment))
            }
        }
    }

    fn given(&self, kind: Kind, interface: &DynamicObject) -> Result<Given, String> {
        let leased = self.subnet.guest_address(&lease(kind, interface)).map_err(|error| error.to_string())?;
        let [_, b, c, d] = leased.reported.octets();
        Ok(Given {
            address: leased.reported,
            gateway: Ipv4Addr::new(10, b, 0, 1),
            // 00:50:56:00 to 00:50:56:3f is the range that vCenter doesn't assign automatically.
            mac: format!("00:50:56:{:02x}:{c:02x}:{d:02x}", b & 0x3f),
            id: interface.uid().unwrap_or_default(),
        })
    }

    fn api(&self, kind: Kind, namespace: Option<&str>) -> Api<DynamicObject> {
        self.of(&kind.resource(), namespace)
    }

    fn networks_of(&self, namespace: Option<&str>) -> Api<DynamicObject> {
        self.of(&virtual_networks(), namespace)
    }

    fn of(&self, resource: &ApiResource, namespace: Option<&str>) -> Api<DynamicObject> {
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, resource),
            None => Api::all_with(self.client.clone(), resource),
        }
    }
}

fn lease(kind: Kind, interface: &DynamicObject) -> String {
    format!("{} {}", kind.resource().kind, interface.uid().unwrap_or_default())
}

fn on_port_group(given: &Given, group: &str) -> Value {
    json!({
        "conditions": [condition("Ready", "True", "Realized", "")],
        "networkID": group, "macAddress": given.mac, "externalID": given.id,
        "ipAssignmentMode": "staticpool",
        "ipConfigs": [{
            "ip": given.address.to_string(), "ipFamily": "IPv4",
            "gateway": given.gateway.to_string(), "subnetMask": MASK,
        }],
    })
}

fn on_segment(given: &Given, segment: &str) -> Value {
    json!({
        "conditions": [condition("Ready", "True", "Realized", "")],
        "interfaceID": given.id, "macAddress": given.mac,
        "providerStatus": {"nsxLogicalSwitchID": segment},
        "ipAddresses": [{
            "ip": given.address.to_string(), "gateway": given.gateway.to_string(), "subnetMask": MASK,
        }],
    })
}
