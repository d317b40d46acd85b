//! A hostile tenant tries to get another VM's identity, a network that isn't assigned to her namespace, and traffic
//! for an address that her guest only claims.

use kube::api::DeleteParams;
use serde_json::{Value, json};
use sim::control::GuestReport;

use crate::harness::plain_vm::PlainVm;
use crate::harness::story::{SOON, assert_contains, merge, story};
use crate::harness::tenants::Tenants;

const CLASS: &str = "best-effort-xsmall";
/// A vCenter network that the provider configuration doesn't name.
const OTHER_NETWORK: &str = "VM Network";

#[test]
fn nobody_takes_anothers_identity() {
    story("identities", |story| async move {
        let tenants = Tenants::prepare(&story, CLASS).await;
        let namespace = &tenants.hostile.namespace;
        story.apply_object(&PlainVm::named("identities-victim").object(&story.namespace)).await;
        let victim = story.wait_until_powered_on("identities-victim").await;
        let uuid = victim["spec"]["biosUUID"].as_str().unwrap();

        // She may delete the VM that she creates, and its owner reference is forged.
        let owner = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "mine", "namespace": namespace } });
        tenants.mallory_applies(&owner).await.unwrap();
        let owner = tenants.hostile.get("ConfigMap", "mine").await.unwrap();
        let mut thief = PlainVm::named("identities-thief").object(namespace);
        thief["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "v1", "kind": "ConfigMap", "name": "mine", "uid": owner["metadata"]["uid"], "controller": true,
        }]);
        for field in ["biosUUID", "instanceUUID"] {
            let mut given = thief.clone();
            given["spec"][field] = uuid.into();
            let refusal = tenants.mallory_applies(&given).await.expect_err(field);
            assert_contains(
                refusal,
                &[field, "VM Operator generates the identity", "virtualmachines/identity"],
            );
        }
        let machine = json!({
            "apiVersion": "infrastructure.cluster.vmware.com/v1beta2", "kind": "WCPMachine",
            "metadata": { "name": "identities-thief", "namespace": namespace },
            "spec": {
                "className": CLASS, "imageName": "photon", "storageClass": "gold", "providerID": format!("vsphere://{uuid}"),
            },
        });
        let refusal = tenants.mallory_applies(&machine).await.expect_err("a providerID");
        assert_contains(refusal, &["spec.providerID", "wcpmachines/identity"]);

        // Without an identity in the spec, she gets a VM with a new one.
        tenants.mallory_applies(&thief).await.unwrap();
        let own = tenants.hostile.wait_until_powered_on("identities-thief").await;
        assert_ne!(own["status"]["biosUUID"].as_str(), Some(uuid));
        tenants.hostile.delete("VirtualMachine", "identities-thief", SOON).await;

        // Users with the permission can set an identity, but not one that is in use. The message doesn't reveal its
        // owner.
        let mut restored = thief.clone();
        restored["spec"]["biosUUID"] = uuid.into();
        restored["spec"]["instanceUUID"] = "00000000-0000-4000-8000-00000000c0de".into();
        story.apply_object(&restored).await;
        let words = ["IdentityConflict", uuid, "belongs to another VM"];
        let complaint =
            tenants.hostile.wait_for_complaint("VirtualMachine", "identities-thief", &words).await;
        assert!(!complaint.contains("identities-victim") && !complaint.contains("vm-"), "{complaint}");
        tenants.hostile.delete("VirtualMachine", "identities-thief", SOON).await;
        story.delete("VirtualMachine", "identities-victim", SOON).await;
    });
}

#[test]
fn a_deletion_that_is_held_back_is_not_let_go_by_its_user() {
    story("held", |story| async move {
        let tenants = Tenants::prepare(&story, CLASS).await;
        tenants.mallory_applies(&PlainVm::named("held-vm").object(&tenants.hostile.namespace)).await.unwrap();
        tenants.hostile.wait_until_powered_on("held-vm").await;
        let annotate = |value: Value| {
            let check = json!({ "delete.check.vmoperator.vmware.com/backup": value });
            json!({ "metadata": { "annotations": check } })
        };
        let admins = tenants.hostile.api("VirtualMachine");
        merge(&admins, "held-vm", annotate(json!("not yet"))).await.unwrap();
        let mallorys = tenants.mallory_api("VirtualMachine");
        mallorys.delete("held-vm", &DeleteParams::default()).await.unwrap();
        let refusal = merge(&mallorys, "held-vm", annotate(Value::Null)).await;
        assert_contains(refusal.expect_err("the check is taken away"), &["delete.check", "non-admin users"]);
        assert!(tenants.hostile.get("VirtualMachine", "held-vm").await.is_some());
        merge(&admins, "held-vm", annotate(Value::Null)).await.unwrap();
        tenants.hostile.wait_until_gone("VirtualMachine", "held-vm", SOON).await;
    });
}

#[test]
fn a_namespace_uses_the_networks_that_were_given_to_it() {
    story("given-networks", |story| async move {
        let tenants = Tenants::prepare(&story, CLASS).await;
        let namespace = &tenants.hostile.namespace;
        let mut vm =
            PlainVm { network: OTHER_NETWORK.to_owned(), ..PlainVm::named("networks-vm") }.object(namespace);
        let refusal = tenants.mallory_applies(&vm).await.expect_err("another network");
        assert_contains(
            refusal,
            &["spec.networkInterfaces[0].networkName", OTHER_NETWORK, "vmware-system-networks"],
        );
        // A program only gets a warning, and its VM reports the cause.
        tenants.hostile.create_as_program(&vm).await;
        let words = ["NetworkNotReady", namespace.as_str(), OTHER_NETWORK, "vmware-system-networks"];
        tenants.hostile.wait_for_complaint("VirtualMachine", "networks-vm", &words).await;
        assert!(story.vms_named("networks-vm").await.is_empty());

        let given = json!({ "metadata": { "annotations": { "vmware-system-networks": OTHER_NETWORK } } });
        merge(&story.cluster_api("Namespace"), namespace, given).await.unwrap();
        tenants.hostile.wait_until_powered_on("networks-vm").await;
        assert_eq!(story.vms_named("networks-vm").await[0].networks, [OTHER_NETWORK]);
        vm["metadata"]["name"] = "networks-next".into();
        let may = async || tenants.mallory_applies(&vm).await.is_ok();
        story.wait_until("mallory may use the network", SOON, may).await;
        for name in ["networks-vm", "networks-next"] {
            tenants.hostile.delete("VirtualMachine", name, SOON).await;
        }
    });
}

#[test]
fn an_address_that_only_its_guest_answers_for_is_no_endpoint() {
    story("claimed-address", |story| async move {
        let tenants = Tenants::prepare(&story, CLASS).await;
        let namespace = &tenants.hostile.namespace;
        let mut vm = PlainVm::named("claimed-vm").object(namespace);
        vm["metadata"]["labels"] = json!({ "app": "claimed" });
        tenants.mallory_applies(&vm).await.unwrap();
        let port = json!({ "name": "api", "protocol": "TCP", "port": 443, "targetPort": 443 });
        let service = json!({
            "apiVersion": "vmoperator.vmware.com/v1alpha1", "kind": "VirtualMachineService",
            "metadata": { "name": "claimed", "namespace": namespace },
            "spec": { "type": "ClusterIP", "ports": [port], "selector": { "app": "claimed" } },
        });
        tenants.mallory_applies(&service).await.unwrap();
        // The guest reports its address only once, so wait for this report.
        let is_up = |vm: &Value| vm["status"]["endpointAddresses"].is_array();
        let claimed = ("VirtualMachine", "claimed-vm");
        let up = tenants.hostile.wait_for_object("the VM has an address", SOON, claimed, is_up).await;
        let moid = up["status"]["uniqueID"].as_str().unwrap();
        let number = story.shared.stack().await.site().subnet().number();
        let of_site = format!("10.{number}.2.3");
        for address in ["192.168.77.1", of_site.as_str()] {
            let report = GuestReport { ip: Some(address.to_owned()), host_name: None, tools_running: true };
            story.shared.control().report(moid, &report).await.unwrap();
            let is_in_range = address.starts_with("10.");
            story
                .wait_for(&format!("the service and the VM show {address}"), SOON, || async {
                    let status = tenants.hostile.get("VirtualMachine", "claimed-vm").await?["status"].take();
                    let slice = tenants.hostile.get("EndpointSlice", "claimed").await?;
                    let endpoints = slice["endpoints"].as_array().map_or(0, Vec::len);
                    (status["vmIp"] == address
                        && status["endpointAddresses"].is_array() == is_in_range
                        && (endpoints == 1) == is_in_range)
                        .then_some(())
                })
                .await;
            if !is_in_range {
                let words = ["AddressNotAssigned", "claimed-vm", address, "GuestAddressRanges"];
                tenants.hostile.wait_for_complaint("VirtualMachineService", "claimed", &words).await;
            }
        }
        let probe =
            json!({ "spec": { "readinessProbe": { "tcpSocket": { "host": "10.96.0.1", "port": 443 } } } });
        let refusal = merge(&tenants.mallory_api("VirtualMachine"), "claimed-vm", probe).await;
        assert_contains(
            refusal.expect_err("a port scanner"),
            &["tcpSocket.host", "10.96.0.1", "Leave the host out"],
        );
        for (kind, name) in [("VirtualMachineService", "claimed"), ("VirtualMachine", "claimed-vm")] {
            tenants.hostile.delete(kind, name, SOON).await;
        }
    });
}
