//! The requests that the rules refuse.

use serde_json::{Value, json};

use super::objects::{
    CLUSTER_SECRETS, LENT, MALLORY, NAMESPACE, existing, object, of_cluster, owner, service_spec, vm_spec,
    without,
};
use super::programs;

const OF_TEMPLATES: &str = "vmware-system-capw-templates";
const OF_BUNDLE_NAMES: &str = "vmware-system-tkg-bundle-names";
/// The policies that refuse requests by every user, including administrators.
pub const FOR_EVERYONE: [&str; 2] = [OF_TEMPLATES, OF_BUNDLE_NAMES];
pub const VMOP: &str = "system:serviceaccount:vmware-system-vmop:vmware-system-vmop-controller-manager";

/// A request that one rule of a policy refuses.
#[derive(Clone)]
pub struct Refused {
    pub policy: &'static str,
    pub rule: usize,
    pub who: String,
    pub request: Request,
}

#[derive(Clone)]
pub enum Request {
    Create(Value),
    /// A merge patch for the object with this kind and name.
    Change(&'static str, &'static str, Value),
    Delete(&'static str, &'static str),
}

impl Refused {
    pub fn name(&self) -> String {
        format!("rule {} of {}", self.rule, self.policy)
    }
}

impl std::fmt::Display for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Create(object) => write!(f, "{} {} is created", object["kind"], object["metadata"]["name"]),
            Self::Change(kind, name, patch) => write!(f, "{kind} {name} is changed: {patch}"),
            Self::Delete(kind, name) => write!(f, "{kind} {name} is deleted"),
        }
    }
}

/// Returns all requests, each with the rule that refuses it.
pub fn refused() -> Vec<Refused> {
    [
        identities(),
        finalizers(),
        members(),
        bootstrap_data(),
        lent_machines(),
        lent_services(),
        secrets(),
        programs::refused(),
    ]
    .concat()
}

pub fn by(who: &str, policy: &'static str, rule: usize, requests: Vec<Request>) -> Vec<Refused> {
    let of = |request| Refused { policy, rule, who: who.to_owned(), request };
    requests.into_iter().map(of).collect()
}

pub fn metadata(kind: &'static str, name: &'static str, metadata: Value) -> Request {
    Request::Change(kind, name, Value::Object([("metadata".to_owned(), metadata)].into_iter().collect()))
}

fn identities() -> Vec<Refused> {
    let spec = json!({
        "className": "small", "imageName": "photon", "storageClass": "gold",
        "providerID": "vsphere://00000000-0000-4000-8000-000000000001",
    });
    let given = json!({"spec": {"providerID": spec["providerID"]}});
    let requests = vec![
        Request::Create(object("WCPMachine", "twin", &json!({}), &spec)),
        Request::Change("WCPMachine", "c", given),
    ];
    let change = |spec: Value| json!({"spec": {"template": {"spec": spec}}});
    let endpoint = json!({"controlPlaneEndpoint": {"host": "192.0.2.1", "port": 6443}});
    let templates = vec![
        Request::Change("WCPMachineTemplate", "c", change(json!({"className": "large"}))),
        Request::Change("WCPClusterTemplate", "c", change(endpoint)),
    ];
    let mut all = by(MALLORY, "vmware-system-capw-wcpmachine-identity", 0, requests);
    all.extend(by(MALLORY, OF_TEMPLATES, 0, templates));
    all
}

/// Returns requests that remove Layercake's finalizers, for each kind that has one.
fn finalizers() -> Vec<Refused> {
    let of = |policy, kinds: &[(&'static str, &'static str)]| {
        let strip =
            |(kind, name): &(&'static str, &'static str)| metadata(kind, name, json!({"finalizers": null}));
        by(MALLORY, policy, 0, kinds.iter().map(strip).collect())
    };
    let of_capw = [("WCPCluster", "c"), ("WCPMachine", "c"), ("ProviderServiceAccount", "c-pvcsi")];
    let of_vmop = [("VirtualMachine", "node"), ("VirtualMachineSetResourcePolicy", "policy")];
    [
        of("vmware-system-capw-finalizers", &of_capw),
        of("vmware-system-vmop-finalizers", &of_vmop),
        of("vmware-system-tkg-finalizers", &[("TanzuKubernetesCluster", "c")]),
    ]
    .concat()
}

fn members() -> Vec<Refused> {
    const POLICY: &str = "vmware-system-capw-members";
    const LABELS: [&str; 6] = [
        "capw.vmware.com/cluster.name",
        "capw.vmware.com/cluster.role",
        "capv.vmware.com/cluster.name",
        "capv.vmware.com/cluster.role",
        "cluster.x-k8s.io/cluster-name",
        "cluster.x-k8s.io/deployment-name",
    ];
    let labelled = json!({"labels": of_cluster("c")});
    let mut labels = vec![
        Request::Create(object("VirtualMachine", "new", &labelled, &vm_spec())),
        metadata("VirtualMachineService", "plain", labelled.clone()),
        metadata("VirtualMachineSetResourcePolicy", "policy", labelled),
        metadata("VirtualMachine", "node", json!({"labels": {"capw.vmware.com/cluster.name": null}})),
    ];
    labels.extend(LABELS.map(|label| metadata("VirtualMachine", "plain", json!({"labels": {label: "c"}}))));
    let owned = json!({"ownerReferences": owner("WCPMachine", true)});
    let owners = vec![
        Request::Create(object("VirtualMachine", "new", &owned, &vm_spec())),
        metadata("VirtualMachine", "plain", owned),
        metadata("VirtualMachineService", "plain", json!({"ownerReferences": owner("WCPCluster", false)})),
        metadata("VirtualMachine", "node", json!({"ownerReferences": null})),
    ];
    let endpoint = json!({"annotations": {"capw.vmware.com/control-plane-endpoint": "192.0.2.1"}});
    let annotations = vec![
        Request::Create(object("VirtualMachine", "new", &endpoint, &vm_spec())),
        metadata("VirtualMachine", "plain", endpoint.clone()),
        metadata(
            "VirtualMachine",
            "plain",
            json!({"annotations": {"capw.vmware.com/virtual-router-id": "7"}}),
        ),
        metadata("VirtualMachineSetResourcePolicy", "policy", endpoint),
    ];
    [by(MALLORY, POLICY, 0, labels), by(MALLORY, POLICY, 1, owners), by(MALLORY, POLICY, 2, annotations)]
        .concat()
}

fn bootstrap_data() -> Vec<Refused> {
    let named = json!({"bootstrap": {"dataSecretName": "stolen"}});
    let of_template = json!({"template": {"spec": named}});
    let requests = vec![
        Request::Create(object("Machine", "new", &json!({}), &named)),
        Request::Create(object("MachineSet", "new", &json!({}), &of_template)),
        Request::Create(object("MachineDeployment", "new", &json!({}), &of_template)),
    ];
    by(MALLORY, "vmware-system-capw-bootstrap-data", 0, requests)
}

fn lent_machines() -> Vec<Refused> {
    const POLICY: &str = "vmware-system-capw-lent-virtualmachines";
    let change = |spec: Value| Request::Change("VirtualMachine", "node", json!({"spec": spec}));
    let claim = json!([{"name": "a", "persistentVolumeClaim": {"claimName": "a"}}]);
    let others = vec![
        Request::Create(object("VirtualMachine", "new", &json!({}), &vm_spec())),
        Request::Change("VirtualMachine", "plain", json!({"spec": {"volumes": claim}})),
        Request::Delete("VirtualMachine", "node"),
    ];
    let stranger = json!([
        owner("WCPMachine", true)[0],
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "00000000-0000-4000-8000-000000000002"},
    ]);
    let kept = "virtualmachine.vmoperator.vmware.com";
    let of_node = |changed| metadata("VirtualMachine", "node", changed);
    let metadata = vec![
        of_node(json!({"labels": {"a": "b"}})),
        of_node(json!({"annotations": {"a": "b"}})),
        of_node(json!({"ownerReferences": stranger})),
        of_node(json!({"finalizers": [kept, "example.com/held"]})),
    ];
    let spec = vec![
        change(json!({"powerState": "poweredOn"})),
        // Removes the VM's own disk, adds a field, and removes a field.
        change(json!({"volumes": claim})),
        change(json!({"suspendMode": "soft"})),
        change(json!({"powerOffMode": null})),
    ];
    [by(LENT, POLICY, 0, others), by(LENT, POLICY, 1, metadata), by(LENT, POLICY, 2, spec)].concat()
}

fn lent_services() -> Vec<Refused> {
    const POLICY: &str = "vmware-system-capw-lent-services";
    let selects = |cluster: &str| json!({"spec": {"selector": {"capv.vmware.com/cluster.name": cluster}}});
    let others = vec![
        Request::Create(object("VirtualMachineService", "new", &json!({}), &service_spec("another"))),
        Request::Change("VirtualMachineService", "plain", selects("another")),
    ];
    let front = vec![
        Request::Change("VirtualMachineService", "front", json!({"metadata": {"annotations": {"a": "b"}}})),
        Request::Delete("VirtualMachineService", "front"),
    ];
    [by(LENT, POLICY, 0, others), by(LENT, POLICY, 1, front)].concat()
}

/// Returns requests that change a cluster's records. Such a change would give the cluster another cluster's volumes, or
/// an API server without the key for the cluster's Secrets.
fn records() -> Vec<Request> {
    ["run.tanzu.vmware.com/api-server", "run.tanzu.vmware.com/cluster-id"]
        .map(|key| metadata("TanzuKubernetesCluster", "c", json!({"annotations": {key: "a"}})))
        .to_vec()
}

fn secrets() -> Vec<Refused> {
    const OF_VM: &str = "vmware-system-vmop-bootstrap-data";
    let named = |field: &str| json!({"vmMetadata": {field: "stolen", "transport": "CloudInit"}});
    let of_vm = |field: &str| {
        let mut spec = vm_spec();
        spec["vmMetadata"] = named(field)["vmMetadata"].clone();
        vec![
            Request::Create(object("VirtualMachine", "new", &json!({}), &spec)),
            Request::Change(
                "VirtualMachine",
                "plain",
                json!({"spec": {"powerState": "poweredOff", "vmMetadata": spec["vmMetadata"]}}),
            ),
        ]
    };
    let bundle = |addon: &str, data: Value| {
        let labels = json!({"tkg.tanzu.vmware.com/addon-name": addon});
        Request::Create(json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": data,
            "metadata": {"name": "bundle", "namespace": NAMESPACE, "labels": labels},
        }))
    };
    let of_secret = bundle("a", json!({"secret": " stolen\n"}));
    let labels = metadata("PersistentVolumeClaim", "data", json!({"labels": {"a": "b"}}));
    let mut all = by(MALLORY, OF_VM, 0, of_vm("secretName"));
    all.extend(by(MALLORY, OF_VM, 1, of_vm("configMapName")));
    all.extend(by(MALLORY, "vmware-system-tkg-bundles", 0, vec![of_secret]));
    all.extend(by(MALLORY, OF_BUNDLE_NAMES, 0, vec![bundle("cni", json!({}))]));
    all.extend(by(VMOP, "vmware-system-vmop-persistentvolumeclaims", 0, vec![labels]));
    let cluster = existing().into_iter().find(|object| object["kind"] == "TanzuKubernetesCluster").unwrap();
    for (rule, ending) in CLUSTER_SECRETS.iter().enumerate() {
        let stolen = object("TanzuKubernetesCluster", "stolen", &json!({}), &cluster["spec"]);
        all.extend(by(
            &without(ending),
            "vmware-system-tkg-cluster-secrets",
            rule,
            vec![Request::Create(stolen)],
        ));
    }
    all.extend(by(MALLORY, "vmware-system-tkg-records", 0, records()));
    all
}
