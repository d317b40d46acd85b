//! Names for a cluster's objects.
//!
//! Every suffix is a hash of the inputs, so names are deterministic: if the response to a create request is lost, the
//! retry uses the same name and can't create a second object.

use std::fmt::Write;

use sha2::{Digest, Sha256};

use super::{MAX_MACHINE_NAME, PROVIDER_ID_PREFIX};

/// The characters of a suffix. Vowels are left out so that suffixes don't form words, and characters that look alike are left
/// out, too.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// The suffix length, in characters.
const SUFFIX: usize = 5;

/// Returns a deterministic five-character hash of these parts.
pub fn hash<I>(parts: I) -> String
where
    I: IntoIterator,
    I::Item: AsRef<[u8]>,
{
    let mut sha = Sha256::new();
    for part in parts {
        let part = part.as_ref();
        sha.update((part.len() as u64).to_be_bytes());
        sha.update(part);
    }
    let digest = sha.finalize();
    digest.iter().take(SUFFIX).map(|byte| char::from(ALPHABET[usize::from(*byte) % ALPHABET.len()])).collect()
}

/// Returns bytes as lowercase hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string can't fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Joins `prefix` and `suffix` into a name of at most `max` characters.
///
/// If the prefix is too long, it is truncated and followed by a hash of the full prefix, so that different names stay
/// different.
pub fn joined(prefix: &str, suffix: &str, max: usize) -> String {
    if prefix.len() + suffix.len() <= max {
        return format!("{prefix}{suffix}");
    }
    let room = max.saturating_sub(suffix.len() + SUFFIX + 1);
    let kept = prefix.get(..room).unwrap_or_default().trim_end_matches(['-', '.']);
    format!("{kept}-{}{suffix}", hash([prefix]))
}

/// The length of `-xxxxx`, the suffix that Cluster API appends to a KubeadmControlPlane's name to form machine names.
const MACHINE_SUFFIX: usize = SUFFIX + 1;

/// Returns the name for a cluster's KubeadmControlPlane and its control plane MachineHealthCheck.
pub fn control_plane(cluster: &str) -> String {
    joined(cluster, "-control-plane", MAX_MACHINE_NAME - MACHINE_SUFFIX)
}

/// Returns the name for a control plane's WCPMachineTemplate. Different content gives a different name.
pub fn control_plane_template(cluster: &str, content: &str) -> String {
    joined(&control_plane(cluster), &format!("-{}", hash([cluster, content])), MAX_MACHINE_NAME)
}

/// Returns the name for a node pool's MachineDeployment. It leaves room for the two suffixes in machine names.
pub fn machine_deployment(namespace: &str, cluster: &str, pool: &str) -> String {
    let suffix = format!("-{}", hash([namespace, cluster, pool]));
    joined(&format!("{cluster}-{pool}"), &suffix, MAX_MACHINE_NAME - 2 * MACHINE_SUFFIX)
}

/// Returns the name for a node pool's WCPMachineTemplate and KubeadmConfigTemplate. Different content gives a different name.
/// Pool `b-c` in cluster `a` and pool `c` in cluster `a-b` never share a template.
pub fn pool_template(cluster: &str, pool: &str, content: &str) -> String {
    joined(&format!("{cluster}-{pool}"), &format!("-{}", hash([cluster, pool, content])), MAX_MACHINE_NAME)
}

/// Returns the name for the ProviderServiceAccount of the cloud provider in the workload cluster.
pub fn cloud_provider_account(cluster: &str) -> String {
    joined(cluster, "-ccm", MAX_MACHINE_NAME)
}

/// Returns the name for the ProviderServiceAccount of the storage driver in the workload cluster.
pub fn storage_driver_account(cluster: &str) -> String {
    joined(cluster, "-pvcsi", MAX_MACHINE_NAME)
}

/// Returns the name for the Secret with a ProviderServiceAccount's token.
pub fn account_token_secret(account: &str) -> String {
    format!("{account}-secret")
}

/// The type of the Secrets that Cluster API creates. A Secret's type is immutable, and admission lets only Cluster API's
/// controllers and administrators create Secrets with this type.
pub const CLUSTER_API_SECRET_TYPE: &str = "cluster.x-k8s.io/secret";

/// Name suffixes for the Secrets that Cluster API reads for a cluster.
pub const CLUSTER_API_SECRETS: [&str; 6] =
    ["ca", "etcd", "proxy", "sa", "kubeconfig", "apiserver-etcd-client"];

/// Returns the name that Cluster API gives to the workload cluster's kubeconfig Secret.
pub fn kubeconfig_secret(cluster: &str) -> String {
    format!("{cluster}-kubeconfig")
}

/// Returns the name for the Secret with the SSH key for a cluster's nodes.
pub fn ssh_secret(cluster: &str) -> String {
    format!("{cluster}-ssh")
}

/// Returns the name for the Secret with the password of the user on a cluster's nodes.
pub fn ssh_password_secret(cluster: &str) -> String {
    format!("{cluster}-ssh-password")
}

/// Returns the name for the Secret with the hashed password of the user on a cluster's nodes. Nodes get only the hash.
pub fn ssh_password_hash_secret(cluster: &str) -> String {
    format!("{cluster}-ssh-password-hashed")
}

/// Returns the name for the Secret with the keys that a cluster's API servers use to encrypt Secrets.
pub fn encryption_secret(cluster: &str) -> String {
    format!("{cluster}-encryption")
}

/// Returns the name for the cluster's VirtualMachineSetResourcePolicy. The cluster's folder and resource pool have the same name.
pub fn resource_policy(cluster: &str) -> String {
    cluster.to_owned()
}

/// Returns the name for the cluster module for worker VMs.
pub fn worker_group(cluster: &str) -> String {
    format!("{cluster}-workers-0")
}

/// Returns the name for the cluster's VirtualNetwork.
pub fn virtual_network(cluster: &str) -> String {
    joined(cluster, "-vnet", MAX_MACHINE_NAME)
}

/// Returns the name for the VirtualMachineService in front of a cluster's API servers.
pub fn control_plane_service(cluster: &str) -> String {
    joined(cluster, "-control-plane-service", MAX_MACHINE_NAME)
}

/// Returns the name for the IPAddressClaim for a cluster's control plane address.
pub fn control_plane_address(cluster: &str) -> String {
    joined(cluster, "-control-plane-address", MAX_MACHINE_NAME)
}

/// Returns the name for the next IPAddressClaim after `earlier` claims whose addresses other machines use.
pub fn control_plane_address_after(cluster: &str, earlier: usize) -> String {
    match earlier {
        0 => control_plane_address(cluster),
        earlier => joined(cluster, &format!("-control-plane-address-{earlier}"), MAX_MACHINE_NAME),
    }
}

/// Returns the name for the Secret with a node's cloud-init data.
pub fn cloud_init_secret(wcp_machine: &str) -> String {
    format!("{wcp_machine}-cloud-init")
}

/// Returns the name for the TanzuKubernetesRelease with this version. The name starts with `v` and has `---` in place of `+`.
pub fn release_name(version: &str) -> String {
    let version = version.trim().replacen('+', "---", 1);
    if version.starts_with('v') { version } else { format!("v{version}") }
}

/// Returns the version in a TanzuKubernetesRelease name.
pub fn release_version(name: &str) -> String {
    name.replacen("---", "+", 1)
}

/// Returns the providerID of the virtual machine with this BIOS UUID.
pub fn provider_id(uuid: &str) -> String {
    format!("{PROVIDER_ID_PREFIX}{uuid}")
}

/// Returns the BIOS UUID in a providerID, or `None` if the prefix isn't `vsphere://`.
pub fn uuid_of(provider_id: &str) -> Option<&str> {
    provider_id.strip_prefix(PROVIDER_ID_PREFIX).filter(|uuid| !uuid.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_of_the_test_cluster() {
        let names = [
            control_plane("test-cluster"),
            control_plane_template("test-cluster", "a"),
            machine_deployment("ben-test", "test-cluster", "workers"),
            pool_template("test-cluster", "workers", "a"),
            virtual_network("test-cluster"),
            control_plane_service("test-cluster"),
            control_plane_address("test-cluster"),
            worker_group("test-cluster"),
            cloud_init_secret("test-cluster-workers-hktqw-v6wss"),
        ];
        insta::assert_snapshot!(names.join("\n"));
    }

    #[test]
    fn parts_do_not_run_into_each_other() {
        assert_ne!(hash(["ab", "c"]), hash(["a", "bc"]));
        assert_ne!(machine_deployment("n", "a", "b-c"), machine_deployment("n", "a-b", "c"));
        assert_ne!(pool_template("a", "b-c", "same"), pool_template("a-b", "c", "same"));
        assert_ne!(pool_template("a", "b-control-plane", "same"), control_plane_template("a-b", "same"));
    }

    #[test]
    fn uuids_come_back_out_of_provider_ids() {
        assert_eq!(uuid_of(&provider_id("423697d9")), Some("423697d9"));
        assert_eq!(uuid_of("aws:///i-1"), None);
        assert_eq!(uuid_of("vsphere://"), None);
    }

    proptest! {
        #[test]
        fn no_name_is_too_long(cluster in "[a-z][a-z0-9-]{0,80}[a-z0-9]", pool in "[a-z][a-z0-9-]{0,80}[a-z0-9]") {
            let machines = machine_deployment("ns", &cluster, &pool).len() + 2 * MACHINE_SUFFIX;
            prop_assert!(machines <= MAX_MACHINE_NAME);
            prop_assert!(control_plane(&cluster).len() + MACHINE_SUFFIX <= MAX_MACHINE_NAME);
            prop_assert!(control_plane_service(&cluster).len() <= MAX_MACHINE_NAME);
            prop_assert!(pool_template(&cluster, &pool, "x").len() <= MAX_MACHINE_NAME);
        }

        #[test]
        fn long_names_that_differ_stay_different(tail in "[a-z0-9]{1,9}", other in "[a-z0-9]{1,9}") {
            prop_assume!(tail != other);
            let long = "a".repeat(70);
            prop_assert_ne!(control_plane(&format!("{long}{tail}")), control_plane(&format!("{long}{other}")));
        }
    }
}
