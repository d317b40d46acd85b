//! Runs `layercake manifests` as users do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::process::Command;

use components::catalogue::COMPONENTS;
use layercake::kube::manifest;
use serde_json::Value;

/// Runs `layercake manifests` without programs in PATH and with an empty cache, so that nothing can be compiled. Returns
/// the documents.
fn manifests(args: &[&str]) -> Vec<Value> {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    let output = Command::new(env!("CARGO_BIN_EXE_layercake"))
        .arg("manifests")
        .args(args)
        .env("PATH", folder.path())
        .env("LAYERCAKE_CACHE", &cache)
        .env_remove("LAYERCAKE_TOOLS")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!cache.exists());
    manifest::documents(&String::from_utf8(output.stdout).unwrap()).unwrap()
}

fn count(documents: &[Value], kind: &str) -> usize {
    documents.iter().filter(|document| document["kind"] == kind).count()
}

#[test]
fn manifests_are_printed_at_once_and_use_cert_manager() {
    let documents = manifests(&[]);
    assert_eq!(count(&documents, "Deployment"), COMPONENTS.len());
    // capw doesn't have webhooks.
    assert_eq!(count(&documents, "Certificate"), COMPONENTS.len() - 1);
    assert_eq!(count(&documents, "Secret"), 0);
}

#[test]
fn the_vm_operator_alone_does_not_need_cert_manager() {
    let documents = manifests(&["--component=vmop", "--webhook-certificates=own"]);
    assert_eq!(count(&documents, "Deployment"), 1);
    let others = ["cert-manager.io/", "clusterctl.cluster.x-k8s.io/"];
    let is_other = |document: &&Value| {
        others.iter().any(|group| document["apiVersion"].as_str().unwrap().starts_with(group))
    };
    assert_eq!(documents.iter().find(is_other), None);
}

#[test]
fn cluster_apis_webhooks_need_cert_manager() {
    let output = Command::new(env!("CARGO_BIN_EXE_layercake"))
        .args(["manifests", "--webhook-certificates=own"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("cluster-api cannot create the certificate of its webhooks"), "{message}");
}

#[test]
fn manifests_are_the_same_each_time() {
    let args = ["--image-registry=registry.example.com", "--network-provider=nsx"];
    assert_eq!(manifests(&args), manifests(&args));
}
