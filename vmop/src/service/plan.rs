//! The Service and the EndpointSlice that a VirtualMachineService becomes, and what it says of itself.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use api::conditions::{Condition, ERROR, INFO, READY, vmop as known};
use api::vmop::{
    LoadBalancerIngress, LoadBalancerStatus, VirtualMachine, VirtualMachineService,
    VirtualMachineServiceStatus,
};
use k8s_openapi::api::core::v1::{ObjectReference, Service, ServicePort, ServiceSpec};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kit::apply::controlled_by;
use kube::ResourceExt;
use kube::api::ObjectMeta;

/// Label of a slice: whose it is.
pub const MANAGED_BY: (&str, &str) = ("endpointslice.kubernetes.io/managed-by", "vmoperator.vmware.com");
/// Label of a slice: the Service it belongs to.
const SERVICE_NAME: &str = "kubernetes.io/service-name";
const LOAD_BALANCER: &str = "LoadBalancer";
const EXTERNAL_NAME: &str = "ExternalName";

/// The Service; without a selector, because machines are no Pods.
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
    Service {
        metadata: metadata(service, service.labels().clone(), service.annotations().clone()),
        spec: Some(ServiceSpec {
            type_: Some(spec.type_.clone()),
            ports: Some(ports.collect()),
            cluster_ip: some(&spec.cluster_ip),
            external_name: some(&spec.external_name).filter(|_| spec.type_ == EXTERNAL_NAME),
            load_balancer_ip: some(&spec.load_balancer_ip),
            load_balancer_source_ranges: filled(&spec.load_balancer_source_ranges),
            // Machines are reached directly: ports of the cluster's own nodes would only be used up.
            allocate_load_balancer_node_ports: balanced.then_some(false),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

/// The addresses of those `machines` that are ready.
pub fn slice(service: &VirtualMachineService, machines: &[Arc<VirtualMachine>]) -> EndpointSlice {
    let ports = service.spec.ports.iter().map(|port| EndpointPort {
        name: Some(port.name.clone()),
        protocol: Some(port.protocol.clone()),
        port: Some(port.target_port),
        app_protocol: None,
    });
    let endpoints = machines.iter().filter_map(|vm| Some(endpoint(vm, backend(vm)?)));
    let labels = [MANAGED_BY, (SERVICE_NAME, &service.name_any())]
        .map(|(key, value)| (key.to_owned(), value.to_owned()));
    EndpointSlice {
        metadata: metadata(service, labels.into(), BTreeMap::new()),
        address_type: "IPv4".to_owned(),
        endpoints: Some(endpoints.collect()),
        ports: Some(ports.collect()),
    }
}

/// The address under which a machine serves, if it is ready and not on its way out.
pub fn backend(vm: &VirtualMachine) -> Option<Ipv4Addr> {
    let status = vm.status.as_ref()?;
    let serves =
        vm.metadata.deletion_timestamp.is_none() && api::conditions::holds(&status.conditions, READY);
    status.vm_ip.as_deref().filter(|_| serves)?.parse().ok()
}

fn endpoint(vm: &VirtualMachine, address: Ipv4Addr) -> Endpoint {
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
    service: &VirtualMachineService,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
) -> ObjectMeta {
    ObjectMeta {
        name: Some(service.name_any()),
        namespace: service.namespace(),
        labels: Some(labels).filter(|labels| !labels.is_empty()),
        annotations: Some(annotations).filter(|annotations| !annotations.is_empty()),
        owner_references: Some(vec![controlled_by(service)]),
        ..ObjectMeta::default()
    }
}

/// What the service says of itself: the Service as it is, or why there is none.
pub fn status(live: Result<&Service, &str>) -> VirtualMachineServiceStatus {
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
            "The load balancer has given no address yet. If this lasts, check the load balancer provider";
        Condition::is_false(READY, INFO, "WaitingForLoadBalancerIP", message)
    } else {
        Condition::is_true(READY)
    };
    VirtualMachineServiceStatus {
        load_balancer: Some(LoadBalancerStatus { ingress }).filter(|status| !status.ingress.is_empty()),
        conditions: vec![ready],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vmservice() -> VirtualMachineService {
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": "c-control-plane-service", "namespace": "ns", "uid": "u-1", "labels": {"a": "b"}},
            "spec": {
                "type": "LoadBalancer",
                "ports": [{"name": "apiserver", "protocol": "TCP", "port": 6443, "targetPort": 6443}],
                "selector": {"capw.vmware.com/cluster.name": "c"},
            },
        }))
        .unwrap()
    }

    fn machine(name: &str, ready: &str, ip: Option<&str>) -> Arc<VirtualMachine> {
        Arc::new(
            serde_json::from_value(serde_json::json!({
                "metadata": {"name": name, "namespace": "ns"},
                "spec": {"imageName": "i", "className": "c"},
                "status": {"vmIp": ip, "conditions": [{"type": "Ready", "status": ready}]},
            }))
            .unwrap(),
        )
    }

    #[test]
    fn a_service_becomes_a_service_and_a_slice() {
        let machines = [
            machine("a", "True", Some("10.1.0.1")),
            machine("b", "False", Some("10.1.0.2")),
            machine("c", "True", None),
            machine("d", "True", Some("fd00::1")),
        ];
        let made = (service(&vmservice()), slice(&vmservice(), &machines));
        insta::assert_yaml_snapshot!(made);
    }

    #[test]
    fn the_status_is_the_balancers() {
        let mut live = service(&vmservice());
        assert_eq!(status(Ok(&live)).conditions[0].status, "False");
        live.status =
            serde_json::from_value(serde_json::json!({"loadBalancer": {"ingress": [{"ip": "127.3.255.1"}]}}))
                .unwrap();
        let told = status(Ok(&live));
        assert_eq!(told.conditions[0].status, "True");
        assert_eq!(told.load_balancer.unwrap().ingress[0].ip.as_deref(), Some("127.3.255.1"));
        assert_eq!(status(Err("taken")).conditions[0].message.as_deref(), Some("taken"));
    }
}
