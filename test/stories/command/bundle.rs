//! A user creates a support bundle. It shows what blocks the cluster, and doesn't contain secrets.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::Output;

use age::secrecy::ExposeSecret as _;
use age::x25519::Identity;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use serde_json::json;

use crate::harness::command::layercake;
use crate::harness::objects::{one_node, role_binding};
use crate::harness::plain_vm::PlainVm;
use crate::harness::story::{CLUSTER, SOON, Story, story};
use crate::harness::tenants::kubeconfig_as;

/// A marker in all data that a bundle must not contain.
const CANARY: &str = "canary";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

#[test]
fn a_bundle_says_what_blocks_and_holds_no_secret() {
    story("bundle", |story| async move {
        story.prepare_namespace("best-effort-xsmall").await;
        plant(&story).await;
        let nodes = ["best-effort-xsmall", "gold"];
        story.apply(&one_node("bundled", "v1.34.2---vmware.1-vkr.1", nodes)).await;
        let first =
            async || story.list("VirtualMachine").await.iter().any(|vm| vm["metadata"]["name"] != "unbound");
        story.wait_until("the cluster's first VM", SOON, first).await;
        let secrets: Api<Secret> = Api::all(story.client());
        let secrets = secrets.list(&ListParams::default()).await.unwrap().items;
        let has = |name: &str| secrets.iter().any(|secret| secret.name_any() == name);
        assert!(has("bundled-kubeconfig") && has("bundled-ca"), "the cluster has no Secrets yet");

        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("bundle.age");
        let identity = Identity::generate();
        let made = bundle(
            &story,
            &["--output-file", file.to_str().unwrap(), "--encrypt", &identity.to_public().to_string()],
        );
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        assert_private(&file);
        let encrypted = std::fs::read(&file).unwrap();
        let files = unpack(&age::decrypt(&identity, &encrypted).unwrap());
        for (path, text) in &files {
            eprintln!("{:>8} {path}", text.len());
        }
        eprintln!("{}", files["contents.txt"]);
        assert_no_secret(&files, &secrets);
        assert_says_what_blocks(&story, &files);

        let again = bundle(&story, &["--output-file", file.to_str().unwrap()]);
        assert!(!again.status.success(), "it replaced a file");
        assert!(String::from_utf8_lossy(&again.stderr).contains("exists"));
        assert_eq!(std::fs::read(&file).unwrap(), encrypted);
        story.delete("TanzuKubernetesCluster", "bundled", CLUSTER).await;
    });
}

/// Plants the canary in all places where users may put a secret.
async fn plant(story: &Story) {
    let namespace = &story.namespace;
    let metadata = |name: &str| {
        json!({"name": name, "namespace": namespace, "annotations": {
            LAST_APPLIED: "{\"data\":\"canary-last-applied\"}", "anybody.test/canary-key": "canary-annotation",
        }, "labels": {"anybody.test/key": "canary-label"}})
    };
    let kubeconfig = "apiVersion: v1\nusers:\n- user:\n    token: canary-kubeconfig-token\n";
    for object in [
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata("vault"),
            "stringData": {"password": "canary-password", "class": "canary-class", "kubeconfig": kubeconfig}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata("userdata"),
            "data": {"user-data": "#cloud-config\nruncmd: [echo canary-in-userdata]\n"}}),
        json!({"apiVersion": "v1", "kind": "Event", "metadata": metadata("planted"), "type": "Warning",
            "reason": "Failed", "lastTimestamp": "2030-01-01T00:00:00Z",
            "involvedObject": {"kind": "VirtualMachine", "name": "unbound", "namespace": namespace},
            "message": "canary-password; vmware_soap_session=\"canary-session\"; https://ann:canary-url@vcenter.test/sdk; runcmd: [echo canary-in-userdata]"}),
    ] {
        story.apply_object(&object).await;
    }
    // A condition, an event and a log line repeat the class name.
    let vm = PlainVm { class: "canary-class".to_owned(), ..PlainVm::named("unbound") };
    let mut vm = vm.object(namespace);
    vm["metadata"] = metadata("unbound");
    vm["spec"]["vmMetadata"] = json!({"configMapName": "userdata", "transport": "CloudInit"});
    story.create_as_program(&vm).await;
    story.wait_for_complaint("VirtualMachine", "unbound", &["canary-class"]).await;
    let log = story.folder().join("logs/vmop.log");
    let mut log = std::fs::File::options().append(true).open(log).unwrap();
    writeln!(log, "planted: showed canary-kubeconfig-token and password=canary-in-log").unwrap();
}

fn bundle(story: &Story, args: &[&str]) -> Output {
    let kubeconfig = &story.shared.session.kubeconfig;
    layercake(&["bundle"]).args(args).arg("--kubeconfig").arg(kubeconfig).output().unwrap()
}

fn assert_private(file: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    let names: Vec<_> = std::fs::read_dir(file.parent().unwrap()).unwrap().flatten().collect();
    assert_eq!(names.len(), 1, "it left something behind: {names:?}");
}

fn unpack(bundle: &[u8]) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    for entry in tar::Archive::new(GzDecoder::new(bundle)).entries().unwrap() {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().display().to_string();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        files.insert(path.strip_prefix("layercake-bundle/").unwrap().to_owned(), text);
    }
    files
}

/// Checks that the bundle contains neither planted data nor any Secret's values: keys, tokens, kubeconfigs, bootstrap
/// data.
fn assert_no_secret(files: &BTreeMap<String, String>, secrets: &[Secret]) {
    let mut looked_for = vec![(CANARY.to_owned(), "planted".to_owned())];
    for secret in secrets {
        let named = format!("{}/{}", secret.namespace().unwrap_or_default(), secret.name_any());
        for (key, value) in secret.data.iter().flatten() {
            let of = format!("{named} {key}");
            let is_namespace = secret.namespace().is_some_and(|name| name.as_bytes() == value.0);
            let text = String::from_utf8_lossy(&value.0);
            let is_one_line =
                !text.contains('\n') && text.len() >= 8 && !is_namespace && text != "cluster.local";
            looked_for.extend(is_one_line.then(|| (text.to_string(), of.clone())));
            looked_for.push((STANDARD.encode(&value.0), of.clone()));
            // PEM lines from keys and certificates.
            let lines = text.lines().map(str::trim).filter(|line| line.len() == 64);
            looked_for.extend(lines.map(|line| (line.to_owned(), of.clone())));
        }
    }
    looked_for.retain(|(value, _)| value.len() >= 6);
    assert!(looked_for.len() > 50, "only {} values", looked_for.len());
    for (path, text) in files {
        for (value, of) in &looked_for {
            // Don't print the value: test output isn't safe either.
            assert!(!text.contains(value.as_str()), "{path} has the value of {of}");
            assert!(!path.contains(CANARY), "{path}");
        }
    }
}

fn assert_says_what_blocks(story: &Story, files: &BTreeMap<String, String>) {
    let namespace = &story.namespace;
    let has = |path: &str, parts: &[&str]| {
        let path = path.replace("NAMESPACE", namespace);
        let text = files.get(&path).unwrap_or_else(|| panic!("no {path}"));
        for part in parts {
            assert!(text.contains(part), "{path} lacks {part}:\n{text}");
        }
    };
    has(
        "namespaces/NAMESPACE/virtualmachines.vmoperator.vmware.com/unbound.yaml",
        &[
            "kind: VirtualMachine",
            "VirtualMachineClass",
            "[scrubbed: value of a Secret]",
            "configMapName: userdata",
        ],
    );
    has("namespaces/NAMESPACE/events.txt", &["vmware_soap_session=[scrubbed"]);
    has("namespaces/NAMESPACE/secrets.txt", &["vault   Opaque", "password (15)", "bundled-kubeconfig"]);
    has("namespaces/NAMESPACE/clusters.cluster.x-k8s.io/bundled.yaml", &["controlPlaneRef:"]);
    has(
        "namespaces/vmware-system-vmop/configmaps/vsphere.provider.config.vmoperator.vmware.com.yaml",
        &["VcPNID"],
    );
    has("clusters/NAMESPACE/bundled.txt", &["TanzuKubernetesCluster/bundled"]);
    has("processes/vmop.log", &["planted: showed [scrubbed"]);
    has("doctor.txt", &["LC0101"]);
    has(
        "contents.txt",
        &["Removed wherever they occur", "VirtualMachine   metadata.managedFields", "processes/vmop.log"],
    );
}

#[test]
fn who_may_only_view_gets_a_bundle_that_says_what_it_lacks() {
    story("bundle-reader", |story| async move {
        story.prepare_namespace("best-effort-xsmall").await;
        let reader = json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "reader"}]);
        story.apply_object(&role_binding(&story.namespace, "reader", "view", &reader)).await;
        let vm = PlainVm { class: "nobodys-class".to_owned(), ..PlainVm::named("seen") };
        story.create_as_program(&vm.object(&story.namespace)).await;

        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = kubeconfig_as(&story.shared.session.kubeconfig, "reader", folder.path());
        let bundle = ["bundle", "--output-file", "-", "--no-doctor", "-n", &story.namespace, "--kubeconfig"];
        let made = layercake(&bundle).arg(&kubeconfig).output().unwrap();
        let errors = String::from_utf8_lossy(&made.stderr);
        assert!(made.status.success(), "{errors}");
        let missing = "Secrets, whose values were not searched for, in namespaces";
        assert!(errors.contains(missing), "{errors}");
        let files = unpack(&made.stdout);
        assert!(files["contents.txt"].contains(missing));
        let seen = format!("namespaces/{}/virtualmachines.vmoperator.vmware.com/seen.yaml", story.namespace);
        assert!(files.contains_key(&seen), "{:?}", files.keys());
        assert!(files.keys().all(|path| !path.contains("secrets.txt")));
        story.delete("VirtualMachine", "seen", SOON).await;
    });
}

#[test]
fn a_wrong_recipient_and_an_unreachable_server_are_clear_errors() {
    let run = |args: &[&str]| {
        let folder = tempfile::tempdir().unwrap();
        let made = layercake(&["bundle"]).args(args).current_dir(&folder).output().unwrap();
        assert_eq!(made.status.code(), Some(1));
        assert!(made.stdout.is_empty());
        let left =
            std::fs::read_dir(&folder).unwrap().flatten().filter(|left| left.file_name() != "kubeconfig");
        assert_eq!(left.count(), 0, "something is left");
        String::from_utf8(made.stderr).unwrap()
    };
    let identity = Identity::generate().to_string();
    let errors = run(&["--encrypt", identity.expose_secret()]);
    assert!(errors.contains("age1") && !errors.contains(identity.expose_secret()), "{errors}");
    let errors = run(&["--kubeconfig", "/nonexistent/kubeconfig"]);
    assert!(errors.contains("/nonexistent/kubeconfig"), "{errors}");
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let nobody = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "c", "user": {}}], "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
    });
    std::fs::write(&kubeconfig, nobody.to_string()).unwrap();
    let errors = run(&["--kubeconfig", kubeconfig.to_str().unwrap()]);
    assert!(errors.contains("cannot reach the API server"), "{errors}");
}
