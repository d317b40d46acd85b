//! Tests the policies with requests for Secrets that Cluster API reads, and for objects that the programs' ServiceAccounts write.

use serde_json::{Value, json};

use super::objects::{NAMESPACE, RBAC, owner, rights_in};
use super::requests::{Refused, Request, VMOP, by, metadata};

/// A user in the namespace who writes Secrets, as the role `edit` allows.
const EDITOR: &str = "editor";
const CORE: &str = "system:serviceaccount:capi-system:capi-manager";
const BOOTSTRAP: &str = "system:serviceaccount:capi-kubeadm-bootstrap-system:capi-kubeadm-bootstrap-manager";
const CONTROL_PLANE: &str =
    "system:serviceaccount:capi-kubeadm-control-plane-system:capi-kubeadm-control-plane-manager";
const GCM: &str = "system:serviceaccount:vmware-system-tkg:vmware-system-tkg-controller-manager";
const CAPW: &str = "system:serviceaccount:vmware-system-capw:vmware-system-capw-controller-manager";
/// The type of the Secrets that Cluster API creates.
const OWN: &str = "cluster.x-k8s.io/secret";
const TOKEN: &str = "kubernetes.io/service-account-token";
/// A namespace with system programs.
const SYSTEM: &str = "kube-system";
/// ServiceAccounts in the test namespace, each with one right (API group, resource, verb). The right is enough for capw's
/// token request to be refused.
const ACCOUNTS: [(&str, &str, &str, &str); 6] = [
    ("gets-secrets", "", "secrets", "get"),
    ("lists-secrets", "", "secrets", "list"),
    ("creates-secrets", "", "secrets", "create"),
    ("creates-pods", "", "pods", "create"),
    ("creates-tokens", "", "serviceaccounts/token", "create"),
    ("creates-bindings", RBAC, "rolebindings", "create"),
];
/// ServiceAccounts in the test namespace, each with one right (API group, resource, verb) in the whole cluster.
const OF_CLUSTER: [(&str, &str, &str, &str); 2] = [
    ("creates-cluster-bindings", RBAC, "clusterrolebindings", "create"),
    ("impersonates", "", "users", "impersonate"),
];
const WEBHOOKS: [(&str, &str, &str); 2] = [
    (GCM, "vmware-system-tkg-webhooks", "vmware-system-tkg-mutating-webhook-configuration"),
    (VMOP, "vmware-system-vmop-webhooks", "vmware-system-vmop-mutating-webhook"),
];

fn secret(name: &str, type_: &str, data: &[&str], metadata: Value) -> Value {
    let data: serde_json::Map<_, _> = data.iter().map(|key| ((*key).to_owned(), "YQ==".into())).collect();
    let mut secret = json!({"apiVersion": "v1", "kind": "Secret", "type": type_, "data": data});
    secret["metadata"] = metadata;
    secret["metadata"]["name"] = name.into();
    if secret["metadata"]["namespace"].is_null() {
        secret["metadata"]["namespace"] = NAMESPACE.into();
    }
    secret
}

fn labelled(cluster: &str) -> Value {
    json!({"labels": {"cluster.x-k8s.io/cluster-name": cluster}})
}

fn controlled_by(api_version: &str, kind: &str, name: &str) -> Value {
    json!({"ownerReferences": [{
        "apiVersion": api_version, "kind": kind, "name": name, "controller": true,
        "uid": "00000000-0000-4000-8000-000000000001",
    }]})
}

fn within(namespace: &str, mut metadata: Value) -> Value {
    metadata["namespace"] = namespace.into();
    metadata
}

fn token(account: &str) -> Value {
    let mut metadata = controlled_by("v1", "ServiceAccount", account);
    metadata["annotations"] = json!({"kubernetes.io/service-account.name": account});
    secret(&format!("{account}-secret"), TOKEN, &[], metadata)
}

fn of_machine() -> Value {
    json!({"ownerReferences": owner("WCPMachine", true)})
}

fn of_cluster() -> Value {
    controlled_by("run.tanzu.vmware.com/v1alpha3", "TanzuKubernetesCluster", "c")
}

/// Returns a webhook configuration like the programs' own, for a kind that isn't served.
fn webhooks(name: &str, group: &str, authority: Option<&str>) -> Value {
    let mut client = json!({"service": {"name": "webhooks", "namespace": "default", "port": 443}});
    if let Some(authority) = authority {
        client["caBundle"] = authority.into();
    }
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [{
            "name": "a.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None", "clientConfig": client,
            "rules": [{"apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["as"]}],
        }],
    })
}

/// Returns the objects that the requests change, and the rights for the users who send the requests.
pub fn objects() -> Vec<Value> {
    let mut objects = vec![
        secret("c-kubeconfig", OWN, &["value"], labelled("c")),
        secret("c-ca", OWN, &["tls.crt"], labelled("c")),
        secret("plain-kubeconfig", "Opaque", &["config"], json!({})),
        secret("d-etcd", "Opaque", &["tls.crt"], json!({})),
        secret("brought-ca", "Opaque", &["tls.crt"], labelled("brought")),
    ];
    objects.push(service("others", within(NAMESPACE, json!({}))));
    objects.extend(WEBHOOKS.map(|(_, _, name)| webhooks(name, "example.com", None)));
    let writes = [json!({"apiGroups": [""], "resources": ["secrets", "configmaps"], "verbs": ["*"]})];
    objects.extend(rights_in(NAMESPACE, EDITOR, "editor", &writes));
    for (name, user) in [("core", CORE), ("bootstrap", BOOTSTRAP), ("control-plane", CONTROL_PLANE)] {
        objects.extend(rights_in(NAMESPACE, user, name, &writes));
        objects.extend(rights_in(SYSTEM, user, name, &writes));
    }
    let rule = |group: &str, resource: &str, verb: &str| json!({"apiGroups": [group], "resources": [resource], "verbs": [verb]});
    let user = |account: &str| format!("system:serviceaccount:{NAMESPACE}:{account}");
    for (account, group, resource, verb) in ACCOUNTS {
        objects.extend(rights_in(NAMESPACE, &user(account), account, &[rule(group, resource, verb)]));
    }
    for (account, group, resource, verb) in OF_CLUSTER {
        for mut object in rights_in(NAMESPACE, &user(account), account, &[rule(group, resource, verb)]) {
            object["kind"] = format!("Cluster{}", object["kind"].as_str().unwrap()).into();
            object["metadata"].as_object_mut().unwrap().remove("namespace");
            if object["roleRef"].is_object() {
                object["roleRef"]["kind"] = "ClusterRole".into();
            }
            objects.push(object);
        }
    }
    objects
}

/// Returns all requests in this file that are refused, each with the rule that refuses it.
pub fn refused() -> Vec<Refused> {
    [of_clusters(), by_cluster_api(), by_capw(), by_gcm(), by_vmop(), of_webhooks()].concat()
}

fn of_clusters() -> Vec<Refused> {
    let change = |name, change| Request::Change("Secret", name, change);
    let value = json!({"data": {"value": "Yg=="}});
    let requests = vec![
        // The cluster doesn't exist yet. The Secrets are recognized by name, by type and by label.
        Request::Create(secret("new-kubeconfig", "Opaque", &["value"], json!({}))),
        Request::Create(secret("new", OWN, &[], json!({}))),
        Request::Create(secret("new-ca", "Opaque", &["tls.crt"], labelled("new"))),
        // An existing Secret would become Cluster API's.
        change("plain-kubeconfig", value.clone()),
        change("d-etcd", json!({"metadata": labelled("d")})),
        // The cluster exists.
        change("c-kubeconfig", value),
        metadata("Secret", "c-kubeconfig", json!({"labels": null})),
        metadata("Secret", "c-ca", json!({"ownerReferences": owner("WCPMachine", true)})),
        metadata("Secret", "c-ca", json!({"finalizers": ["example.com/held"]})),
        change("c-ca", json!({"immutable": true})),
        Request::Delete("Secret", "c-ca"),
        // An administrator provided the Secret.
        change("brought-ca", json!({"data": {"tls.crt": "Yg=="}})),
        metadata("Secret", "brought-ca", json!({"labels": null})),
        Request::Delete("Secret", "brought-ca"),
    ];
    by(EDITOR, "vmware-system-capw-cluster-secrets", 0, requests)
}

fn by_cluster_api() -> Vec<Refused> {
    const POLICY: &str = "vmware-system-capw-cluster-api";
    let elsewhere = Request::Create(secret("new", OWN, &[], within(SYSTEM, json!({}))));
    let mut all = Vec::new();
    for user in [CORE, BOOTSTRAP, CONTROL_PLANE] {
        all.extend(by(user, POLICY, 0, vec![elsewhere.clone()]));
        let others = vec![
            Request::Create(token("any")),
            Request::Create(secret("new", "Opaque", &["a"], json!({}))),
            Request::Change("Secret", "plain-kubeconfig", json!({"data": {"config": "Yg=="}})),
            metadata(
                "Secret",
                "d-etcd",
                json!({"annotations": {"kubernetes.io/service-account.name": "any"}}),
            ),
        ];
        all.extend(by(user, POLICY, 1, others));
    }
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a-lock", "namespace": SYSTEM}});
    all.extend(by(BOOTSTRAP, POLICY, 0, vec![Request::Create(map)]));
    all
}

fn by_capw() -> Vec<Refused> {
    const POLICY: &str = "vmware-system-capw-created-secrets";
    let metadata = json!({"name": "new", "namespace": SYSTEM});
    let elsewhere = vec![
        Request::Create(secret("m-cloud-init", "Opaque", &[], within(SYSTEM, of_machine()))),
        Request::Create(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})),
        Request::Create(
            json!({"apiVersion": format!("{RBAC}/v1"), "kind": "Role", "metadata": metadata, "rules": []}),
        ),
    ];
    let mut renamed = token("c-pvcsi");
    renamed["metadata"]["name"] = "another".into();
    let mut free = token("c-pvcsi");
    free["metadata"]["ownerReferences"] = json!([]);
    let others = vec![
        Request::Create(renamed),
        Request::Create(free),
        Request::Create(secret("m-cloud-init", "Opaque", &[], json!({}))),
        Request::Create(secret("another", "Opaque", &[], of_machine())),
        Request::Create(secret("m-cloud-init", "example.com/a", &[], of_machine())),
    ];
    let mut all = by(CAPW, "vmware-system-capw-namespaces", 0, elsewhere);
    all.extend(by(CAPW, POLICY, 0, others));
    for (at, (account, ..)) in ACCOUNTS.iter().chain(&OF_CLUSTER).enumerate() {
        all.extend(by(CAPW, POLICY, 1 + at / 2, vec![Request::Create(token(account))]));
    }
    all
}

fn by_gcm() -> Vec<Refused> {
    const POLICY: &str = "vmware-system-tkg-created-secrets";
    let elsewhere =
        vec![Request::Create(secret("c-encryption", "Opaque", &[], within(SYSTEM, of_cluster())))];
    let others = vec![
        Request::Create(token("any")),
        Request::Create(secret("new-kubeconfig", "Opaque", &["value"], of_cluster())),
        Request::Create(secret("d-encryption", "Opaque", &[], of_cluster())),
        Request::Create(secret("c-encryption", "Opaque", &[], json!({}))),
        Request::Create(secret("c-encryption", OWN, &[], of_cluster())),
    ];
    [by(GCM, POLICY, 0, elsewhere), by(GCM, POLICY, 1, others)].concat()
}

fn service(name: &str, mut metadata: Value) -> Value {
    metadata["name"] = name.into();
    let port = json!({"port": 80, "protocol": "TCP"});
    let mut service = json!({"apiVersion": "v1", "kind": "Service", "spec": {"ports": [port]}});
    service["metadata"] = metadata;
    service
}

fn slice(of: &str, owner: &str) -> Value {
    let mut metadata = controlled_by("vmoperator.vmware.com/v1alpha1", "VirtualMachineService", owner);
    metadata["name"] = "slice".into();
    metadata["namespace"] = NAMESPACE.into();
    metadata["labels"] = json!({"kubernetes.io/service-name": of});
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": metadata,
        "addressType": "IPv4", "endpoints": [], "ports": [],
    })
}

fn of_service(namespace: &str, owner: &str) -> Value {
    within(namespace, controlled_by("vmoperator.vmware.com/v1alpha1", "VirtualMachineService", owner))
}

fn by_vmop() -> Vec<Refused> {
    const POLICY: &str = "vmware-system-vmop-services";
    let elsewhere = vec![Request::Create(service("new", of_service(SYSTEM, "new")))];
    let mut of_api_server = slice("kubernetes", "kubernetes");
    of_api_server["metadata"]["namespace"] = "default".into();
    let others = vec![
        Request::Create(service("new", within(NAMESPACE, json!({})))),
        Request::Create(service("new", of_service(NAMESPACE, "another"))),
        Request::Create(slice("another", "new")),
        Request::Create(of_api_server),
        // The Service has another owner, even if the request adds an owner reference.
        metadata("Service", "others", of_service(NAMESPACE, "others")),
        Request::Delete("Service", "others"),
    ];
    [by(VMOP, POLICY, 0, elsewhere), by(VMOP, POLICY, 1, others)].concat()
}

fn of_webhooks() -> Vec<Refused> {
    let refused = WEBHOOKS.map(|(who, policy, name)| {
        let changed = json!({"webhooks": webhooks(name, "", None)["webhooks"]});
        let mut more = webhooks(name, "example.com", None)["webhooks"].clone();
        let mut second = more[0].clone();
        second["name"] = "b.example.com".into();
        more.as_array_mut().unwrap().push(second);
        let both = [changed, json!({"webhooks": more})];
        let request = |change| Request::Change("MutatingWebhookConfiguration", name, change);
        by(who, policy, 0, both.map(request).to_vec())
    });
    refused.concat()
}

/// Returns requests that all policies accept, with the users who send them.
pub fn accepted() -> Vec<(&'static str, Request)> {
    let mut accepted = vec![
        (EDITOR, Request::Create(secret("corp-ca", "Opaque", &["tls.crt"], json!({})))),
        (EDITOR, Request::Create(secret("mine-kubeconfig", "Opaque", &["config"], json!({})))),
        (EDITOR, Request::Create(secret("mine", "Opaque", &["value"], labelled("c")))),
        (EDITOR, metadata("Secret", "c-ca", json!({"annotations": {"a": "b"}, "labels": {"a": "b"}}))),
        (BOOTSTRAP, Request::Create(secret("c-control-plane-a", OWN, &["value"], labelled("c")))),
        (CONTROL_PLANE, Request::Create(secret("e-kubeconfig", OWN, &["value"], labelled("e")))),
        (CONTROL_PLANE, Request::Change("Secret", "c-kubeconfig", json!({"data": {"value": "Yg=="}}))),
        (CORE, metadata("Secret", "d-etcd", of_machine())),
        (CAPW, Request::Create(token("c-pvcsi"))),
        (CAPW, Request::Create(secret("m-cloud-init", "Opaque", &["a"], of_machine()))),
        (GCM, Request::Create(secret("c-encryption", "Opaque", &["a"], of_cluster()))),
        (GCM, Request::Create(secret("c-ssh", "kubernetes.io/ssh-auth", &["ssh-privatekey"], of_cluster()))),
    ];
    accepted.push((VMOP, Request::Create(service("new", of_service(NAMESPACE, "new")))));
    accepted.push((VMOP, Request::Create(slice("new", "new"))));
    accepted.extend(WEBHOOKS.map(|(who, _, name)| {
        let authority = json!({"webhooks": webhooks(name, "example.com", Some("YQ=="))["webhooks"]});
        (who, Request::Change("MutatingWebhookConfiguration", name, authority))
    }));
    accepted
}
