//! Tests for v1alpha2: its output, its allowed changes, and lossless round trips.

use serde_json::{Value, json};

use super::{ConvertError, convert};
use crate::names::annotation::VM_CONVERSION_DATA;

const OLD: &str = "vmoperator.vmware.com/v1alpha1";
const NEW: &str = "vmoperator.vmware.com/v1alpha2";

/// A node that capw created: its own disks, a claim from the workload cluster, and a BIOS UUID.
fn node() -> Value {
    json!({
        "apiVersion": OLD, "kind": "VirtualMachine",
        "metadata": {"name": "node", "namespace": "team", "labels": {"a": "b"}},
        "spec": {
            "imageName": "image", "className": "class", "storageClass": "gold", "powerState": "poweredOn",
            "vmMetadata": {"secretName": "node-cloud-init", "transport": "ExtraConfig"},
            "networkInterfaces": [{"networkType": "nsx-t", "networkName": "vnet", "ethernetCardType": "vmxnet3"}, {}],
            "resourcePolicyName": "cluster", "biosUUID": "42111111-1111-1111-1111-111111111111",
            "volumes": [
                {"name": "etcd", "vSphereVolume": {"capacity": {"ephemeral-storage": "4Gi"}}, "unitNumber": 1},
                {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
                {"name": "root", "vSphereVolume": {"capacity": {"ephemeral-storage": "20Gi"}, "deviceKey": 2000}},
            ],
            "advancedOptions": {"defaultVolumeProvisioningOptions": {"eagerZeroed": true}, "changeBlockTracking": true},
            "readinessProbe": {"tcpSocket": {"port": 6443}},
        },
        "status": {
            "host": "esx-1", "hostName": "node", "powerState": "poweredOn", "phase": "Created", "vmIp": "10.0.0.9",
            "endpointAddresses": ["fd00::1", "10.0.0.5"], "keptAddresses": ["10.0.0.4"], "biosUUID": "42111111-1111-1111-1111-111111111111",
            "conditions": [
                {"type": "VirtualMachineCreated", "status": "True"},
                {"type": "Ready", "status": "False", "severity": "Error", "reason": "Because", "message": "why"},
            ],
            "networkInterfaces": [{"connected": true, "macAddress": "00:50:56:00:00:01", "ipAddresses": ["10.0.0.5/24"]}],
            "volumes": [{"name": "data", "attached": true, "diskUUID": "6000", "error": ""}],
            "observedGeneration": 3,
        },
    })
}

fn to(object: &Value, version: &str) -> Value {
    convert(object, version).unwrap()
}

#[test]
fn v1alpha2_shows_what_programs_read() {
    let mut shown = to(&node(), NEW);
    let kept = shown["metadata"]["annotations"][VM_CONVERSION_DATA].take();
    assert_eq!(serde_json::from_str::<Value>(kept.as_str().unwrap()).unwrap(), node()["spec"]);
    insta::assert_yaml_snapshot!(shown);
}

#[test]
fn what_is_read_and_written_back_is_as_it_was() {
    let shown = to(&node(), NEW);
    assert_eq!(to(&shown, OLD), node());
    let mut labelled = shown;
    labelled["metadata"]["labels"]["c"] = json!("d");
    let mut expected = node();
    expected["metadata"]["labels"]["c"] = json!("d");
    assert_eq!(to(&labelled, OLD), expected);
}

#[test]
fn claims_come_and_go_and_disks_of_its_own_stay() {
    let mut shown = to(&node(), NEW);
    let claim = |name: &str| json!({"name": name, "persistentVolumeClaim": {"claimName": name}});
    shown["spec"]["volumes"] = json!([claim("new"), claim("data")]);
    let volumes = to(&shown, OLD)["spec"]["volumes"].clone();
    let names: Vec<_> = volumes.as_array().unwrap().iter().map(|volume| volume["name"].clone()).collect();
    assert_eq!(names, ["etcd", "data", "root", "new"]);
    assert_eq!(volumes[0], node()["spec"]["volumes"][0]);
    shown["spec"].as_object_mut().unwrap().remove("volumes");
    let volumes = to(&shown, OLD)["spec"]["volumes"].clone();
    assert_eq!(volumes, json!([node()["spec"]["volumes"][0], node()["spec"]["volumes"][2]]));
    // A list with only claims disappears with its last claim.
    let mut plain = node();
    plain["spec"]["volumes"] = json!([claim("data")]);
    let mut shown = to(&plain, NEW);
    shown["spec"]["volumes"] = json!([]);
    assert_eq!(to(&shown, OLD)["spec"].get("volumes"), None);
}

/// Admission rejects these changes by comparing the result with the stored object.
#[test]
fn what_v1alpha2_only_shows_differs_when_it_is_changed() {
    let changed = |change: fn(&mut Value)| {
        let mut shown = to(&node(), NEW);
        change(&mut shown["spec"]);
        to(&shown, OLD)["spec"].take()
    };
    assert_eq!(changed(|spec| spec["powerState"] = json!("PoweredOff"))["powerState"], "poweredOff");
    assert_eq!(changed(|spec| spec["network"] = Value::Null).get("networkInterfaces"), None);
    assert_eq!(changed(|spec| spec["bootstrap"] = Value::Null).get("vmMetadata"), None);
    let sourceless = changed(|spec| spec["volumes"] = json!([{"name": "sourceless"}]));
    assert_eq!(sourceless["volumes"][2], json!({"name": "sourceless"}));
    let takes_a_name = |spec: &mut Value| {
        spec["volumes"] = json!([{"name": "etcd", "persistentVolumeClaim": {"claimName": "etcd"}}]);
    };
    assert_eq!(changed(takes_a_name)["volumes"][0].get("vSphereVolume"), None);
}

#[test]
fn an_object_without_its_annotation_is_converted_as_far_as_it_is_shown() {
    let shown = to(&node(), NEW);
    for annotations in [Value::Null, json!({VM_CONVERSION_DATA: "spoilt"})] {
        let mut shown = shown.clone();
        shown["metadata"]["annotations"] = annotations;
        let back = to(&shown, OLD);
        for field in
            ["imageName", "className", "storageClass", "powerState", "vmMetadata", "resourcePolicyName"]
        {
            assert_eq!(back["spec"][field], node()["spec"][field], "{field}");
        }
        assert_eq!(back["spec"].get("biosUUID"), None);
    }
}

#[test]
fn other_kinds_and_versions_are_not_converted() {
    let other = |key: &str, value: &str| {
        let mut object = node();
        object[key] = json!(value);
        convert(&object, NEW)
    };
    assert!(matches!(other("kind", "VirtualMachineService"), Err(ConvertError::NotConverted { .. })));
    assert!(matches!(
        other("apiVersion", "vmoperator.vmware.com/v1alpha9"),
        Err(ConvertError::NotConverted { .. })
    ));
    let wanted = convert(&node(), "vmoperator.vmware.com/v1alpha9");
    assert!(wanted.unwrap_err().to_string().contains("v1alpha9"));
}

mod round_trips {
    use proptest::prelude::*;

    use super::*;

    fn name() -> impl Strategy<Value = String> {
        "[a-z]{1,6}"
    }

    fn volume() -> impl Strategy<Value = Value> {
        prop_oneof![
            name().prop_map(|claim| json!({"persistentVolumeClaim": {"claimName": claim}})),
            (1..99u32, 0..16i32).prop_map(|(gib, unit)| json!({
                "vSphereVolume": {"capacity": {"ephemeral-storage": format!("{gib}Gi")}}, "unitNumber": unit,
            })),
        ]
    }

    fn spec() -> impl Strategy<Value = Value> {
        let volumes = prop::collection::vec(volume(), 0..5).prop_map(|volumes| {
            let named = volumes.into_iter().enumerate().map(|(at, mut volume)| {
                volume["name"] = json!(format!("v{at}"));
                volume
            });
            named.collect::<Vec<_>>()
        });
        let word = |words: &'static [&'static str]| prop::option::of(prop::sample::select(words));
        (
            (name(), name(), prop::option::of(name())),
            volumes,
            word(&["poweredOn", "poweredOff", "suspended"]),
            word(&["hard", "soft", "trySoft"]),
            word(&["ExtraConfig", "CloudInit", "OvfEnv", "vAppConfig", "Sysprep"]),
            prop::collection::vec((prop::option::of(name()), word(&["nsx-t", "vsphere-distributed"])), 0..3),
        )
            .prop_map(|((image, class, storage), volumes, power, mode, transport, interfaces)| {
                let mut spec = json!({"imageName": image, "className": class});
                let interfaces: Vec<_> = interfaces
                    .into_iter()
                    .map(|(name, kind)| json!({"networkName": name, "networkType": kind}))
                    .collect();
                for (key, value) in [
                    ("storageClass", json!(storage)),
                    ("powerState", json!(power)),
                    ("powerOffMode", json!(mode)),
                    ("volumes", json!(volumes)),
                    ("networkInterfaces", json!(interfaces)),
                ] {
                    spec[key] = value;
                }
                if let Some(transport) = transport {
                    spec["vmMetadata"] = json!({"transport": transport, "secretName": "secret"});
                }
                crate::partial::remove_nulls(&mut spec);
                spec
            })
    }

    proptest! {
        #[test]
        fn whatever_is_stored_comes_back(spec in spec()) {
            let stored = json!({"apiVersion": OLD, "kind": "VirtualMachine", "metadata": {"name": "x"}, "spec": spec});
            prop_assert_eq!(to(&to(&stored, NEW), OLD), stored);
        }
    }
}
