//! What an administrator deploys is accepted as it is: `kubectl apply -k` of every folder of config/, strictly validated.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use layercake::up::manifest;
use serde_json::{Value, json};

use crate::story::{Story, story};

const FOLDERS: [&str; 6] = ["crd", "crd-external", "gcm", "capw", "vmop", "vmop-standalone"];

#[test]
fn every_folder_of_config_is_accepted_by_the_api_server() {
    story("config-folders", |story| async move {
        let kubectl = crate::shared_stack::build_tool(&plane::tools::KUBECTL);
        for folder in FOLDERS {
            let documents = rendered(&kubectl, folder);
            assert!(!documents.is_empty(), "{folder}");
            apply_dry(&story, &kubectl, folder, &documents);
            for document in documents.iter().filter(|document| document["kind"] == "Deployment") {
                assert_hardened(folder, document, &documents);
            }
        }
    });
}

fn rendered(kubectl: &Path, folder: &str) -> Vec<Value> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../config").join(folder);
    let output = Command::new(kubectl).arg("kustomize").arg(&path).output().expect("kubectl");
    assert!(output.status.success(), "{folder}: {}", String::from_utf8_lossy(&output.stderr));
    manifest::documents(&String::from_utf8(output.stdout).expect("UTF-8")).expect("documents")
}

/// Applies what the API server knows, without effect; cert-manager brings its own kinds.
fn apply_dry(story: &Story, kubectl: &Path, folder: &str, documents: &[Value]) {
    let of_cert_manager = |document: &&Value| {
        document["apiVersion"].as_str().is_some_and(|version| version.starts_with("cert-manager.io/"))
    };
    let items: Vec<_> = documents.iter().filter(|document| !of_cert_manager(document)).collect();
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": items });
    let mut applying = Command::new(kubectl)
        .arg("--kubeconfig")
        .arg(&story.shared.session.kubeconfig)
        .args([
            "apply",
            "--dry-run=server",
            "--server-side",
            "--force-conflicts",
            "--validate=strict",
            "-f",
            "-",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("kubectl");
    applying.stdin.take().expect("its input").write_all(list.to_string().as_bytes()).expect("written");
    let output = applying.wait_with_output().expect("its end");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "config/{folder}: {errors}");
    assert!(!errors.contains("Warning"), "config/{folder}: {errors}");
}

/// A Deployment runs under another user, spread, and with a budget and a policy; its namespace admits nothing looser.
fn assert_hardened(folder: &str, deployment: &Value, documents: &[Value]) {
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["securityContext"]["runAsUser"], 65532, "{folder}");
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true, "{folder}");
    assert_eq!(pod["priorityClassName"], "system-cluster-critical", "{folder}");
    assert!(pod["topologySpreadConstraints"].is_array() && pod["tolerations"].is_array(), "{folder}");
    let labels = &deployment["spec"]["template"]["metadata"]["labels"];
    for (kind, selector) in [
        ("PodDisruptionBudget", "/spec/selector/matchLabels"),
        ("NetworkPolicy", "/spec/podSelector/matchLabels"),
    ] {
        let selects = |document: &&Value| {
            let wanted = document.pointer(selector).and_then(Value::as_object);
            document["kind"] == kind
                && wanted.is_some_and(|wanted| wanted.iter().all(|(key, value)| labels[key] == *value))
        };
        assert!(documents.iter().any(|document| selects(&document)), "{folder}: no {kind} selects the Pods");
    }
    let namespace = documents.iter().find(|document| document["kind"] == "Namespace").expect("a namespace");
    assert_eq!(
        namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"], "restricted",
        "{folder}"
    );
}
