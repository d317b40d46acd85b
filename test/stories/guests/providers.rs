//! The calls that a guest's cloud provider and storage driver make to the management cluster, each with the token in
//! its guest. They are the calls that VMware's programs for vSphere with Tanzu make, in each VM operator API version
//! that they use.

use k8s_openapi::api::core::v1::{ConfigMap, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use layercake::args::SiteNetwork;
use serde_json::{Value, json};
use sim::network::RunningNetworkProvider;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::harness::objects::small_claim;
use crate::harness::plain_vm::PlainVm;
use crate::harness::shared_stack;
use crate::harness::story::{SOON, Story, api_resource, assert_contains, condition, merge};

const NODE_PORT: u16 = 30_080;

fn api(client: &Client, story: &Story, kind: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), &story.namespace, &api_resource(kind))
}

/// Returns an API for a VM operator kind in one version.
pub fn versioned(client: &Client, story: &Story, kind: &str, version: &str) -> Api<DynamicObject> {
    let mut resource = api_resource(kind);
    version.clone_into(&mut resource.version);
    resource.api_version = format!("{}/{version}", resource.group);
    Api::namespaced_with(client.clone(), &story.namespace, &resource)
}

fn object(value: Value) -> DynamicObject {
    serde_json::from_value(value).expect("an object")
}

async fn read(api: &Api<DynamicObject>, name: &str) -> Option<Value> {
    let found = api.get_opt(name).await.expect("the token opens it");
    found.map(|found| serde_json::to_value(found).expect("JSON"))
}

/// The cloud provider finds a node's VM by its provider ID, and creates a load balancer through which the Service
/// responds.
pub async fn serve_a_load_balancer(
    story: &Story,
    cluster: &str,
    cloud_provider: &Client,
    worker: &Value,
    version: &str,
) {
    let vm = vm_of_node(story, cloud_provider, worker, version).await;
    let status = &vm["status"];
    let (ip, power) = match version {
        "v1alpha1" => (&status["vmIp"], "poweredOn"),
        _ => (&status["network"]["primaryIP4"], "PoweredOn"),
    };
    assert_eq!(status["powerState"], power, "{version}");
    let ip = ip.as_str().expect("an address");
    let served = sim::addresses::served(ip.parse().expect("an IPv4 address"));
    let node_port = TcpListener::bind((served, NODE_PORT)).await.expect("the node's port");
    let serving = tokio::spawn(async move {
        while let Ok((mut client, _)) = node_port.accept().await {
            let _ = client.write_all(b"hello from the guest").await;
        }
    });
    // On port groups, the vSphere administrator provides a load balancer. Here, the simulated site does.
    let balancer = match shared_stack::network() {
        SiteNetwork::Nsx => None,
        SiteNetwork::PortGroups => {
            let stack = story.shared.stack().await;
            Some(RunningNetworkProvider::serving(story.client(), stack.site().subnet().clone()))
        }
    };
    let services = versioned(cloud_provider, story, "VirtualMachineService", version);
    let name = format!("{cluster}-0123456789abcdef01234");
    let wanted = json!({
        "apiVersion": format!("vmoperator.vmware.com/{version}"), "kind": "VirtualMachineService",
        "metadata": {"name": name, "namespace": story.namespace, "labels": {
            "run.tanzu.vmware.com/cluster.name": cluster,
            "run.tanzu.vmware.com/service.name": "web", "run.tanzu.vmware.com/service.namespace": "default",
        }},
        "spec": {
            "type": "LoadBalancer",
            "ports": [{"name": "http", "protocol": "TCP", "port": 80, "targetPort": NODE_PORT}],
            "selector": {"capv.vmware.com/cluster.name": cluster, "capv.vmware.com/cluster.role": "node"},
        },
    });
    services.create(&PostParams::default(), &object(wanted)).await.expect("a load balancer is asked for");
    let address = story
        .wait_for("the guest's Service has an address", SOON, || async {
            let service = read(&services, &name).await?;
            Some(service["status"]["loadBalancer"]["ingress"][0]["ip"].as_str()?.to_owned())
        })
        .await;
    let answer = story
        .wait_for("the guest's Service answers", SOON, || async {
            let mut socket = TcpStream::connect((address.as_str(), 80)).await.ok()?;
            let mut text = String::new();
            socket.read_to_string(&mut text).await.ok()?;
            (!text.is_empty()).then_some(text)
        })
        .await;
    assert_eq!(answer, "hello from the guest");
    story
        .wait_until("it has another port", SOON, async || {
            let mut live = services.get(&name).await.expect("the service");
            live.data["spec"]["ports"][0]["port"] = json!(8080);
            match services.replace(&name, &PostParams::default(), &live).await {
                Ok(_) => true,
                // A conflict means that the VM operator has written the status meanwhile.
                Err(kube::Error::Api(conflict)) if conflict.code == 409 => false,
                Err(error) => panic!("{error}"),
            }
        })
        .await;
    services.delete(&name, &DeleteParams::default()).await.expect("the service goes");
    story.wait_until("it is gone", SOON, async || read(&services, &name).await.is_none()).await;
    serving.abort();
    drop(balancer);
}

/// Returns the VirtualMachine whose BIOS UUID is in the node's provider ID.
async fn vm_of_node(story: &Story, cloud_provider: &Client, node: &Value, version: &str) -> Value {
    let uuid = node["spec"]["providerID"].as_str().and_then(|id| id.strip_prefix("vsphere://"));
    let all = versioned(cloud_provider, story, "VirtualMachine", version).list(&ListParams::default()).await;
    let all =
        all.expect("the VirtualMachines").items.into_iter().map(|vm| serde_json::to_value(vm).expect("JSON"));
    let found = all.into_iter().find(|vm| vm["status"]["biosUUID"].as_str() == uuid);
    found.expect("the node's VirtualMachine")
}

/// The storage driver creates a disk for a guest's claim, attaches it to the node's VM, and detaches it.
pub async fn serve_a_volume(story: &Story, storage: &Client, worker: &Value, version: &str) {
    let claims = api(storage, story, "PersistentVolumeClaim");
    let vms = versioned(storage, story, "VirtualMachine", version);
    let (claim, node) = ("3f0c-guest-claim", worker["metadata"]["name"].as_str().expect("a name"));
    let wanted = small_claim(&story.namespace, claim, "gc-storage-profile");
    claims.create(&PostParams::default(), &object(wanted)).await.expect("a claim");
    story
        .wait_for("the guest's claim is a disk", SOON, || async {
            let live = read(&claims, claim).await?;
            (live["status"]["phase"] == "Bound").then_some(())
        })
        .await;
    // Like the driver, read the VirtualMachine, change the volume list, and write it.
    let volumes = async |change: fn(&mut Vec<Value>, &str)| {
        let live = read(&vms, node).await.expect("the node's VirtualMachine");
        let mut volumes = live["spec"]["volumes"].as_array().cloned().unwrap_or_default();
        change(&mut volumes, claim);
        merge(&vms, node, json!({"spec": {"volumes": volumes}}))
            .await
            .expect("volumes of the VirtualMachine");
    };
    let there = async || {
        let live = read(&vms, node).await?;
        let volumes = live["status"]["volumes"].as_array().cloned().unwrap_or_default();
        Some(volumes.into_iter().find(|volume| volume["name"] == claim))
    };
    volumes(|all, claim| all.push(json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}})))
        .await;
    let disk = story
        .wait_for("it hangs on the node's VM", SOON, || async {
            let volume = there().await??;
            (volume["attached"] == true).then(|| volume["diskUUID"].clone())
        })
        .await;
    assert!(disk.as_str().is_some_and(|uuid| !uuid.is_empty()), "the driver finds its disk by {disk}");
    // capw applies its fields again, and the guest's volume stays.
    story
        .patch(
            "VirtualMachine",
            node,
            json!({"metadata": {"labels": {"capw.vmware.com/cluster.role": "spoilt"}}}),
        )
        .await;
    story
        .wait_for("capw has put its label right", SOON, || async {
            let live = read(&vms, node).await?;
            (live["metadata"]["labels"]["capw.vmware.com/cluster.role"] == "node").then_some(())
        })
        .await;
    assert_eq!(there().await.flatten().expect("the volume")["attached"], true);
    has_its_own_disk(story, node).await;
    volumes(|all, claim| all.retain(|volume| volume["name"] != claim)).await;
    story.wait_for("it is detached", SOON, || async { there().await?.is_none().then_some(()) }).await;
    claims.delete(claim, &DeleteParams::default()).await.expect("the claim goes");
    story.wait_until("the claim is gone", SOON, async || read(&claims, claim).await.is_none()).await;
}

/// Serves the VM operator's kinds in v1alpha1, and also in v1alpha2 if `newest`. docs/vm-api.md shows the command.
pub async fn serve_versions(story: &Story, newest: bool) {
    let definitions: Api<CustomResourceDefinition> = Api::all(story.client());
    for name in ["virtualmachines.vmoperator.vmware.com", "virtualmachineservices.vmoperator.vmware.com"] {
        let patch = json!([
            { "op": "test", "path": "/spec/versions/1/name", "value": "v1alpha2" },
            { "op": "replace", "path": "/spec/versions/1/served", "value": newest },
        ]);
        let patch: Patch<CustomResourceDefinition> = Patch::Json(serde_json::from_value(patch).unwrap());
        definitions.patch(name, &PatchParams::default(), &patch).await.expect(name);
    }
    for kind in ["VirtualMachine", "VirtualMachineService"] {
        let objects = versioned(&story.client(), story, kind, "v1alpha2");
        let so = || async { (objects.list(&ListParams::default()).await.is_ok() == newest).then_some(()) };
        story.wait_for(&format!("{kind} in v1alpha2: {newest}"), SOON, so).await;
    }
}

/// The node keeps its pool's disk, whatever volume list the driver writes.
async fn has_its_own_disk(story: &Story, node: &str) {
    let vm = story.get("VirtualMachine", node).await.expect("the node's VirtualMachine");
    let volumes = vm["spec"]["volumes"].as_array().expect("volumes");
    let own = volumes.iter().find(|volume| volume["name"] == "containerd").expect("the disk of its pool");
    assert!(own["vSphereVolume"]["capacity"].is_object() && own["unitNumber"].is_i64(), "{own}");
}

/// With its token, a guest's storage driver can only change claim volumes on its own cluster's VMs, and the cloud
/// provider can only write its own cluster's load balancers.
pub async fn change_claims_of_their_own_alone(
    story: &Story,
    [cloud_provider, storage]: [&Client; 2],
    worker: &Value,
    version: &str,
) {
    let vms = versioned(storage, story, "VirtualMachine", version);
    let node = worker["metadata"]["name"].as_str().expect("a name");
    let before = story.get("VirtualMachine", node).await.expect("the VirtualMachine");
    let refused = async |name: &str, change: Value| {
        let refused = merge(&vms, name, change).await;
        refused.expect_err("a refusal").to_string()
    };
    for metadata in [
        json!({"labels": {"a": "b"}}),
        json!({"annotations": {"a": "b"}}),
        json!({"ownerReferences": []}),
        json!({"finalizers": null}),
    ] {
        let words = refused(node, json!({"metadata": metadata})).await;
        assert!(words.contains("metadata"), "{metadata}: {words}");
    }
    if version == "v1alpha1" {
        let stolen = json!({"secretName": "b-kubeconfig", "transport": "CloudInit"});
        let off = json!({"spec": {"powerState": "poweredOff", "vmMetadata": stolen}});
        let words = refused(node, off).await;
        assert_contains(words, &["spec"]);
        let words = refused(node, json!({"spec": {"powerState": "poweredOff"}})).await;
        assert_contains(words, &["spec: a program in a guest can only change volumes of claims"]);
    }
    let plain = PlainVm::named("plain-beside").object(&story.namespace);
    story.apply_object(&plain).await;
    let claims = json!({"spec": {"volumes": [{"name": "a", "persistentVolumeClaim": {"claimName": "a"}}]}});
    let words = refused("plain-beside", claims).await;
    assert_contains(words, &["can only change virtual machines of its own cluster"]);
    story.delete("VirtualMachine", "plain-beside", SOON).await;
    let after = story.get("VirtualMachine", node).await.expect("the VirtualMachine");
    assert_eq!(
        (&after["spec"], &after["metadata"]["ownerReferences"]),
        (&before["spec"], &before["metadata"]["ownerReferences"])
    );

    let services = versioned(cloud_provider, story, "VirtualMachineService", version);
    let anothers = json!({
        "apiVersion": format!("vmoperator.vmware.com/{version}"), "kind": "VirtualMachineService",
        "metadata": {"name": "anothers", "namespace": story.namespace},
        "spec": {
            "type": "LoadBalancer", "ports": [{"name": "http", "protocol": "TCP", "port": 80, "targetPort": NODE_PORT}],
            "selector": {"capv.vmware.com/cluster.name": "another", "capv.vmware.com/cluster.role": "node"},
        },
    });
    let refused =
        services.create(&PostParams::default(), &object(anothers)).await.expect_err("another cluster's");
    assert_contains(refused, &["spec.selector", "can only write VirtualMachineServices of its own cluster"]);
}

/// An administrator removes fields from a node's VirtualMachine. capw restores them and creates an event.
pub async fn put_back_what_was_replaced(story: &Story, worker: &Value) {
    let node = worker["metadata"]["name"].as_str().expect("a name");
    let before = story.get("VirtualMachine", node).await.expect("the VirtualMachine");
    let replaced = json!({
        "metadata": {"ownerReferences": []},
        "spec": {"powerState": "poweredOff", "vmMetadata": {"secretName": "another"}},
    });
    story.patch("VirtualMachine", node, replaced).await;
    let is_back = |live: &Value| {
        live["spec"]["vmMetadata"] == before["spec"]["vmMetadata"]
            && live["metadata"]["ownerReferences"] == before["metadata"]["ownerReferences"]
            && live["spec"]["powerState"] == "poweredOn"
            && live["status"]["powerState"] == "poweredOn"
    };
    let what = "capw has put the Secret and the owner back";
    story.wait_for_object(what, SOON, ("VirtualMachine", node), is_back).await;
    let owner = before["metadata"]["ownerReferences"][0]["name"].as_str().expect("a WCPMachine");
    story.wait_for_events("WCPMachine", owner, &["VirtualMachineRepaired"]).await;
}

/// In v1alpha2, even an administrator can only change a VirtualMachine's claim volumes.
pub async fn change_nothing_else(story: &Story, client: &Client, worker: &Value) {
    let vms = versioned(client, story, "VirtualMachine", "v1alpha2");
    let node = worker["metadata"]["name"].as_str().expect("a name");
    let before = story.get("VirtualMachine", node).await.expect("the VirtualMachine");
    let refused = async |change: Value| {
        let refused = merge(&vms, node, change).await;
        refused.expect_err("a refusal").to_string()
    };
    let off = refused(json!({"spec": {"powerState": "PoweredOff"}})).await;
    assert_contains(off, &["spec.powerState", "Use vmoperator.vmware.com/v1alpha1"]);
    // Forge the annotation that preserves v1alpha1 fields in v1alpha2.
    let shown = read(&vms, node).await.expect("the VirtualMachine");
    let key = "vmoperator.vmware.com/conversion-data";
    let kept = shown["metadata"]["annotations"][key].as_str().expect("what is not shown").to_owned();
    let bios = before["spec"]["biosUUID"].as_str().expect("a UUID");
    let forged = kept.replace(bios, "00000000-0000-4000-8000-000000000000");
    assert_ne!(forged, kept);
    let forged = refused(json!({"metadata": {"annotations": {key: forged}}})).await;
    assert_contains(forged, &["Forbidden"]);
    let class = kept.replace("best-effort-small", "best-effort-large");
    let class = refused(
        json!({"metadata": {"annotations": {key: class}}, "spec": {"className": "best-effort-large"}}),
    )
    .await;
    assert_contains(class, &["spec.className: Forbidden: v1alpha2 can only change volumes of claims"]);
    let after = story.get("VirtualMachine", node).await.expect("the VirtualMachine");
    assert_eq!(after["spec"], before["spec"]);
    assert_eq!(after["metadata"]["annotations"], before["metadata"]["annotations"]);
}

/// The guest finds the management cluster through Service `default/supervisor`, once kubeadm's ConfigMap contains its
/// address.
pub async fn find_the_supervisor(story: &Story, cluster: &str, guest: &Client) {
    let kubeconfig = json!({"apiVersion": "v1", "kind": "Config", "clusters": [{"name": "", "cluster": {"server": "https://192.0.2.10:6443"}}]});
    let cluster_info = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cluster-info", "namespace": "kube-public"},
        "data": {"kubeconfig": kubeconfig.to_string()},
    });
    let public: Api<ConfigMap> = Api::namespaced(story.client(), "kube-public");
    story.apply_object(&cluster_info).await;
    let says = |status: Option<&'static str>| async move {
        let cluster = story.get("TanzuKubernetesCluster", cluster).await?;
        let found = condition(&cluster, "ServiceDiscoveryReady");
        (found.map(|condition| condition["status"].as_str().unwrap_or_default()) == status).then_some(())
    };
    story.wait_for("the guest can find the supervisor", SOON, || says(Some("True"))).await;
    let services: Api<Service> = Api::namespaced(guest.clone(), "default");
    let service = services.get("supervisor").await.expect("the Service").spec.expect("a spec");
    assert_eq!(service.cluster_ip.as_deref(), Some("None"));
    let slices: Api<EndpointSlice> = Api::namespaced(guest.clone(), "default");
    let slice = slices.get("supervisor").await.expect("the EndpointSlice");
    let port = slice.ports.unwrap_or_default()[0].port;
    assert_eq!(
        (&slice.endpoints.unwrap_or_default()[0].addresses[..], port),
        (&["192.0.2.10".to_owned()][..], Some(6443))
    );
    services.delete("supervisor", &DeleteParams::default()).await.expect("the guest's user deletes it");
    story
        .wait_for("it is made again", SOON, || async { services.get_opt("supervisor").await.ok().flatten() })
        .await;
    public.delete("cluster-info", &DeleteParams::default()).await.expect("the ConfigMap");
    story.wait_for("nobody knows where the supervisor is", SOON, || says(None)).await;
}
