//! The inventory objects in which VMs can be created: datacenters, clusters, resource pools and folders.

use std::collections::HashMap;

use crate::spec::unescape_name;
use crate::{Client, MoRef, ObjectContent, Result};

/// The maximum depth to which folders and resource pools are read.
const DEEPEST: usize = 32;

/// An inventory object and its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InventoryPath {
    pub moref: MoRef,
    /// The path below the root for this type, such as `team/dev`. Paths are unique, because names are unique within a
    /// parent.
    pub path: String,
}

/// A cluster, or a standalone host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compute {
    /// The cluster or host, with its path below the host folder.
    pub place: InventoryPath,
    pub root_pool: MoRef,
    /// The hosts, each with its networks and datastores.
    pub hosts: Vec<ComputeHost>,
}

/// A host in a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComputeHost {
    pub name: String,
    pub networks: Vec<MoRef>,
    pub datastores: Vec<MoRef>,
}

impl Client {
    /// Returns all datacenters with their paths below the root folder. Makes one call per folder.
    pub async fn list_datacenters(&self) -> Result<Vec<InventoryPath>> {
        let root = self.root_folder()?;
        self.walk(&root, "childEntity", &["Folder"], &["Datacenter"]).await
    }

    /// Returns a datacenter's VM folders with their paths below the root VM folder. The root VM folder is the first
    /// result and has an empty path.
    pub async fn list_vm_folders(&self, datacenter: &MoRef) -> Result<Vec<InventoryPath>> {
        let root = self.folder_of(datacenter, "vmFolder").await?;
        let mut folders = vec![InventoryPath { moref: root.clone(), path: String::new() }];
        folders.extend(self.walk(&root, "childEntity", &["Folder"], &["Folder"]).await?);
        Ok(folders)
    }

    /// Returns a datacenter's clusters and standalone hosts.
    pub async fn list_computes(&self, datacenter: &MoRef) -> Result<Vec<Compute>> {
        let kinds = ["ClusterComputeResource", "ComputeResource"];
        let root = self.folder_of(datacenter, "hostFolder").await?;
        let places = self.walk(&root, "childEntity", &["Folder"], &kinds).await?;
        let mut computes = Vec::with_capacity(places.len());
        for place in places {
            let found = self.retrieve(std::slice::from_ref(&place.moref), &["resourcePool"]).await;
            let found = ignore_missing(found)?;
            let pool = found.first().and_then(|compute| compute.get("resourcePool").as_moref()).cloned();
            let Some(root_pool) = pool else { continue };
            let paths = ["name", "network", "datastore"];
            let hosts =
                ignore_missing(self.retrieve_members(&place.moref, "host", "HostSystem", &paths).await)?;
            let hosts = hosts.iter().map(|host| ComputeHost {
                name: name(host),
                networks: references(host, "network"),
                datastores: references(host, "datastore"),
            });
            computes.push(Compute { place, root_pool, hosts: hosts.collect() });
        }
        Ok(computes)
    }

    /// Returns a cluster's resource pools with their paths below the root pool. The root pool is the first result and
    /// has an empty path.
    pub async fn list_resource_pools(&self, compute: &Compute) -> Result<Vec<InventoryPath>> {
        let root = &compute.root_pool;
        let mut pools = vec![InventoryPath { moref: root.clone(), path: String::new() }];
        pools.extend(self.walk(root, "resourcePool", &["ResourcePool"], &["ResourcePool"]).await?);
        Ok(pools)
    }

    async fn folder_of(&self, datacenter: &MoRef, property: &str) -> Result<MoRef> {
        let found = self.retrieve(std::slice::from_ref(datacenter), &[property]).await?;
        let folder = found.first().and_then(|object| object.get(property).as_moref()).cloned();
        folder.ok_or_else(|| crate::error::unexpected("RetrievePropertiesEx", "a datacenter without folders"))
    }

    /// Reads all objects with a type in `wanted` below `root`, and descends into objects with a type in `through`, at
    /// most `DEEPEST` levels. `list` is the property that lists an object's children.
    ///
    /// Only `root` must exist: a parent that is deleted meanwhile counts as empty.
    async fn walk(
        &self,
        root: &MoRef,
        list: &str,
        through: &[&str],
        wanted: &[&str],
    ) -> Result<Vec<InventoryPath>> {
        let mut found = Vec::new();
        let mut paths = HashMap::from([(root.clone(), String::new())]);
        let mut level = vec![root.clone()];
        for _ in 0..DEEPEST {
            let mut next = Vec::new();
            for parent in level {
                let children = self.retrieve_members(&parent, list, "ManagedEntity", &["name"]).await;
                let children = if parent == *root { children? } else { ignore_missing(children)? };
                for child in children {
                    let path = match paths[&parent].as_str() {
                        "" => name(&child),
                        above => format!("{above}/{}", name(&child)),
                    };
                    let moref = child.obj;
                    if through.contains(&moref.kind()) {
                        paths.insert(moref.clone(), path.clone());
                        next.push(moref.clone());
                    }
                    if wanted.contains(&moref.kind()) {
                        found.push(InventoryPath { moref, path });
                    }
                }
            }
            level = next;
        }
        Ok(found)
    }
}

/// Replaces a not-found error by an empty list.
fn ignore_missing<T>(read: Result<Vec<T>>) -> Result<Vec<T>> {
    match read {
        Err(error) if error.is_not_found() => Ok(Vec::new()),
        read => read,
    }
}

fn name(object: &ObjectContent) -> String {
    unescape_name(object.get("name").as_str().unwrap_or_default())
}

fn references(object: &ObjectContent, property: &str) -> Vec<MoRef> {
    object.get(property).items().iter().filter_map(|one| one.as_moref().cloned()).collect()
}
