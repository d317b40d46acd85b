//! Cards whose networks are the business of others: net-operator's on port groups, NSX's on segments.

use kube::Api;
use kube::api::{DynamicObject, ResourceExt};
use serde_json::{Value, json};

use crate::node_image::decoded;
use crate::second::{OPERATOR, Second};
use crate::world::{PlainVm, SOON, Story, says, story};

#[test]
fn net_operator_gives_a_card_its_port_group_mac_and_address() {
    story("port-group", |story| async move {
        story.ready_for_vms("best-effort-xsmall").await;
        let networked = |name: &str, network: &str| {
            let mut vm = PlainVm::named(name).object(&story.namespace);
            vm["spec"]["networkInterfaces"] =
                json!([{"networkType": "vsphere-distributed", "networkName": network}]);
            vm["spec"]["vmMetadata"] = json!({"transport": "CloudInit"});
            vm
        };
        // An error of the provider's is told, and what was asked for goes with the object.
        story.made(&networked("astray", "nowhere")).await;
        let why = story
            .complains("VirtualMachine", "astray", &["NetworkInterface", "nowhere does not exist"])
            .await;
        says(&why, &["NotReady", "port-group/nowhere-astray"]);
        story.deleted("VirtualMachine", "astray", SOON).await;
        collected(&story, "nowhere-astray").await;
        assert!(story.vms_named("astray").await.is_empty());

        story.made(&networked("addressed", "workload-network")).await;
        let vm = story.powered_on("addressed").await;
        let interface = story.get("NetworkInterface", "workload-network-addressed").await.unwrap();
        asked_for(&interface, &vm, &json!({"networkName": "workload-network", "type": "vmxnet3"}));
        let config = &interface["status"]["ipConfigs"][0];
        let told = json!({"match": {"macaddress": interface["status"]["macAddress"]}, "set-name": "eth0",
            "dhcp4": false, "gateway4": config["gateway"],
            "addresses": [format!("{}/16", config["ip"].as_str().unwrap())]});
        plugged(&story, &story.api("VirtualMachine"), &vm, "workload-network", &interface, &told).await;

        story.deleted("VirtualMachine", "addressed", SOON).await;
        collected(&story, "workload-network-addressed").await;
    });
}

#[test]
fn nsx_gives_a_card_its_segment_mac_and_address() {
    story("segment", |story| async move {
        story.ready_for_vms("best-effort-xsmall").await;
        // A VM operator that has no network of its own asks NSX, and for now nobody answers.
        let second = Second::started(&story, &[("Network", None), ("StackID", Some("segment"))]).await;
        second
            .applied(&json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "vmoperator-network-config", "namespace": OPERATOR},
                "data": {"nameservers": "10.0.0.53", "mtu": "8900"},
            }))
            .await;
        let mut vm = PlainVm::named("segmented").object(&story.namespace);
        vm["spec"]["networkInterfaces"] = json!([{"networkType": "nsx-t", "networkName": "vnet"}]);
        vm["spec"]["vmMetadata"] = json!({"transport": "CloudInit"});
        second.applied(&vm).await;
        let machines = second.api("VirtualMachine", &story.namespace);
        complains(&story, &machines, &["vnet-segmented-lsp is not Ready", "network provider is at it"]).await;
        assert!(story.vms_named("segmented").await.is_empty());

        let providers = story.world.stack.lock().await.site().providers(&second.client());
        complains(&story, &machines, &["vnet-segmented-lsp: VirtualNetwork vnet does not exist"]).await;
        let network = json!({
            "apiVersion": "vmware.com/v1alpha1", "kind": "VirtualNetwork",
            "metadata": {"name": "vnet", "namespace": story.namespace}, "spec": {},
        });
        second.applied(&network).await;
        let vm = addressed(&story, &machines, "segmented").await;
        let interfaces = second.api("VirtualNetworkInterface", &story.namespace);
        let interface = serde_json::to_value(interfaces.get("vnet-segmented-lsp").await.unwrap()).unwrap();
        asked_for(&interface, &vm, &json!({"virtualNetwork": "vnet"}));
        let address = &interface["status"]["ipAddresses"][0];
        let told = json!({"match": {"macaddress": interface["status"]["macAddress"]}, "set-name": "eth0",
            "dhcp4": false, "gateway4": address["gateway"], "mtu": 8900,
            "addresses": [format!("{}/16", address["ip"].as_str().unwrap())],
            "nameservers": {"addresses": ["10.0.0.53"]}});
        plugged(&story, &machines, &vm, "NSX-workload", &interface, &told).await;

        machines.delete("segmented", &kube::api::DeleteParams::default()).await.unwrap();
        story
            .until("the machine on the segment is gone", SOON, || async {
                machines.get_opt("segmented").await.unwrap().is_none().then_some(())
            })
            .await;
        assert!(story.vms_named("segmented").await.is_empty());
        drop(providers);
        second.stopped().await;
    });
}

/// The object that asks for a card says what for and for whom, and outlives an object that moves away.
fn asked_for(interface: &Value, vm: &Value, spec: &Value) {
    assert_eq!(&interface["spec"], spec);
    let metadata = &interface["metadata"];
    assert_eq!(metadata["annotations"]["vmoperator.vmware.com/virtualmachine"], vm["metadata"]["name"]);
    assert_eq!(metadata["ownerReferences"], Value::Null);
}

/// The card is what the provider said, in vCenter, in the guest and in the object.
async fn plugged(
    story: &Story,
    machines: &Api<DynamicObject>,
    vm: &Value,
    network: &str,
    interface: &Value,
    told: &Value,
) {
    let name = vm["metadata"]["name"].as_str().unwrap();
    let there = story.vms_named(name).await.remove(0);
    assert_eq!(there.networks, [network]);
    let keys = story.world.control().guestinfo(&there.moid).await.unwrap();
    let metadata: Value = serde_saphyr::from_slice(&decoded(&keys, "guestinfo.metadata")).unwrap();
    assert_eq!(metadata["network"], json!({"version": 2, "ethernets": {"eth0": told}}));
    let vm = addressed(story, machines, name).await;
    let (card, address) = (&vm["status"]["networkInterfaces"][0], told["addresses"][0].as_str().unwrap());
    assert_eq!(card["macAddress"], interface["status"]["macAddress"]);
    assert_eq!(card["ipAddresses"], json!([address]));
    assert_eq!(address.split_once('/').unwrap().0, vm["status"]["vmIp"]);
}

async fn addressed(story: &Story, machines: &Api<DynamicObject>, name: &str) -> Value {
    story
        .until(&format!("{name} has an address"), SOON, || async {
            let vm = serde_json::to_value(machines.get(name).await.unwrap()).unwrap();
            let card = &vm["status"]["networkInterfaces"][0];
            (vm["status"]["vmIp"].is_string() && card["ipAddresses"].is_array()).then_some(vm)
        })
        .await
}

async fn complains(story: &Story, machines: &Api<DynamicObject>, words: &[&str]) {
    story
        .until(&format!("it says {words:?}"), SOON, || async {
            let all = machines.list(&kube::api::ListParams::default()).await.unwrap();
            all.iter()
                .any(|vm| {
                    let conditions = vm.data["status"]["conditions"].to_string();
                    vm.name_any() == "segmented" && words.iter().all(|word| conditions.contains(word))
                })
                .then_some(())
        })
        .await;
}

/// What was asked for is gone with the machine's object.
async fn collected(story: &Story, name: &str) {
    story
        .until(&format!("{name} is collected"), SOON, || async {
            story.get("NetworkInterface", name).await.is_none().then_some(())
        })
        .await;
}
