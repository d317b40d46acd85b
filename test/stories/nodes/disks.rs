//! A node's disks are created with the clone call, and formatted and mounted before containerd and kubeadm need them.

use std::time::Duration;

use serde_json::Value;
use sim::control::{PowerAction, SimulatedVm};
use sim::guest::Phase;

use crate::harness::story::{CLUSTER, SOON, Story, assert_contains, story};

const MANIFEST: &str = r"
apiVersion: run.tanzu.vmware.com/v1alpha3
kind: TanzuKubernetesCluster
metadata: {name: disks, namespace: NAMESPACE}
spec:
  topology:
    controlPlane:
      replicas: 1
      vmClass: best-effort-small
      storageClass: gold
      volumes:
      - {name: etcd, mountPath: /var/lib/etcd, capacity: {storage: 4Gi}}
      - {name: containerd, mountPath: /var/lib/containerd, capacity: {storage: 16Gi}, storageClass: silver}
      tkr: {reference: {name: v1.36.3---vmware.1-vkr.1}}
    nodePools:
    - name: workers
      replicas: 1
      vmClass: best-effort-small
      storageClass: gold
      volumes: [{name: containerd, mountPath: /var/lib/containerd, capacity: {storage: 30Gi}}]
";

#[test]
fn a_node_keeps_etcd_and_containerd_on_disks_of_its_own() {
    story("disks", |story| async move {
        // Invalid mount points are refused before anything is created.
        let hides = MANIFEST.replace("/var/lib/etcd", "/var/lib");
        let refused = story.try_apply(&hides).await.unwrap_err();
        assert_contains(
            &refused,
            &["spec.topology.controlPlane.volumes[0].mountPath", "would hide", "/var/lib/etcd"],
        );
        let twice = MANIFEST.replace("mountPath: /var/lib/etcd", "mountPath: /var/lib/containerd");
        let refused = story.try_apply(&twice).await.unwrap_err();
        assert_contains(&refused, &["another volume is mounted at /var/lib/containerd"]);

        story.apply(MANIFEST).await;
        story.wait_until_running("disks").await;
        let control_plane = [("/var/lib/containerd", 2, 16384), ("/var/lib/etcd", 1, 4096)];
        let worker = [("/var/lib/containerd", 1, 30720)];
        let nodes =
            [("disks-control-plane-", control_plane.as_slice()), ("disks-workers-", worker.as_slice())];
        for (prefix, expected) in nodes {
            assert_eq!(mounts(&story, prefix).await, expected, "{prefix}");
        }
        assert!(story.list("PersistentVolumeClaim").await.is_empty(), "a node's disk is nobody's claim");
        its_disks_are_in_the_clone(&story).await;

        // The disks keep their data over a power cycle, so etcd is the same cluster as before.
        let vm = vm_of(&story, "disks-control-plane-").await;
        story.shared.guests.hold(&vm.name);
        story.shared.control().power(&vm.moid, PowerAction::Reset).await.unwrap();
        let held = story.shared.guests.reached(&vm.name, |phase| *phase == Phase::Held);
        tokio::time::timeout(CLUSTER, held).await.expect("it boots again");
        story.shared.guests.release(&vm.name);
        let node =
            story.shared.guests.reached(&vm.name, |phase| matches!(phase, Phase::Node | Phase::Failed(_)));
        let node = tokio::time::timeout(CLUSTER, node).await.expect("it becomes a node again");
        assert_eq!(node.phase, Phase::Node);
        assert_eq!(mounts(&story, "disks-control-plane-").await, control_plane);
        story.wait_until_running("disks").await;

        let nodes = [vm, vm_of(&story, "disks-workers-").await];
        story.delete("TanzuKubernetesCluster", "disks", CLUSTER).await;
        let gone = async || {
            let vms = story.shared.control().vms(None, Duration::ZERO).await.unwrap().vms;
            nodes.iter().all(|gone| !vms.iter().any(|vm| vm.moid == gone.moid))
        };
        story.wait_until("the disks have gone with their VMs", SOON, gone).await;
    });
}

async fn vm_of(story: &Story, prefix: &str) -> SimulatedVm {
    let vms = story.shared.control().vms(None, Duration::ZERO).await.unwrap().vms;
    vms.into_iter().find(|vm| vm.name.starts_with(prefix)).expect("a VM")
}

/// Returns a node's mount points, with the unit numbers and sizes of their disks.
async fn mounts(story: &Story, prefix: &str) -> Vec<(&'static str, i32, i64)> {
    let vm = vm_of(story, prefix).await;
    let mounts = story.shared.guests.mounts_of(&vm).into_iter();
    let known =
        |path: String| ["/var/lib/containerd", "/var/lib/etcd"].into_iter().find(|known| *known == path);
    mounts.map(|(path, disk)| (known(path).expect("a volume"), disk.unit, disk.capacity_mib)).collect()
}

/// Checks that the clone call creates the disks, without a separate attach call.
async fn its_disks_are_in_the_clone(story: &Story) {
    let calls = story.shared.control().journal().await.expect("a journal");
    let names: Vec<_> = story.list("VirtualMachine").await.iter().map(name_of).collect();
    assert_eq!(names.len(), 2);
    for name in names {
        let own = calls.iter().filter(|call| call.object == name).map(|call| call.method.as_str());
        let methods: Vec<_> = own.collect();
        assert_eq!(methods.first(), Some(&"CloneVM_Task"), "{name}: {methods:?}");
        assert!(!methods.contains(&"AttachDisk_Task"), "{name}: {methods:?}");
    }
}

fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}
