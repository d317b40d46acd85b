//! What a guest's cloud provider and its storage driver ask of the management cluster, each with the token that its guest has:
//! the calls of VMware's programs for vSphere with Tanzu, in version v1alpha1 of the VM operator's API.

use k8s_openapi::api::core::v1::{ConfigMap, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use layercake::args::SiteNetwork;
use serde_json::{Value, json};
use sim::network::Network;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::shared_stack;
use crate::story::{SOON, Story, api_resource};

const NODE_PORT: u16 = 30_080;
const CLASS: &str = "gc-storage-profile";

fn api(client: &Client, story: &Story, kind: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), &story.namespace, &api_resource(kind))
}

fn object(value: Value) -> DynamicObject {
    serde_json::from_value(value).expect("an object")
}

async fn read(api: &Api<DynamicObject>, name: &str) -> Option<Value> {
    let found = api.get_opt(name).await.expect("the token opens it");
    found.map(|found| serde_json::to_value(found).expect("JSON"))
}

/// The cloud provider knows a node's VM by its provider id, and has a Service answer at an address of the load balancer.
pub async fn serve_a_load_balancer(story: &Story, cluster: &str, cloud_provider: &Client, worker: &Value) {
    let vm = vm_of_node(story, cloud_provider, worker).await;
    let ip = vm["status"]["vmIp"].as_str().expect("an address");
    let served = sim::addresses::served(ip.parse().expect("an IPv4 address"));
    let node_port = TcpListener::bind((served, NODE_PORT)).await.expect("the node's port");
    let serving = tokio::spawn(async move {
        while let Ok((mut client, _)) = node_port.accept().await {
            let _ = client.write_all(b"hello from the guest").await;
        }
    });
    // On port groups the vSphere admin brings a load balancer; here the site's serves.
    let balancer = match shared_stack::network() {
        SiteNetwork::Nsx => None,
        SiteNetwork::PortGroups => {
            let stack = story.shared.stack.lock().await;
            Some(Network::serving(story.client(), stack.site().subnet().clone()))
        }
    };
    let services = api(cloud_provider, story, "VirtualMachineService");
    let name = format!("{cluster}-0123456789abcdef01234");
    let wanted = json!({
        "apiVersion": "vmoperator.vmware.com/v1alpha1", "kind": "VirtualMachineService",
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
    let mut live = services.get(&name).await.expect("the service");
    live.data["spec"]["ports"][0]["port"] = json!(8080);
    services.replace(&name, &PostParams::default(), &live).await.expect("another port");
    services.delete(&name, &DeleteParams::default()).await.expect("the service goes");
    story
        .wait_for("it is gone", SOON, || async { read(&services, &name).await.is_none().then_some(()) })
        .await;
    serving.abort();
    drop(balancer);
}

/// The VirtualMachine whose BIOS UUID a node's provider id has.
async fn vm_of_node(story: &Story, cloud_provider: &Client, node: &Value) -> Value {
    let uuid = node["spec"]["providerID"].as_str().and_then(|id| id.strip_prefix("vsphere://"));
    let all = api(cloud_provider, story, "VirtualMachine").list(&ListParams::default()).await;
    let all =
        all.expect("the VirtualMachines").items.into_iter().map(|vm| serde_json::to_value(vm).expect("JSON"));
    let found = all.into_iter().find(|vm| vm["status"]["biosUUID"].as_str() == uuid);
    found.expect("the node's VirtualMachine")
}

/// The storage driver has a claim of the guest become a disk, hang on the node's VM, and leave it again.
pub async fn serve_a_volume(story: &Story, storage: &Client, worker: &Value) {
    let (claims, vms) = (api(storage, story, "PersistentVolumeClaim"), api(storage, story, "VirtualMachine"));
    let (claim, node) = ("3f0c-guest-claim", worker["metadata"]["name"].as_str().expect("a name"));
    let wanted = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": claim, "namespace": story.namespace},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": CLASS,
            "resources": {"requests": {"storage": "64Mi"}},
        },
    });
    claims.create(&PostParams::default(), &object(wanted)).await.expect("a claim");
    story
        .wait_for("the guest's claim is a disk", SOON, || async {
            let live = read(&claims, claim).await?;
            (live["status"]["phase"] == "Bound").then_some(())
        })
        .await;
    // The driver reads the VirtualMachine, adds its volume to those there are, and writes the list.
    let volumes = async |change: fn(&mut Vec<Value>, &str)| {
        let live = read(&vms, node).await.expect("the node's VirtualMachine");
        let mut volumes = live["spec"]["volumes"].as_array().cloned().unwrap_or_default();
        change(&mut volumes, claim);
        let patch = Patch::Merge(json!({"spec": {"volumes": volumes}}));
        vms.patch(node, &PatchParams::default(), &patch).await.expect("volumes of the VirtualMachine");
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
    // capw writes its own part of the VirtualMachine again; the guest's volume stays.
    let label = Patch::Merge(json!({"metadata": {"labels": {"capw.vmware.com/cluster.role": "spoilt"}}}));
    story.api("VirtualMachine").patch(node, &PatchParams::default(), &label).await.expect("a label");
    story
        .wait_for("capw has put its label right", SOON, || async {
            let live = read(&vms, node).await?;
            (live["metadata"]["labels"]["capw.vmware.com/cluster.role"] == "node").then_some(())
        })
        .await;
    assert_eq!(there().await.flatten().expect("the volume")["attached"], true);
    volumes(|all, claim| all.retain(|volume| volume["name"] != claim)).await;
    story.wait_for("it is detached", SOON, || async { there().await?.is_none().then_some(()) }).await;
    claims.delete(claim, &DeleteParams::default()).await.expect("the claim goes");
    story
        .wait_for("the claim is gone", SOON, || async { read(&claims, claim).await.is_none().then_some(()) })
        .await;
}

/// The guest finds the management cluster by Service `default/supervisor`, once kubeadm's ConfigMap says where that answers.
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
        let conditions = cluster["status"]["conditions"].as_array()?;
        let found = conditions.iter().find(|condition| condition["type"] == "ServiceDiscoveryReady");
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
