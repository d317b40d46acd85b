//! A user creates a cluster from machines that really boot: a kernel, cloud-init, kubeadm, kubelet, containerd and
//! Pods, from the image that `layercake image build` makes. It takes ten minutes without KVM, and needs its own
//! stack.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use kube::ResourceExt;
use serde_json::{Value, json};
use support::proxied_registry::{self, ProxiedRegistry};

use crate::harness::issuer::IdentityProvider;
use crate::harness::real_site::{
    BOOTS, NAMESPACE, RealSite, RealWorkloadCluster, is_control_plane, on_real_site,
};
use crate::harness::story::{assert_contains, condition};

#[test]
#[ignore = "boots machines; .ci/run runs it"]
fn a_cluster_of_machines_that_boot_serves_pods() {
    on_real_site(async |site, release| run_steps(site, release).await);
}

#[test]
#[ignore = "boots five machines: twenty minutes where they are emulated"]
fn first_boots_that_fail_name_their_causes() {
    on_real_site(async |site, release| {
        for Broken { name, damage, .. } in BROKEN {
            let hypervisor = site.stack.site().hypervisor().unwrap();
            hypervisor.damage(&format!("{name}-control-plane-*"), damage);
            site.apply(&control_plane_alone(name, release)).await;
        }
        for Broken { name, says, .. } in BROKEN {
            let message = site
                .wait_for(&format!("{name} says why"), BOOTS, async || {
                    let cluster = site.get("TanzuKubernetesCluster", name).await?;
                    let message = condition(&cluster, "Ready")?["message"].as_str()?;
                    message.contains(" failed").then(|| message.to_owned())
                })
                .await;
            eprintln!("{message}");
            assert_contains(&message, says);
        }
    });
}

#[test]
#[ignore = "boots four machines: forty minutes where they are emulated"]
fn machines_that_boot_have_what_their_cluster_asks_for() {
    on_real_site(async |site, release| {
        let registry = ProxiedRegistry::start(site.host_address()).await.unwrap();
        site.apply(&proxied_cluster(release, &registry)).await;
        let up = || async {
            let cluster = site.get("TanzuKubernetesCluster", "real").await?;
            let nodes = cluster["status"]["nodeStatus"].as_object()?;
            let ready = |part: &str| {
                nodes.iter().filter(|(name, state)| name.contains(part) && *state == "ready").count()
            };
            (ready("control-plane") >= 2 && ready("workers") == 1).then_some(())
        };
        site.wait_for("a second control plane node and a worker are ready", BOOTS * 2, up).await;
        let guest = RealWorkloadCluster::of(site).await;
        only_tolerant_pods_run_on_the_worker(&guest).await;
        assert!(registry.connections().contains(&format!("{}:443", proxied_registry::HOST)));
        people_log_in(site, &guest, &registry).await;
        tokens_log_in(site, &guest).await;
        site.delete_all().await;
    });
}

/// The user adds an OIDC issuer to the running cluster. Each API server gets it, and its tokens are accepted.
async fn tokens_log_in(site: &RealSite, guest: &RealWorkloadCluster) {
    let issuer = IdentityProvider::start_at(site.host_address(), "kubernetes");
    let jwt = json!([{
        "issuer": {"url": issuer.url, "audiences": ["kubernetes"], "certificateAuthority": issuer.authority()},
        "claimMappings": {"username": {"claim": "sub", "prefix": "corp:"}},
    }]);
    site.patch(
        "TanzuKubernetesCluster",
        "real",
        &json!({"spec": {"settings": {"authentication": {"jwt": jwt}}}}),
    )
    .await;
    let is_had = async || {
        let cluster = site.get("TanzuKubernetesCluster", "real").await?;
        (condition(&cluster, "AuthenticationReady")?["status"] == "True").then_some(())
    };
    site.wait_for("each API server has the issuer", BOOTS, is_had).await;
    let user = guest.user_of(&issuer.log_in("kubernetes")).await;
    assert_eq!(user.as_deref(), Ok("corp:ann"));
}

/// The worker has its taint. A Pod that tolerates the taint gets its image through the proxy, from a registry with a
/// private CA.
async fn only_tolerant_pods_run_on_the_worker(guest: &RealWorkloadCluster) {
    let worker = guest.nodes().await.into_iter().find(|node| !is_control_plane(node)).unwrap();
    let taints = worker.spec.as_ref().unwrap().taints.clone().unwrap_or_default();
    let taint = taints.iter().find(|taint| taint.key == "dedicated").expect("no taint");
    assert_eq!((taint.value.as_deref(), taint.effect.as_str()), (Some("tests"), "NoSchedule"));
    let pod = |name: &str, tolerations: Value| {
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
            "spec": {"containers": [{"name": "main", "image": proxied_registry::IMAGE}], "tolerations": tolerations},
        })
    };
    let tolerant = pod("tolerant", json!([{"key": "dedicated", "operator": "Exists"}]));
    let pods = json!({"apiVersion": "v1", "kind": "List", "items": [tolerant, pod("intolerant", json!([]))]});
    guest.apply(&pods).await;
    let events = ["get", "events", "-o", "custom-columns=O:.involvedObject.name,R:.reason,M:.message"];
    let settled = |text: &str| {
        let has = |name: &str, reason: &str| {
            text.lines().any(|line| line.starts_with(name) && line.contains(reason))
        };
        has("tolerant", "Pulled") && has("intolerant", "FailedScheduling")
    };
    guest.wait_for_output("one Pod has its image, the other no node", &events, settled).await;
}

/// The SSH key opens each node, its user can become root, and shells have the proxy variables.
async fn people_log_in(site: &RealSite, guest: &RealWorkloadCluster, registry: &ProxiedRegistry) {
    let key = site.ssh_key().await;
    for node in guest.nodes().await {
        let vm = site.get("VirtualMachine", &node.name_any()).await.unwrap();
        let address = vm["status"]["vmIp"].as_str().unwrap().to_owned();
        let mut ssh = std::process::Command::new("ssh");
        ssh.arg("-i").arg(&key).args(["-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no"]);
        ssh.args(["-o", "UserKnownHostsFile=/dev/null", "-o", "ConnectTimeout=120"]);
        ssh.arg(format!("vmware-system-user@{address}"));
        ssh.arg("sudo -n id -u && bash -lc 'echo $HTTPS_PROXY'");
        let output =
            tokio::task::spawn_blocking(move || ssh.output()).await.unwrap().expect("ssh is not installed");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let expected = ["0".to_owned(), registry.proxy()];
        assert_eq!(text.lines().collect::<Vec<_>>(), expected, "{}", String::from_utf8_lossy(&output.stderr));
    }
}

fn proxied_cluster(release: &str, registry: &ProxiedRegistry) -> Value {
    let mut cluster = control_plane_alone("real", release);
    cluster["spec"]["topology"]["controlPlane"]["replicas"] = json!(3);
    cluster["spec"]["topology"]["nodePools"] = json!([{
        "name": "workers", "replicas": 1, "vmClass": "best-effort-small", "storageClass": "gold",
        "taints": [{"key": "dedicated", "value": "tests", "effect": "NoSchedule"}],
    }]);
    let authority = BASE64_STANDARD.encode(registry.authority());
    cluster["spec"]["settings"] = json!({"network": {
        "proxy": {"httpProxy": registry.proxy(), "httpsProxy": registry.proxy(), "noProxy": []},
        "trust": {"additionalTrustedCAs": [{"name": "private-registry", "data": authority}]},
    }});
    cluster
}

/// A node that is damaged before its first boot.
struct Broken {
    name: &'static str,
    /// The shell script that damages the node.
    damage: &'static str,
    /// The cause and remedy in the TanzuKubernetesCluster's `Ready` message.
    says: &'static [&'static str],
}

const BROKEN: [Broken; 5] = [
    Broken {
        name: "bad-registry",
        damage: "rm -rf /var/lib/containerd/*",
        says: &[
            "kubeadm init failed",
            "failed to pull image registry.k8s.io/",
            "Check that the registry serves this image",
        ],
    },
    Broken {
        name: "port-in-use",
        damage: "systemd-run --no-block nc -l -k 0.0.0.0 10259",
        says: &["kubeadm init failed", "Port 10259 is in use", "Use a clean node image"],
    },
    Broken {
        name: "full-disk",
        // Leaves enough space for cloud-init, but not for etcd's log. Blocks that are reserved for root count as
        // free.
        damage: "fallocate -l $(($(stat -f -c '%f * %S' /) - 50000000)) /fill; sync",
        says: &["kubeadm init failed", "no space left on device: /", "Give the node a larger disk"],
    },
    Broken {
        name: "wrong-time",
        damage: "date -s 2040-01-01",
        says: &["kubeadm init failed", "Set the clock"],
    },
    Broken {
        name: "no-module",
        damage: "rm -rf /lib/modules/*/kernel/fs/overlayfs; depmod -a; rmmod overlay",
        says: &[
            "kubeadm init failed",
            "Module overlay not found",
            "Use a node image whose kernel contains and loads the module",
        ],
    },
];

async fn run_steps(site: &RealSite, release: &str) {
    site.apply(&cluster(release)).await;
    site.wait_for("the cluster runs", BOOTS, async || {
        let cluster = site.get("TanzuKubernetesCluster", "real").await?;
        (cluster["status"]["phase"] == "running").then_some(())
    })
    .await;
    // KubeadmControlPlane connects to etcd with a port-forward, which Cluster API's proxy forwards.
    site.wait_for("etcd answers KubeadmControlPlane", BOOTS, async || {
        let plane = site.get("KubeadmControlPlane", "real-control-plane").await?;
        (condition(&plane, "EtcdClusterHealthy")?["status"] == "True").then_some(())
    })
    .await;
    let guest = RealWorkloadCluster::of(site).await;
    guest.wait_for_nodes(2).await;
    for vm in site.vms().await {
        site.assert_guestinfo(&vm).await;
    }
    guest.assert_pods_serve().await;
    guest.assert_no_warnings_and_disks().await;
    guest.assert_secrets_are_encrypted_and_logged().await;
    site.reboot_worker(&guest).await;
    site.delete_all().await;
}

/// Returns a cluster with one node.
pub fn control_plane_alone(name: &str, release: &str) -> Value {
    let control_plane = json!({
        "vmClass": "best-effort-small", "storageClass": "gold", "replicas": 1, "tkr": {"reference": {"name": release}},
    });
    json!({
        "apiVersion": "run.tanzu.vmware.com/v1alpha3", "kind": "TanzuKubernetesCluster",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"topology": {"controlPlane": control_plane, "nodePools": []}},
    })
}

fn cluster(release: &str) -> Value {
    let pool = |volume: Value| json!({"vmClass": "best-effort-small", "storageClass": "gold", "replicas": 1, "volumes": [volume]});
    let mut control_plane =
        pool(json!({"name": "etcd", "mountPath": "/var/lib/etcd", "capacity": {"storage": "4Gi"}}));
    control_plane["tkr"] = json!({"reference": {"name": release}});
    let mut workers = pool(
        json!({"name": "containerd", "mountPath": "/var/lib/containerd", "capacity": {"storage": "8Gi"}}),
    );
    workers["name"] = json!("workers");
    json!({
        "apiVersion": "run.tanzu.vmware.com/v1alpha3", "kind": "TanzuKubernetesCluster",
        "metadata": {"name": "real", "namespace": NAMESPACE},
        "spec": {"topology": {"controlPlane": control_plane, "nodePools": [workers]}},
    })
}
