//! A user runs `layercake doctor` before applying anything. It names each cause.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Output;

use layercake::site::manifests::storage_quota;
use serde_json::{Value, json};

use crate::harness::command::layercake;
use crate::harness::objects::{role_binding, storage_class};
use crate::harness::story::{SOON, Story, assert_contains, disruptive_story, story};
use crate::harness::tenants::kubeconfig_as;

const CONFIG: &str = "vsphere.provider.config.vmoperator.vmware.com";
const SYSTEM: &str = "vmware-system-vmop";
const SECRET: &str = "vcenter-credentials";

/// A provider configuration key, its wrong value (`None` removes the key), the check's code, and the words in its
/// finding.
const CONFIGURATIONS: &[(&str, Option<&str>, &str, &[&str])] = &[
    ("VcPNID", None, "LC0201", &["VcPNID"]),
    ("VcCredsSecretName", Some("nowhere"), "LC0202", &["nowhere"]),
    ("VcPort", Some("1"), "LC0301", &["127.0.0.1:1", "firewall"]),
    ("CAFilePath", Some("/nonexistent/ca.crt"), "LC0303", &["/nonexistent/ca.crt", "--vcenter-ca"]),
    ("Datacenter", Some("datacenter-999"), "LC0501", &["datacenter-999", "does not exist"]),
    ("Folder", Some("group-v999"), "LC0501", &["group-v999", "does not exist"]),
    ("ContentSource", Some("11111111-2222-3333-4444-555555555555"), "LC0601", &["11111111-2222"]),
    ("Datastore", Some("nowhere"), "LC0701", &["nowhere"]),
    ("Network", Some("nowhere"), "LC0801", &["nowhere", "workload-network"]),
];

/// A text in the manifest, its wrong replacement, the check's code, and the words in its finding.
const MANIFESTS: &[(&str, &str, &str, &[&str])] = &[
    ("controlPlane:", "controlplane:", "LC1001", &["controlplane"]),
    ("v1.33", "v1.99", "LC1002", &["v1.99"]),
    ("10.244.0.0/16", "10.0.0.0/8", "LC1003", &["10.0.0.0/8", "pods"]),
    ("best-effort-xsmall", "best-effort-gone", "LC1004", &["best-effort-gone"]),
    ("storageClass: gold", "storageClass: lead", "LC1005", &["StorageClass lead", "Use gold"]),
];

const CLUSTER: &str = "
apiVersion: run.tanzu.vmware.com/v1alpha1
kind: TanzuKubernetesCluster
metadata: {name: planned, namespace: diagnosed}
spec:
  settings:
    network:
      pods: {cidrBlocks: [10.244.0.0/16]}
      services: {cidrBlocks: [198.51.100.0/24]}
  topology:
    controlPlane: {count: 1, class: best-effort-xsmall, storageClass: gold}
    workers: {count: 1, class: best-effort-xsmall, storageClass: gold}
  distribution: {version: v1.33}
";

#[test]
fn the_doctor_names_each_cause() {
    disruptive_story("diagnosed", |story| async move {
        story.prepare_namespace("best-effort-xsmall").await;
        let configured = read_configuration(&story).await;
        for (key, value, code, words) in CONFIGURATIONS {
            let mut data = configured.clone();
            if *key == "CAFilePath" {
                // A thumbprint takes precedence.
                data.as_object_mut().unwrap().remove("Thumbprint");
            }
            match value {
                Some(value) => data[*key] = (*value).into(),
                None => _ = data.as_object_mut().unwrap().remove(*key),
            }
            configure(&story, &data).await;
            let found = doctor(
                &story,
                &["--operator-namespace", &story.namespace, "--only", "LC02,LC03,LC05,LC06,LC07,LC08"],
            );
            assert_named(&found, code, words);
        }
        configure(&story, &configured).await;
        let wrong = json!({ "username": "administrator@vsphere.local", "password": "not-the-password" });
        apply_secret(&story, &wrong).await;
        let found = doctor(&story, &["--operator-namespace", &story.namespace, "--only", "LC03"]);
        assert_named(&found, "LC0304", &["password"]);
        assert!(!String::from_utf8_lossy(&found.stdout).contains("not-the-password"));

        site_causes(&story).await;
        story.apply_object(&storage_quota("storage", &story.namespace, ["gold"])).await;
        manifest_causes(&story);
        example_is_sound(&story);
    });
}

#[test]
fn the_doctor_records_what_it_asks_vcenter_without_secrets() {
    story("recorded", |story| async move {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("recording.jsonl");
        let file = path.to_str().unwrap();
        let run = doctor(&story, &["--only", "LC03,LC05,LC06,LC08", "--record", file]);
        let errors = String::from_utf8_lossy(&run.stderr);
        assert_contains(&errors, &["recording.jsonl: ", " exchanges, 0 left out"]);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);

        let text = std::fs::read_to_string(&path).unwrap();
        let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        assert_eq!(last["exchanges"], text.lines().count() - 2);
        assert_contains(&text, &["layercakeRecording", "VMware vCenter Server", "config.hardware.device"]);
        let maps = kube::Api::<k8s_openapi::api::core::v1::ConfigMap>::namespaced(story.client(), SYSTEM);
        let configured = maps.get(CONFIG).await.unwrap().data.unwrap();
        let password = story.shared.session.vcenter.password().unwrap();
        for secret in [&password, &configured["VcPNID"], &configured["ContentSource"]] {
            assert!(!text.contains(secret.as_str()), "{secret} is in the recording");
        }

        let again = doctor(&story, &["--only", "LC03", "--record", file]);
        assert_eq!(again.status.code(), Some(1));
        assert_contains(String::from_utf8_lossy(&again.stderr), &["exists", "another name"]);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "a recording is not overwritten");
    });
}

/// Namespace users run the doctor. Checks that read forbidden objects are skipped with the missing permission.
#[test]
fn checks_of_a_namespace_user_are_skipped_with_the_missing_right() {
    story("diagnosing-user", |story| async move {
        story.prepare_namespace("best-effort-xsmall").await;
        story.apply_object(&storage_quota("storage", &story.namespace, ["gold"])).await;
        let folder = tempfile::tempdir().unwrap();
        let manifest = folder.path().join("cluster.yaml");
        std::fs::write(&manifest, CLUSTER.replace("diagnosed", &story.namespace)).unwrap();
        for (user, role, accepted) in [("a-viewer", "view", "skipped"), ("an-editor", "edit", "ok")] {
            let subjects = json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]);
            story.apply_object(&role_binding(&story.namespace, user, role, &subjects)).await;
            let kubeconfig = kubeconfig_as(&story.shared.session.kubeconfig, user, folder.path());
            let run = || doctor_of(&kubeconfig, &["-f", manifest.to_str().unwrap()]);
            let applies = async || report(&run())["LC1004"].0 == "ok";
            story.wait_until("the role applies", SOON, applies).await;
            let output = run();
            let found = report(&output);
            assert_eq!(output.status.code(), Some(0), "{found:#?}");
            for (code, outcome) in [
                ("LC0101", "ok"),
                ("LC1001", "ok"),
                ("LC1002", accepted),
                ("LC1003", "skipped"),
                ("LC1005", "ok"),
            ] {
                assert_eq!(found[code].0, outcome, "{code} {found:#?}");
            }
            for code in ["LC0102", "LC0103", "LC0104", "LC0105", "LC0106", "LC0201", "LC0603"] {
                assert_eq!(found[code].0, "skipped", "{code} {found:#?}");
                assert_contains(&found[code].1, &[&format!("cannot be read: User \"{user}\" cannot ")]);
            }
            assert_contains(&found["LC0304"].1, &["an earlier check was skipped"]);
            assert_contains(&found["LC1003"].1, &["Not read: Nodes: User"]);
            assert!(!String::from_utf8_lossy(&output.stdout).contains("Status {"), "{found:#?}");
        }
    });
}

/// Returns each check's outcome and finding by code. If several checks share a code, the last one wins.
fn report(output: &Output) -> BTreeMap<String, (String, String)> {
    let errors = String::from_utf8_lossy(&output.stderr);
    let report: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {errors}"));
    let text = |check: &Value, member: &str| check[member].as_str().unwrap().to_owned();
    let checks = report["checks"].as_array().unwrap().iter();
    checks.map(|check| (text(check, "code"), (text(check, "outcome"), text(check, "found")))).collect()
}

/// Triggers causes in vCenter itself.
async fn site_causes(story: &Story) {
    let control = story.shared.control();
    control.take_privileges(&["VirtualMachine.Inventory.Delete", "VApp.Export"]).await.unwrap();
    let found = doctor(story, &["--only", "LC04"]);
    assert_named(&found, "LC0401", &["VirtualMachine.Inventory.Delete", "Destroy_Task", "VM folder"]);
    assert_named(&found, "LC0402", &["VApp.Export", "VirtualMachinePublishRequest"]);
    control.take_privileges(&[]).await.unwrap();
    control.set_datastore_accessible("sharedVmfs-0", false).await.unwrap();
    assert_named(&doctor(story, &["--only", "LC0701"]), "LC0701", &["sharedVmfs-0"]);
    control.end_outages().await.unwrap();
    let unknown = json!({ "storagePolicyName": "no-such-policy" });
    story.apply_object(&storage_class("policy-gone", &unknown)).await;
    let found = doctor(story, &["--only", "LC0702"]);
    assert_named(&found, "LC0702", &["policy-gone", "no-such-policy"]);
    let classes = story.cluster_api("StorageClass");
    classes.delete("policy-gone", &kube::api::DeleteParams::default()).await.unwrap();
    let huge = json!({
        "apiVersion": "vmoperator.vmware.com/v1alpha1", "kind": "VirtualMachineClass",
        "metadata": {"name": "huge"}, "spec": {"hardware": {"cpus": 200, "memory": "1Gi"}},
    });
    story.apply_object(&huge).await;
    let found = doctor(story, &["--only", "LC0902"]);
    assert!(!String::from_utf8_lossy(&found.stdout).contains("huge"), "no namespace may use it");
    story.prepare_namespace("huge").await;
    let words =
        ["VirtualMachineClass huge has 200 CPUs", "no host has more than 64 threads", "at most 64 CPUs"];
    assert_named(&doctor(story, &["--only", "LC0902"]), "LC0902", &words);
    story.delete("VirtualMachineClassBinding", "huge", SOON).await;
    story
        .cluster_api("VirtualMachineClass")
        .delete("huge", &kube::api::DeleteParams::default())
        .await
        .unwrap();
}

/// Objects may depend on objects that the same command's other files create.
fn example_is_sound(story: &Story) {
    let [namespace, vm] = ["namespace", "web"]
        .map(|name| format!("{}/../examples/virtual-machines/{name}.yaml", env!("CARGO_MANIFEST_DIR")));
    let found = doctor(story, &["-f", &namespace, "-f", &vm, "--only", "LC10"]);
    assert_eq!(found.status.code(), Some(0), "{}", String::from_utf8_lossy(&found.stdout));
}

fn manifest_causes(story: &Story) {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    std::fs::write(path, CLUSTER).unwrap();
    let found = doctor(story, &["-f", path, "--only", "LC10"]);
    assert_eq!(found.status.code(), Some(0), "{}", String::from_utf8_lossy(&found.stdout));
    for (was, is, code, words) in MANIFESTS {
        std::fs::write(path, CLUSTER.replace(was, is)).unwrap();
        assert_named(&doctor(story, &["-f", path, "--only", "LC10"]), code, words);
    }
}

/// Runs the doctor as an administrator.
fn doctor(story: &Story, args: &[&str]) -> Output {
    doctor_of(&story.shared.session.kubeconfig, args)
}

fn doctor_of(kubeconfig: &Path, args: &[&str]) -> Output {
    layercake(&["doctor", "-o", "json", "--kubeconfig"]).arg(kubeconfig).args(args).output().unwrap()
}

/// Checks that the check `code` reports a finding that contains all `words`, and that the exit status is 1 only if
/// there is an error.
fn assert_named(output: &Output, code: &str, words: &[&str]) {
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    let report: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}{errors}"));
    let checks = report["checks"].as_array().unwrap();
    let has_errors = checks.iter().any(|check| check["outcome"] == "error");
    assert_eq!(output.status.code(), Some(i32::from(has_errors)), "{code}: {text}{errors}");
    let complaints: Vec<String> = checks
        .iter()
        .filter(|check| check["code"] == code && check["outcome"] != "ok" && check["outcome"] != "skipped")
        .map(|check| format!("{} {}", check["found"], check["remedy"]))
        .collect();
    let complaint = complaints.join("\n");
    assert!(!complaint.is_empty(), "{code} finds nothing wrong: {text}");
    assert_contains(&complaint, words);
}

async fn read_configuration(story: &Story) -> Value {
    let maps = kube::Api::<k8s_openapi::api::core::v1::ConfigMap>::namespaced(story.client(), SYSTEM);
    let secrets = kube::Api::<k8s_openapi::api::core::v1::Secret>::namespaced(story.client(), SYSTEM);
    let data = maps.get(CONFIG).await.unwrap().data.unwrap();
    let credentials = secrets.get(SECRET).await.unwrap().data.unwrap();
    let text = |key: &str| String::from_utf8(credentials[key].0.clone()).unwrap();
    apply_secret(story, &json!({ "username": text("username"), "password": text("password") })).await;
    json!(data)
}

async fn apply_secret(story: &Story, data: &Value) {
    let metadata = json!({ "name": SECRET, "namespace": story.namespace });
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data });
    story.apply_object(&secret).await;
}

/// Creates a provider configuration in the story's namespace, where programs don't read it.
async fn configure(story: &Story, data: &Value) {
    let maps =
        kube::Api::<k8s_openapi::api::core::v1::ConfigMap>::namespaced(story.client(), &story.namespace);
    let map = json!({ "metadata": { "name": CONFIG }, "data": data });
    let _ = maps.delete(CONFIG, &kube::api::DeleteParams::default()).await;
    maps.create(&kube::api::PostParams::default(), &serde_json::from_value(map).unwrap()).await.unwrap();
}
