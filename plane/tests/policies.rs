//! What the admission policies of config/ refuse, on a real API server: each rule refuses something that nothing else refuses.
//!
//! Every rule is opened, and then what it refused is let through. A rule that the API server does not ask, or that another one
//! covers, fails the test; so does one without a request here. Nothing is written: all requests are dry runs.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
    PostParams,
};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use plane::wait::until;
use plane::{Error, Guard, Options, Plane, Stack, config, guard, tools};
use serde_json::{Value, json};

/// Time for the API server to see a policy that has changed.
const SEEN: Duration = Duration::from_mins(1);
const NAMESPACE: &str = "tenant";
/// The policy that refuses a change whoever makes it.
const OF_TEMPLATES: &str = "vmware-system-capw-templates";
/// A user of the namespace, with rights on all kinds but none to get Secrets and ConfigMaps.
const MALLORY: &str = "mallory";
/// The account of a program in the guest of cluster `c`.
const LENT: &str = "system:serviceaccount:tenant:c-pvcsi";
const VMOP: &str = "system:serviceaccount:vmware-system-vmop:vmware-system-vmop-controller-manager";
/// The endings of the Secrets that a cluster uses by its name.
const CLUSTER_SECRETS: [&str; 8] =
    ["ca", "etcd", "proxy", "sa", "kubeconfig", "ssh", "ssh-password", "ssh-password-hashed"];

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args_os().collect();
    if args[0] == guard::ARG0 {
        return guard::main(args);
    }
    if args.iter().any(|arg| arg == "--list") {
        return ExitCode::SUCCESS;
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    match tools::ensure(&tools::Options::default(), &*tools::progress()) {
        Err(error @ Error::NoGo { .. }) => eprintln!("SKIPPED: {error}"),
        tools => runtime.block_on(each_rule_of_a_policy_refuses_what_nothing_else_refuses(tools.unwrap())),
    }
    ExitCode::SUCCESS
}

/// A request that one rule of a policy refuses.
struct Refused {
    policy: &'static str,
    rule: usize,
    who: String,
    request: Request,
}

#[derive(Clone)]
enum Request {
    Create(Value),
    /// Of an object, with a merge patch.
    Change(&'static str, &'static str, Value),
    Delete(&'static str, &'static str),
}

async fn each_rule_of_a_policy_refuses_what_nothing_else_refuses(tools: tools::Tools) {
    let stack = Arc::new(Stack::ephemeral().unwrap());
    let guard = Guard::start(&std::env::current_exe().unwrap(), &stack).unwrap();
    let definitions = ["Machine", "MachineSet", "MachineDeployment"].map(definition_of_cluster_api).to_vec();
    let plane = Plane::bare(Options { stack, tools, definitions }).await.unwrap();
    let admin = plane.client();
    prepare(&admin).await;
    let all = refused();
    for one in &all {
        let client = act_as(&plane, &one.who).await;
        let what = format!("{} is asked", one.name());
        let words = format!("'{}'", one.policy);
        until(&what, SEEN, async || match send(&client, &one.request).await {
            Err(refusal) if refusal.contains(&words) => Ok(()),
            other => Err(format!("{}: {other:?}", one.request)),
        })
        .await
        .unwrap();
        if one.policy != OF_TEMPLATES {
            // It is refused for who asks, and not for what is asked.
            send(&admin, &one.request).await.unwrap_or_else(|error| panic!("{}: {error}", one.name()));
        }
    }
    let rules: BTreeSet<_> = all.iter().map(|one| (one.policy, one.rule)).collect();
    assert_eq!(rules, rules_of(&admin).await, "each rule has a request that it refuses");
    for (policy, rule) in rules {
        let kept = open(&admin, policy, rule, "true").await;
        for one in all.iter().filter(|one| (one.policy, one.rule) == (policy, rule)) {
            let client = act_as(&plane, &one.who).await;
            let what = format!("{} is what refuses", one.name());
            until(&what, SEEN, async || {
                send(&client, &one.request).await.map_err(|error| format!("{}: {error}", one.request))
            })
            .await
            .unwrap();
        }
        open(&admin, policy, rule, &kept).await;
    }
    plane.stop().await;
    tokio::task::spawn_blocking(move || guard.finish()).await.unwrap().unwrap();
}

impl Refused {
    fn name(&self) -> String {
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

/// All rules of the policies of our programs.
async fn rules_of(admin: &Client) -> BTreeSet<(&'static str, usize)> {
    let policies = Api::<DynamicObject>::all_with(admin.clone(), &resource("ValidatingAdmissionPolicy"));
    let policies = policies.list(&ListParams::default()).await.unwrap().items;
    let rules = policies.into_iter().flat_map(|policy| {
        let name: &'static str = policy.metadata.name.unwrap().leak();
        let count = policy.data["spec"]["validations"].as_array().unwrap().len();
        (0..count).map(move |rule| (name, rule))
    });
    rules.collect()
}

/// Gives a rule of a policy another expression; the answer is the one that it had.
async fn open(admin: &Client, policy: &str, rule: usize, expression: &str) -> String {
    let policies = Api::<DynamicObject>::all_with(admin.clone(), &resource("ValidatingAdmissionPolicy"));
    let before = policies.get(policy).await.unwrap().data["spec"]["validations"][rule]["expression"].clone();
    let path = format!("/spec/validations/{rule}/expression");
    let replace =
        serde_json::from_value(json!([{"op": "replace", "path": path, "value": expression}])).unwrap();
    policies.patch(policy, &PatchParams::default(), &Patch::Json::<()>(replace)).await.unwrap();
    before.as_str().unwrap().to_owned()
}

async fn act_as(plane: &Plane, user: &str) -> Client {
    let kubeconfig = Kubeconfig::read_from(plane.kubeconfig()).unwrap();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    config.auth_info.impersonate = Some(user.to_owned());
    Client::try_from(config).unwrap()
}

async fn send(client: &Client, request: &Request) -> Result<(), String> {
    let result = match request.clone() {
        Request::Create(object) => {
            let params = PostParams { dry_run: true, ..PostParams::default() };
            let object: DynamicObject = serde_json::from_value(object).unwrap();
            let kind = object.types.as_ref().unwrap().kind.clone();
            api(client, &kind).create(&params, &object).await.map(drop)
        }
        Request::Change(kind, name, patch) => {
            let params = PatchParams { dry_run: true, ..PatchParams::default() };
            api(client, kind).patch(name, &params, &Patch::Merge(patch)).await.map(drop)
        }
        Request::Delete(kind, name) => {
            let params = DeleteParams { dry_run: true, ..DeleteParams::default() };
            api(client, kind).delete(name, &params).await.map(drop)
        }
    };
    result.map_err(|error| error.to_string())
}

fn resource(kind: &str) -> ApiResource {
    let group_version = match kind {
        "ValidatingAdmissionPolicy" => ("admissionregistration.k8s.io", "v1"),
        "ConfigMap" | "PersistentVolumeClaim" => ("", "v1"),
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

fn api(client: &Client, kind: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), NAMESPACE, &resource(kind))
}

/// A kind of Cluster API's, which takes whatever is written.
fn definition_of_cluster_api(kind: &str) -> Value {
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

/// The policies, who asks, and the objects that are changed.
async fn prepare(admin: &Client) {
    let mut objects = vec![json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})];
    // Before the policies: those with parameters refuse everything until the API server watches their kind.
    objects.extend(there());
    for program in ["gcm", "capw", "vmop"] {
        let manifests = config::manifests(program).unwrap();
        objects.extend(manifests.namespaces);
        objects.extend(manifests.objects);
    }
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
        plane::apply(admin, object).await.unwrap();
    }
}

/// Who may get all Secrets of cluster `stolen` but the one with this ending.
fn without(ending: &str) -> String {
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
    const RBAC: &str = "rbac.authorization.k8s.io";
    let metadata = json!({"name": name, "namespace": NAMESPACE});
    [
        json!({"apiVersion": format!("{RBAC}/v1"), "kind": "Role", "metadata": metadata, "rules": rules}),
        json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": name},
            "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}],
        }),
    ]
}

fn object(kind: &str, name: &str, metadata: &Value, spec: &Value) -> Value {
    let ApiResource { api_version, .. } = resource(kind);
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec});
    object["metadata"]["name"] = name.into();
    object["metadata"]["namespace"] = NAMESPACE.into();
    object
}

fn vm_spec() -> Value {
    json!({"className": "small", "imageName": "photon", "powerState": "poweredOn"})
}

fn service_spec(cluster: &str) -> Value {
    json!({
        "type": "LoadBalancer", "selector": {"capv.vmware.com/cluster.name": cluster},
        "ports": [{"name": "a", "protocol": "TCP", "port": 80, "targetPort": 80}],
    })
}

fn owner(kind: &str, is_controller: bool) -> Value {
    json!([{
        "apiVersion": "infrastructure.cluster.vmware.com/v1beta2", "kind": kind, "name": "c",
        "uid": "00000000-0000-4000-8000-000000000001", "controller": is_controller,
    }])
}

fn of_cluster(name: &str) -> Value {
    json!({"capw.vmware.com/cluster.name": name})
}

/// The objects that are changed.
fn there() -> Vec<Value> {
    let held = |finalizer: &str| json!({"finalizers": [finalizer]});
    let machine = json!({"className": "small", "imageName": "photon", "storageClass": "gold"});
    let node_pools = json!([{"name": "a", "replicas": 1, "vmClass": "small", "storageClass": "gold"}]);
    let control_plane = json!({"replicas": 1, "vmClass": "small", "storageClass": "gold"});
    let disk =
        json!({"name": "own", "vSphereVolume": {"capacity": {"ephemeral-storage": "1Gi"}}, "unitNumber": 1});
    let mut node = vm_spec();
    node["volumes"] = json!([disk]);
    // Of one that is on its definition lets nobody change the disks.
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

/// What is refused, by which rule of which policy.
fn refused() -> Vec<Refused> {
    [identities(), finalizers(), members(), bootstrap_data(), lent_machines(), lent_services(), secrets()]
        .into_iter()
        .flatten()
        .collect()
}

fn by(who: &str, policy: &'static str, rule: usize, requests: Vec<Request>) -> Vec<Refused> {
    let of = |request| Refused { policy, rule, who: who.to_owned(), request };
    requests.into_iter().map(of).collect()
}

fn metadata(kind: &'static str, name: &'static str, metadata: Value) -> Request {
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

/// Of each kind that has a finalizer of ours.
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
    .into_iter()
    .flatten()
    .collect()
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
    [by(MALLORY, POLICY, 0, labels), by(MALLORY, POLICY, 1, owners)].into_iter().flatten().collect()
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
        // The disk of its own goes; a field is added; a field is taken away.
        change(json!({"volumes": claim})),
        change(json!({"suspendMode": "soft"})),
        change(json!({"powerOffMode": null})),
    ];
    [by(LENT, POLICY, 0, others), by(LENT, POLICY, 1, metadata), by(LENT, POLICY, 2, spec)]
        .into_iter()
        .flatten()
        .collect()
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
    [by(LENT, POLICY, 0, others), by(LENT, POLICY, 1, front)].into_iter().flatten().collect()
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
    let bundle = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"secret": " stolen\n"},
        "metadata": {"name": "bundle", "namespace": NAMESPACE, "labels": {"tkg.tanzu.vmware.com/addon-name": "a"}},
    });
    let labels = metadata("PersistentVolumeClaim", "data", json!({"labels": {"a": "b"}}));
    let mut all = by(MALLORY, OF_VM, 0, of_vm("secretName"));
    all.extend(by(MALLORY, OF_VM, 1, of_vm("configMapName")));
    all.extend(by(MALLORY, "vmware-system-tkg-bundles", 0, vec![Request::Create(bundle)]));
    all.extend(by(VMOP, "vmware-system-vmop-persistentvolumeclaims", 0, vec![labels]));
    let cluster = there().into_iter().find(|object| object["kind"] == "TanzuKubernetesCluster").unwrap();
    for (rule, ending) in CLUSTER_SECRETS.iter().enumerate() {
        let stolen = object("TanzuKubernetesCluster", "stolen", &json!({}), &cluster["spec"]);
        all.extend(by(
            &without(ending),
            "vmware-system-tkg-cluster-secrets",
            rule,
            vec![Request::Create(stolen)],
        ));
    }
    all
}
