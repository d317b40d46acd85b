//! Realizes VirtualNetworks and runs load balancers for Services, as NSX Container Plug-in (NCP) does.
//!
//! Like NCP, the provider reads its input only from the API server.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{ObjectRef, Store, store};
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::json;
use tokio_util::task::AbortOnDropHandle;
use tracing::{info, warn};

use super::balancer::VirtualServer;
use crate::addresses::{self, Subnet};
use crate::objects::{condition, has_condition, log_interruption};

const MANAGER: &str = "nsx-container-ncp";
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// The running network provider. On drop, it stops and closes its load balancers.
#[derive(Debug)]
pub struct RunningNetworkProvider {
    _working: AbortOnDropHandle<()>,
}

impl RunningNetworkProvider {
    /// Starts the provider for the cluster behind `client`. Load balancer addresses are leased from `subnet`.
    pub fn serving(client: Client, subnet: Subnet) -> Self {
        Self { _working: AbortOnDropHandle::new(tokio::spawn(work(client, subnet))) }
    }
}

/// Returns the API resource for VirtualNetworks.
pub(super) fn virtual_networks() -> ApiResource {
    let kind = GroupVersionKind::gvk("vmware.com", "v1alpha1", "VirtualNetwork");
    ApiResource::from_gvk_with_plural(&kind, "virtualnetworks")
}

async fn work(client: Client, subnet: Subnet) {
    let resource = virtual_networks();
    let networks_api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let network_writer = Writer::new(resource.clone());
    let networks = network_writer.as_reader();
    let (services, service_writer) = store::<Service>();
    let (slices, slice_writer) = store::<EndpointSlice>();
    let events = stream::select_all([
        reflector(network_writer, watcher(networks_api, watcher::Config::default()).default_backoff())
            .map(|event| event.map(drop))
            .boxed(),
        reflector(
            service_writer,
            watcher(Api::<Service>::all(client.clone()), watcher::Config::default()).default_backoff(),
        )
        .map(|event| event.map(drop))
        .boxed(),
        reflector(
            slice_writer,
            watcher(
                Api::<EndpointSlice>::all(client.clone()),
                watcher::Config::default().labels(SERVICE_NAME),
            )
            .default_backoff(),
        )
        .map(|event| event.map(drop))
        .boxed(),
    ]);
    let recorder = Recorder::new(client.clone(), Reporter::from(MANAGER));
    let servers = HashMap::new();
    let mut provider = Provider { client, recorder, subnet, resource, networks, services, slices, servers };
    let mut events = pin!(events);
    while let Some(event) = events.next().await {
        match event {
            Ok(()) => provider.settle().await,
            Err(error) => log_interruption("networks, Services and EndpointSlices", &error),
        }
    }
}

struct Provider {
    client: Client,
    recorder: Recorder,
    subnet: Subnet,
    resource: ApiResource,
    networks: Store<DynamicObject>,
    services: Store<Service>,
    slices: Store<EndpointSlice>,
    servers: HashMap<ObjectRef<Service>, Balanced>,
}

/// The load balancer for one Service: its address, and a virtual server per port.
struct Balanced {
    address: Ipv4Addr,
    ports: BTreeMap<u16, VirtualServer>,
}

impl Provider {
    /// Reconciles all VirtualNetworks and Services. There are only a few of them, so a full pass per event is cheap enough.
    async fn settle(&mut self) {
        for network in self.networks.state() {
            self.realise(&network).await;
        }
        let services = self.services.state();
        let wanted: Vec<_> = services.iter().filter(|service| is_balanced(service)).collect();
        let live: HashSet<_> = wanted.iter().map(|service| ObjectRef::from_obj(service.as_ref())).collect();
        let gone: Vec<_> = self.servers.keys().filter(|key| !live.contains(key)).cloned().collect();
        for key in gone {
            self.remove(&key);
        }
        for service in wanted {
            self.balance(service).await;
        }
    }

    /// Removes a Service's load balancer and releases its address.
    fn remove(&mut self, key: &ObjectRef<Service>) {
        if let Some(balanced) = self.servers.remove(key) {
            self.subnet.release_vip(&key.to_string());
            info!(service = %key, address = %balanced.address, "load balancer removed");
        }
    }

    async fn realise(&self, network: &DynamicObject) {
        if has_condition(network, "Ready", "True", None) {
            return;
        }
        let (namespace, name) = (network.namespace().unwrap_or_default(), network.name_any());
        let snat = Ipv4Addr::new(10, self.subnet.number(), 0, 1);
        let status = json!({
            "apiVersion": "vmware.com/v1alpha1", "kind": "VirtualNetwork",
            "status": {
                "conditions": [condition("Ready", "True", "Realized", "")],
                "defaultSNATIP": snat.to_string(),
            },
        });
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &namespace, &self.resource);
        let params = PatchParams::apply(MANAGER).force();
        match api.patch_status(&name, &params, &Patch::Apply(&status)).await {
            Ok(_) => {
                info!(%namespace, %name, "VirtualNetwork realised");
                self.report_realized(network).await;
            }
            Err(error) if error.to_string().contains("not found") => {}
            Err(error) => warn!(%namespace, %name, %error, "cannot realise VirtualNetwork"),
        }
    }

    /// Publishes the event that NSX publishes once per network.
    async fn report_realized(&self, network: &DynamicObject) {
        let event = Event {
            type_: EventType::Normal,
            reason: "SuccessfulRealizeNSXResource".to_owned(),
            note: Some("Successfully realized NSX resource for VirtualNetwork".to_owned()),
            action: "Realize".to_owned(),
            secondary: None,
        };
        if let Err(error) = self.recorder.publish(&event, &network.object_ref(&self.resource)).await {
            warn!(name = %network.name_any(), %error, "cannot record an event of a VirtualNetwork");
        }
    }

    async fn balance(&mut self, service: &Service) {
        let key = ObjectRef::from_obj(service);
        let wanted = match wanted_address(service).map(str::parse::<Ipv4Addr>).transpose() {
            Ok(wanted) => wanted,
            Err(error) => {
                warn!(service = %key, %error, "no load balancer: loadBalancerIP is not an IPv4 address");
                self.remove(&key);
                return self.announce(service, None).await;
            }
        };
        let is_moved = |balanced: &Balanced| wanted.is_some_and(|wanted| wanted != balanced.address);
        if self.servers.get(&key).is_some_and(is_moved) {
            self.remove(&key);
        }
        if !self.servers.contains_key(&key) {
            let owner = key.to_string();
            let leased =
                wanted.map_or_else(|| self.subnet.vip(&owner), |wanted| self.subnet.vip_at(&owner, wanted));
            let address = match leased {
                Ok(address) => address,
                Err(error) => {
                    warn!(service = %key, %error, "no load balancer");
                    return self.announce(service, None).await;
                }
            };
            self.servers.insert(key.clone(), Balanced { address, ports: BTreeMap::new() });
        }
        let ports: Vec<u16> = ports(service);
        let Some(balanced) = self.servers.get_mut(&key) else { return };
        balanced.ports.retain(|port, _| ports.contains(port));
        for port in ports {
            if !balanced.ports.contains_key(&port) {
                match VirtualServer::listening(balanced.address, port).await {
                    Ok(server) => drop(balanced.ports.insert(port, server)),
                    Err(error) => warn!(service = %key, port, %error, "cannot listen"),
                }
            }
        }
        for (port, server) in &balanced.ports {
            server.set_backends(backends(&self.slices, service, *port));
        }
        let address = balanced.address;
        self.announce(service, Some(address)).await;
    }

    /// Writes the load balancer's address to the Service's status, or removes it from there.
    async fn announce(&self, service: &Service, address: Option<Ipv4Addr>) {
        if given_address(service) == address {
            return;
        }
        let (namespace, name) = (service.namespace().unwrap_or_default(), service.name_any());
        let ingress = address.map(|address| json!({"ip": address.to_string(), "ipMode": "VIP"}));
        let status = json!({
            "apiVersion": "v1", "kind": "Service",
            "status": {"loadBalancer": {"ingress": Vec::from_iter(ingress)}},
        });
        let api: Api<Service> = Api::namespaced(self.client.clone(), &namespace);
        match api.patch_status(&name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(&status)).await {
            Ok(_) => info!(%namespace, %name, ?address, "load balancer address announced"),
            Err(error) => warn!(%namespace, %name, %error, "cannot announce the load balancer's address"),
        }
    }
}

fn is_balanced(service: &Service) -> bool {
    service.metadata.deletion_timestamp.is_none()
        && service.spec.as_ref().is_some_and(|spec| spec.type_.as_deref() == Some("LoadBalancer"))
}

fn wanted_address(service: &Service) -> Option<&str> {
    service.spec.as_ref()?.load_balancer_ip.as_deref().filter(|address| !address.is_empty())
}

fn given_address(service: &Service) -> Option<Ipv4Addr> {
    let balancer = service.status.as_ref()?.load_balancer.as_ref()?;
    balancer.ingress.as_ref()?.first()?.ip.as_ref()?.parse().ok()
}

fn ports(service: &Service) -> Vec<u16> {
    let ports = service.spec.as_ref().and_then(|spec| spec.ports.as_ref());
    ports.into_iter().flatten().filter_map(|port| u16::try_from(port.port).ok()).collect()
}

/// Returns the ready endpoints for a Service port, at the addresses on which this host serves them.
fn backends(slices: &Store<EndpointSlice>, service: &Service, port: u16) -> Vec<SocketAddr> {
    let (namespace, name) = (service.namespace(), service.name_any());
    let spec_ports = service.spec.as_ref().and_then(|spec| spec.ports.as_ref());
    let port_name = spec_ports
        .into_iter()
        .flatten()
        .find(|candidate| u16::try_from(candidate.port).ok() == Some(port))
        .and_then(|port| port.name.clone());
    let slices = slices.state();
    let of_service = slices.iter().filter(|slice| {
        slice.namespace() == namespace && slice.labels().get(SERVICE_NAME).is_some_and(|of| *of == name)
    });
    let mut backends = BTreeSet::new();
    for slice in of_service {
        let named = |candidate: &&k8s_openapi::api::discovery::v1::EndpointPort| {
            candidate.name.as_deref().unwrap_or_default() == port_name.as_deref().unwrap_or_default()
        };
        let target = slice.ports.iter().flatten().find(named).and_then(|port| port.port);
        let Some(target) = target.and_then(|target| u16::try_from(target).ok()) else { continue };
        for endpoint in slice.endpoints.iter().flatten() {
            let ready = endpoint.conditions.as_ref().and_then(|conditions| conditions.ready).unwrap_or(true);
            let addresses =
                endpoint.addresses.iter().filter(|_| ready).filter_map(|address| address.parse().ok());
            backends.extend(addresses.map(|address| SocketAddr::from((addresses::served(address), target))));
        }
    }
    backends.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a provider whose API server doesn't respond.
    fn provider() -> Provider {
        let config = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let client = Client::try_from(config).unwrap();
        let resource = virtual_networks();
        Provider {
            recorder: Recorder::new(client.clone(), Reporter::from(MANAGER)),
            client,
            subnet: Subnet::claim().unwrap(),
            networks: Writer::new(resource.clone()).as_reader(),
            resource,
            services: store().0,
            slices: store().0,
            servers: HashMap::new(),
        }
    }

    fn service(address: Option<&str>, ports: &[u16]) -> Service {
        let ports: Vec<_> =
            ports.iter().map(|port| json!({"name": port.to_string(), "port": port})).collect();
        let service = json!({
            "metadata": {"namespace": "ns", "name": "web"},
            "spec": {"type": "LoadBalancer", "ports": ports, "loadBalancerIP": address},
        });
        serde_json::from_value(service).unwrap()
    }

    fn served(provider: &Provider) -> Vec<(Ipv4Addr, Vec<u16>)> {
        let servers = provider.servers.values();
        servers.map(|balanced| (balanced.address, balanced.ports.keys().copied().collect())).collect()
    }

    #[tokio::test]
    async fn a_service_has_the_address_and_ports_that_it_asks_for_and_no_others() {
        let mut provider = provider();
        provider.balance(&service(None, &[80, 443])).await;
        let first = provider.servers.values().next().unwrap().address;
        assert_eq!(served(&provider), [(first, vec![80, 443])]);

        provider.balance(&service(Some(&first.to_string()), &[443])).await;
        assert_eq!(served(&provider), [(first, vec![443])], "its own address, with one port fewer");

        let [a, b, c, _] = first.octets();
        let other = Ipv4Addr::new(a, b, c, 77);
        provider.balance(&service(Some(&other.to_string()), &[443])).await;
        assert_eq!(served(&provider), [(other, vec![443])]);
        assert_eq!(provider.subnet.vip_at("another Service", first).unwrap(), first, "it was released");

        for unavailable in [first.to_string().as_str(), "192.0.2.1", "2001:db8::1"] {
            provider.balance(&service(Some(unavailable), &[443])).await;
            assert_eq!(served(&provider), [], "{unavailable}");
            assert_eq!(provider.subnet.vip_at("a third Service", other).unwrap(), other, "it was released");
        }
    }
}
