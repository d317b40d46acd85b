//! A workload cluster's administrator replaces its API server to attack Cluster API's managers, which read its
//! responses.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use components::catalogue::Component;
use serde_json::json;
use support::hostile_server::{HostileAnswer, HostileServer};
use support::process;
use tokio::task::JoinHandle;

use crate::harness::story::{CLUSTER, SOON, Story};

/// Cluster API's managers that connect to workload clusters.
const MANAGERS: [&str; 3] = ["capi-core", "capi-kubeadm-bootstrap", "capi-kubeadm-control-plane"];

/// The tenant's API server sends responses that exhaust a reader's memory. Meanwhile, another namespace's cluster
/// gets a node, and Cluster API's managers stay within their memory limits.
pub async fn repair_beside_a_hostile_guest(bystander: &Story, cluster: &str, tenant: &Story) {
    repair_within(bystander, cluster, tenant, None).await;
}

/// Like [`repair_beside_a_hostile_guest`]. If `most_mib` is set, managers must also stay below this memory, and must
/// not exit.
pub async fn repair_within(bystander: &Story, cluster: &str, tenant: &Story, most_mib: Option<f64>) {
    let managers = Managers::observe(bystander).await;
    let items = "{\"metadata\":{\"name\":\"n\"}},".repeat(1000);
    let answers = [
        HostileAnswer::endless_json(
            "{\"apiVersion\":\"v1\",\"kind\":\"NodeList\",\"items\":[",
            items.as_bytes(),
        ),
        HostileAnswer::gzip(1 << 30),
        HostileAnswer::endless_headers(),
        HostileAnswer::redirect("https://127.0.0.1:1/api/v1/secrets"),
        HostileAnswer::endless_json(
            "",
            b"{\"type\":\"ADDED\",\"object\":{\"apiVersion\":\"v1\",\"kind\":\"Node\"}}\n",
        ),
    ];
    let hostile = take_api_server_over(tenant, answers.into()).await;
    tenant.wait_until("ten requests", CLUSTER, async || hostile.answered() >= 10).await;
    let began = Instant::now();
    let pools =
        json!([{"name": "workers", "replicas": 2, "vmClass": "best-effort-xsmall", "storageClass": "gold"}]);
    bystander
        .patch("TanzuKubernetesCluster", cluster, json!({"spec": {"topology": {"nodePools": pools}}}))
        .await;
    let has_two = |cluster: &serde_json::Value| cluster["status"]["totalWorkerReplicas"] == 2;
    bystander.wait_for_object("a second worker", CLUSTER, ("TanzuKubernetesCluster", cluster), has_two).await;
    bystander.wait_until_running(cluster).await;
    eprintln!("[managers] a node was added after {:?}, {} requests", began.elapsed(), hostile.answered());
    managers.check(most_mib);
}

/// The peak memory, memory limits and processes of a manager.
#[derive(Clone, Debug, Default)]
struct Used {
    peak_mib: f64,
    limits_mib: BTreeSet<u64>,
    /// More than one if the manager was restarted.
    pids: Vec<u32>,
}

/// Samples the memory of Cluster API's managers, because the peak of a process is lost when it exits.
struct Managers {
    used: Arc<Mutex<BTreeMap<&'static str, Used>>>,
    watching: JoinHandle<()>,
}

impl Managers {
    async fn observe(story: &Story) -> Self {
        let stack = story.shared.stack().await.marked().id().to_owned();
        let used = Arc::<Mutex<BTreeMap<_, _>>>::default();
        let seen = Arc::clone(&used);
        let watching = tokio::spawn(async move {
            let mut every = tokio::time::interval(Duration::from_millis(200));
            loop {
                every.tick().await;
                sample(&stack, &mut seen.lock().expect("no panic"));
            }
        });
        Self { used, watching }
    }

    fn check(self, most_mib: Option<f64>) {
        self.watching.abort();
        let used = self.used.lock().expect("no panic").clone();
        eprintln!("[managers] {used:?}");
        assert_eq!(used.len(), MANAGERS.len(), "{used:?}");
        for (name, manager) in used {
            let limit = Component::of_manifests(name).expect(name).memory.limit_mib;
            assert_eq!(manager.limits_mib, BTreeSet::from([u64::from(limit)]), "{name}");
            assert!(manager.peak_mib < most_mib.unwrap_or(f64::from(limit)), "{name}: {manager:?}");
            assert!(most_mib.is_none() || manager.pids.len() == 1, "{name}: {manager:?}");
        }
    }
}

fn sample(stack: &str, used: &mut BTreeMap<&'static str, Used>) {
    for member in plane::members::of(stack) {
        let Some(name) = MANAGERS.iter().find(|name| **name == member.name) else { continue };
        let manager = used.entry(name).or_default();
        if manager.pids.last() != Some(&member.pid) {
            manager.pids.push(member.pid);
        }
        manager.limits_mib.extend(process::data_limit(member.pid));
        manager.peak_mib = manager.peak_mib.max(process::anonymous(member.pid));
    }
}

/// Kills the API server on the tenant's only control plane node, and starts another server at its address.
pub async fn take_api_server_over(tenant: &Story, answers: Arc<[HostileAnswer]>) -> HostileServer {
    let server = ApiServer::find(tenant).await;
    let (certificate, key) = (std::fs::read(&server.certificate), std::fs::read(&server.key));
    let (certificate, key) = (certificate.expect("a certificate"), key.expect("a key"));
    let started = Instant::now();
    loop {
        assert!(started.elapsed() < SOON, "{} does not become free", server.address);
        // A restarted API server finds its address in use.
        let _ = Command::new("pkill").args(["-KILL", "-f", &server.process]).status();
        let hostile = HostileServer::start(server.address, &certificate, &key, Arc::clone(&answers)).await;
        if let Ok(hostile) = hostile {
            return hostile;
        }
    }
}

struct ApiServer {
    /// A pattern that matches only this process's command line.
    process: String,
    address: SocketAddr,
    certificate: String,
    key: String,
}

impl ApiServer {
    /// Finds the API server on the tenant's only control plane node.
    async fn find(tenant: &Story) -> Self {
        let node = tenant.vm_with("-control-plane-").await;
        let stack = tenant.shared.session.kubeconfig.parent().expect("the stack's folder").to_owned();
        let process = format!("kube-apiserver .*{}/", stack.join("guests").join(&node.moid).display());
        let found = Command::new("pgrep").args(["-a", "-f", &process]).output().expect("pgrep").stdout;
        let line = String::from_utf8(found).expect("a command line");
        let flag = |name: &str| {
            let value = line.split_whitespace().find_map(|word| word.strip_prefix(name));
            value.unwrap_or_else(|| panic!("{name} is not in: {line}")).to_owned()
        };
        let address = format!("{}:{}", flag("--bind-address="), flag("--secure-port="));
        let (certificate, key) = (flag("--tls-cert-file="), flag("--tls-private-key-file="));
        Self { address: address.parse().expect("an address"), process, certificate, key }
    }
}
