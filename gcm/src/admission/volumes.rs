//! Validates additional node volumes: their number, size and mount paths.
//!
//! Only groups whose volumes change are checked, so existing clusters keep volumes that predate these rules.

use api::Quantity;
use api::gcm::parts::{Topology, Volume};

use super::denial::FieldDenial;

/// The maximum number of volumes per node. The first disk controller has 16 unit numbers, of which the controller and the
/// image's disk each use one.
pub const MOST_VOLUMES: usize = 14;
/// Folders of the operating system, and in-memory file systems. A volume can't be mounted on, below or above these folders.
const SYSTEM: [&str; 13] = [
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/run", "/sbin", "/sys",
    "/usr",
];
/// Folders with content in the node image, which an empty disk would hide.
const FILLED: [&str; 6] =
    ["/opt/cni/bin", "/root", "/tmp", "/var/lib/cloud", "/var/lib/dpkg", "/var/lib/rpm"];
/// Folders that can only be mounted as a whole, because one program uses the entire folder.
const WHOLE: [&str; 2] = ["/var/lib/containerd", "/var/lib/etcd"];
/// The maximum size of a vSphere virtual disk, in bytes: 62 TiB.
const LARGEST_DISK: i128 = 62 << 40;
/// The minimum disk size in bytes. vSphere disks consist of whole MiB, so a smaller size probably lacks its unit.
const SMALLEST_DISK: i128 = 1 << 20;
/// The maximum length, in bytes, of a mount path. All operating systems accept paths of this length.
const LONGEST_PATH: usize = 255;

/// Returns the denials for node groups whose volumes changed.
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

/// Returns the denials for the volumes of the node group at the path `field`.
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
        let size = volume.capacity.get("storage").and_then(size_reason);
        denials.extend(size.map(|(reason, remedy)| {
            FieldDenial::new(format!("{field}.volumes[{at}].capacity.storage"), reason, remedy)
        }));
        if let Some((reason, remedy)) = path_reason(&volume.mount_path) {
            denials.push(FieldDenial::new(format!("{field}.volumes[{at}].mountPath"), reason, remedy));
        }
    }
    denials
}

/// Returns the reason and the remedy for an impossible disk size. Malformed and non-positive sizes are denied elsewhere.
fn size_reason(size: &Quantity) -> Option<(String, String)> {
    let bytes = size.value().ok().filter(|bytes| *bytes > 0)?;
    if bytes > LARGEST_DISK {
        let reason = format!("{size} is more than 62Ti, the largest disk of vSphere");
        return Some((reason, "Use at most 62Ti, or several volumes".to_owned()));
    }
    (bytes < SMALLEST_DISK).then(|| {
        let number = size.0.trim().trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let reason = format!("{size} is {bytes} bytes, less than the 1Mi of the smallest disk");
        (reason, format!("Write the size with its unit, such as {number}Gi"))
    })
}

/// Returns the reason and the remedy for an unusable mount path.
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

/// Returns true if `inner` is `folder` or is below it. An empty `folder` is the root and contains every path.
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
    fn a_disk_has_a_size_that_vsphere_can_make() {
        let refused = |size: &str| {
            let mut volumes = volumes(&["/data"]);
            volumes[0].capacity = BTreeMap::from([("storage".to_owned(), size.into())]);
            group_denials("f", Some(&volumes)).iter().map(ToString::to_string).collect::<String>()
        };
        for size in ["1Mi", "20Gi", "20G", "21474836480", "62Ti", "1e10"] {
            assert_eq!(refused(size), "", "{size}");
        }
        assert_eq!(
            refused("20"),
            "f.volumes[0].capacity.storage: 20 is 20 bytes, less than the 1Mi of the smallest disk. Write the size with its unit, such as 20Gi."
        );
        assert!(refused("20m").contains("20m is 1 bytes") && refused("20m").contains("such as 20Gi"));
        for size in ["100Ti", "63Ti", "1Ei", "9e18"] {
            assert!(refused(size).contains("the largest disk of vSphere"), "{size}");
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
