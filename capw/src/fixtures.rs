//! Test fixtures: the objects of one small cluster, as the API server returns them.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::capi::{
    Cluster, ClusterControlPlaneEndpoint, ClusterStatus, ClusterStatusInitialization, ContractReference,
    Machine, MachineBootstrap, MachineSpec,
};
use api::capw::{WCPCluster, WCPMachine, WCPMachineSpec};
use api::names::label;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kit::apply::build_controller_reference;
use kit::optional::Optional;
use kit::watch::{Cache, Watchable};
use kube::api::ObjectMeta;
use uuid::Uuid;

use crate::caches::Caches;
use crate::network::{NetworkFlags, NetworkProvider};
use crate::scope::Scope;
use crate::wcpcluster;
use crate::wcpcluster::address_pool::PoolState;
use crate::wcpmachine::gather::{BootstrapSource, Facts};

pub const UUID: &str = "423697d9-706c-4e92-b514-088978955321";

fn meta(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.into()),
        namespace: Some("ben-test".into()),
        uid: Some(format!("uid-of-{name}")),
        generation: Some(1),
        labels: Some(BTreeMap::from([(label::CLUSTER_NAME.into(), "test-cluster".into())])),
        ..ObjectMeta::default()
    }
}

pub fn cluster() -> Cluster {
    let mut cluster = Cluster { metadata: meta("test-cluster"), ..Cluster::default() };
    cluster.spec.control_plane_endpoint =
        Some(ClusterControlPlaneEndpoint { host: Some("192.168.123.3".into()), port: Some(6443) });
    cluster.spec.infrastructure_ref = Some(ContractReference {
        api_group: "infrastructure.cluster.vmware.com".into(),
        kind: "WCPCluster".into(),
        name: "test-cluster".into(),
    });
    cluster.status = Some(ClusterStatus {
        initialization: Some(ClusterStatusInitialization {
            infrastructure_provisioned: Some(true),
            ..ClusterStatusInitialization::default()
        }),
        ..ClusterStatus::default()
    });
    cluster
}

pub fn wcp_cluster() -> WCPCluster {
    let mut owner = build_controller_reference(&cluster());
    owner.controller = None;
    let metadata = ObjectMeta { owner_references: Some(vec![owner]), ..meta("test-cluster") };
    WCPCluster { metadata, ..WCPCluster::default() }
}

pub fn machine(control_plane: bool) -> Machine {
    let mut metadata = meta("test-cluster-control-plane-jwsx7");
    if control_plane {
        metadata.labels.get_or_insert_default().insert(label::CONTROL_PLANE.into(), String::new());
    }
    let spec = MachineSpec {
        bootstrap: MachineBootstrap { data_secret_name: Some("bootstrap".into()), config_ref: None },
        cluster_name: "test-cluster".into(),
        infrastructure_ref: ContractReference {
            api_group: "infrastructure.cluster.vmware.com".into(),
            kind: "WCPMachine".into(),
            name: "machine".into(),
        },
        ..MachineSpec::default()
    };
    Machine { metadata, spec, status: None }
}

pub fn wcp_machine() -> WCPMachine {
    let metadata = ObjectMeta {
        owner_references: Some(vec![build_controller_reference(&machine(true))]),
        ..meta("machine")
    };
    let spec = WCPMachineSpec {
        class_name: "best-effort-small".into(),
        image_name: "photon-3-k8s-v1.17.4---vmware.1-tkg.1.0dba899".into(),
        storage_class: "gc-storage-profile".into(),
        ..WCPMachineSpec::default()
    };
    WCPMachine { metadata, spec, status: None }
}

pub fn bootstrap(format: Option<&str>, value: &str) -> BootstrapSource {
    let mut data = BTreeMap::from([("value".to_owned(), ByteString(value.into()))]);
    data.extend(format.map(|format| ("format".to_owned(), ByteString(format.into()))));
    BootstrapSource::Read(Box::new(Secret {
        metadata: meta("bootstrap"),
        data: Some(data),
        ..Secret::default()
    }))
}

/// Returns the flags for NSX.
pub fn nsx() -> NetworkFlags {
    NetworkFlags { network_provider: NetworkProvider::Nsx, endpoint_provider: None, endpoint_pool: None }
}

/// Returns the facts for a new WCPCluster with NSX.
pub fn cluster_facts() -> wcpcluster::gather::Facts {
    wcpcluster::gather::Facts {
        cluster: Some(Arc::new(cluster())),
        name: "test-cluster".into(),
        policy: None,
        network: None,
        service: None,
        address_claim: None,
        former_claims: Vec::new(),
        next_claim: None,
        occupied: None,
        address: None,
        pool: PoolState::default(),
        flags: nsx(),
        machines: Vec::new(),
        accounts: Vec::new(),
        failure_domains: Vec::new(),
        paused: false,
    }
}

pub fn facts(control_plane: bool) -> Facts {
    Facts {
        machine: Some(Arc::new(machine(control_plane))),
        cluster: Some(Arc::new(cluster())),
        vm: None,
        bootstrap: bootstrap(Some("cloud-config"), "## template: jinja\n#cloud-config\n"),
        cloud_init: None,
        claims: Vec::new(),
        paused: false,
        network: None,
        virtual_router: None,
        zones: vec!["zone-a".to_owned(), "zone-b".to_owned()],
        network_provider: NetworkProvider::Nsx,
        drawn: Uuid::parse_str(UUID).unwrap(),
    }
}

/// Returns the flags for port groups without NSX or load balancers: endpoints are virtual IPs from a global pool.
pub fn on_port_groups() -> NetworkFlags {
    let endpoint_pool = "GlobalInClusterIPPool/vips".parse().ok();
    NetworkFlags { network_provider: NetworkProvider::Named, endpoint_pool, ..NetworkFlags::default() }
}

/// Returns empty caches.
pub fn no_caches() -> Caches {
    fn empty<K: Watchable>() -> Cache<K> {
        Cache::new(Arc::default()).0
    }
    Caches {
        scope: Scope::default(),
        clusters: empty(),
        machines: empty(),
        wcp_clusters: empty(),
        wcp_machines: empty(),
        accounts: empty(),
        templates: empty(),
        vms: empty(),
        policies: empty(),
        services: empty(),
        networks: empty(),
        address_claims: empty(),
        addresses: empty(),
        classes: empty(),
        images: empty(),
        pools: Optional::unserved(),
        global_pools: Optional::unserved(),
        zones: Optional::unserved(),
        availability_zones: Optional::unserved(),
    }
}

/// Returns a client for a fake API server that responds to every request with the document `found`, or with 404 if `found` is
/// `None`.
pub fn client(found: Option<serde_json::Value>) -> kube::Client {
    let sent = Arc::default();
    match found {
        Some(found) => answering_client(&sent, 200, found),
        None => recording_client(&sent),
    }
}

/// Returns a client for an empty fake API server that records each request's method, path and body in `sent`.
pub fn recording_client(sent: &Arc<std::sync::Mutex<Vec<String>>>) -> kube::Client {
    let gone = serde_json::json!({ "kind": "Status", "reason": "NotFound", "message": "", "code": 404 });
    answering_client(sent, 404, gone)
}

/// Returns a client for a fake API server that sends the same response to every request, and records the method, path and body
/// in `sent`.
pub fn answering_client(
    sent: &Arc<std::sync::Mutex<Vec<String>>>,
    status: u16,
    answer: serde_json::Value,
) -> kube::Client {
    let sent = Arc::clone(sent);
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let (sent, answer) = (Arc::clone(&sent), answer.to_string());
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect_bytes().await.unwrap();
            let line = format!("{} {} {}", head.method, head.uri, String::from_utf8_lossy(&body));
            sent.lock().unwrap().push(line);
            let body = kube::client::Body::from(answer.into_bytes());
            Ok::<_, std::convert::Infallible>(http::Response::builder().status(status).body(body).unwrap())
        }
    });
    kube::Client::new(service, "default")
}
