//! The objects of N virtual VMs, as capw makes them for nodes.

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

/// Requests in flight; as many clones are in flight at the floor.
pub const PARALLEL: usize = 20;
/// The size of a node's userdata when it is compressed, in bytes.
const USERDATA: usize = 6 * 1024;
/// The policy of VMs that are kept apart.
pub const POLICY: &str = "apart";
pub const MODULE: &str = "nodes";

/// What VMs are made of.
#[derive(Clone, Debug)]
pub struct VmShape {
    pub image: String,
    /// Whether they are members of a cluster module.
    pub module_group: bool,
}

/// The node image that all VMs are made from.
pub fn node_image() -> String {
    sim::releases::NODE_IMAGES.last().map(|image| image.item.to_owned()).unwrap_or_default()
}

/// The name of the VM with this number.
pub fn vm_name(prefix: &str, number: usize) -> String {
    format!("{prefix}-{number:05}")
}

/// One kind's objects in the namespace of the VMs.
fn objects_of(client: &Client, group: &str, version: &str, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    Api::namespaced_with(client.clone(), NAMESPACE, &resource)
}

pub fn virtual_machines(client: &Client) -> Api<DynamicObject> {
    objects_of(client, "vmoperator.vmware.com", "v1alpha1", "VirtualMachine")
}

/// Creates a Secret with a node's cloud-init for each VM.
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

/// The guestinfo keys of a node, with userdata that compresses as badly as certificates and keys do.
fn bootstrap_data(name: &str) -> Result<BTreeMap<String, String>> {
    let metadata = cloudinit::Metadata::of_node(name, "vsphere://bench");
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

/// One VirtualMachine, owned and identified as a node's is.
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

/// The resource policy whose cluster module keeps VMs apart.
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

/// Writes the same status to each VirtualMachine, once.
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

/// Deletes each VirtualMachine; its finalizer holds it.
pub async fn delete_vms(client: &Client, prefix: &str, count: usize) -> Result<()> {
    let api = virtual_machines(client);
    let delete = |number| {
        let api = &api;
        async move { api.delete(&vm_name(prefix, number), &DeleteParams::default()).await.map(drop) }
    };
    stream::iter(0..count).map(delete).buffer_unordered(PARALLEL).try_collect().await.map_err(Into::into)
}
