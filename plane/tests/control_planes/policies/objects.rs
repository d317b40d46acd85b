//! The objects that the requests change, and the rights for the users who send the requests.

use components::config;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use serde_json::{Value, json};

use super::programs;

pub const NAMESPACE: &str = "tenant";
/// A user in the namespace with rights on all kinds, but without the right to get Secrets or ConfigMaps.
pub const MALLORY: &str = "mallory";
/// The account that a program in workload cluster `c` uses in the management cluster.
pub const LENT: &str = "system:serviceaccount:tenant:c-pvcsi";
pub const RBAC: &str = "rbac.authorization.k8s.io";
/// The name suffixes of the Secrets that belong to a cluster.
pub const CLUSTER_SECRETS: [&str; 9] =
    ["ca", "etcd", "proxy", "sa", "kubeconfig", "ssh", "ssh-password", "ssh-password-hashed", "encryption"];

pub fn resource(kind: &str) -> ApiResource {
    let group_version = match kind {
        "ValidatingAdmissionPolicy" | "MutatingWebhookConfiguration" => {
            ("admissionregistration.k8s.io", "v1")
        }
        "ConfigMap" | "PersistentVolumeClaim" | "Secret" | "Service" | "ServiceAccount" => ("", "v1"),
        "EndpointSlice" => ("discovery.k8s.io", "v1"),
        "Role" => ("rbac.authorization.k8s.io", "v1"),
        "VirtualMachine" | "VirtualMachineService" | "VirtualMachineSetResourcePolicy" => {
            ("vmoperator.vmware.com", "v1alpha1")
        }
        "TanzuKubernetesCluster" => ("run.tanzu.vmware.com", "v1alpha3"),
        "Machine" | "MachineSet" | "MachineDeployment" => ("cluster.x-k8s.io", "v1beta2"),
        _ => ("infrastructure.cluster.vmware.com", "v1beta2"),
    };
    let plural = match kind {
        "ValidatingAdmissionPolicy" => "validatingadmissionpolicies".to_owned(),
        "VirtualMachineSetResourcePolicy" => "virtualmachinesetresourcepolicies".to_owned(),
        other => format!("{}s", other.to_lowercase()),
    };
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group_version.0, group_version.1, kind), &plural)
}

/// Returns the API for a kind, in the test namespace if the kind is namespaced.
pub fn api(client: &Client, kind: &str) -> Api<DynamicObject> {
    if kind == "MutatingWebhookConfiguration" {
        return Api::all_with(client.clone(), &resource(kind));
    }
    api_in(client, kind, NAMESPACE)
}

pub fn api_in(client: &Client, kind: &str, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), namespace, &resource(kind))
}

/// Returns the CRD for a Cluster API kind, without a schema.
pub fn definition_of_cluster_api(kind: &str) -> Value {
    let plural = format!("{}s", kind.to_lowercase());
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.cluster.x-k8s.io")},
        "spec": {
            "group": "cluster.x-k8s.io", "scope": "Namespaced", "names": {"kind": kind, "plural": plural},
            "versions": [{
                "name": "v1beta2", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    })
}

/// Creates the policies, the objects that requests change, and the rights for the users who send the requests.
pub async fn prepare(admin: &Client) {
    let mut objects = vec![json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})];
    // These objects are created before the policies, because a policy with parameters refuses every request until the API
    // server watches the parameters' kind.
    objects.extend(existing());
    for program in ["gcm", "capw", "vmop"] {
        let manifests = config::manifests(program).unwrap();
        objects.extend(manifests.namespaces);
        objects.extend(manifests.objects);
    }
    objects.extend(programs::objects());
    objects.extend(rights(MALLORY, "mallory", &everything_but_secrets()));
    objects.extend(rights(LENT, "lent", &everything_but_secrets()));
    for ending in CLUSTER_SECRETS {
        let names = CLUSTER_SECRETS.iter().filter(|other| **other != ending);
        let names: Vec<_> = names.map(|other| format!("stolen-{other}")).collect();
        let mut rules = everything_but_secrets();
        rules.push(
            json!({"apiGroups": [""], "resources": ["secrets"], "resourceNames": names, "verbs": ["get"]}),
        );
        objects.extend(rights(&without(ending), &without(ending), &rules));
    }
    for object in &objects {
        kit::objects::Objects::new(admin).apply(object).await.unwrap();
    }
}

/// Returns the name of a user who can get all Secrets of cluster `stolen`, except the Secret with this suffix.
pub fn without(ending: &str) -> String {
    format!("without-{ending}")
}

fn everything_but_secrets() -> Vec<Value> {
    let groups = [
        "vmoperator.vmware.com",
        "infrastructure.cluster.vmware.com",
        "run.tanzu.vmware.com",
        "cluster.x-k8s.io",
    ];
    vec![
        json!({"apiGroups": groups, "resources": ["*"], "verbs": ["*"]}),
        json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "patch"]}),
    ]
}

fn rights(user: &str, name: &str, rules: &[Value]) -> [Value; 2] {
    rights_in(NAMESPACE, user, name, rules)
}

pub fn rights_in(namespace: &str, user: &str, name: &str, rules: &[Value]) -> [Value; 2] {
    let metadata = json!({"name": name, "namespace": namespace});
    [
        json!({"apiVersion": format!("{RBAC}/v1"), "kind": "Role", "metadata": metadata, "rules": rules}),
        json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": name},
            "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}],
        }),
    ]
}

pub fn object(kind: &str, name: &str, metadata: &Value, spec: &Value) -> Value {
    let ApiResource { api_version, .. } = resource(kind);
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec});
    object["metadata"]["name"] = name.into();
    object["metadata"]["namespace"] = NAMESPACE.into();
    object
}

pub fn vm_spec() -> Value {
    json!({"className": "small", "imageName": "photon", "powerState": "poweredOn"})
}

pub fn service_spec(cluster: &str) -> Value {
    json!({
        "type": "LoadBalancer", "selector": {"capv.vmware.com/cluster.name": cluster},
        "ports": [{"name": "a", "protocol": "TCP", "port": 80, "targetPort": 80}],
    })
}

pub fn owner(kind: &str, is_controller: bool) -> Value {
    json!([{
        "apiVersion": "infrastructure.cluster.vmware.com/v1beta2", "kind": kind, "name": "c",
        "uid": "00000000-0000-4000-8000-000000000001", "controller": is_controller,
    }])
}

pub fn of_cluster(name: &str) -> Value {
    json!({"capw.vmware.com/cluster.name": name})
}

/// Returns the objects that requests change.
pub fn existing() -> Vec<Value> {
    let held = |finalizer: &str| json!({"finalizers": [finalizer]});
    let machine = json!({"className": "small", "imageName": "photon", "storageClass": "gold"});
    let node_pools = json!([{"name": "a", "replicas": 1, "vmClass": "small", "storageClass": "gold"}]);
    let control_plane = json!({"replicas": 1, "vmClass": "small", "storageClass": "gold"});
    let disk =
        json!({"name": "own", "vSphereVolume": {"capacity": {"ephemeral-storage": "1Gi"}}, "unitNumber": 1});
    let mut node = vm_spec();
    node["volumes"] = json!([disk]);
    // The CRD itself refuses disk changes while a VM is on.
    node["powerState"] = "poweredOff".into();
    node["powerOffMode"] = "hard".into();
    let of_node = json!({
        "labels": of_cluster("c"), "ownerReferences": owner("WCPMachine", true),
        "finalizers": ["virtualmachine.vmoperator.vmware.com"],
    });
    let account = json!({
        "ref": {"name": "c"}, "targetNamespace": "a", "targetSecretName": "a",
        "rules": [{"apiGroups": [""], "resources": ["events"], "verbs": ["get"]}],
    });
    let mut of_account = held("providerserviceaccount.vmware.infrastructure.cluster.x-k8s.io");
    of_account["labels"] = json!({"cluster.x-k8s.io/cluster-name": "c"});
    let template = json!({"template": {"spec": machine}});
    let claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let nothing = || json!({});
    vec![
        object("VirtualMachine", "node", &of_node, &node),
        object("VirtualMachine", "plain", &nothing(), &vm_spec()),
        object("VirtualMachineService", "plain", &nothing(), &service_spec("c")),
        object(
            "VirtualMachineService",
            "front",
            &json!({"ownerReferences": owner("WCPCluster", true)}),
            &service_spec("c"),
        ),
        object(
            "VirtualMachineSetResourcePolicy",
            "policy",
            &held("virtualmachinesetresourcepolicy.vmoperator.vmware.com"),
            &nothing(),
        ),
        object("WCPCluster", "c", &held("wcpcluster.infrastructure.cluster.vmware.com"), &nothing()),
        object("WCPMachine", "c", &held("wcpmachine.infrastructure.cluster.vmware.com"), &machine),
        object("ProviderServiceAccount", "c-pvcsi", &of_account, &account),
        object(
            "TanzuKubernetesCluster",
            "c",
            &held("tanzukubernetescluster.run.tanzu.vmware.com"),
            &json!({"topology": {"controlPlane": control_plane, "nodePools": node_pools}}),
        ),
        object("WCPMachineTemplate", "c", &nothing(), &template),
        object("WCPClusterTemplate", "c", &nothing(), &json!({"template": {"spec": {}}})),
        object("PersistentVolumeClaim", "data", &nothing(), &claim),
    ]
}
