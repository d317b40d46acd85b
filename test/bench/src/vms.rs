//! The objects for N virtual VMs, as capw creates them for nodes.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use bounds::Budget;
use futures::{StreamExt, TryStreamExt, stream};
use kube::Client;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams,
};
use rand::Rng as _;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::testbed::{CLASS, NAMESPACE};

/// The number of requests in flight. The floor makes as many clones in parallel.
pub const PARALLEL: usize = 20;
/// The compressed size of a node's userdata in bytes.
const USERDATA: usize = 6 * 1024;
/// The resource policy.
pub const POLICY: &str = "apart";
pub const MODULE: &str = "nodes";

/// The properties that all VMs share.
#[derive(Clone, Debug)]
pub struct VmShape {
    pub image: String,
    /// True if the VMs are cluster module members.
    pub module_group: bool,
}

/// Returns the node image for all VMs.
pub fn node_image() -> String {
    sim::releases::NODE_IMAGES.last().map(|image| image.item.to_owned()).unwrap_or_default()
}

/// Returns the VM name for this number.
pub fn vm_name(prefix: &str, number: usize) -> String {
    format!("{prefix}-{number:05}")
}

/// Returns an API for one kind in the benchmark namespace.
fn objects_of(client: &Client, group: &str, version: &str, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    Api::namespaced_with(client.clone(), NAMESPACE, &resource)
}

pub fn virtual_machines(client: &Client) -> Api<DynamicObject> {
    objects_of(client, "vmoperator.vmware.com", "v1alpha1", "VirtualMachine")
}

/// Creates a Secret with node bootstrap data for each VM.
pub async fn create_secrets(client: &Client, prefix: &str, count: usize) -> Result<()> {
    let api = objects_of(client, "", "v1", "Secret");
    let create = |number| {
        let api = &api;
        async move {
            let name = vm_name(prefix, number);
            let data = bootstrap_data(&name)?;
            let object = json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data,
            });
            create_object(api, object).await
        }
    };
    stream::iter(0..count).map(create).buffer_unordered(PARALLEL).try_collect().await
}

/// Returns a node's guestinfo keys. The userdata is random, because certificates and keys don't compress well either.
fn bootstrap_data(name: &str) -> Result<BTreeMap<String, String>> {
    let metadata = cloudinit::NodeMetadata::of_node(name, "vsphere://bench");
    let mut userdata = b"#cloud-config\nwrite_files:\n".to_vec();
    let mut random = vec![0_u8; USERDATA - 512];
    rand::rng().fill_bytes(&mut random);
    userdata.extend(random);
    Ok(cloudinit::encode(&metadata, &userdata, None, &Budget::new(1 << 20))?)
}

pub async fn create_vms(client: &Client, prefix: &str, count: usize, shape: &VmShape) -> Result<()> {
    let api = virtual_machines(client);
    let create = |number| create_object(&api, vm_object(&vm_name(prefix, number), shape));
    stream::iter(0..count).map(create).buffer_unordered(PARALLEL).try_collect().await
}

pub(crate) async fn create_object(api: &Api<DynamicObject>, object: Value) -> Result<()> {
    let object: DynamicObject = serde_json::from_value(object)?;
    api.create(&PostParams::default(), &object).await.context("cannot create an object")?;
    Ok(())
}

/// Returns a VirtualMachine with the owner and UUIDs that a node's has.
fn vm_object(name: &str, shape: &VmShape) -> Value {
    let uuid = Uuid::new_v4().to_string();
    let mut object = json!({
        "apiVersion": "vmoperator.vmware.com/v1alpha1", "kind": "VirtualMachine",
        "metadata": {
            "name": name,
            "labels": {"cluster.x-k8s.io/cluster-name": "bench"},
            "ownerReferences": [{
                "apiVersion": "infrastructure.cluster.vmware.com/v1beta2", "kind": "WCPMachine", "name": name,
                "uid": Uuid::new_v4().to_string(), "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {
            "imageName": shape.image, "className": CLASS, "powerState": "poweredOn",
            "biosUUID": uuid, "instanceUUID": uuid,
            "vmMetadata": {"secretName": name, "transport": "ExtraConfig"},
        },
    });
    if shape.module_group {
        object["metadata"]["annotations"] = json!({"vsphere-cluster-module-group": MODULE});
        object["spec"]["resourcePolicyName"] = POLICY.into();
    }
    object
}

/// Returns the resource policy whose cluster module keeps VMs on separate hosts.
pub fn policy_object() -> Value {
    json!({
        "apiVersion": "vmoperator.vmware.com/v1alpha1", "kind": "VirtualMachineSetResourcePolicy",
        "metadata": {"name": POLICY, "namespace": NAMESPACE},
        "spec": {
            "folder": {"name": POLICY}, "resourcepool": {"name": POLICY},
            "clustermodules": [{"groupname": MODULE}],
        },
    })
}

/// Writes the same status to each VirtualMachine once.
pub async fn write_status(client: &Client, prefix: &str, count: usize, status: &Value) -> Result<()> {
    let api = virtual_machines(client);
    let patch = |number| {
        let api = &api;
        async move {
            let patch = Patch::Merge(json!({ "status": status }));
            api.patch_status(&vm_name(prefix, number), &PatchParams::default(), &patch).await.map(drop)
        }
    };
    stream::iter(0..count).map(patch).buffer_unordered(PARALLEL).try_collect().await.map_err(Into::into)
}

/// Sends a DELETE for each VirtualMachine. Finalizers keep the objects until the VM operator has destroyed their VMs.
pub async fn delete_vms(client: &Client, prefix: &str, count: usize) -> Result<()> {
    let api = virtual_machines(client);
    let delete = |number| {
        let api = &api;
        async move { api.delete(&vm_name(prefix, number), &DeleteParams::default()).await.map(drop) }
    };
    stream::iter(0..count).map(delete).buffer_unordered(PARALLEL).try_collect().await.map_err(Into::into)
}
