//! A user writes invalid VirtualMachines and related kinds. The CRD schema or admission refuses them.

use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::harness::plain_vm::PlainVm;
use crate::harness::story::{SOON, Story, assert_contains, merge, story};

const CONFIG: &str = r#"{"configMapName": "a", "secretName": "b"}"#;

/// The rule, the spec field and its value, and the words in the refusal.
const VIRTUAL_MACHINES: &[(&str, &str, &str, &[&str])] = &[
    ("rule_1_one_source_of_metadata", "vmMetadata", CONFIG, &["cannot be specified simultaneously"]),
    ("rule_2_image_required", "imageName", r#""""#, &["spec.imageName"]),
    ("rule_2_class_required", "className", r#""""#, &["spec.className"]),
    (
        "rule_3_storage_class_assigned",
        "storageClass",
        r#""nowhere""#,
        &["spec.storageClass", "Storage policy is not associated with the namespace"],
    ),
    (
        "rule_4_network_type",
        "networkInterfaces",
        r#"[{"networkType": "token-ring"}]"#,
        &["networkType", "supported values"],
    ),
    (
        "rule_4_network_name_unique",
        "networkInterfaces",
        r#"[{"networkName": "a"}, {"networkName": "a"}]"#,
        &["networkName must be unique"],
    ),
    (
        "rule_4_provider_ref",
        "networkInterfaces",
        r#"[{"providerRef": {"apiGroup": "a", "kind": "B", "name": "c"}}]"#,
        &["providerRef", "NetworkInterface of netoperator.vmware.com"],
    ),
    (
        "rule_4_nic_type",
        "networkInterfaces",
        r#"[{"ethernetCardType": "ne2000"}]"#,
        &["ethernetCardType", "vmxnet3"],
    ),
    ("rule_5_volume_name", "volumes", r#"[{"name": "", "vSphereVolume": {}}]"#, &["spec.volumes[0].name"]),
    (
        "rule_5_volume_name_unique",
        "volumes",
        r#"[{"name": "a", "vSphereVolume": {}}, {"name": "a", "vSphereVolume": {}}]"#,
        &["spec.volumes[1]", "Duplicate"],
    ),
    ("rule_5_one_kind_of_volume", "volumes", r#"[{"name": "a"}]"#, &["only one of persistentVolumeClaim"]),
    (
        "rule_5_attachment_name",
        "volumes",
        r#"[{"name": "A", "persistentVolumeClaim": {"claimName": "c"}}]"#,
        &["spec.volumes[0].name", "DNS subdomain"],
    ),
    (
        "rule_5_claim_name",
        "volumes",
        r#"[{"name": "a", "persistentVolumeClaim": {"claimName": ""}}]"#,
        &["persistentVolumeClaim.claimName"],
    ),
    (
        "rule_5_read_only",
        "volumes",
        r#"[{"name": "a", "persistentVolumeClaim": {"claimName": "c", "readOnly": true}}]"#,
        &["readOnly is not supported"],
    ),
    (
        "rule_5_whole_mib",
        "volumes",
        r#"[{"name": "a", "vSphereVolume": {"capacity": {"ephemeral-storage": "1G"}}}]"#,
        &["multiple of MB"],
    ),
    (
        "rule_6_thin_and_eager",
        "advancedOptions",
        r#"{"defaultVolumeProvisioningOptions": {"thinProvisioned": true, "eagerZeroed": true}}"#,
        &["Eager zeroing requires thick provisioning"],
    ),
    (
        "rule_5_largest_disk",
        "volumes",
        r#"[{"name": "a", "vSphereVolume": {"capacity": {"ephemeral-storage": "100Ti"}}}]"#,
        &["spec.volumes[0]", "at most 62Ti"],
    ),
    (
        "rule_7_port_exists",
        "readinessProbe",
        r#"{"tcpSocket": {"port": "https"}}"#,
        &["tcpSocket.port", "name of a port in spec.ports"],
    ),
    ("rule_7_no_action", "readinessProbe", "{}", &["must specify an action"]),
    (
        "rule_7_two_actions",
        "readinessProbe",
        r#"{"tcpSocket": {"port": 1}, "guestHeartbeat": {}}"#,
        &["only one action can be specified"],
    ),
    ("suspended_when_new", "powerState", r#""suspended""#, &["cannot set a new VM's power state"]),
    ("restarted_when_new", "nextRestartTime", r#""now""#, &["cannot restart VM on create"]),
    ("hardware_version", "minHardwareVersion", "12", &["spec.minHardwareVersion", "13"]),
    ("identity", "biosUUID", r#""nonsense""#, &["spec.biosUUID"]),
];

/// Like [`VIRTUAL_MACHINES`], for other kinds: the rule, the kind, the whole spec, and the words in the refusal.
const OTHERS: &[(&str, &str, &str, &[&str])] = &[
    (
        "class_memory_step",
        "VirtualMachineClass",
        r#"{"hardware": {"cpus": 1, "memory": "1000M"}}"#,
        &["spec.hardware.memory", "not a multiple of 4 MiB", "Use 952Mi or 956Mi"],
    ),
    (
        "class_reservation_within_size",
        "VirtualMachineClass",
        r#"{"hardware": {"cpus": 1, "memory": "1Gi"}, "policies": {"resources": {"requests": {"memory": "2Gi"}}}}"#,
        &["requests.memory", "more than the memory"],
    ),
    (
        "class_request_within_limit",
        "VirtualMachineClass",
        r#"{"policies": {"resources": {"requests": {"memory": "3Gi"}, "limits": {"memory": "2Gi"}}}}"#,
        &["memory request must not be larger than the memory limit"],
    ),
    (
        "policy_reservation_within_limit",
        "VirtualMachineSetResourcePolicy",
        r#"{"resourcepool": {"reservations": {"cpu": 3}, "limits": {"cpu": 2}}}"#,
        &["CPU reservation must not be larger than the CPU limit"],
    ),
    (
        "policy_groups_unique",
        "VirtualMachineSetResourcePolicy",
        r#"{"clustermodules": [{"groupname": "a"}, {"groupname": "a"}]}"#,
        &["spec.clustermodules[1]", "Duplicate"],
    ),
    ("service_type", "VirtualMachineService", r#"{"type": "NodePort"}"#, &["spec.type", "NodePort"]),
    ("service_ports", "VirtualMachineService", r#"{"type": "ClusterIP"}"#, &["ports: Required value"]),
    (
        "service_ports_unique",
        "VirtualMachineService",
        r#"{"type": "ClusterIP", "ports": [{"name": "a", "protocol": "TCP", "port": 1, "targetPort": 1},
            {"name": "b", "protocol": "TCP", "port": 1, "targetPort": 2}]}"#,
        &["Duplicate value"],
    ),
    (
        "service_port_protocol",
        "VirtualMachineService",
        r#"{"type": "ClusterIP", "ports": [{"name": "a", "protocol": "X", "port": 1, "targetPort": 1}]}"#,
        &["TCP, UDP and SCTP"],
    ),
    (
        "service_port_range",
        "VirtualMachineService",
        r#"{"type": "ClusterIP", "ports": [{"name": "a", "protocol": "TCP", "port": 65536, "targetPort": 1}]}"#,
        &["spec.ports[0].port"],
    ),
    (
        "service_port_name",
        "VirtualMachineService",
        r#"{"type": "ClusterIP", "ports": [{"name": "A_", "protocol": "TCP", "port": 1, "targetPort": 1}]}"#,
        &["name must be a DNS label"],
    ),
    ("service_external_name", "VirtualMachineService", r#"{"type": "ExternalName"}"#, &["externalName"]),
    (
        "service_external_name_without_address",
        "VirtualMachineService",
        r#"{"type": "ExternalName", "externalName": "a.example.com", "clusterIp": "10.0.0.1"}"#,
        &["may not be set for ExternalName services"],
    ),
    (
        "service_balanced_and_headless",
        "VirtualMachineService",
        r#"{"type": "LoadBalancer", "clusterIp": "None"}"#,
        &["may not be set to 'None' for LoadBalancer services"],
    ),
    (
        "service_source_ranges",
        "VirtualMachineService",
        r#"{"type": "LoadBalancer", "loadBalancerSourceRanges": ["10.0.0"],
            "ports": [{"name": "a", "protocol": "TCP", "port": 1, "targetPort": 1}]}"#,
        &["must be a list of IP ranges"],
    ),
    (
        "service_source_ranges_of_a_load_balancer",
        "VirtualMachineService",
        r#"{"type": "ClusterIP", "clusterIp": "None", "loadBalancerSourceRanges": ["10.0.0.0/8"]}"#,
        &["may only be used when `type` is 'LoadBalancer'"],
    ),
    (
        "console_name",
        "WebConsoleRequest",
        r#"{"virtualMachineName": "", "publicKey": "x"}"#,
        &["spec.virtualMachineName"],
    ),
    (
        "console_key",
        "WebConsoleRequest",
        r#"{"virtualMachineName": "x", "publicKey": "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcD"}"#,
        &["must be an RSA key in PEM"],
    ),
    (
        "publish_source",
        "VirtualMachinePublishRequest",
        r#"{"source": {"kind": "Pod"}, "target": {"location": {"name": "x"}}}"#,
        &["kind has the supported values: VirtualMachine"],
    ),
    (
        "publish_location",
        "VirtualMachinePublishRequest",
        r#"{"target": {"location": {"name": "x", "kind": "Pod"}}}"#,
        &["supported values", "ContentLibrary"],
    ),
    (
        "publish_location_name",
        "VirtualMachinePublishRequest",
        "{}",
        &["target.location.name: Required value"],
    ),
];

/// The rule, the change to a powered-on VM, and the words in the refusal. Without words, the change is accepted.
const CHANGES: &[(&str, &str, &[&str])] = &[
    ("image", r#"{"imageName": "other"}"#, &["imageName: field is immutable"]),
    ("storage_class", r#"{"storageClass": "gold"}"#, &["storageClass: field is immutable"]),
    ("policy", r#"{"resourcePolicyName": "other"}"#, &["resourcePolicyName: field is immutable"]),
    ("class", r#"{"className": "other"}"#, &["spec.className: field is immutable unless", "powered off"]),
    ("class_while_off", r#"{"className": "other", "powerState": "poweredOff"}"#, &[]),
    (
        "bios_uuid",
        r#"{"biosUUID": "00000000-0000-0000-0000-000000000001"}"#,
        &["biosUUID may not be changed"],
    ),
    ("ports", r#"{"ports": []}"#, &["ports: updates to this field is not allowed when VM power is on"]),
    ("ports_while_off", r#"{"ports": [], "powerState": "poweredOff"}"#, &[]),
    ("metadata", r#"{"vmMetadata": {"secretName": "b"}}"#, &["vmMetadata: updates to this field"]),
    ("networks", r#"{"networkInterfaces": []}"#, &["networkInterfaces: updates to this field"]),
    (
        "disks",
        r#"{"volumes": [{"name": "b", "vSphereVolume": {}}]}"#,
        &["volumes[vSphereVolume]: updates to this field"],
    ),
    (
        "provisioning",
        r#"{"advancedOptions": null}"#,
        &["defaultVolumeProvisioningOptions: updates to this field"],
    ),
    ("power_state_emptied", r#"{"powerState": null}"#, &["cannot set power state to empty string"]),
    ("hardware_downgrade", r#"{"minHardwareVersion": 13}"#, &["cannot downgrade hardware version"]),
    (
        "hardware_while_on",
        r#"{"minHardwareVersion": 19}"#,
        &["cannot upgrade hardware version unless powered off"],
    ),
    ("restart_at_nonsense", r#"{"nextRestartTime": "noon"}"#, &["formatted as RFC3339Nano"]),
    ("restart_now", r#"{"nextRestartTime": "now"}"#, &[]),
];

#[test]
fn what_a_virtual_machine_may_not_be_is_refused() {
    story("virtualmachine-rules", |story| async move {
        story.prepare_namespace("best-effort-xsmall").await;
        for (number, (rule, member, value, words)) in VIRTUAL_MACHINES.iter().enumerate() {
            let mut spec = json!({ "imageName": "image", "className": "class" });
            spec[*member] = serde_json::from_str(value).unwrap();
            let refusal = create(&story, "VirtualMachine", &format!("m{number}"), spec, true).await;
            assert_refused(rule, refusal, words);
        }
        for (rule, kind, spec, words) in OTHERS {
            let spec = serde_json::from_str(spec).unwrap();
            assert_refused(rule, create(&story, kind, "x", spec, true).await, words);
        }
        may_not_change(&story).await;
        waits_for_a_disk_of_the_image(&story).await;
        grows_the_disk_of_the_image(&story).await;
    });
}

/// An image's disks are known only after it is deployed, so the cause is in a condition, and the VM isn't created.
async fn waits_for_a_disk_of_the_image(story: &Story) {
    story.apply_object(&with_root_disk(story, "keyed", 2007)).await;
    story.wait_for_complaint("VirtualMachine", "keyed", &["deviceKey 2007", "the image has only 2000"]).await;
    assert!(story.vms_named("keyed").await.is_empty());
    story.delete("VirtualMachine", "keyed", SOON).await;
}

/// The VM's grown disk is a separate file, so the next VM from this image can be created.
async fn grows_the_disk_of_the_image(story: &Story) {
    story.apply_object(&with_root_disk(story, "grown", 2000)).await;
    let vm = story.wait_until_powered_on("grown").await;
    let disks = vm["metadata"]["annotations"]["virtualmachine.vmoperator.vmware.com/disks"].as_str();
    assert!(disks.is_some_and(|disks| disks.contains("] grown/")), "{disks:?}");
    story.delete("VirtualMachine", "grown", SOON).await;
    story.apply_object(&PlainVm::named("after").object(&story.namespace)).await;
    story.wait_until_powered_on("after").await;
    story.delete("VirtualMachine", "after", SOON).await;
}

/// Returns a VM that sets the image's disk with this key to 40 GiB.
fn with_root_disk(story: &Story, name: &str, key: i32) -> Value {
    let mut vm = PlainVm::named(name).object(&story.namespace);
    let disk = json!({ "deviceKey": key, "capacity": { "ephemeral-storage": "40Gi" } });
    vm["spec"]["volumes"] = json!([{ "name": "root", "vSphereVolume": disk }]);
    vm
}

async fn may_not_change(story: &Story) {
    let spec = json!({
        "imageName": "image", "className": "class", "minHardwareVersion": 15,
        "ports": [{ "port": 1, "ip": "10.0.0.1", "name": "a" }],
        "vmMetadata": { "secretName": "a" },
        "networkInterfaces": [{ "networkName": "workload-network" }],
        "volumes": [{ "name": "a", "vSphereVolume": { "capacity": { "ephemeral-storage": "1Gi" } } }],
        "advancedOptions": { "defaultVolumeProvisioningOptions": { "thinProvisioned": true } },
    });
    let vm = create(story, "VirtualMachine", "fixed", spec, false).await.unwrap();
    assert_eq!(vm.data["spec"]["powerState"], "poweredOn", "filled in when it is new");
    assert!(vm.data["spec"]["biosUUID"].is_string() && vm.metadata.finalizers.is_some());
    let api = story.api("VirtualMachine");
    for (rule, change, words) in CHANGES {
        let change = json!({ "spec": serde_json::from_str::<Value>(change).unwrap() });
        let params = PatchParams { dry_run: true, ..PatchParams::default() };
        assert_refused(rule, api.patch("fixed", &params, &Patch::Merge(&change)).await, words);
    }
    let taken_up =
        json!({ "metadata": { "annotations": { "vmoperator.vmware.com/pause-reconcile": null } } });
    merge(&api, "fixed", taken_up).await.unwrap();
    story.delete("VirtualMachine", "fixed", SOON).await;
}

/// Creates a paused object, which doesn't affect vCenter.
async fn create(
    story: &Story,
    kind: &str,
    name: &str,
    spec: Value,
    dry_run: bool,
) -> kube::Result<DynamicObject> {
    let object = json!({
        "apiVersion": "vmoperator.vmware.com/v1alpha1", "kind": kind, "spec": spec,
        "metadata": { "name": name, "annotations": { "vmoperator.vmware.com/pause-reconcile": "true" } },
    });
    let api = if kind == "VirtualMachineClass" { story.cluster_api(kind) } else { story.api(kind) };
    api.create(&PostParams { dry_run, ..PostParams::default() }, &serde_json::from_value(object).unwrap())
        .await
}

fn assert_refused(rule: &str, outcome: kube::Result<DynamicObject>, words: &[&str]) {
    match outcome {
        Ok(_) => assert!(words.is_empty(), "{rule}: accepted"),
        Err(refusal) => {
            eprintln!("[virtualmachine-rules] {rule}: {refusal}");
            assert!(!words.is_empty(), "{rule}: {refusal}");
            assert_contains(refusal, words);
        }
    }
}
