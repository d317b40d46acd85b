//! VirtualMachines as users of the VM operator write them by hand.

use std::cell::RefCell;
use std::time::Duration;

use layercake::local::up::prepare;
use serde_json::Value;
use sim::control::InventoryVm;

use crate::harness::story::{CLUSTER, SOON, Story, condition};

/// A VirtualMachine as a user of the VM operator writes it by hand.
#[derive(Clone, Debug)]
pub struct PlainVm {
    pub name: String,
    pub image: String,
    pub class: String,
    pub network: String,
    pub storage_class: Option<String>,
    pub uuid: Option<String>,
}

impl PlainVm {
    /// Returns a valid VirtualMachine: all references name existing objects.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            image: "ob-24892153-photon-5-amd64-v1.33.1---vmware.1-fips-vkr.2".to_owned(),
            class: "best-effort-xsmall".to_owned(),
            network: "workload-network".to_owned(),
            storage_class: None,
            uuid: None,
        }
    }

    pub fn object(&self, namespace: &str) -> Value {
        let mut spec = serde_json::json!({
            "imageName": self.image, "className": self.class, "powerState": "poweredOn",
            "networkInterfaces": [{"networkName": self.network}],
        });
        if let Some(storage_class) = &self.storage_class {
            spec["storageClass"] = storage_class.as_str().into();
        }
        if let Some(uuid) = &self.uuid {
            spec["instanceUUID"] = uuid.as_str().into();
            spec["biosUUID"] = uuid.as_str().into();
        }
        serde_json::json!({
            "apiVersion": "vmoperator.vmware.com/v1alpha1", "kind": "VirtualMachine",
            "metadata": {"name": self.name, "namespace": namespace}, "spec": spec,
        })
    }
}

impl Story {
    /// Prepares the namespace for plain VMs with this class.
    pub async fn prepare_namespace(&self, class: &str) {
        let placement = self.shared.session.placement();
        prepare::apply_namespace(&self.client(), &self.namespace, &placement).await.unwrap();
        let binding = serde_json::json!({
            "apiVersion": "vmoperator.vmware.com/v1alpha1", "kind": "VirtualMachineClassBinding",
            "metadata": {"name": class, "namespace": self.namespace},
            "classRef": {"apiVersion": "vmoperator.vmware.com/v1alpha1", "kind": "VirtualMachineClass", "name": class},
        });
        self.apply_object(&binding).await;
    }

    pub async fn apply_object(&self, object: &Value) {
        layercake::kube::apply::apply(&self.client(), object)
            .await
            .unwrap_or_else(|error| panic!("{error:#}"));
    }

    /// Creates a VirtualMachine as a program does, so that admission doesn't reject it for missing objects.
    pub async fn create_as_program(&self, vm: &Value) {
        let namespace = &self.namespace;
        let path = format!("/apis/vmoperator.vmware.com/v1alpha1/namespaces/{namespace}/virtualmachines");
        let request = http::Request::post(path)
            .header("content-type", "application/json")
            .header("impersonate-user", format!("system:serviceaccount:{namespace}:program"))
            .header("impersonate-group", "system:masters")
            .body(serde_json::to_vec(vm).unwrap())
            .unwrap();
        self.client().request::<Value>(request).await.unwrap();
    }

    /// Waits until a VirtualMachine contains its VM's ID.
    pub async fn wait_until_made(&self, name: &str) {
        let is_made = |vm: &Value| vm["status"]["uniqueID"].is_string();
        let what = format!("the VM of {name} is made");
        self.wait_for_object(&what, SOON, ("VirtualMachine", name), is_made).await;
    }

    /// Waits until a VirtualMachine is powered on and contains its VM's ID.
    pub async fn wait_until_powered_on(&self, name: &str) -> Value {
        let is_on =
            |vm: &Value| vm["status"]["powerState"] == "poweredOn" && vm["status"]["uniqueID"].is_string();
        self.wait_for_object(&format!("{name} is powered on"), SOON, ("VirtualMachine", name), is_on).await
    }

    /// Waits until a condition of an object isn't True, and its reason and message contain all of `words`.
    pub async fn wait_for_complaint(&self, kind: &str, name: &str, words: &[&str]) -> String {
        self.wait_for_complaint_within(SOON, kind, name, words).await
    }

    /// Same as [`Self::wait_for_complaint`], with a deadline, for causes that need nodes first.
    pub async fn wait_for_complaint_within(
        &self,
        deadline: Duration,
        kind: &str,
        name: &str,
        words: &[&str],
    ) -> String {
        self.wait_for(&format!("{kind} {name} says {words:?}"), deadline, || async {
            let object = self.get(kind, name).await?;
            let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().filter(|condition| condition["status"] != "True").find_map(|condition| {
                let text = format!("{}: {}", condition["reason"], condition["message"]);
                words.iter().all(|word| text.contains(word)).then_some(text)
            })
        })
        .await
    }

    /// Waits until the reason and message of a TanzuKubernetesCluster's `Ready` condition contain all of `words`.
    pub async fn wait_for_ready(&self, name: &str, words: &[&str]) {
        let last = RefCell::new(String::new());
        let shown = || async {
            let cluster = self.get("TanzuKubernetesCluster", name).await?;
            let ready = condition(&cluster, "Ready")?;
            let text = format!("{}: {}", ready["reason"], ready["message"]);
            if last.replace(text.clone()) != text {
                eprintln!("[{}] Ready of {name}: {text}", self.namespace);
            }
            words.iter().all(|word| text.contains(word)).then_some(())
        };
        self.wait_for(&format!("Ready of {name} says {words:?}"), CLUSTER, shown).await;
    }

    /// Returns the VMs in the simulated vCenter with this name.
    pub async fn vms_named(&self, name: &str) -> Vec<InventoryVm> {
        let inventory = self.shared.control().inventory().await.expect("the inventory");
        inventory.vms.into_iter().filter(|vm| vm.name == name).collect()
    }
}
