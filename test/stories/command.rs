//! The `layercake` command as a newcomer runs it.

use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::world::says;

/// vCenter requests that are not of one cluster: the images' listing and the golden template.
const LISTING: [&str; 6] =
    ["/content/", "/ovf/", "CreateSnapshot_Task", "MarkAsTemplate", "ReconfigVM_Task", "downloadsession"];

#[test]
fn up_once_brings_the_seeds_cluster_up_and_leaves_nothing() {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/test-cluster.yaml");
    let run = layercake(&["up", "--once", "-f", manifest, "-o", "json", "--timeout", "12m"]);
    let errors = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{errors}");
    let report: Value = serde_json::from_slice(&run.stdout).unwrap();
    eprintln!("{report:#}");
    let cluster = &report["clusters"][0];
    assert_eq!(cluster["phase"], "running");
    assert_eq!(cluster["controlPlane"], serde_json::json!({"ready": 3, "wanted": 3}));
    assert_eq!(cluster["workers"], serde_json::json!({"ready": 3, "wanted": 3}));
    assert!(cluster["blocking"].is_null());
    let methods = report["vcenter"]["byMethod"].as_object().unwrap();
    assert_eq!(methods["CloneVM_Task"], 6);
    let own = methods.iter().filter(|(method, _)| !LISTING.iter().any(|part| method.contains(part)));
    let own: u64 = own.filter_map(|(_, count)| count.as_u64()).sum();
    assert!(own <= 60, "{own} requests for six VMs: {methods:?}");
    nothing_runs_any_more(&errors);
}

fn nothing_runs_any_more(said: &str) {
    let folder = said.lines().find_map(|line| line.strip_prefix("Everything is in "));
    let folder = folder.expect("the folder is said");
    assert!(!std::path::Path::new(folder).exists(), "{folder} is left");
    let mark = format!("LAYERCAKE_STACK={}", folder.rsplit('-').next().unwrap());
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        let environment = std::fs::read(process.path().join("environ")).unwrap_or_default();
        assert!(
            !String::from_utf8_lossy(&environment).contains(&mark),
            "{} is left",
            process.path().display()
        );
    }
}

#[test]
fn a_wrong_command_line_or_manifest_is_a_usage_error() {
    let run = layercake(&["up", "--once", "-f", "/nonexistent/cluster.yaml"]);
    assert_eq!(run.status.code(), Some(2));
    says(String::from_utf8_lossy(&run.stderr), &["/nonexistent/cluster.yaml"]);
    assert_eq!(layercake(&["up", "--no-such-flag"]).status.code(), Some(2));
}

#[test]
fn lint_finds_what_is_wrong_without_a_cluster() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cluster.yaml");
    let text = "apiVersion: run.tanzu.vmware.com/v1alpha3\nkind: TanzuKubernetesCluster\nmetadata: {name: c}\nspec:\n  topology:\n    controlPlane: {count: 1, class: best-effort-small, storageClass: gold}\n    workers: {count: 1, class: best-effort-small, storageClass: gold}\n";
    std::fs::write(&path, text).unwrap();
    let run = layercake(&["lint", path.to_str().unwrap()]);
    assert_eq!(run.status.code(), Some(1));
    let said = String::from_utf8_lossy(&run.stdout).into_owned() + &String::from_utf8_lossy(&run.stderr);
    says(said, &["spec.topology.workers", "nodePools", "replicas", "vmClass"]);
    let good = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/test-cluster.yaml");
    assert_eq!(layercake(&["lint", good]).status.code(), Some(0));
}

fn layercake(args: &[&str]) -> Output {
    let command = Command::new(env!("CARGO_BIN_EXE_layercake")).args(args).stdin(Stdio::null()).output();
    command.unwrap()
}
