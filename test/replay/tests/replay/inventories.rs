//! Loads inventories from live vCenters into the simulator.
//!
//! `LAYERCAKE_INVENTORIES` names a folder with inventories, each in a folder that `govc object.save` wrote.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use kit::diagnosis::{CheckOutcome, Diagnosis};
use serde_json::{Value as Json, json};
use support::api_server::{Request, refusal, server};
use support::vcsim::Sim;
use support::wait::within;
use vmop::doctor;
use vsphere::{Inventory, Recorder, WireKind, inventory};

const VARIABLE: &str = "LAYERCAKE_INVENTORIES";
const NAMESPACE: &str = "vmware-system-vmop";
const WIRES: [WireKind; 2] = [WireKind::ViJson, WireKind::Soap];

/// Returns the saved inventories. If the variable isn't set, prints a line on stderr and returns an empty list.
fn inventories(test: &str) -> Vec<PathBuf> {
    let Some(folder) = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) else {
        drop(writeln!(std::io::stderr(), "skipped: {test}: {VARIABLE} names no folder of inventories"));
        return Vec::new();
    };
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let folders = entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    let mut saved: Vec<PathBuf> = folders.filter(|path| count(path, "ServiceInstance") == 1).collect();
    saved.sort();
    assert!(!saved.is_empty(), "{}: no inventory is there", folder.display());
    saved
}

/// Counts the saved objects by type. The files are named NUMBER-TYPE-ID.xml.
fn count(saved: &Path, kind: &str) -> usize {
    let names = std::fs::read_dir(saved).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().split('-').nth(1) == Some(kind)).count()
}

#[tokio::test]
async fn every_vm_of_a_live_vcenter_is_in_the_inventory() {
    for saved in inventories("every_vm_of_a_live_vcenter_is_in_the_inventory") {
        for wire in WIRES {
            let Some(sim) = Sim::loading(&saved, wire, "every_vm_of_a_live_vcenter_is_in_the_inventory")
            else {
                return;
            };
            let client = sim.client().await;
            let root = client.root_folder().unwrap();
            let inventory = Inventory::start(client, vec![root], inventory::Options::default());
            within("the inventory is complete", inventory.wait_until_complete()).await;
            let all = inventory.all();
            println!("{}: {} VMs over {wire:?}", saved.display(), all.len());
            assert_eq!(all.len(), count(&saved, "VirtualMachine"), "{}", saved.display());
            for vm in &all {
                assert!(!vm.name.is_empty() && vm.devices.is_some(), "{vm:?}");
                assert_eq!(vm.pool.is_none(), vm.template, "{vm:?}");
            }
            let unidentified = inventory.unidentified();
            assert!(unidentified.is_empty(), "{unidentified:?}");
        }
    }
}

#[tokio::test]
async fn the_doctor_finishes_on_a_live_vcenter() {
    for saved in inventories("the_doctor_finishes_on_a_live_vcenter") {
        for wire in WIRES {
            let Some(sim) = Sim::loading(&saved, wire, "the_doctor_finishes_on_a_live_vcenter") else {
                return;
            };
            let found = diagnose(&sim, wire, Recorder::default()).await;
            for Diagnosis { check, outcome, found, remedy } in &found {
                println!("{} {outcome:?}: {found}. {remedy}", check.code);
            }
            let open: Vec<_> = found.iter().filter(|one| one.outcome == CheckOutcome::Skipped).collect();
            assert!(open.is_empty(), "{}: {open:?}", saved.display());
            let wrong: Vec<_> = found.iter().filter(|one| one.outcome == CheckOutcome::Error).collect();
            assert!(wrong.is_empty(), "{}: {wrong:?}", saved.display());
        }
    }
}

#[tokio::test]
async fn every_place_of_a_live_vcenter_has_a_path_of_its_own() {
    const TEST: &str = "every_place_of_a_live_vcenter_has_a_path_of_its_own";
    for saved in inventories(TEST) {
        for wire in WIRES {
            let Some(sim) = Sim::loading(&saved, wire, TEST) else { return };
            let client = sim.client().await;
            let datacenters = client.list_datacenters().await.unwrap();
            assert_eq!(datacenters.len(), count(&saved, "Datacenter"), "{}", saved.display());
            for datacenter in &datacenters {
                let folders = client.list_vm_folders(&datacenter.moref).await.unwrap();
                let computes = client.list_computes(&datacenter.moref).await.unwrap();
                let mut pools = Vec::new();
                for compute in &computes {
                    pools.extend(client.list_resource_pools(compute).await.unwrap().into_iter().skip(1));
                }
                println!(
                    "{} {}: {} folders, {} clusters, {} pools over {wire:?}",
                    saved.display(),
                    datacenter.path,
                    folders.len(),
                    computes.len(),
                    pools.len()
                );
                let paths: BTreeSet<_> = folders.iter().map(|folder| &folder.path).collect();
                assert_eq!(paths.len(), folders.len(), "{folders:?}");
                assert!(pools.iter().all(|pool| !pool.path.is_empty()), "{pools:?}");
            }
            client.logout().await;
        }
    }
}

/// Runs all VM operator checks, with an API server that contains only its configuration.
pub async fn diagnose(sim: &Sim, wire: WireKind, recorder: Recorder) -> Vec<Diagnosis> {
    let data = configuration(sim, wire);
    let credentials = sim.config().credentials;
    let secret = json!({ "username": BASE64_STANDARD.encode(credentials.username),
        "password": BASE64_STANDARD.encode(credentials.password.expose()) });
    let (client, _) = server(move |request: &Request| {
        let path = request.path.split('?').next().unwrap_or_default();
        match path.strip_prefix(&format!("/api/v1/namespaces/{NAMESPACE}/")) {
            Some("configmaps/vsphere.provider.config.vmoperator.vmware.com") => {
                (200, object("ConfigMap", &data))
            }
            Some("secrets/vcenter") => (200, object("Secret", &secret)),
            Some(_) => refusal(404, "NotFound"),
            None => (200, json!({ "kind": "List", "apiVersion": "v1", "metadata": {}, "items": [] })),
        }
    });
    let ca = Some(sim.certificate().to_owned());
    let options = doctor::Options { namespace: NAMESPACE.into(), ca, recorder };
    doctor::diagnose(&client, &options, |_| true).await
}

fn object(kind: &str, data: &Json) -> Json {
    json!({ "kind": kind, "apiVersion": "v1", "metadata": { "name": "x", "namespace": NAMESPACE }, "data": data })
}

/// Returns the provider configuration for the largest cluster's pool, with one datastore and one network.
fn configuration(sim: &Sim, wire: WireKind) -> Json {
    let ready = sim.ready();
    let address = sim.address();
    let (host, port) = address.rsplit_once(':').unwrap();
    let first = |kind: &str| ready[kind].as_object().unwrap().keys().next().unwrap().clone();
    let (datacenter, folder, pool) = (sim.datacenter(), sim.folder(), sim.pool());
    json!({
        "VcPNID": host, "VcPort": port, "VcCredsSecretName": "vcenter", "CAFilePath": "/ca.crt",
        "Datacenter": datacenter.id(), "Folder": folder.id(), "ResourcePool": pool.id(),
        "Datastore": first("datastores"), "Network": first("networks"), "ContentSource": sim.library(),
        "Wire": if wire == WireKind::Soap { "soap" } else { "vijson" },
    })
}

/// Returns the VM names, addresses, host names and UUIDs that are long enough to search for.
fn identifying(inventory: &Inventory) -> Vec<String> {
    let texts = inventory.all().into_iter().flat_map(|vm| {
        let guest = vm.guest.clone();
        [Some(vm.name.clone()), guest.ip, guest.host_name, vm.uuid.map(|uuid| uuid.to_string())]
    });
    texts.flatten().filter(|text| text.len() >= 8 && !is_word_of_the_api(text)).collect()
}

/// Returns true if the name only has letters, because it can then be part of a property path.
fn is_word_of_the_api(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphabetic())
}

#[tokio::test]
async fn a_recording_of_a_live_vcenter_names_none_of_its_vms() {
    const TEST: &str = "a_recording_of_a_live_vcenter_names_none_of_its_vms";
    for saved in inventories(TEST) {
        for wire in WIRES {
            let Some(sim) = Sim::loading(&saved, wire, TEST) else { return };
            let recorder = Recorder::new();
            diagnose(&sim, wire, recorder.clone()).await;
            let (exchanges, left_out) = recorder.take();
            assert_eq!(left_out, 0, "{}", saved.display());
            let text = serde_json::to_string(&exchanges).unwrap();
            let client = sim.client().await;
            let inventory = Inventory::start(client, vec![sim.folder()], inventory::Options::default());
            within("the inventory is complete", inventory.wait_until_complete()).await;
            let found: Vec<_> =
                identifying(&inventory).into_iter().filter(|name| text.contains(name)).collect();
            println!(
                "{}: {} VMs, {} bytes over {wire:?}",
                saved.display(),
                inventory.all().len(),
                text.len()
            );
            assert!(found.is_empty(), "{}: {found:?}", saved.display());
        }
    }
}
