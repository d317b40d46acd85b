//! A user's VMs get NICs from network providers: net-operator on port groups, and NSX on segments.

use kube::Api;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::harness::plain_vm::PlainVm;
use crate::harness::second_cluster::{OPERATOR, SecondCluster};
use crate::harness::story::{SOON, Story, assert_contains, story};
use crate::nodes::boot_data::decode;

#[test]
fn net_operator_gives_a_nic_its_port_group_mac_and_address() {
    story("port-group", |story| async move {
        story.prepare_namespace("best-effort-xsmall").await;
        let networked = |name: &str, network: &str| {
            let mut vm = PlainVm::named(name).object(&story.namespace);
            vm["spec"]["networkInterfaces"] =
                json!([{"networkType": "vsphere-distributed", "networkName": network}]);
            vm["spec"]["vmMetadata"] = json!({"transport": "CloudInit"});
            vm
        };
        // The provider's error is reported, and the NetworkInterface is deleted with the VM's object.
        story.apply_object(&networked("astray", "nowhere")).await;
        let why = story
            .wait_for_complaint("VirtualMachine", "astray", &["NetworkInterface", "nowhere does not exist"])
            .await;
        assert_contains(&why, &["NotReady", "port-group/nowhere-astray"]);
        story.delete("VirtualMachine", "astray", SOON).await;
        story.wait_until_gone("NetworkInterface", "nowhere-astray", SOON).await;
        assert!(story.vms_named("astray").await.is_empty());

        story.apply_object(&networked("addressed", "workload-network")).await;
        let vm = story.wait_until_powered_on("addressed").await;
        let interface = story.get("NetworkInterface", "workload-network-addressed").await.unwrap();
        assert_requested(&interface, &vm, &json!({"networkName": "workload-network", "type": "vmxnet3"}));
        let config = &interface["status"]["ipConfigs"][0];
        let ethernet = json!({"match": {"macaddress": interface["status"]["macAddress"]}, "set-name": "eth0",
            "dhcp4": false, "routes": [{"to": "0.0.0.0/0", "via": config["gateway"]}],
            "addresses": [format!("{}/16", config["ip"].as_str().unwrap())]});
        assert_connected(
            &story,
            &story.api("VirtualMachine"),
            &vm,
            "workload-network",
            &interface,
            &ethernet,
        )
        .await;

        story.delete("VirtualMachine", "addressed", SOON).await;
        story.wait_until_gone("NetworkInterface", "workload-network-addressed", SOON).await;
    });
}

#[test]
fn nsx_gives_a_nic_its_segment_mac_and_address() {
    story("segment", |story| async move {
        story.prepare_namespace("best-effort-xsmall").await;
        // Without a configured network, the VM operator uses NSX, which doesn't respond at first.
        let second = SecondCluster::start(&story, &[("Network", None), ("StackID", Some("segment"))]).await;
        second
            .apply(&json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "vmoperator-network-config", "namespace": OPERATOR},
                "data": {"nameservers": "10.0.0.53", "mtu": "8900"},
            }))
            .await;
        let mut vm = PlainVm::named("segmented").object(&story.namespace);
        vm["spec"]["networkInterfaces"] = json!([{"networkType": "nsx-t", "networkName": "vnet"}]);
        vm["spec"]["vmMetadata"] = json!({"transport": "CloudInit"});
        second.apply(&vm).await;
        let vms = second.api("VirtualMachine", &story.namespace);
        wait_for_condition(
            &story,
            &vms,
            &["vnet-segmented-lsp is not Ready", "waiting for the network provider"],
        )
        .await;
        assert!(story.vms_named("segmented").await.is_empty());

        let providers = story.shared.stack().await.site().providers(&second.client(), sim::SiteNetworks::Nsx);
        wait_for_condition(&story, &vms, &["vnet-segmented-lsp: VirtualNetwork vnet does not exist"]).await;
        let network = json!({
            "apiVersion": "vmware.com/v1alpha1", "kind": "VirtualNetwork",
            "metadata": {"name": "vnet", "namespace": story.namespace}, "spec": {},
        });
        second.apply(&network).await;
        let vm = wait_for_address(&story, &vms, "segmented").await;
        let interfaces = second.api("VirtualNetworkInterface", &story.namespace);
        let interface = serde_json::to_value(interfaces.get("vnet-segmented-lsp").await.unwrap()).unwrap();
        assert_requested(&interface, &vm, &json!({"virtualNetwork": "vnet"}));
        let address = &interface["status"]["ipAddresses"][0];
        let ethernet = json!({"match": {"macaddress": interface["status"]["macAddress"]}, "set-name": "eth0",
            "dhcp4": false, "routes": [{"to": "0.0.0.0/0", "via": address["gateway"]}], "mtu": 8900,
            "addresses": [format!("{}/16", address["ip"].as_str().unwrap())],
            "nameservers": {"addresses": ["10.0.0.53"]}});
        assert_connected(&story, &vms, &vm, "NSX-workload", &interface, &ethernet).await;

        vms.delete("segmented", &kube::api::DeleteParams::default()).await.unwrap();
        story.wait_until_deleted(&vms, "segmented").await;
        assert!(story.vms_named("segmented").await.is_empty());
        drop(providers);
        second.stop().await;
    });
}

/// Checks that the NIC request names its network and VM. It doesn't have an owner reference, so it survives if the
/// VirtualMachine moves away.
fn assert_requested(interface: &Value, vm: &Value, spec: &Value) {
    assert_eq!(&interface["spec"], spec);
    let metadata = &interface["metadata"];
    assert_eq!(metadata["annotations"]["vmoperator.vmware.com/virtualmachine"], vm["metadata"]["name"]);
    assert_eq!(metadata["ownerReferences"], Value::Null);
}

/// Checks that the NIC matches the provider's status in vCenter, in the guest and in the VirtualMachine.
async fn assert_connected(
    story: &Story,
    vms: &Api<DynamicObject>,
    vm: &Value,
    network: &str,
    interface: &Value,
    ethernet: &Value,
) {
    let name = vm["metadata"]["name"].as_str().unwrap();
    let there = story.vms_named(name).await.remove(0);
    assert_eq!(there.networks, [network]);
    let keys = story.shared.control().guestinfo(&there.moid).await.unwrap();
    let metadata: Value = serde_saphyr::from_slice(&decode(&keys, "guestinfo.metadata")).unwrap();
    assert_eq!(metadata["network"], json!({"version": 2, "ethernets": {"eth0": ethernet}}));
    let vm = wait_for_address(story, vms, name).await;
    let (nic, address) = (&vm["status"]["networkInterfaces"][0], ethernet["addresses"][0].as_str().unwrap());
    assert_eq!(nic["macAddress"], interface["status"]["macAddress"]);
    assert_eq!(nic["ipAddresses"], json!([address]));
    assert_eq!(address.split_once('/').unwrap().0, vm["status"]["vmIp"]);
}

async fn wait_for_address(story: &Story, vms: &Api<DynamicObject>, name: &str) -> Value {
    story
        .wait_for(&format!("{name} has an address"), SOON, || async {
            let vm = serde_json::to_value(vms.get(name).await.unwrap()).unwrap();
            let nic = &vm["status"]["networkInterfaces"][0];
            (vm["status"]["vmIp"].is_string() && nic["ipAddresses"].is_array()).then_some(vm)
        })
        .await
}

async fn wait_for_condition(story: &Story, vms: &Api<DynamicObject>, words: &[&str]) {
    let says = async || {
        let conditions = vms.get("segmented").await.unwrap().data["status"]["conditions"].to_string();
        words.iter().all(|word| conditions.contains(word))
    };
    story.wait_until(&format!("it says {words:?}"), SOON, says).await;
}
