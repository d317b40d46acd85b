//! Computes the Service, the EndpointSlices and the status of a VirtualMachineService.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use api::conditions::{Condition, ERROR, INFO, READY, WARNING, vmop as known};
use api::names::INFRASTRUCTURE_GROUP;
use api::vmop::{
    LoadBalancerIngress, LoadBalancerStatus, VirtualMachine, VirtualMachineService,
    VirtualMachineServiceStatus,
};
use k8s_openapi::api::core::v1::{ObjectReference, Service, ServicePort, ServiceSpec};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kit::apply::build_controller_reference;
use kit::controller::controller_in_group;
use kube::ResourceExt;
use kube::api::ObjectMeta;

/// The EndpointSlice label (key and value) that identifies the managing controller.
pub const MANAGED_BY: (&str, &str) = ("endpointslice.kubernetes.io/managed-by", "vmoperator.vmware.com");
/// The EndpointSlice label that names its Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// The annotation for the Service's external traffic policy. `Local` preserves the client's address.
const TRAFFIC_POLICY: &str = "virtualmachineservice.vmoperator.vmware.com/service.externalTrafficPolicy";
/// The annotation for the VM port to which the load balancer's health check connects.
const HEALTH_CHECK_PORT: &str = "virtualmachineservice.vmoperator.vmware.com/service.healthCheckNodePort";
/// The annotation from which the NSX load balancer reads the health check port.
const NSX_HEALTH_CHECK_PORT: &str = "ncp/healthCheckNodePort";
/// The label and value that make kube-proxy leave a Service to NSX.
const SERVICE_PROXY: (&str, &str) = ("service.kubernetes.io/service-proxy-name", "nsx-t");
/// kubectl's annotation on the VirtualMachineService. It isn't copied to the Service.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The condition that is present (false) if some VMs of the service don't get traffic.
const ENDPOINTS_READY: &str = "EndpointsReady";
/// The condition reason if only the guest reports the VM's address.
const ADDRESS_NOT_ASSIGNED: &str = "AddressNotAssigned";
const LOAD_BALANCER: &str = "LoadBalancer";
const EXTERNAL_NAME: &str = "ExternalName";

/// Returns the Service. It doesn't have a selector, because VMs aren't Pods.
pub fn service(service: &VirtualMachineService) -> Service {
    let spec = &service.spec;
    let balanced = spec.type_ == LOAD_BALANCER;
    let ports = spec.ports.iter().map(|port| ServicePort {
        name: Some(port.name.clone()),
        protocol: Some(port.protocol.clone()),
        port: port.port,
        target_port: Some(IntOrString::Int(port.target_port)),
        ..ServicePort::default()
    });
    let some = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let filled = |list: &[String]| Some(list.to_vec()).filter(|list| !list.is_empty());
    let policy = service
        .annotations()
        .get(TRAFFIC_POLICY)
        .filter(|policy| matches!(policy.as_str(), "Local" | "Cluster"));
    let (labels, annotations) = for_load_balancer(service);
    Service {
        metadata: metadata(service.name_any(), service, labels, annotations),
        spec: Some(ServiceSpec {
            type_: Some(spec.type_.clone()),
            ports: Some(ports.collect::<Vec<_>>()).filter(|ports| !ports.is_empty()),
            cluster_ip: some(&spec.cluster_ip).filter(|_| spec.type_ != EXTERNAL_NAME),
            external_name: some(&spec.external_name).filter(|_| spec.type_ == EXTERNAL_NAME),
            external_traffic_policy: policy.filter(|_| balanced).cloned(),
            load_balancer_ip: some(&spec.load_balancer_ip),
            load_balancer_source_ranges: filled(&spec.load_balancer_source_ranges),
            // The load balancer reaches VMs directly, so node ports would be wasted.
            allocate_load_balancer_node_ports: balanced.then_some(false),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

/// Returns the Service's labels and annotations: the ones on the VirtualMachineService, and additional ones for the NSX load
/// balancer.
///
/// Without NSX, the additional ones don't have an effect.
fn for_load_balancer(
    service: &VirtualMachineService,
) -> (BTreeMap<String, String>, BTreeMap<String, String>) {
    let (mut labels, mut annotations) = (service.labels().clone(), service.annotations().clone());
    annotations.remove(LAST_APPLIED);
    if annotations.get(TRAFFIC_POLICY).is_some_and(|policy| policy == "Local") {
        labels.insert(SERVICE_PROXY.0.to_owned(), SERVICE_PROXY.1.to_owned());
    }
    if let Some(port) = annotations.get(HEALTH_CHECK_PORT).cloned() {
        annotations.insert(NSX_HEALTH_CHECK_PORT.to_owned(), port);
    }
    (labels, annotations)
}

/// The IP family. Each family has its own EndpointSlice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ip {
    /// IPv4. The slice has the Service's name.
    V4,
    /// IPv6. The slice exists only if a VM has an IPv6 address.
    V6,
}

/// Returns the name of a service's EndpointSlice for the family.
pub fn slice_name(service: &VirtualMachineService, family: Ip) -> String {
    match family {
        Ip::V4 => service.name_any(),
        Ip::V6 => format!("{}-ipv6", service.name_any()),
    }
}

/// Returns the EndpointSlice with the addresses of the ready `vms` in that family.
pub fn slice(service: &VirtualMachineService, vms: &[Arc<VirtualMachine>], family: Ip) -> EndpointSlice {
    let ports = service.spec.ports.iter().map(|port| EndpointPort {
        name: Some(port.name.clone()),
        protocol: Some(port.protocol.clone()),
        port: Some(port.target_port),
        app_protocol: None,
    });
    let endpoints = vms.iter().filter_map(|vm| {
        let (four, six) = backends(vm);
        let address = match family {
            Ip::V4 => four.map(IpAddr::V4),
            Ip::V6 => six.map(IpAddr::V6),
        };
        Some(endpoint(vm, address?))
    });
    let labels = [MANAGED_BY, (SERVICE_NAME, &service.name_any())]
        .map(|(key, value)| (key.to_owned(), value.to_owned()));
    EndpointSlice {
        metadata: metadata(slice_name(service, family), service, labels.into(), BTreeMap::new()),
        address_type: match family {
            Ip::V4 => "IPv4".to_owned(),
            Ip::V6 => "IPv6".to_owned(),
        },
        endpoints: Some(endpoints.collect()),
        ports: Some(ports.collect()),
    }
}

/// Returns true if a service selects a VM. A Cluster API service also requires a VM that Cluster API controls, because
/// any user can set labels.
pub fn selects(service: &VirtualMachineService, vm: &VirtualMachine) -> bool {
    let is_labelled = service.spec.selector.iter().all(|(name, value)| vm.labels().get(name) == Some(value));
    let is_clusters = controller_in_group(service, INFRASTRUCTURE_GROUP).is_some();
    is_labelled && (!is_clusters || controller_in_group(vm, INFRASTRUCTURE_GROUP).is_some())
}

/// Returns the VM's first IPv4 and first IPv6 endpoint address, if the VM is ready and not being deleted. Addresses that only
/// the guest reports don't count.
pub fn backends(vm: &VirtualMachine) -> (Option<Ipv4Addr>, Option<Ipv6Addr>) {
    let ready = |status: &&api::vmop::VirtualMachineStatus| {
        vm.metadata.deletion_timestamp.is_none() && api::conditions::holds(&status.conditions, READY)
    };
    let Some(status) = vm.status.as_ref().filter(ready) else { return (None, None) };
    let all: Vec<IpAddr> = status.endpoint_addresses.iter().filter_map(|text| text.parse().ok()).collect();
    let four = all.iter().find_map(|ip| if let IpAddr::V4(ip) = ip { Some(*ip) } else { None });
    let six = all.iter().find_map(|ip| if let IpAddr::V6(ip) = ip { Some(*ip) } else { None });
    (four, six)
}

/// Returns the address that only the VM's guest reports, if the VM doesn't have an endpoint address and isn't being deleted.
pub fn unassigned_address(vm: &VirtualMachine) -> Option<&str> {
    let status = vm.status.as_ref()?;
    let serves = vm.metadata.deletion_timestamp.is_none() && status.endpoint_addresses.is_empty();
    status.vm_ip.as_deref().filter(|_| serves)
}

fn endpoint(vm: &VirtualMachine, address: IpAddr) -> Endpoint {
    Endpoint {
        addresses: vec![address.to_string()],
        conditions: Some(EndpointConditions {
            ready: Some(true),
            serving: Some(true),
            terminating: Some(false),
        }),
        target_ref: Some(ObjectReference {
            kind: Some("VirtualMachine".to_owned()),
            namespace: vm.namespace(),
            name: Some(vm.name_any()),
            uid: vm.uid(),
            ..ObjectReference::default()
        }),
        ..Endpoint::default()
    }
}

fn metadata(
    name: String,
    service: &VirtualMachineService,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        namespace: service.namespace(),
        labels: Some(labels).filter(|labels| !labels.is_empty()),
        annotations: Some(annotations).filter(|annotations| !annotations.is_empty()),
        owner_references: Some(vec![build_controller_reference(service)]),
        ..ObjectMeta::default()
    }
}

/// Returns the condition for VMs whose addresses only the guest reports, if there are any.
fn endpoints_condition(vms: &[Arc<VirtualMachine>]) -> Option<Condition> {
    let mut left_out = vms.iter().filter_map(|vm| Some((vm, unassigned_address(vm)?)));
    let (vm, address) = left_out.next()?;
    if let Some(taken) =
        api::conditions::find(&vm.status.as_ref()?.conditions, known::VIRTUAL_MACHINE_ADDRESS_READY)
            .filter(|condition| condition.reason.as_deref() == Some(known::ADDRESS_IN_USE))
    {
        let message =
            format!("VirtualMachine {}: {}", vm.name_any(), taken.message.as_deref().unwrap_or_default());
        return Some(Condition::is_false(ENDPOINTS_READY, WARNING, known::ADDRESS_IN_USE, message));
    }
    let others = match left_out.count() {
        0 => String::new(),
        count => format!(" (and {count} more VMs)"),
    };
    let message = format!(
        "VirtualMachine {} reports the address {address}{others}, which gets no traffic: no network provider assigned it, and no range of GuestAddressRanges in the provider configuration contains it. Add its range there",
        vm.name_any()
    );
    Some(Condition::is_false(ENDPOINTS_READY, WARNING, ADDRESS_NOT_ASSIGNED, message))
}

/// Returns the status with the Service's load balancer addresses, and a condition if VMs don't get traffic. `live` is the
/// Service, or a message if the Service with this name belongs to someone else.
pub fn status(live: Result<&Service, &str>, vms: &[Arc<VirtualMachine>]) -> VirtualMachineServiceStatus {
    let live = match live {
        Ok(live) => live,
        Err(why) => {
            let condition = Condition::is_false(READY, ERROR, known::IDENTITY_CONFLICT, why);
            return VirtualMachineServiceStatus { load_balancer: None, conditions: vec![condition] };
        }
    };
    let ingress: Vec<_> = live
        .status
        .iter()
        .filter_map(|status| status.load_balancer.as_ref()?.ingress.as_ref())
        .flatten()
        .map(|ingress| LoadBalancerIngress { ip: ingress.ip.clone(), hostname: ingress.hostname.clone() })
        .collect();
    let balanced = live.spec.as_ref().is_some_and(|spec| spec.type_.as_deref() == Some(LOAD_BALANCER));
    let ready = if balanced && ingress.is_empty() {
        let message =
            "The load balancer has no address yet. If this persists, check the load balancer provider";
        Condition::is_false(READY, INFO, "WaitingForLoadBalancerIP", message)
    } else {
        Condition::is_true(READY)
    };
    VirtualMachineServiceStatus {
        load_balancer: Some(LoadBalancerStatus { ingress }).filter(|status| !status.ingress.is_empty()),
        conditions: [Some(ready), endpoints_condition(vms)].into_iter().flatten().collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn vmservice() -> VirtualMachineService {
        serde_json::from_value(json!({
            "metadata": {"name": "c-control-plane-service", "namespace": "ns", "uid": "u-1", "labels": {"a": "b"}},
            "spec": {
                "type": "LoadBalancer",
                "ports": [{"name": "apiserver", "protocol": "TCP", "port": 6443, "targetPort": 6443}],
                "selector": {"capw.vmware.com/cluster.name": "c"},
            },
        }))
        .unwrap()
    }

    fn backend_vm(name: &str, ready: &str, ip: Option<&str>) -> Arc<VirtualMachine> {
        let conditions = json!([{"type": "Ready", "status": ready}]);
        let vm = json!({
            "metadata": {"name": name, "namespace": "ns"}, "spec": {"imageName": "i", "className": "c"},
            "status": {"vmIp": ip, "endpointAddresses": ip.as_slice(), "conditions": conditions},
        });
        Arc::new(serde_json::from_value(vm).unwrap())
    }

    #[test]
    fn a_service_becomes_a_service_and_a_slice() {
        let vms = [
            backend_vm("a", "True", Some("10.1.0.1")),
            backend_vm("b", "False", Some("10.1.0.2")),
            backend_vm("c", "True", None),
            backend_vm("d", "True", Some("fd00::1")),
        ];
        let made =
            (service(&vmservice()), slice(&vmservice(), &vms, Ip::V4), slice(&vmservice(), &vms, Ip::V6));
        insta::assert_yaml_snapshot!(made);
    }

    #[test]
    fn behind_a_clusters_service_are_machines_of_cluster_api() {
        let owner = |kind: &str| {
            let version = "infrastructure.cluster.vmware.com/v1beta2";
            json!([{ "apiVersion": version, "kind": kind, "name": "c", "uid": "u", "controller": true }])
        };
        let vm = |owners: Value| -> VirtualMachine {
            serde_json::from_value(json!({
                "metadata": {
                    "name": "m", "ownerReferences": owners, "labels": {"capw.vmware.com/cluster.name": "c"},
                },
                "spec": {"imageName": "i", "className": "c"},
            }))
            .unwrap()
        };
        let (plain, machine) = (vm(json!([])), vm(owner("WCPMachine")));
        let mut service = vmservice();
        assert!(selects(&service, &plain) && selects(&service, &machine), "a user's own service");
        service.metadata.owner_references = serde_json::from_value(owner("WCPCluster")).unwrap();
        assert!(!selects(&service, &plain), "a label is anybody's word");
        assert!(selects(&service, &machine));
    }

    #[test]
    fn every_type_and_the_annotations_of_a_load_balancer() {
        let made = |spec: Value, annotations: Value| {
            let object = json!({
                "metadata": {"name": "s", "namespace": "ns", "uid": "u-1", "annotations": annotations}, "spec": spec,
            });
            service(&serde_json::from_value(object).unwrap())
        };
        let port = json!([{"name": "p", "protocol": "TCP", "port": 80, "targetPort": 8080}]);
        let all = [
            made(json!({"type": "ClusterIP", "ports": port, "clusterIp": "None"}), json!({})),
            made(json!({"type": "ExternalName", "externalName": "db.example.com"}), json!({})),
            made(
                json!({
                    "type": "LoadBalancer", "ports": port, "loadBalancerIP": "192.0.2.1",
                    "loadBalancerSourceRanges": ["198.51.100.0/24"],
                }),
                json!({ TRAFFIC_POLICY: "Local", HEALTH_CHECK_PORT: "30012", LAST_APPLIED: "{}" }),
            ),
        ];
        insta::assert_yaml_snapshot!(all);
    }

    #[test]
    fn a_vm_serves_under_its_first_address_of_each_family() {
        let with = |addresses: &[&str]| {
            let vm: VirtualMachine = serde_json::from_value(json!({
                "metadata": {"name": "m"}, "spec": {"imageName": "i", "className": "c"},
                "status": {
                    "vmIp": "10.0.0.7", "endpointAddresses": addresses,
                    "conditions": [{"type": "Ready", "status": "True"}],
                    "networkInterfaces": [{"connected": true, "ipAddresses": ["10.0.0.8/24"]}],
                },
            }))
            .unwrap();
            let (four, six) = backends(&vm);
            (four.map(|ip| ip.to_string()), six.map(|ip| ip.to_string()))
        };
        let both = (Some("10.0.0.1".to_owned()), Some("fd00::1".to_owned()));
        assert_eq!(with(&["10.0.0.1", "10.0.0.9", "fd00::1"]), both);
        assert_eq!(with(&["fd00::1", "10.0.0.1"]), both);
        assert_eq!(with(&["10.0.0.1"]), (Some("10.0.0.1".to_owned()), None));
        assert_eq!(with(&[]), (None, None), "what a guest alone says is no endpoint");
    }

    #[test]
    fn a_service_says_which_vm_it_leaves_out() {
        let live = service(&vmservice());
        let good = backend_vm("a", "True", Some("10.1.0.1"));
        let bad = |name: &str| {
            let mut vm = Arc::unwrap_or_clone(backend_vm(name, "True", Some("10.96.0.1")));
            vm.status.as_mut().unwrap().endpoint_addresses.clear();
            Arc::new(vm)
        };
        let shown = |vms: &[Arc<VirtualMachine>]| status(Ok(&live), vms).conditions;
        assert_eq!(shown(std::slice::from_ref(&good)).len(), 1);
        let conditions = shown(&[good.clone(), bad("b"), bad("c")]);
        let left_out = api::conditions::find(&conditions, ENDPOINTS_READY).unwrap();
        let message = left_out.message.as_deref().unwrap();
        for word in ["VirtualMachine b", "10.96.0.1", "1 more", "GuestAddressRanges"] {
            assert!(message.contains(word), "{word} is not in {message}");
        }
        let slice = slice(&vmservice(), &[good, bad("b")], Ip::V4);
        assert_eq!(slice.endpoints.unwrap()[0].addresses, ["10.1.0.1"], "the others are served all the same");
    }

    #[test]
    fn the_status_is_the_balancers() {
        let mut live = service(&vmservice());
        assert_eq!(status(Ok(&live), &[]).conditions[0].status, "False");
        let ingress = json!([{"ip": "127.3.255.1"}]);
        live.status = serde_json::from_value(json!({"loadBalancer": {"ingress": ingress}})).unwrap();
        let shown = status(Ok(&live), &[]);
        assert_eq!(shown.conditions[0].status, "True");
        assert_eq!(shown.load_balancer.unwrap().ingress[0].ip.as_deref(), Some("127.3.255.1"));
        assert_eq!(status(Err("taken"), &[]).conditions[0].message.as_deref(), Some("taken"));
    }
}
