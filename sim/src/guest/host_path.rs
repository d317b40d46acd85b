//! The node files that a Pod sees: its `hostPath` and `configMap` volumes, as the kubelet mounts them.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Pod, Volume};
use kube::ResourceExt;

use super::disk::Disk;
use super::failure::{Failure, Reason};
use super::kubeadm::{ClusterConfiguration, ExtraVolume};

/// Flags whose value is the path to a file that the program writes to. All other flags name files that the program reads.
const WRITTEN: [&str; 2] = ["audit-log-path", "to"];
/// A node's operating system folders. Pods see this host's folders, because a node's disk doesn't contain them.
pub(super) const OS_FOLDERS: [&str; 4] = ["/usr", "/bin", "/lib", "/lib64"];

/// A Pod's mounted volumes.
pub(super) struct HostMounts<'a> {
    pod: &'a str,
    disk: &'a Disk,
    mounts: Vec<HostMount<'a>>,
}

/// A node path and its mount point in the container.
struct HostMount<'a> {
    mount_path: &'a Path,
    host_path: Cow<'a, str>,
    read_only: bool,
}

impl<'a> HostMounts<'a> {
    /// Mounts a Pod's volumes.
    ///
    /// # Errors
    /// Returns an error if a volume can't be mounted, for example because its path doesn't match the hostPath type. A
    /// real kubelet wouldn't start the Pod.
    pub(super) fn mount(pod: &'a Pod, disk: &'a Disk) -> Result<Self, Failure> {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let spec = pod.spec.as_ref();
        let mounted = spec.and_then(|spec| spec.containers.first()?.volume_mounts.as_deref());
        let volumes = spec.and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
        let mut mounts: Vec<HostMount<'_>> = Vec::new();
        for mount in mounted.unwrap_or_default() {
            let refused = |what: String| refused(name, &format!("volume {:?}: {what}", mount.name));
            let mut same_name = volumes.iter().filter(|volume| volume.name == mount.name);
            let (Some(volume), None) = (same_name.next(), same_name.next()) else {
                return Err(refused("the Pod does not have exactly one of that name".to_owned()));
            };
            let (host_path, type_) = source(pod, volume)
                .ok_or_else(|| refused("is neither a hostPath nor a ConfigMap".to_owned()))?;
            let mount_path = Path::new(&mount.mount_path);
            if !mount_path.is_absolute() || mounts.iter().any(|other| other.mount_path == mount_path) {
                return Err(refused(format!("mountPath {:?} is relative, or not unique", mount.mount_path)));
            }
            check_type(disk, &host_path, type_).map_err(refused)?;
            let read_only = mount.read_only.unwrap_or_default() || volume.config_map.is_some();
            mounts.push(HostMount { mount_path, host_path, read_only });
        }
        Ok(Self { pod: name, disk, mounts })
    }

    /// Returns a container argument. If the argument has the form `FLAG=/PATH`, its path is translated to a path on
    /// this host. Paths outside all volumes belong to the container's filesystem, which a reboot empties.
    ///
    /// # Errors
    /// Returns an error if the program would write to a read-only volume.
    pub(super) fn on_host(&self, argument: &str) -> Result<String, Failure> {
        // A value with line breaks is a script, not a path.
        let is_path = |(_, value): &(&str, &str)| value.starts_with('/') && !value.contains('\n');
        let Some((flag, path)) = argument.split_once('=').filter(is_path) else {
            return Ok(argument.to_owned());
        };
        let name = flag.trim_start_matches('-');
        let within = |mount: &&HostMount<'_>| Path::new(path).starts_with(mount.mount_path);
        let nearest =
            self.mounts.iter().filter(within).max_by_key(|mount| mount.mount_path.as_os_str().len());
        let on_host = match nearest {
            None => self.disk.path(&format!("/run/containers/{}{path}", self.pod)),
            Some(mount) if mount.read_only && WRITTEN.contains(&name) => {
                return Err(refused(self.pod, &format!("{flag}: open {path}: read-only file system")));
            }
            Some(mount) => self.path_in(mount, path),
        };
        Ok(format!("{flag}={}", on_host.display()))
    }

    fn path_in(&self, mount: &HostMount<'_>, path: &str) -> PathBuf {
        let below = Path::new(path).strip_prefix(mount.mount_path).unwrap_or_else(|_| Path::new(""));
        let host = self.disk.path(&mount.host_path);
        // Joining an empty path would add a trailing slash, which isn't valid for files.
        if below.as_os_str().is_empty() { host } else { host.join(below) }
    }
}

/// Returns the folder on a node's disk for the files of a ConfigMap volume.
pub(super) fn config_map_folder(pod: &Pod, volume: &str) -> String {
    let uid = pod.uid().unwrap_or_default();
    format!("/var/lib/kubelet/pods/{uid}/volumes/kubernetes.io~configmap/{volume}")
}

/// Returns a volume's path on the node and its hostPath type. Returns `None` for volumes other than `hostPath` and
/// `configMap`.
fn source<'a>(pod: &Pod, volume: &'a Volume) -> Option<(Cow<'a, str>, &'a str)> {
    if volume.config_map.is_some() {
        return Some((config_map_folder(pod, &volume.name).into(), "Directory"));
    }
    let host = volume.host_path.as_ref()?;
    Some((host.path.as_str().into(), host.type_.as_deref().unwrap_or_default()))
}

/// Returns the volumes that kubeadm adds to a component by default.
pub(super) fn volumes_of_kubeadm(cluster: &ClusterConfiguration, component: &str) -> Vec<ExtraVolume> {
    let folder = cluster.certificates_dir();
    let volume = |name: &str, path: &str, path_type: &str| ExtraVolume {
        name: name.to_owned(),
        host_path: path.to_owned(),
        mount_path: path.to_owned(),
        read_only: (name != "etcd-data").then_some(true),
        path_type: path_type.to_owned(),
    };
    let certificates = || {
        let authorities = volume("ca-certs", "/etc/ssl/certs", "DirectoryOrCreate");
        vec![authorities, volume("k8s-certs", folder, "DirectoryOrCreate")]
    };
    let kubeconfig = |file: &str| volume("kubeconfig", &format!("/etc/kubernetes/{file}"), "FileOrCreate");
    match component {
        "etcd" => vec![
            volume("etcd-data", cluster.etcd_data_dir(), "DirectoryOrCreate"),
            volume("etcd-certs", &format!("{folder}/etcd"), "DirectoryOrCreate"),
        ],
        "kube-controller-manager" => {
            certificates().into_iter().chain([kubeconfig("controller-manager.conf")]).collect()
        }
        "kube-scheduler" => vec![kubeconfig("scheduler.conf")],
        _ => certificates(),
    }
}

fn refused(pod: &str, what: &str) -> Failure {
    Failure::new(Reason::StaticPod, format!("static pod {pod}: {what}"))
}

/// Checks the hostPath type and creates missing files and folders if the type allows it, as the kubelet does before it
/// mounts a path.
fn check_type(disk: &Disk, path: &str, type_: &str) -> Result<(), String> {
    if OS_FOLDERS.contains(&path) {
        return Ok(());
    }
    let host = disk.path(path);
    let failed = |what: &str| Err(format!("hostPath type check failed: {path} {what}"));
    match type_ {
        "" | "DirectoryOrCreate" if !host.exists() => {
            disk.make_folder(path).map_err(|failure| failure.to_string())
        }
        "DirectoryOrCreate" | "Directory" if !host.is_dir() => failed("is not a directory"),
        "FileOrCreate" if !host.exists() => match host.parent() {
            Some(folder) if folder.is_dir() => disk.write(path, "").map_err(|failure| failure.to_string()),
            _ => failed("has no folder"),
        },
        "FileOrCreate" | "File" if !host.is_file() => failed("is not a file"),
        "" | "DirectoryOrCreate" | "Directory" | "FileOrCreate" | "File" => Ok(()),
        other => Err(format!("hostPath of type {other:?} is none that a guest has")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::guest::sample;

    fn pod(volumes: &[(&str, &str, &str, Value)]) -> Pod {
        let named = |at: usize| format!("v{at}");
        let mounts = volumes.iter().enumerate().map(|(at, (_, mount, _, read_only))| {
            json!({"name": named(at), "mountPath": mount, "readOnly": read_only})
        });
        let sources = volumes.iter().enumerate().map(
            |(at, (host, _, type_, _))| json!({"name": named(at), "hostPath": {"path": host, "type": type_}}),
        );
        let pod = json!({
            "metadata": {"name": "kube-apiserver"},
            "spec": {
                "containers": [{"name": "kube-apiserver", "volumeMounts": mounts.collect::<Vec<_>>()}],
                "volumes": sources.collect::<Vec<_>>(),
            },
        });
        serde_json::from_value(pod).unwrap()
    }

    fn disk() -> (tempfile::TempDir, Disk) {
        let (folder, disk) = sample::disk();
        disk.write("/etc/kubernetes/api-server/policy.yaml", "x").unwrap();
        (folder, disk)
    }

    #[test]
    fn a_path_that_is_not_what_its_volume_says_keeps_the_pod_from_starting() {
        let (_folder, disk) = disk();
        for (path, type_, refused) in [
            ("/etc/kubernetes/api-server/policy.yaml", "File", None),
            ("/etc/kubernetes/api-server/other.yaml", "File", Some("is not a file")),
            ("/etc/kubernetes/api-server", "File", Some("is not a file")),
            ("/etc/kubernetes/api-server", "Directory", None),
            ("/var/log/nowhere", "Directory", Some("is not a directory")),
            ("/etc/kubernetes/api-server/policy.yaml", "DirectoryOrCreate", Some("is not a directory")),
            ("/var/log/kubernetes", "DirectoryOrCreate", None),
            ("/var/log/kubernetes", "Directory", None),
            ("/var/log/kubernetes/made", "FileOrCreate", None),
            ("/var/log/kubernetes/made", "File", None),
            ("/nowhere/made", "FileOrCreate", Some("has no folder")),
            ("/var/log/kubernetes", "", None),
            ("/var/log/kubernetes", "Socket", Some("none that a guest has")),
        ] {
            let pod = pod(&[(path, path, type_, json!(null))]);
            let found = HostMounts::mount(&pod, &disk).err().map(|failure| failure.to_string());
            match (refused, &found) {
                (None, None) => {}
                (Some(part), Some(found)) if found.contains(part) && found.contains("kube-apiserver") => {}
                _ => panic!("{path} {type_}: {found:?}"),
            }
        }
    }

    #[test]
    fn a_program_sees_the_volumes_of_its_pod_and_nothing_else() {
        let (_folder, disk) = disk();
        let pod = pod(&[
            ("/etc/kubernetes/api-server/policy.yaml", "/etc/policy.yaml", "File", json!(true)),
            ("/var/log/kubernetes", "/var/log/audit", "DirectoryOrCreate", json!(null)),
            ("/var/lib/etcd", "/var", "DirectoryOrCreate", json!(null)),
        ]);
        let mounts = HostMounts::mount(&pod, &disk).unwrap();
        let path = |guest: &str| disk.path(guest).display().to_string();
        for (argument, expected) in [
            ("--v=2", "--v=2".to_owned()),
            (
                "--audit-policy-file=/etc/policy.yaml",
                format!("--audit-policy-file={}", path("/etc/kubernetes/api-server/policy.yaml")),
            ),
            (
                "--audit-log-path=/var/log/audit/audit.log",
                format!("--audit-log-path={}", path("/var/log/kubernetes/audit.log")),
            ),
            ("--data-dir=/var/x", format!("--data-dir={}", path("/var/lib/etcd/x"))),
            (
                "--audit-policy-file=/etc/kubernetes/api-server/policy.yaml",
                format!(
                    "--audit-policy-file={}",
                    path("/run/containers/kube-apiserver/etc/kubernetes/api-server/policy.yaml")
                ),
            ),
        ] {
            assert_eq!(mounts.on_host(argument).unwrap(), expected);
        }
        let refused = mounts.on_host("--audit-log-path=/etc/policy.yaml").unwrap_err().to_string();
        assert!(refused.contains("read-only file system"), "{refused}");
        let twice = self::pod(&[("/a", "/x", "", json!(null)), ("/b", "/x", "", json!(null))]);
        assert!(HostMounts::mount(&twice, &disk).is_err(), "one would hide the other");
    }

    #[test]
    fn a_pod_reads_its_config_map_and_writes_only_where_it_may() {
        let (_folder, disk) = disk();
        let mut pod = pod(&[
            ("/etc/kubernetes/api-server", "/out", "Directory", json!(null)),
            ("/usr", "/usr", "Directory", json!(true)),
        ]);
        pod.metadata.uid = Some("u".to_owned());
        let spec = pod.spec.as_mut().unwrap();
        let volume = json!({"name": "m", "configMap": {"name": "m"}});
        spec.volumes.as_mut().unwrap().push(serde_json::from_value(volume).unwrap());
        let mount = json!({"name": "m", "mountPath": "/in"});
        let mounts = spec.containers[0].volume_mounts.as_mut().unwrap();
        mounts.push(serde_json::from_value(mount).unwrap());
        assert!(HostMounts::mount(&pod, &disk).is_err(), "the kubelet has not written it");
        let folder = config_map_folder(&pod, "m");
        disk.make_folder(&folder).unwrap();
        let mounts = HostMounts::mount(&pod, &disk).unwrap();
        let on_host = |path: &str| disk.path(path).display().to_string();
        assert_eq!(
            mounts.on_host("from=/in/a").unwrap(),
            format!("from={}", on_host(&format!("{folder}/a")))
        );
        let written = format!("to={}", on_host("/etc/kubernetes/api-server/a"));
        assert_eq!(mounts.on_host("to=/out/a").unwrap(), written);
        assert!(mounts.on_host("to=/in/a").is_err(), "a ConfigMap is read-only");
        assert_eq!(mounts.on_host("a=/in\nb").unwrap(), "a=/in\nb", "a program is no path");
    }
}
