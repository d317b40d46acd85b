//! Tests for defaults.

use std::collections::BTreeMap;

use api::names::{annotation, finalizer};
use api::vmop::VirtualMachine;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{USER, facts, object, reasons, vm};
use crate::admission::fill;
use crate::admission::known::AdmissionSettings;

/// Returns the object after the operations, which only set fields or append.
fn patched(vm: &VirtualMachine, operations: &[Value]) -> VirtualMachine {
    let mut object = serde_json::to_value(vm).unwrap();
    for operation in operations {
        let path = operation["path"].as_str().unwrap();
        let (parent, key) = path.rsplit_once('/').unwrap();
        let parent = object.pointer_mut(parent).unwrap();
        match parent {
            Value::Array(list) => list.push(operation["value"].clone()),
            other => other[key] = operation["value"].clone(),
        }
    }
    serde_json::from_value(object).unwrap()
}

#[test]
fn what_a_new_vm_lacks_is_filled_in_once() {
    let settings =
        AdmissionSettings { network: Some("VM Network".to_owned()), ..AdmissionSettings::default() };
    let drawn = Uuid::from_u128(7);
    let new = vm(json!({}));
    let filled = patched(&new, &fill::created(&new, &settings, drawn));
    assert_eq!(filled.metadata.finalizers.as_deref(), Some(&[finalizer::VIRTUAL_MACHINE.to_owned()][..]));
    let spec = serde_json::to_value(&filled.spec).unwrap();
    let wanted = json!({
        "imageName": "image", "className": "class", "powerState": "poweredOn",
        "networkInterfaces": [{ "networkName": "VM Network" }],
        "biosUUID": drawn.to_string(), "instanceUUID": drawn.to_string(),
    });
    assert_eq!(spec, wanted);
    assert!(fill::created(&filled, &settings, Uuid::from_u128(8)).is_empty(), "twice is once");
    let mut given =
        object(json!({ "finalizers": ["another"] }), json!({ "biosUUID": Uuid::from_u128(9).to_string() }));
    given.spec.power_state = Some("poweredOff".to_owned());
    let filled = patched(&given, &fill::created(&given, &AdmissionSettings::default(), drawn));
    assert_eq!(filled.metadata.finalizers.unwrap(), ["another", finalizer::VIRTUAL_MACHINE]);
    assert_eq!(filled.spec.instance_uuid, filled.spec.bios_uuid);
    assert_eq!(filled.spec.power_state.as_deref(), Some("poweredOff"));
    assert!(filled.spec.network_interfaces.is_empty(), "no network is configured");
}

#[test]
fn the_default_interface_is_the_network_providers() {
    let nic = |provider: &str, network: Option<&str>, annotations: Value| {
        let mut data = BTreeMap::from([("NetworkProvider".to_owned(), provider.to_owned())]);
        data.extend(network.map(|name| ("Network".to_owned(), name.to_owned())));
        let new = object(json!({ "annotations": annotations }), json!({}));
        let filled = patched(&new, &fill::created(&new, &AdmissionSettings::read(&data), Uuid::nil()));
        let nics = filled.spec.network_interfaces;
        nics.first().map(|nic| {
            (nic.network_type.clone().unwrap_or_default(), nic.network_name.clone().unwrap_or_default())
        })
    };
    let is = |kind: &str, name: &str| Some((kind.to_owned(), name.to_owned()));
    assert_eq!(nic("NSXT", Some("x"), json!({})), is("nsx-t", ""));
    assert_eq!(nic("VSPHERE_NETWORK", None, json!({})), is("vsphere-distributed", ""));
    assert_eq!(nic("NAMED", Some("x"), json!({})), is("", "x"));
    assert_eq!(nic("NAMED", None, json!({})), is("", "VM Network"));
    assert_eq!(nic("", Some("x"), json!({})), is("", "x"));
    assert_eq!(nic("", None, json!({})), None);
    assert_eq!(nic("NSXT", None, json!({ annotation::NO_DEFAULT_NIC: "" })), None);
}

#[test]
fn now_becomes_a_time_and_a_blanked_secret_stays() {
    let now: jiff::Timestamp = "2026-01-02T03:04:05.678Z".parse().unwrap();
    let on = vm(json!({ "powerState": "poweredOn", "vmMetadata": { "secretName": "s" } }));
    let mut asked = on.clone();
    asked.spec.next_restart_time = Some("Now".to_owned());
    let filled = patched(&asked, &fill::updated(&asked, &on, now));
    assert_eq!(filled.spec.next_restart_time.as_deref(), Some("2026-01-02T03:04:05.678Z"));
    assert!(reasons(&filled, Some(&on), facts(), USER).is_empty());
    let mut blank = filled.clone();
    blank.spec.next_restart_time = None;
    blank.spec.vm_metadata.as_mut().unwrap().secret_name = Some(String::new());
    assert_eq!(patched(&blank, &fill::updated(&blank, &filled, now)), filled);
    let mut off = on.clone();
    off.spec.power_state = Some("poweredOff".to_owned());
    asked.spec.power_state = Some("poweredOff".to_owned());
    assert!(fill::updated(&asked, &off, now).is_empty(), "one that is off is refused it");
}
