//! The objects of N virtual machines, as capw makes them for nodes.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, stream};
use kube::Client;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams,
};
use rand::Rng as _;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::world::{CLASS, NAMESPACE};

/// Requests in flight; as many clones are in flight at the floor.
pub const PARALLEL: usize = 20;
/// The size of a node's userdata when it is compressed, in bytes.
const USERDATA: usize = 6 * 1024;
/// The policy of machines that are kept apart.
pub const POLICY: &str = "apart";
/// Its cluster module.
pub const MODULE: &str = "nodes";

/// What machines are made of.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// The VirtualMachineImage.
    pub image: String,
    /// Whether they are members of a cluster module.
    pub module_group: bool,
}

/// The name of the machine with this number.
pub fn name(prefix: &str, number: usize) -> String {
    format!("{prefix}-{number:05}")
}

/// One kind's objects in the namespace of the machines.
pub fn api(client: &Client, group: &str, version: &str, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    Api::namespaced_with(client.clone(), NAMESPACE, &resource)
}

/// The VirtualMachines.
pub fn virtual_machines(client: &Client) -> Api<DynamicObject> {
    api(client, "vmoperator.vmware.com", "v1alpha1", "VirtualMachine")
}

/// Secrets with a node's cloud-init, one a machine, exist.
pub async fn secrets(client: &Client, prefix: &str, count: usize) -> Result<()> {
    let api = api(client, "", "v1", "Secret");
    let create = |number| {
        let api = &api;
        async move {
            let name = name(prefix, number);
            let data = cloud_init(&name)?;
            let object = json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data,
            });
            created(api, object).await
        }
    };
    stream::iter(0..count).map(create).buffer_unordered(PARALLEL).try_collect().await
}

/// The guestinfo keys of a node, with userdata that compresses as badly as certificates and keys do.
fn cloud_init(name: &str) -> Result<BTreeMap<String, String>> {
    let metadata = cloudinit::Metadata::of_node(name, "vsphere://bench");
    let mut userdata = b"#cloud-config\nwrite_files:\n".to_vec();
    let mut random = vec![0_u8; USERDATA - 512];
    rand::rng().fill_bytes(&mut random);
    userdata.extend(random);
    Ok(cloudinit::encode(&metadata, &userdata, None)?)
}

/// The machines' objects exist.
pub async fn create(client: &Client, prefix: &str, count: usize, recipe: &Recipe) -> Result<()> {
    let api = virtual_machines(client);
    let create = |number| created(&api, machine(&name(prefix, number), recipe));
    stream::iter(0..count).map(create).buffer_unordered(PARALLEL).try_collect().await
}

pub(crate) async fn created(api: &Api<DynamicObject>, object: Value) -> Result<()> {
    let object: DynamicObject = serde_json::from_value(object)?;
    api.create(&PostParams::default(), &object).await.context("cannot create an object")?;
    Ok(())
}

/// One machine, owned and identified as a node's is.
pub fn machine(name: &str, recipe: &Recipe) -> Value {
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
            "imageName": recipe.image, "className": CLASS, "powerState": "poweredOn",
            "biosUUID": uuid, "instanceUUID": uuid,
            "vmMetadata": {"secretName": name, "transport": "ExtraConfig"},
        },
    });
    if recipe.module_group {
        object["metadata"]["annotations"] = json!({"vsphere-cluster-module-group": MODULE});
        object["spec"]["resourcePolicyName"] = POLICY.into();
    }
    object
}

/// The resource policy whose cluster module keeps machines apart.
pub fn policy() -> Value {
    json!({
        "apiVersion": "vmoperator.vmware.com/v1alpha1", "kind": "VirtualMachineSetResourcePolicy",
        "metadata": {"name": POLICY, "namespace": NAMESPACE},
        "spec": {
            "folder": {"name": POLICY}, "resourcepool": {"name": POLICY},
            "clustermodules": [{"groupname": MODULE}],
        },
    })
}

/// The same status is written to each machine, once.
pub async fn status(client: &Client, prefix: &str, count: usize, status: &Value) -> Result<()> {
    let api = virtual_machines(client);
    let patch = |number| {
        let api = &api;
        async move {
            let patch = Patch::Merge(json!({ "status": status }));
            api.patch_status(&name(prefix, number), &PatchParams::default(), &patch).await.map(drop)
        }
    };
    stream::iter(0..count).map(patch).buffer_unordered(PARALLEL).try_collect().await.map_err(Into::into)
}

/// Each machine's object is marked for deletion.
pub async fn delete(client: &Client, prefix: &str, count: usize) -> Result<()> {
    let api = virtual_machines(client);
    let delete = |number| {
        let api = &api;
        async move { api.delete(&name(prefix, number), &DeleteParams::default()).await.map(drop) }
    };
    stream::iter(0..count).map(delete).buffer_unordered(PARALLEL).try_collect().await.map_err(Into::into)
}
