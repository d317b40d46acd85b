//! Cluster API's managers connect to a hostile workload cluster through their proxies, and their memory stays small.
//!
//! Go doesn't use proxies for loopback addresses, so this stack runs in a network namespace where guests serve on the
//! addresses that they report.

use std::process::Command;

use serde_json::Value;

use crate::harness::objects::one_and_one;
use crate::harness::story::{SOON, condition, story_on_own_stack};
use crate::tenants::hostile_guest::repair_within;

/// See `sim::addresses`.
const SERVE_REPORTED: &str = "LAYERCAKE_SERVE_REPORTED";
const STORY: &str = "tenants::guest_proxy::a_hostile_guest_costs_cluster_apis_managers_little_memory";
/// A manager's memory limit in MiB. Without an attack, managers use 60 to 120 MiB.
const MEMORY_MIB: f64 = 300.0;
const CLASS: &str = "best-effort-xsmall";

#[test]
fn a_hostile_guest_costs_cluster_apis_managers_little_memory() {
    if std::env::var_os(SERVE_REPORTED).is_none() {
        return run_in_own_network();
    }
    story_on_own_stack("proxied", |bystander| async move {
        let mut tenant = bystander.clone();
        tenant.namespace = "proxied-hostile".to_owned();
        for story in [&bystander, &tenant] {
            story.prepare_namespace(CLASS).await;
        }
        tenant.apply(&one_and_one("hostile", "workers")).await;
        bystander.apply(&one_and_one("other", "workers")).await;
        tenant.wait_until_running("hostile").await;
        bystander.wait_until_running("other").await;
        // KubeadmControlPlane connects to etcd with a port-forward.
        let answers = |plane: &Value| {
            condition(plane, "EtcdClusterHealthy").is_some_and(|healthy| healthy["status"] == "True")
        };
        let plane = ("KubeadmControlPlane", "other-control-plane");
        bystander.wait_for_object("an etcd that answers", SOON, plane, answers).await;
        repair_within(&bystander, "other", &tenant, Some(MEMORY_MIB)).await;
    });
}

fn run_in_own_network() {
    let mut unshare = Command::new("unshare");
    unshare.args(["--user", "--map-root-user", "--net", "sh", "-euc"]);
    unshare.arg(
        r#"ip link set lo up; ip route add local 10.0.0.0/8 dev lo; exec "$0" --exact "$1" --nocapture"#,
    );
    unshare.arg(std::env::current_exe().unwrap()).arg(STORY).env(SERVE_REPORTED, "1");
    let run = unshare.output().unwrap();
    let (output, errors) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    if errors.starts_with("unshare: ") {
        eprintln!("skipped: network namespaces are not allowed here: {errors}");
        return;
    }
    eprintln!("{errors}");
    assert!(run.status.success() && output.contains("1 passed"), "{output}{errors}");
}
