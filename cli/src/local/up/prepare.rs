//! Prepares namespaces for clusters as a vSphere administrator does, with a resource pool, a folder, storage classes
//! and VM classes.

use anyhow::Result;
use kube::Client;
use serde_json::Value;

use crate::kube::apply::apply;
use crate::kube::manifest::{self, NamespaceRequirements};
use crate::local::session::NamespacePlacement;
use crate::site::manifests;

/// The ID of the vSAN Default Storage Policy.
const STORAGE_POLICY: &str = "aa6d5a82-1c88-45da-85d3-3d74b91a5bad";

/// Prepares the namespaces for the clusters in `documents`. Returns a description of each namespace for the user.
pub async fn prepare_namespaces(
    client: &Client,
    documents: &[Value],
    placement: &NamespacePlacement,
) -> Result<Vec<String>> {
    let mut made = Vec::new();
    for (namespace, needs) in manifest::needs(documents) {
        apply_namespace(client, &namespace, placement).await?;
        assign_storage(client, &namespace, &needs).await?;
        bind_classes(client, &namespace, &needs).await?;
        let list =
            |names: &std::collections::BTreeSet<String>| names.iter().cloned().collect::<Vec<_>>().join(", ");
        made.push(format!(
            "namespace {namespace}: storage classes {}; VM classes {}",
            list(&needs.storage_classes),
            list(&needs.vm_classes)
        ));
    }
    Ok(made)
}

/// Creates the namespace, or sets the resource pool and folder of an existing namespace.
pub async fn apply_namespace(client: &Client, namespace: &str, placement: &NamespacePlacement) -> Result<()> {
    apply(client, &manifests::namespace(namespace, &placement.resource_pool, &placement.folder)).await
}

async fn assign_storage(client: &Client, namespace: &str, needs: &NamespaceRequirements) -> Result<()> {
    for class in &needs.storage_classes {
        apply(client, &manifests::storage_class(class, STORAGE_POLICY)).await?;
    }
    let classes = needs.storage_classes.iter().map(String::as_str);
    let quota = manifests::storage_quota(&format!("{namespace}-storagequota"), namespace, classes);
    apply(client, &quota).await
}

async fn bind_classes(client: &Client, namespace: &str, needs: &NamespaceRequirements) -> Result<()> {
    for class in &needs.vm_classes {
        apply(client, &manifests::class_binding(class, namespace)).await?;
    }
    Ok(())
}
