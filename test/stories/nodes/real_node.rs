//! A cluster of machines that boot: a kernel, cloud-init, kubeadm, kubelet, containerd and pods, from the image that
//! `layercake image build` makes. It takes ten minutes where KVM does not work, and a stack of its own.

use serde_json::{Value, json};

use crate::harness::real_site::{BOOTS, Guest, NAMESPACE, RealSite, on_real_site};
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

/// A node on which something is wrong before its first boot.
struct Broken {
    /// The name of its cluster.
    name: &'static str,
    /// A shell script that makes it so.
    damage: &'static str,
    /// What its TanzuKubernetesCluster says: cause and remedy.
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
        // cloud-init has room, etcd has none for its log. The blocks that only root can have are free ones, too.
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
    let guest = Guest::of(site).await;
    guest.wait_for_nodes(2).await;
    for vm in site.vms().await {
        site.assert_guestinfo(&vm).await;
    }
    guest.assert_pods_serve().await;
    guest.assert_no_warnings_and_disks().await;
    site.reboot_worker(&guest).await;
    site.delete_all().await;
}

fn control_plane_alone(name: &str, release: &str) -> Value {
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
