//! Further disks of nodes: how many, and where they may be mounted.
//!
//! Clusters of before these rules keep the volumes that they have: only a group whose volumes change is asked.

use api::gcm::parts::{Topology, Volume};

use super::denial::FieldDenial;

/// Places for volumes on a node's first disk controller: of 16, the image's disk has one and the controller another.
pub const MOST_VOLUMES: usize = 14;
/// Folders of which no part can lie on a further disk: the system itself, and what lives in memory.
const SYSTEM: [&str; 13] = [
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/run", "/sbin", "/sys",
    "/usr",
];
/// Further folders that a node image brings and that an empty disk would hide.
const FILLED: [&str; 6] =
    ["/opt/cni/bin", "/root", "/tmp", "/var/lib/cloud", "/var/lib/dpkg", "/var/lib/rpm"];
/// Folders that a program wants whole: a disk for all of it, or none.
const WHOLE: [&str; 2] = ["/var/lib/containerd", "/var/lib/etcd"];
/// No system takes a longer path.
const LONGEST_PATH: usize = 255;

/// What is wrong with the volumes of those groups of nodes whose volumes are new.
pub fn denials(new: &Topology, old: Option<&Topology>) -> Vec<FieldDenial> {
    let unchanged = |now: &Option<Vec<Volume>>, before: Option<&Option<Vec<Volume>>>| before == Some(now);
    let mut denials = Vec::new();
    let control_plane = old.map(|old| &old.control_plane.volumes);
    if !unchanged(&new.control_plane.volumes, control_plane) {
        denials.extend(group_denials("spec.topology.controlPlane", new.control_plane.volumes.as_deref()));
    }
    for (at, pool) in new.node_pools.iter().enumerate() {
        let before = old.and_then(|old| old.node_pools.iter().find(|other| other.name == pool.name));
        if !unchanged(&pool.volumes, before.map(|before| &before.volumes)) {
            denials.extend(group_denials(&format!("spec.topology.nodePools[{at}]"), pool.volumes.as_deref()));
        }
    }
    denials
}

/// What is wrong with the volumes of one group of nodes.
pub fn group_denials(field: &str, volumes: Option<&[Volume]>) -> Vec<FieldDenial> {
    let volumes = volumes.unwrap_or_default();
    let mut denials = Vec::new();
    if volumes.len() > MOST_VOLUMES {
        denials.push(FieldDenial::new(
            format!("{field}.volumes"),
            format!("a node can have at most {MOST_VOLUMES} volumes, not {}", volumes.len()),
            "Remove some, or use PersistentVolumes in the cluster",
        ));
    }
    for (at, volume) in volumes.iter().enumerate() {
        if let Some((reason, remedy)) = path_reason(&volume.mount_path) {
            denials.push(FieldDenial::new(format!("{field}.volumes[{at}].mountPath"), reason, remedy));
        }
    }
    denials
}

/// Why nothing can be mounted at that path, and what to do.
fn path_reason(text: &str) -> Option<(String, &'static str)> {
    const USUAL: &str = "Use a path such as /var/lib/etcd, /var/lib/containerd or /data";
    let path = text.trim_end_matches('/');
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-');
    if text.is_empty()
        || !text.chars().all(is_plain)
        || path.contains("//")
        || path.split('/').any(|part| part == ".")
    {
        let reason = format!("{text:?} is not a mount path that works on every node image");
        return Some((reason, "Use letters, digits, '.', '_' and '-' between single slashes"));
    }
    if text.len() > LONGEST_PATH {
        return Some((format!("it has more than {LONGEST_PATH} characters"), USUAL));
    }
    if let Some(whole) = WHOLE.iter().find(|whole| path != **whole && holds(whole, path)) {
        return Some((format!("{text:?} is below {whole}, which is reserved for one program"), USUAL));
    }
    let system = SYSTEM.iter().chain(&FILLED).find(|folder| holds(path, folder) || holds(folder, path))?;
    Some((format!("{text:?} would hide {system} of the node image"), USUAL))
}

/// Whether `inner` is that folder or lies in it; everything lies in the root, whose path is empty here.
fn holds(folder: &str, inner: &str) -> bool {
    inner.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn volumes(paths: &[&str]) -> Vec<Volume> {
        let volume = |path: &&str| Volume {
            name: format!("v{}", path.len()),
            mount_path: (*path).to_owned(),
            capacity: BTreeMap::from([("storage".to_owned(), "1Gi".into())]),
            storage_class: None,
        };
        paths.iter().map(volume).collect()
    }

    #[test]
    fn a_disk_hides_nothing_of_the_node_image() {
        let refused = |path: &str| !group_denials("f", Some(&volumes(&[path]))).is_empty();
        for path in [
            "/",
            "/var",
            "/var/lib",
            "/etc",
            "/etc/kubernetes",
            "/usr/local",
            "/run/x",
            "/opt",
            "/opt/cni",
            "/tmp",
            "/var/lib/etcd/member",
        ] {
            assert!(refused(path), "{path}");
        }
        for path in ["/a b", "/a'b", "/a;b", "/a//b", "/a/./b", "/a\tb", "/ä", "/{{x}}", "/$HOME"] {
            assert!(refused(path), "{path}");
        }
        for path in [
            "/var/lib/etcd",
            "/var/lib/containerd/",
            "/var/lib/kubelet",
            "/data",
            "/opt/data",
            "/var/log",
            "/etcd",
            "/home",
        ] {
            assert!(!refused(path), "{path}");
        }
    }

    #[test]
    fn what_a_cluster_has_is_not_asked_again() {
        let many: Vec<_> = (0..15).map(|at| format!("/data/{at}")).collect();
        let many = volumes(&many.iter().map(String::as_str).collect::<Vec<_>>());
        let mut new = Topology::default();
        new.control_plane.volumes = Some(many);
        let words = denials(&new, None)[0].to_string();
        assert!(words.contains("spec.topology.controlPlane.volumes") && words.contains("14"), "{words}");
        assert!(denials(&new, Some(&new.clone())).is_empty());
        assert_eq!(denials(&new, Some(&Topology::default())).len(), 1);
    }
}
