//! Distributes a cluster's issuers to its API servers without replacing nodes: a ConfigMap in the workload cluster, and a Pod
//! on each control plane node that copies the ConfigMap to the API server's file.
//!
//! The Pod uses the kube-apiserver image, because every control plane node contains it. The image doesn't contain a shell, so
//! the Pod runs the node's shell.

use api::gcm::authentication::JwtAuthenticator;
use serde_json::{Value, json};

use super::wanted::WantedObjects;
use crate::addons::api_servers::GUEST_OBJECT;
use crate::spec::authentication::{AUTHENTICATION_FILE, AUTHENTICATION_FOLDER, configuration};

/// The script that the Pods run with the node's shell.
pub const COPY_SCRIPT: &str = include_str!("authentication/copy.sh");
/// The name of the ConfigMap and the DaemonSet, and the value of the Pods' label.
const NAME: &str = GUEST_OBJECT.1;
/// The namespace of the ConfigMap and the DaemonSet.
const NAMESPACE: &str = GUEST_OBJECT.0;
/// The node folders that the shell needs. `/usr` is mounted first, because in some images the other folders are links into it.
const PROGRAMS: [&str; 4] = ["/usr", "/bin", "/lib", "/lib64"];
/// The mount path of the ConfigMap.
const SOURCE: &str = "/issuers";
/// The mount path of the API server's configuration folder.
const TARGET: &str = "/authentication";

/// Returns the objects that make API servers accept tokens from these issuers.
///
/// `kubernetes` is the oldest version among the cluster's API servers, and `image` is the kube-apiserver image of new nodes.
pub fn wanted(issuers: &[JwtAuthenticator], kubernetes: &str, image: &str) -> WantedObjects {
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "data": {AUTHENTICATION_FILE: configuration(issuers, kubernetes)},
    });
    WantedObjects::of(vec![map, daemon_set(image)], Vec::new())
}

/// Returns the DaemonSet. Old nodes don't contain the next release's image, so a Pod stays unchanged until its node is
/// replaced.
fn daemon_set(image: &str) -> Value {
    let labels = json!({"app": NAME});
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "updateStrategy": {"type": "OnDelete"},
            "template": {"metadata": {"labels": labels}, "spec": pod(image)},
        },
    })
}

fn pod(image: &str) -> Value {
    let host =
        |name: String, path: &str| json!({"name": name, "hostPath": {"path": path, "type": "Directory"}});
    let name = |path: &str| path.trim_start_matches('/').to_owned();
    let read_only = |name: String, path: &str| json!({"name": name, "mountPath": path, "readOnly": true});
    let mut volumes: Vec<Value> = PROGRAMS.iter().map(|path| host(name(path), path)).collect();
    volumes.push(host("authentication".to_owned(), AUTHENTICATION_FOLDER));
    volumes.push(json!({"name": "issuers", "configMap": {"name": NAME}}));
    let mut mounts: Vec<Value> = PROGRAMS.iter().map(|path| read_only(name(path), path)).collect();
    mounts.push(json!({"name": "authentication", "mountPath": TARGET}));
    mounts.push(read_only("issuers".to_owned(), SOURCE));
    let arguments = [
        "-c".to_owned(),
        COPY_SCRIPT.to_owned(),
        NAME.to_owned(),
        format!("from={SOURCE}/{AUTHENTICATION_FILE}"),
        format!("to={TARGET}/{AUTHENTICATION_FILE}"),
    ];
    json!({
        "nodeSelector": {"node-role.kubernetes.io/control-plane": ""},
        "tolerations": [{"operator": "Exists"}],
        "priorityClassName": "system-node-critical",
        "hostNetwork": true,
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "terminationGracePeriodSeconds": 5,
        "containers": [{
            "name": "copy",
            "image": image,
            "imagePullPolicy": "IfNotPresent",
            "command": ["/bin/sh"],
            "args": arguments,
            "resources": {"requests": {"cpu": "5m", "memory": "8Mi"}},
            // The file belongs to root. On nodes with SELinux, only this type can write to a host folder.
            "securityContext": {
                "runAsUser": 0, "readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false,
                "capabilities": {"drop": ["ALL"]}, "seLinuxOptions": {"type": "spc_t"},
            },
            "volumeMounts": mounts,
        }],
        "volumes": volumes,
    })
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use support::wait::{in_time, poll};

    use super::*;
    use crate::testing::issuer;

    #[test]
    fn nothing_of_the_pods_comes_from_a_registry_and_little_of_the_node_is_theirs() {
        let wanted = wanted(&[], "v1.33.1", "localhost:5000/vmware.io/kube-apiserver:v1.33.1");
        assert_eq!(wanted.problems, []);
        let [map, daemon_set] = wanted.objects.manifests() else { panic!("two objects") };
        assert!(map.value()["data"]["config.yaml"].as_str().unwrap().contains("\"jwt\":[]"));
        let spec = &daemon_set.value()["spec"]["template"]["spec"];
        let container = &spec["containers"][0];
        assert_eq!(container["image"], "localhost:5000/vmware.io/kube-apiserver:v1.33.1");
        let mounts = container["volumeMounts"].as_array().unwrap();
        let writable: Vec<_> = mounts.iter().filter(|mount| mount["readOnly"] != true).collect();
        assert_eq!(writable.len(), 1);
        assert_eq!(writable[0]["mountPath"], TARGET);
        assert_eq!(spec["automountServiceAccountToken"], false);
        assert_eq!(daemon_set.value()["spec"]["updateStrategy"]["type"], "OnDelete");
    }

    #[test]
    fn another_issuer_is_another_config_map_and_the_same_pods() {
        let (none, one) = (wanted(&[], "v1.34.0", "x"), wanted(&[issuer("")], "v1.34.0", "x"));
        assert_ne!(none.objects.version(), one.objects.version());
        assert_eq!(none.objects.manifests()[1], one.objects.manifests()[1]);
    }

    /// The kubelet stops a Pod with SIGTERM, and an API server can read the file at any time.
    #[tokio::test]
    async fn the_shell_copies_what_changes_and_ends_when_it_is_asked_to() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        std::fs::write(&from, "one\n").unwrap();
        let mut shell = Command::new("/bin/sh")
            .args(["-c", COPY_SCRIPT, NAME])
            .arg(format!("from={}", from.display()))
            .arg(format!("to={}", to.display()))
            .spawn()
            .unwrap();
        let copied = async |text: &str| {
            let look =
                || async { std::fs::read_to_string(&to).is_ok_and(|found| found == text).then_some(()) };
            poll("the shell copies", Duration::from_secs(20), look).await.unwrap();
        };
        copied("one\n").await;
        std::fs::write(&from, "").unwrap();
        std::fs::write(&from, "two\n").unwrap();
        copied("two\n").await;
        let asked = Command::new("/bin/sh").args(["-c", &format!("kill -TERM {}", shell.id())]).status();
        assert!(asked.unwrap().success());
        let ended = tokio::task::spawn_blocking(move || shell.wait());
        let status =
            in_time("the shell ends", Duration::from_secs(20), ended).await.unwrap().unwrap().unwrap();
        assert_eq!(status.code(), Some(0));
    }
}
