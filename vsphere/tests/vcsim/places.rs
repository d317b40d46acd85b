//! Tests the listing of inventory objects in which VMs can be created.

use support::vcsim::Sim;
use vsphere::{Allocation, Client, InventoryPath, MoRef};

fn path<'a>(places: &'a [InventoryPath], moref: &MoRef) -> Option<&'a str> {
    places.iter().find(|place| place.moref == *moref).map(|place| place.path.as_str())
}

async fn places_have_paths_below_their_roots(sim: Sim) {
    let client = sim.client().await;
    let datacenters = client.list_datacenters().await.unwrap();
    assert_eq!(path(&datacenters, &sim.datacenter()), Some("dc0"));

    let folder = client.create_folder(&sim.folder(), "team a").await.unwrap();
    let below = client.create_folder(&folder, "dev").await.unwrap();
    let folders = client.list_vm_folders(&sim.datacenter()).await.unwrap();
    assert_eq!(folders[0].path, "", "the root of VMs comes first");
    let of_site = path(&folders, &sim.folder()).unwrap().to_owned();
    assert_eq!(path(&folders, &below), Some(format!("{of_site}/team a/dev").as_str()));

    let computes = client.list_computes(&sim.datacenter()).await.unwrap();
    let compute = computes.iter().find(|compute| compute.place.path == "cluster0").unwrap();
    assert!(compute.hosts.len() > 1 && compute.hosts.iter().all(|host| !host.name.is_empty()), "{compute:?}");
    let pool = client
        .create_resource_pool(&compute.root_pool, "dev", Allocation::default(), Allocation::default())
        .await
        .unwrap();
    let pools = client.list_resource_pools(compute).await.unwrap();
    assert_eq!(pools[0].moref, compute.root_pool);
    assert_eq!(path(&pools, &pool), Some("dev"));
    assert_on_all_hosts(&client, &sim, compute).await;
    client.logout().await;
}

/// Checks the datastores and networks that all hosts share.
async fn assert_on_all_hosts(client: &Client, sim: &Sim, compute: &vsphere::Compute) {
    let datastores = client.list_datastores(&sim.datacenter()).await.unwrap();
    let ds1 = datastores.iter().find(|datastore| datastore.name == "ds1").unwrap();
    assert!(compute.hosts.iter().all(|host| host.datastores.contains(&ds1.moref)), "{compute:?}");
    let networks = client.networks(&sim.datacenter()).await.unwrap();
    let (uplinks, others): (Vec<_>, Vec<_>) = networks.iter().partition(|network| network.is_uplink);
    assert!(uplinks.iter().all(|network| network.name.contains("Uplinks")) && !uplinks.is_empty());
    assert!(others.iter().all(|network| !network.name.contains("Uplinks")), "{others:?}");
    let stock = others.iter().find(|network| network.name == "VM Network").unwrap();
    assert!(compute.hosts.iter().all(|host| host.networks.contains(&stock.moref)), "{compute:?}");
}

async fn all_libraries_are_listed(sim: Sim) {
    let client = sim.client().await;
    let libraries = client.libraries().await.unwrap();
    assert!(libraries.iter().any(|library| library.id == sim.library()), "{libraries:?}");
    client.logout().await;
}

support::on_both_wires!(places_have_paths_below_their_roots, all_libraries_are_listed);
