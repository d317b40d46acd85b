//! One test per rule. Rules in the CRD schema are tested with a real API server, in the test
//! `what_a_virtual_machine_may_not_be_is_refused`.

use std::collections::BTreeMap;

use api::names::{annotation, label};
use api::vmop::VirtualMachine;
use serde_json::{Value, json};
use uuid::Uuid;

use super::denial::{Asker, Denial};
use super::known::{Facts, Zone};
use super::respond;
use super::rules::{denials, identity_denials, network_denials, policy_denials, policy_user_denial};
use super::versions::version_denials;
use super::volumes::claim_denials;
use kit::webhook::review::Review;

mod fill;

const USER: Asker = Asker { privileged: false, program: false };
const ADMIN: Asker = Asker { privileged: true, program: false };
const PROGRAM: Asker = Asker { privileged: false, program: true };

fn vm(spec: Value) -> VirtualMachine {
    object(json!({}), spec)
}

fn object(metadata: Value, spec: Value) -> VirtualMachine {
    let mut object = json!({
        "apiVersion": "vmoperator.vmware.com/v1alpha1", "kind": "VirtualMachine",
        "metadata": { "name": "x", "namespace": "ns" },
        "spec": { "imageName": "image", "className": "class" },
    });
    for (part, members) in [("metadata", metadata), ("spec", spec)] {
        for (key, value) in members.as_object().unwrap() {
            object[part][key] = value.clone();
        }
    }
    serde_json::from_value(object).unwrap()
}

fn facts() -> Facts {
    Facts {
        storage_class_assigned: Some(true),
        zone: Zone::There,
        named_networks: true,
        restricted_network: false,
    }
}

fn reasons(new: &VirtualMachine, old: Option<&VirtualMachine>, facts: Facts, asker: Asker) -> Vec<String> {
    denials(new, old, facts, asker).iter().map(Denial::to_string).collect()
}

/// Asserts that a user's new VM is denied with exactly one reason, which contains these words.
fn refuses(new: &VirtualMachine, words: &[&str]) {
    refused(&reasons(new, None, facts(), USER), words);
}

/// Asserts that there is exactly one reason, and that the reason contains these words.
fn refused(reasons: &[String], words: &[&str]) {
    assert_eq!(reasons.len(), 1, "{reasons:?}");
    for word in words {
        assert!(reasons[0].contains(word), "{word} is not in {}", reasons[0]);
    }
}

#[test]
fn a_plain_vm_is_accepted() {
    let vm = vm(json!({ "storageClass": "gold", "networkInterfaces": [{ "networkName": "a" }] }));
    assert!(reasons(&vm, None, facts(), USER).is_empty());
}

#[test]
fn a_name_is_one_that_vcenter_takes() {
    let named = |length: usize| object(json!({ "name": "x".repeat(length) }), json!({}));
    assert!(denials(&named(80), None, facts(), USER).iter().all(|denial| !denial.stops(USER)));
    refused(&reasons(&named(81), None, facts(), PROGRAM), &["metadata.name", "at most 80", "it has 81"]);
    assert!(reasons(&named(81), Some(&named(81)), facts(), USER).is_empty(), "it was accepted once");
}

#[test]
fn rule_3_storage_class_is_there_and_in_a_quota() {
    let vm = vm(json!({ "storageClass": "gold" }));
    let unassigned = Facts { storage_class_assigned: Some(false), ..facts() };
    let words = ["spec.storageClass", "\"gold\"", "Storage policy is not associated with the namespace ns"];
    refused(&reasons(&vm, None, unassigned, USER), &words);
    let unknown = Facts { storage_class_assigned: None, ..facts() };
    assert!(reasons(&vm, None, unknown, USER).is_empty(), "not known yet");
    assert!(reasons(&self::vm(json!({})), None, unassigned, USER).is_empty(), "it names none");
}

#[test]
fn rule_3_a_program_is_warned_and_not_refused() {
    let unassigned = Facts { storage_class_assigned: Some(false), ..facts() };
    let denials = denials(&vm(json!({ "storageClass": "gold" })), None, unassigned, PROGRAM);
    assert!(denials.iter().all(|denial| !denial.stops(PROGRAM) && denial.stops(USER)) && denials.len() == 1);
    let review = || Review::read(json!({ "request": { "uid": "7" } }).to_string()).unwrap();
    let answer = respond(review(), PROGRAM, denials.clone()).0;
    assert_eq!(answer["response"]["allowed"], true);
    assert!(answer["response"]["warnings"][0].as_str().unwrap().contains("Storage policy"));
    let answer = respond(review(), USER, denials).0;
    assert_eq!((&answer["response"]["allowed"], &answer["response"]["uid"]), (&json!(false), &json!("7")));
}

#[test]
fn rule_4_a_network_without_type_needs_the_provider_of_names() {
    let nameless = vm(json!({ "networkInterfaces": [{ "networkType": "nsx-t" }, { "networkName": "a" }] }));
    let nsx = Facts { named_networks: false, ..facts() };
    let words = ["spec.networkInterfaces[1].networkType", "not supported in production"];
    refused(&reasons(&nameless, None, nsx, USER), &words);
    assert!(reasons(&nameless, None, facts(), USER).is_empty());
    let mut later = nameless.clone();
    later.spec.power_off_mode = Some("soft".to_owned());
    assert!(reasons(&later, Some(&nameless), nsx, USER).is_empty(), "what is there already stays");
}

#[test]
fn rule_5_the_name_of_an_attachment_is_a_dns_subdomain() {
    let of = |name: &str| {
        vm(json!({ "volumes": [{ "name": name, "persistentVolumeClaim": { "claimName": "c" } }] }))
    };
    for name in ["UPPER", "a_b", "a-", "a..b", &"a".repeat(252)] {
        refuses(&of(name), &["spec.volumes[0].name", "DNS subdomain"]);
    }
    for name in ["a", "etcd.data", &"a".repeat(251)] {
        assert!(reasons(&of(name), None, facts(), USER).is_empty(), "{name}");
    }
}

#[test]
fn rule_5_a_disk_has_a_place_of_its_own() {
    let disk = |name: &str, unit: i32| json!({ "name": name, "unitNumber": unit, "vSphereVolume": { "capacity": { "ephemeral-storage": "1Gi" } } });
    let of = |volumes: Value| vm(json!({ "volumes": volumes }));
    let claim = json!([{ "name": "a", "unitNumber": 1, "persistentVolumeClaim": { "claimName": "c" } }]);
    refuses(&of(claim), &["spec.volumes[0].unitNumber", "vSphereVolume"]);
    let own = of(json!([disk("a", 7)]));
    refuses(&own, &["spec.volumes[0].unitNumber", "SCSI controller itself"]);
    let twins = of(json!([disk("a", 1), disk("b", 1)]));
    refuses(&twins, &["spec.volumes[1].unitNumber", "unit number of volume a"]);
    assert!(reasons(&of(json!([disk("a", 1), disk("b", 2)])), None, facts(), USER).is_empty());
}

#[test]
fn rule_5_the_size_of_a_disk_is_whole_mib() {
    let of = |size: Value| {
        let disk = json!({ "capacity": { "ephemeral-storage": size } });
        vm(json!({ "volumes": [{ "name": "a", "vSphereVolume": disk }] }))
    };
    for size in [json!("1"), json!("1G"), json!("1.5Mi"), json!(0), json!("nonsense"), json!("-1Mi")] {
        refuses(&of(size), &["spec.volumes[0].vSphereVolume.capacity.ephemeral-storage", "multiple of MB"]);
    }
    for size in [json!("1Gi"), json!("1Mi"), json!(1_048_576), json!("0.5Gi")] {
        assert!(reasons(&of(size), None, facts(), USER).is_empty());
    }
}

#[test]
fn rule_7_a_restricted_network_has_one_port_to_probe() {
    let of = |port: Value| vm(json!({ "readinessProbe": { "tcpSocket": { "port": port } } }));
    let restricted = Facts { restricted_network: true, ..facts() };
    for port in [json!(22), json!("ssh")] {
        let reasons = reasons(&of(port), None, restricted, USER);
        refused(&reasons, &["spec.readinessProbe.tcpSocket.port", "supported values: \"6443\""]);
    }
    assert!(reasons(&of(json!(6443)), None, restricted, USER).is_empty());
    assert!(reasons(&of(json!(22)), None, facts(), USER).is_empty());
}

#[test]
fn rule_7_a_probe_reaches_its_own_vm() {
    let of = |host: &str, timeout: i32| {
        let socket = json!({ "port": 443, "host": host });
        let mut vm = vm(json!({ "readinessProbe": { "tcpSocket": socket, "timeoutSeconds": timeout } }));
        vm.status.get_or_insert_default().endpoint_addresses = vec!["10.1.2.3".to_owned()];
        vm
    };
    let field = "spec.readinessProbe.tcpSocket.host";
    for asker in [USER, ADMIN, PROGRAM] {
        let reasons = reasons(&of("10.96.0.1", 1), None, facts(), asker);
        refused(&reasons, &[field, "10.96.0.1", "Leave the host out"]);
    }
    let old = of("", 1);
    assert!(reasons(&of("10.1.2.3", 10), Some(&old), facts(), USER).is_empty(), "its own");
    refused(&reasons(&of("10.1.2.4", 1), Some(&old), facts(), USER), &[field]);
    let mut other = of("10.96.0.1", 60);
    other.spec.power_off_mode = Some("soft".to_owned());
    assert!(reasons(&other, Some(&of("10.96.0.1", 60)), facts(), USER).is_empty(), "it was there before");
    assert!(denials(&of("", 60), None, facts(), USER).is_empty());
}

#[test]
fn rule_7_a_probe_names_a_port_that_exists() {
    let of = |port: Value| {
        let ports = json!([{ "name": "web", "port": 8080, "ip": "", "protocol": "TCP" }]);
        vm(json!({ "readinessProbe": { "tcpSocket": { "port": port } }, "ports": ports }))
    };
    for port in [json!("https"), json!(0), json!(70_000), json!(-1)] {
        let reasons = reasons(&of(port), None, facts(), USER);
        refused(&reasons, &["spec.readinessProbe.tcpSocket.port", "name of a port in spec.ports"]);
    }
    for port in [json!("web"), json!(22), json!("22")] {
        assert!(reasons(&of(port), None, facts(), USER).is_empty());
    }
}

#[test]
fn rule_5_a_disk_has_at_most_62_tebibytes() {
    let of = |size: &str| {
        let disk = json!({ "name": "d", "vSphereVolume": { "capacity": { "ephemeral-storage": size } } });
        vm(json!({ "volumes": [disk] }))
    };
    assert!(reasons(&of("62Ti"), None, facts(), USER).is_empty());
    refused(&reasons(&of("63Ti"), None, facts(), USER), &["spec.volumes[0]", "at most 62Ti"]);
}

#[test]
fn a_name_that_is_no_host_name_is_a_warning() {
    let of = |name: &str| {
        let mut vm = vm(json!({}));
        vm.metadata.name = Some(name.to_owned());
        denials(&vm, None, facts(), USER)
    };
    for name in ["n".repeat(64), "1234".to_owned(), format!("{}.{}", "n".repeat(40), "d".repeat(30))] {
        let warned = of(&name);
        assert!(warned.len() == 1 && !warned[0].stops(USER), "{warned:?}");
        assert!(warned[0].to_string().contains("host name"), "{warned:?}");
    }
    for name in ["n".repeat(63), "web-1".to_owned(), "web.lab".to_owned()] {
        assert_eq!(of(&name), [], "{name}");
    }
}

#[test]
fn rule_networks_are_those_that_the_namespace_was_given() {
    let of = |name: &str| {
        vm(json!({ "networkInterfaces": [{ "networkName": "given" }, { "networkName": name }] }))
    };
    let refusal = |name: &str| (name != "given").then(|| format!("may not use {name}"));
    let reasons = |new: &VirtualMachine, old: Option<&VirtualMachine>| -> Vec<String> {
        network_denials(new, old, USER, refusal).iter().map(Denial::to_string).collect()
    };
    let words = ["spec.networkInterfaces[1].networkName", "Forbidden: may not use dmz"];
    refused(&reasons(&of("dmz"), None), &words);
    refused(&reasons(&of("dmz"), Some(&of("given"))), &["dmz"]);
    assert!(reasons(&of("dmz"), Some(&of("dmz"))).is_empty(), "what is there already stays");
    assert!(reasons(&of(""), None).is_empty(), "it is the configured one");
    let requested = vm(json!({ "networkInterfaces": [{ "networkType": "nsx-t", "networkName": "dmz" }] }));
    assert!(reasons(&requested, None).is_empty(), "it is an object of the namespace");
    let denials = network_denials(&of("dmz"), None, PROGRAM, refusal);
    assert!(!denials[0].stops(PROGRAM), "its condition says so");
}

#[test]
fn rule_8_instance_storage_is_for_privileged_accounts() {
    let claim = |size: &str| {
        json!([{ "name": "a", "persistentVolumeClaim": {
            "claimName": "c", "instanceVolumeClaim": { "storageClass": "local", "size": size },
        } }])
    };
    let with = vm(json!({ "volumes": claim("1Gi") }));
    let words = ["spec.volumes", "adding or modifying instance storage volume claim(s) is not allowed"];
    refuses(&with, &words);
    refused(&reasons(&vm(json!({})), Some(&with), facts(), USER), &words);
    refused(&reasons(&vm(json!({ "volumes": claim("2Gi") })), Some(&with), facts(), USER), &words);
    assert!(reasons(&with, None, facts(), ADMIN).is_empty());
    let mut same = with.clone();
    same.spec.power_off_mode = Some("soft".to_owned());
    assert!(reasons(&same, Some(&with), facts(), USER).is_empty());
}

#[test]
fn rule_9_the_zone_is_there_and_stays() {
    let of = |zone: &str| object(json!({ "labels": { label::ZONE: zone } }), json!({}));
    let how = |zone: Zone| Facts { zone, ..facts() };
    let missing = reasons(&of("z"), None, how(Zone::Missing), USER);
    refused(&missing, &["metadata.labels[topology.kubernetes.io/zone]", "\"z\"", "ns has no zone"]);
    let going = reasons(&of("z"), None, how(Zone::Going), USER);
    refused(&going, &["cannot use zone that is being deleted"]);
    for zone in [Zone::There, Zone::Unknown] {
        assert!(reasons(&of("z"), None, how(zone), USER).is_empty());
    }
    for new in [of("y"), vm(json!({}))] {
        refused(&reasons(&new, Some(&of("z")), facts(), USER), &["field is immutable"]);
    }
    assert!(reasons(&of("z"), Some(&vm(json!({}))), facts(), USER).is_empty(), "it may come later");
    assert!(reasons(&of("z"), Some(&of("z")), how(Zone::Missing), USER).is_empty(), "it may go");
}

#[test]
fn rule_power_state_of_a_new_vm_is_not_suspended() {
    let suspended = vm(json!({ "powerState": "suspended" }));
    refuses(&suspended, &["spec.powerState", "cannot set a new VM's power state to suspended"]);
    let on = vm(json!({ "powerState": "poweredOn" }));
    assert!(reasons(&suspended, Some(&on), facts(), USER).is_empty());
}

#[test]
fn rule_next_restart_time() {
    let field = "spec.nextRestartTime";
    let at = |power: &str, time: &str| vm(json!({ "powerState": power, "nextRestartTime": time }));
    let (on, off) = (vm(json!({ "powerState": "poweredOn" })), vm(json!({ "powerState": "poweredOff" })));
    let now = at("poweredOn", "now");
    refuses(&now, &[field, "cannot restart VM on create"]);
    let unmutated = reasons(&now, Some(&on), facts(), USER);
    refused(&unmutated, &[field, "mutation webhooks are required to restart VM"]);
    refused(&reasons(&at("poweredOn", "noon"), Some(&on), facts(), USER), &["formatted as RFC3339Nano"]);
    let while_off = reasons(&at("poweredOff", "now"), Some(&off), facts(), USER);
    refused(&while_off, &["can only restart powered on vm"]);
    let time = at("poweredOn", "2026-01-02T03:04:05.678Z");
    assert!(reasons(&time, Some(&on), facts(), USER).is_empty());
    let mut same = time.clone();
    same.spec.power_state = Some("poweredOff".to_owned());
    assert!(reasons(&same, Some(&time), facts(), USER).is_empty(), "an old time is no order");
}

#[test]
fn rule_protected_annotations() {
    let of = |key: &str| object(json!({ "annotations": { key: "x" } }), json!({}));
    for key in [
        annotation::FIRST_BOOT_DONE,
        annotation::DISKS,
        annotation::CLOUD_INIT_INSTANCE_ID,
        "condition.vmoperator.vmware.com.protected/Backup",
        "poweron.check.vmoperator.vmware.com/licence",
        "delete.check.vmoperator.vmware.com/backup",
    ] {
        let words = [key, "modifying this annotation is not allowed for non-admin users", "PrivilegedUsers"];
        refuses(&of(key), &words);
        refused(&reasons(&vm(json!({})), Some(&of(key)), facts(), USER), &words);
        assert!(reasons(&of(key), Some(&of(key)), facts(), USER).is_empty());
        assert!(reasons(&of(key), None, facts(), ADMIN).is_empty());
    }
    assert!(reasons(&of("vmoperator.vmware.com/paused"), None, facts(), USER).is_empty());
}

#[test]
fn rule_record_of_a_resource_policy() {
    let (record, none) = (json!(r#"{"modules":{},"children":[]}"#), Value::Null);
    for (new, old) in [(&record, &none), (&none, &record), (&json!("{}"), &record)] {
        for asker in [USER, PROGRAM] {
            let denial = policy_denials(new, old, asker).unwrap();
            assert!(denial.stops(asker));
            refused(&[denial.to_string()], &[annotation::RESOURCE_POLICY_LEDGER, "PrivilegedUsers"]);
        }
        assert_eq!(policy_denials(new, old, ADMIN), None);
    }
    assert_eq!(policy_denials(&record, &record, USER), None);
}

#[test]
fn rule_a_module_group_needs_a_policy() {
    let of =
        |spec: Value| object(json!({ "annotations": { annotation::CLUSTER_MODULE_GROUP: "group" } }), spec);
    let words = ["metadata.annotations[vsphere-cluster-module-group]", "spec.resourcePolicyName"];
    refuses(&of(json!({})), &words);
    assert!(reasons(&of(json!({ "resourcePolicyName": "p" })), None, facts(), USER).is_empty());
}

#[test]
fn rule_instance_storage_label_of_a_claim() {
    let labels = |value: Option<&str>| -> BTreeMap<String, String> {
        value.map(|value| (label::INSTANCE_STORAGE.to_owned(), value.to_owned())).into_iter().collect()
    };
    let (with, without) = (labels(Some("true")), labels(None));
    assert_eq!(claim_denials(&with, None, USER).len(), 1);
    assert_eq!(claim_denials(&without, Some(&with), USER).len(), 1);
    assert!(claim_denials(&with, Some(&with), USER).is_empty());
    assert!(claim_denials(&with, None, ADMIN).is_empty());
}

#[test]
fn rule_the_identity_is_given_by_those_who_may() {
    let uuid = Uuid::from_u128(7).to_string();
    for field in ["biosUUID", "instanceUUID"] {
        let given = vm(json!({ field: uuid }));
        let remedy = "VM Operator generates the identity of a VM. Leave the field out";
        let words = [field, remedy, "virtualmachines/identity"];
        let reasons = |new: &VirtualMachine, old: Option<&VirtualMachine>, asker: Asker| -> Vec<String> {
            identity_denials(new, old, asker).iter().map(Denial::to_string).collect()
        };
        refused(&reasons(&given, None, USER), &words);
        refused(&reasons(&given, None, PROGRAM), &words);
        refused(&reasons(&given, Some(&vm(json!({}))), USER), &words);
        assert!(reasons(&given, None, ADMIN).is_empty());
        assert!(reasons(&given, Some(&given), USER).is_empty(), "it stays");
        assert!(reasons(&vm(json!({ field: "" })), None, USER).is_empty(), "none is given");
    }
}

#[test]
fn of_a_vm_that_goes_away_protected_annotations_stay() {
    let key = "delete.check.vmoperator.vmware.com/backup";
    let going = |annotations: Value, zone: &str| {
        let metadata = json!({
            "deletionTimestamp": "2026-01-01T00:00:00Z", "annotations": annotations, "labels": { label::ZONE: zone },
        });
        object(metadata, json!({}))
    };
    let old = going(json!({ key: "not yet" }), "z");
    let words = [key, "not allowed for non-admin users"];
    refused(&reasons(&going(json!({}), "z"), Some(&old), facts(), USER), &words);
    refused(&reasons(&going(json!({ key: "" }), "z"), Some(&old), facts(), USER), &words);
    assert!(reasons(&going(json!({}), "z"), Some(&old), facts(), ADMIN).is_empty());
    let other = going(json!({ key: "not yet", "a": "b" }), "y");
    assert!(reasons(&other, Some(&old), facts(), USER).is_empty(), "all else is as it may be");
}

#[test]
fn a_vm_that_is_moved_is_taken_as_it_is() {
    let metadata = json!({
        "annotations": { annotation::FIRST_BOOT_DONE: "true" }, "labels": { label::ZONE: "z" },
    });
    let spec = json!({ "storageClass": "gold", "powerState": "suspended", "nextRestartTime": "2026-01-02T03:04:05Z" });
    let elsewhere = Facts { storage_class_assigned: Some(false), zone: Zone::Missing, ..facts() };
    assert!(reasons(&object(metadata, spec), None, elsewhere, ADMIN).is_empty());
}

#[test]
fn who_is_privileged_and_who_is_a_program() {
    let asker = |user: &str, groups: &[&str]| {
        let groups: Vec<String> = groups.iter().map(|group| (*group).to_owned()).collect();
        Asker::new(user, &groups, &["system:serviceaccount:velero:velero".to_owned()])
    };
    assert_eq!(asker("jane", &["devs", "system:authenticated"]), USER);
    assert_eq!(asker("x", &["system:masters"]), ADMIN);
    assert_eq!(asker("x", &["kubeadm:cluster-admins"]), ADMIN);
    assert_eq!(asker("kubernetes-admin", &[]), ADMIN);
    assert_eq!(asker("system:serviceaccount:capw:manager", &["system:serviceaccounts"]), PROGRAM);
    assert!(asker("system:serviceaccount:velero:velero", &[]).privileged);
}

#[tokio::test]
async fn rule_the_uuid_label_of_a_console_request_stays() {
    let request = |uuid: &str| {
        json!({
            "apiVersion": "vmoperator.vmware.com/v1alpha1", "kind": "WebConsoleRequest",
            "metadata": { "name": "x", "labels": { label::UUID: uuid } },
            "spec": { "virtualMachineName": "x", "publicKey": "key" },
        })
    };
    let asked = async |old: &str, new: &str| {
        let review = json!({ "request": { "uid": "1", "object": request(new), "oldObject": request(old) } });
        super::validate_console(Review::read(review.to_string()).unwrap()).await.0["response"].clone()
    };
    assert_eq!(asked("a", "a").await["allowed"], true);
    let refused = asked("a", "b").await;
    assert_eq!(refused["allowed"], false);
    assert!(refused["status"]["message"].as_str().unwrap().contains("field is immutable"));
}

#[test]
fn another_version_changes_claims_and_nothing_else() {
    let own = json!({"name": "etcd", "vSphereVolume": {"capacity": {"ephemeral-storage": "4Gi"}}});
    let claim = json!({"name": "data", "persistentVolumeClaim": {"claimName": "data"}});
    let old = vm(json!({"volumes": [own]}));
    let asked = |new: &VirtualMachine, version: &str| {
        version_denials(version, new, Some(&old)).map(|denial| denial.to_string()).unwrap_or_default()
    };
    let claimed = vm(json!({"volumes": [own, claim]}));
    assert_eq!(asked(&claimed, "v1alpha2"), "");
    let without = asked(&vm(json!({"volumes": [claim]})), "v1alpha2");
    assert!(without.starts_with("spec.volumes: Forbidden: v1alpha2 can only change"), "{without}");
    let off = vm(json!({"volumes": [own], "powerState": "poweredOff"}));
    assert!(asked(&off, "v1alpha2").contains("Use vmoperator.vmware.com/v1alpha1"));
    assert_eq!(asked(&off, "v1alpha1"), "");
    let mut forged = claimed;
    forged.status = Some(serde_json::from_value(json!({"endpointAddresses": ["10.0.0.1"]})).unwrap());
    assert!(asked(&forged, "v1alpha2").starts_with("status: Forbidden"));
    let made = version_denials("v1alpha2", &off, None).unwrap();
    assert!(made.to_string().starts_with("apiVersion: Forbidden: v1alpha2 cannot create VirtualMachines"));
    assert!(version_denials("v1alpha1", &off, None).is_none());
}

#[test]
fn only_a_clusters_machines_name_its_policy() {
    let vm = |labels: Value| object(json!({ "labels": labels }), json!({ "resourcePolicyName": "a-policy" }));
    let (plain, member) = (vm(json!({})), vm(json!({ label::CAPW_CLUSTER_NAME: "a" })));
    let refusal = policy_user_denial(&plain, None, Some("a")).expect("a refusal").to_string();
    let words = "spec.resourcePolicyName: Forbidden: policy a-policy is reserved for";
    assert!(refusal.starts_with(words), "{refusal}");
    let anothers = vm(json!({ label::CAPW_CLUSTER_NAME: "b" }));
    assert!(policy_user_denial(&anothers, None, Some("a")).is_some());
    assert!(policy_user_denial(&member, None, Some("a")).is_none());
    assert!(policy_user_denial(&plain, None, None).is_none(), "no cluster's");
    assert!(policy_user_denial(&plain, Some(&plain), Some("a")).is_none(), "what is named already");
}
