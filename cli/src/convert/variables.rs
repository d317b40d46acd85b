//! The variables in Tanzu Kubernetes Grid cluster configuration files, each with its destination. This module doesn't
//! perform I/O.
//!
//! The names come from tanzu-framework and from files that users have published.

use std::collections::BTreeMap;

use self::VariableDestination::{Elsewhere, Field, LeftOut};

/// The variables in a file. A variable without a value maps to an empty string.
pub type Variables = BTreeMap<String, String>;

/// The destination of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariableDestination {
    /// A field in the manifest.
    Field(&'static str),
    /// The object or program that contains this setting.
    Elsewhere(&'static str),
    /// The variable isn't converted, for this reason.
    LeftOut(&'static str),
}

/// The annotation for the node image query.
pub const OS_IMAGE: &str = "metadata.annotations[run.tanzu.vmware.com/resolve-os-image]";
/// The list of trusted CAs.
pub const TRUST: &str = "spec.settings.network.trust.additionalTrustedCAs";

const VM_CLASS: VariableDestination = Elsewhere("the VirtualMachineClass of the nodes");
const ROOT_DISK: VariableDestination =
    LeftOut("the root disk has the size of the node image; add volumes to the group of nodes for more");
const CREDENTIALS: VariableDestination =
    Elsewhere("the Secret of vCenter's credentials, which the site file names");
const POOL_PER_ZONE: VariableDestination =
    LeftOut("the manifest has one node pool; add a pool with failureDomain for each vSphere zone");
const HEALTH_CHECKS: VariableDestination = LeftOut("unhealthy nodes of all clusters are replaced");
const REGISTRY: VariableDestination = LeftOut(
    "images have the names that the release and the add-ons give them; build or import node images that contain them",
);
const VERIFIED: VariableDestination =
    LeftOut("certificates of registries are always verified; trust their authority");
const NO_AUTOSCALER: VariableDestination = LeftOut(
    "Layercake installs no autoscaler; to run your own, delete replicas of the pool and set the two bounds as annotations",
);
const LOGIN: VariableDestination = LeftOut("add the issuer to spec.settings.authentication.jwt");
const NO_LDAP: VariableDestination =
    LeftOut("clusters do not read LDAP; add an OpenID Connect issuer to spec.settings.authentication.jwt");
const CERTIFICATES: VariableDestination =
    LeftOut("control plane nodes are replaced 90 days before their certificates expire");
const NO_ARGUMENTS: VariableDestination = LeftOut("no field sets arguments of Kubernetes programs");
const POD_SECURITY: VariableDestination =
    LeftOut("label the namespaces of the cluster with a Pod Security Standard");
const LOAD_BALANCER: VariableDestination =
    LeftOut("Services of type LoadBalancer use the load balancer of the management cluster");
const NSX: VariableDestination = Elsewhere("the network provider of the management cluster");
const ANTREA: VariableDestination =
    LeftOut("set it in the manifests of Antrea, which are in the node image or in a bundle");
const DNS: VariableDestination = Elsewhere("DHCP, or the network provider of the management cluster");
const ADDRESS_POOL: VariableDestination = Elsewhere("the pool of control plane addresses in the site file");
const NOT_NEEDED: VariableDestination = LeftOut("only the tanzu command line reads it");
const NOT_VSPHERE: VariableDestination = LeftOut("clusters run on vSphere only");
const NO_WINDOWS: VariableDestination = LeftOut("node pools with Windows are not supported");

/// All variables, each with its destination. A trailing `*` matches any suffix. The longest matching name applies.
pub const VARIABLES: &[(&str, VariableDestination)] = &[
    // The cluster.
    ("CLUSTER_NAME", Field("metadata.name")),
    ("NAMESPACE", Field("metadata.namespace")),
    ("CLUSTER_PLAN", Field("the numbers of nodes in spec.topology")),
    ("CONTROL_PLANE_MACHINE_COUNT", Field("spec.topology.controlPlane.replicas")),
    ("WORKER_MACHINE_COUNT", Field("spec.topology.nodePools[0].replicas")),
    ("WORKER_MACHINE_COUNT_*", POOL_PER_ZONE),
    ("KUBERNETES_RELEASE", Field("spec.topology.controlPlane.tkr.reference.name")),
    ("KUBERNETES_VERSION", Field("spec.topology.controlPlane.tkr.reference.name")),
    ("CONTROL_PLANE_VM_CLASS", Field("spec.topology.controlPlane.vmClass")),
    ("WORKER_VM_CLASS", Field("spec.topology.nodePools[0].vmClass")),
    ("CONTROL_PLANE_STORAGE_CLASS", Field("spec.topology.controlPlane.storageClass")),
    ("WORKER_STORAGE_CLASS", Field("spec.topology.nodePools[0].storageClass")),
    ("NODE_POOL_0_NAME", Field("spec.topology.nodePools[0].name")),
    ("NODE_POOL_0_LABELS", Field("spec.topology.nodePools[0].labels")),
    ("NODE_POOL_0_TAINTS", Field("spec.topology.nodePools[0].taints")),
    ("CONTROL_PLANE_NODE_LABELS", LeftOut("control plane nodes have no labels of their own")),
    ("OS_NAME", Field(OS_IMAGE)),
    ("OS_VERSION", Field(OS_IMAGE)),
    ("OS_ARCH", Field(OS_IMAGE)),
    ("IS_WINDOWS_WORKLOAD_CLUSTER", NO_WINDOWS),
    ("CLUSTER_LABELS", LeftOut("set metadata.labels in the manifest")),
    ("CLUSTER_ANNOTATIONS", LeftOut("set metadata.annotations in the manifest")),
    // Networks.
    ("CNI", Field("spec.settings.network.cni.name")),
    ("CLUSTER_CIDR", Field("spec.settings.network.pods.cidrBlocks")),
    ("SERVICE_CIDR", Field("spec.settings.network.services.cidrBlocks")),
    ("SERVICE_DOMAIN", Field("spec.settings.network.serviceDomain")),
    ("TKG_IP_FAMILY", LeftOut("the ranges of Pods and Services decide")),
    ("TKG_HTTP_PROXY", Field("spec.settings.network.proxy.httpProxy")),
    ("TKG_HTTPS_PROXY", Field("spec.settings.network.proxy.httpsProxy")),
    ("TKG_NO_PROXY", Field("spec.settings.network.proxy.noProxy")),
    ("TKG_HTTP_PROXY_ENABLED", LeftOut("it decides whether the manifest has spec.settings.network.proxy")),
    ("TKG_NODE_SYSTEM_WIDE_PROXY", LeftOut("login shells, containerd and the kubelet use the proxy")),
    ("TKG_PROXY_CA_CERT", Field(TRUST)),
    ("TKG_CUSTOM_IMAGE_REPOSITORY", REGISTRY),
    ("TKG_CUSTOM_IMAGE_REPOSITORY_CA_CERTIFICATE", Field(TRUST)),
    ("TKG_CUSTOM_IMAGE_REPOSITORY_SKIP_TLS_VERIFY", VERIFIED),
    ("ADDITIONAL_IMAGE_REGISTRY_*", LeftOut("Pods name their registries; no field lists registries")),
    ("ADDITIONAL_IMAGE_REGISTRY_1_CA_CERTIFICATE", Field(TRUST)),
    ("ADDITIONAL_IMAGE_REGISTRY_2_CA_CERTIFICATE", Field(TRUST)),
    ("ADDITIONAL_IMAGE_REGISTRY_3_CA_CERTIFICATE", Field(TRUST)),
    ("ADDITIONAL_IMAGE_REGISTRY_1_SKIP_TLS_VERIFY", VERIFIED),
    ("ADDITIONAL_IMAGE_REGISTRY_2_SKIP_TLS_VERIFY", VERIFIED),
    ("ADDITIONAL_IMAGE_REGISTRY_3_SKIP_TLS_VERIFY", VERIFIED),
    ("CLUSTER_API_SERVER_PORT", LeftOut("API servers listen on port 6443")),
    ("VIP_NETWORK_INTERFACE", LeftOut("nodes find the interface of the control plane's address")),
    ("CONTROL_PLANE_NODE_NAMESERVERS", DNS),
    ("WORKER_NODE_NAMESERVERS", DNS),
    ("CONTROL_PLANE_NODE_SEARCH_DOMAINS", DNS),
    ("WORKER_NODE_SEARCH_DOMAINS", DNS),
    ("NODE_IPAM_*", DNS),
    ("NTP_SERVERS", Elsewhere("DHCP, or the node image")),
    ("CORE_DNS_IP", LeftOut("it follows from the range of Services")),
    ("ANTREA_*", ANTREA),
    ("AVI_*", LOAD_BALANCER),
    ("AVI_CONTROL_PLANE_HA_PROVIDER", Elsewhere("the flag --virtual-ip of gcm")),
    ("KUBEVIP_LOADBALANCER_*", LOAD_BALANCER),
    ("NSXT_*", NSX),
    ("NSXT_POD_ROUTING_ENABLED", LeftOut("set spec.settings.network.cni.name to antrea-nsx-routed")),
    // Storage.
    ("DEFAULT_STORAGE_CLASS", Field("spec.settings.storage.defaultClass")),
    ("STORAGE_CLASSES", Field("spec.settings.storage.classes")),
    ("ENABLE_DEFAULT_STORAGE_CLASS", LeftOut("set spec.settings.storage.defaultClass")),
    ("NETPERMISSIONS_BASE64", LeftOut("no storage driver is installed; configure it in its bundle")),
    // Health, login and add-ons.
    ("ENABLE_MHC", HEALTH_CHECKS),
    ("ENABLE_MHC_CONTROL_PLANE", HEALTH_CHECKS),
    ("ENABLE_MHC_WORKER_NODE", HEALTH_CHECKS),
    ("MHC_UNKNOWN_STATUS_TIMEOUT", Elsewhere("the flag --node-silent-timeout of gcm, for all clusters")),
    ("MHC_FALSE_STATUS_TIMEOUT", Elsewhere("the flag --node-not-ready-timeout of gcm, for all clusters")),
    ("MHC_MAX_UNHEALTHY_CONTROL_PLANE", Elsewhere("the flag --max-unhealthy of gcm, for all clusters")),
    ("MHC_MAX_UNHEALTHY_WORKER_NODE", Elsewhere("the flag --max-unhealthy of gcm, for all clusters")),
    ("NODE_STARTUP_TIMEOUT", Elsewhere("the flag --node-startup-timeout of gcm, for all clusters")),
    ("ENABLE_AUDIT_LOGGING", LeftOut("API servers of all clusters write an audit log")),
    ("ENABLE_AUTOSCALER", NO_AUTOSCALER),
    ("AUTOSCALER_*", NO_AUTOSCALER),
    ("IDENTITY_MANAGEMENT_TYPE", LOGIN),
    ("ENABLE_OIDC", LOGIN),
    ("OIDC_*", LOGIN),
    ("SUPERVISOR_ISSUER_URL", LOGIN),
    ("SUPERVISOR_ISSUER_CA_BUNDLE_DATA_B64", LOGIN),
    ("CERT_DURATION", LOGIN),
    ("CERT_RENEW_BEFORE", LOGIN),
    ("LDAP_*", NO_LDAP),
    ("CONTROLPLANE_CERTIFICATE_ROTATION_*", CERTIFICATES),
    ("POD_SECURITY_STANDARD_*", POD_SECURITY),
    ("SECRETGEN_CONTROLLER_ENABLE", LeftOut("secretgen-controller is not installed")),
    ("APISERVER_EXTRA_ARGS", NO_ARGUMENTS),
    ("APISERVER_EVENT_RATE_LIMIT_CONF_BASE64", NO_ARGUMENTS),
    ("ETCD_EXTRA_ARGS", NO_ARGUMENTS),
    ("KUBE_SCHEDULER_EXTRA_ARGS", NO_ARGUMENTS),
    ("KUBE_CONTROLLER_MANAGER_EXTRA_ARGS", NO_ARGUMENTS),
    ("CONTROLPLANE_KUBELET_EXTRA_ARGS", NO_ARGUMENTS),
    ("WORKER_KUBELET_EXTRA_ARGS", NO_ARGUMENTS),
    ("WORKER_ROLLOUT_STRATEGY", LeftOut("a new node is ready before an old one is deleted")),
    ("CUSTOM_TDNF_REPOSITORY_CERTIFICATE", LeftOut("node images contain all their packages")),
    // vSphere.
    ("SIZE", VM_CLASS),
    ("CONTROLPLANE_SIZE", VM_CLASS),
    ("WORKER_SIZE", VM_CLASS),
    ("VSPHERE_NUM_CPUS", VM_CLASS),
    ("VSPHERE_MEM_MIB", VM_CLASS),
    ("VSPHERE_DISK_GIB", ROOT_DISK),
    ("VSPHERE_CONTROL_PLANE_NUM_CPUS", VM_CLASS),
    ("VSPHERE_CONTROL_PLANE_MEM_MIB", VM_CLASS),
    ("VSPHERE_CONTROL_PLANE_DISK_GIB", ROOT_DISK),
    ("VSPHERE_WORKER_NUM_CPUS", VM_CLASS),
    ("VSPHERE_WORKER_MEM_MIB", VM_CLASS),
    ("VSPHERE_WORKER_DISK_GIB", ROOT_DISK),
    ("VSPHERE_CONTROL_PLANE_PCI_DEVICES", VM_CLASS),
    ("VSPHERE_WORKER_PCI_DEVICES", VM_CLASS),
    ("VSPHERE_IGNORE_PCI_DEVICES_ALLOW_LIST", LeftOut("no list of devices is checked")),
    ("VSPHERE_CONTROL_PLANE_CUSTOM_VMX_KEYS", VM_CLASS),
    ("VSPHERE_WORKER_CUSTOM_VMX_KEYS", VM_CLASS),
    ("VSPHERE_CONTROL_PLANE_HARDWARE_VERSION", VM_CLASS),
    ("VSPHERE_WORKER_HARDWARE_VERSION", VM_CLASS),
    ("VSPHERE_SERVER", Elsewhere("VcPNID in the site file")),
    ("VSPHERE_TLS_THUMBPRINT", Elsewhere("Thumbprint in the site file, as SHA-256")),
    ("VSPHERE_INSECURE", LeftOut("vCenter's certificate is always verified")),
    ("VSPHERE_USERNAME", CREDENTIALS),
    ("VSPHERE_PASSWORD", CREDENTIALS),
    ("VSPHERE_DATACENTER", Elsewhere("Datacenter in the site file")),
    ("VSPHERE_DATASTORE", Elsewhere("Datastore in the site file, and the StorageClass of the nodes")),
    ("VSPHERE_STORAGE_POLICY_ID", Elsewhere("the StorageClass of the nodes")),
    ("VSPHERE_NETWORK", Elsewhere("Network in the site file")),
    ("VSPHERE_RESOURCE_POOL", Elsewhere("the annotation vmware-system-resource-pool of the namespace")),
    ("VSPHERE_FOLDER", Elsewhere("the annotation vmware-system-vm-folder of the namespace")),
    ("VSPHERE_TEMPLATE", Elsewhere("the content library of the site file; the release selects the image")),
    (
        "VSPHERE_TEMPLATE_MOID",
        Elsewhere("the content library of the site file; the release selects the image"),
    ),
    ("VSPHERE_WINDOWS_TEMPLATE", NO_WINDOWS),
    ("VSPHERE_CONTROL_PLANE_ENDPOINT", ADDRESS_POOL),
    ("VSPHERE_CONTROL_PLANE_ENDPOINT_PORT", LeftOut("API servers listen on port 6443")),
    ("VSPHERE_ADDITIONAL_FQDN", LeftOut("no field adds names to the certificate of the API server")),
    ("VSPHERE_SSH_AUTHORIZED_KEY", Elsewhere("the Secret CLUSTER-ssh, key ssh-publickey")),
    ("VSPHERE_CLONE_MODE", LeftOut("the VM operator decides how it clones")),
    ("VSPHERE_MTU", Elsewhere("the port group, and the node image")),
    ("VSPHERE_REGION", POOL_PER_ZONE),
    ("VSPHERE_ZONE", POOL_PER_ZONE),
    ("VSPHERE_AZ_*", POOL_PER_ZONE),
    ("USE_TOPOLOGY_CATEGORIES", POOL_PER_ZONE),
    ("VSPHERE_VERSION", LeftOut("vCenter reports its version")),
    // The tanzu command line, and other providers.
    ("INFRASTRUCTURE_PROVIDER", NOT_VSPHERE),
    ("PROVIDER_TYPE", NOT_NEEDED),
    ("CLUSTER_CLASS", LeftOut("a TanzuKubernetesCluster uses no ClusterClass")),
    ("VSPHERE_CLUSTER_CLASS_VERSION", LeftOut("a TanzuKubernetesCluster uses no ClusterClass")),
    ("ALLOW_LEGACY_CLUSTER", NOT_NEEDED),
    ("ENABLE_CEIP_PARTICIPATION", LeftOut("Layercake sends no usage data")),
    ("DEPLOY_TKG_ON_VSPHERE7", NOT_NEEDED),
    ("ENABLE_TKGS_ON_VSPHERE7", NOT_NEEDED),
    ("BUILD_EDITION", NOT_NEEDED),
    ("FEATURE_FLAG_PACKAGE_BASED_CC", NOT_NEEDED),
    ("TKG_CLUSTER_ROLE", NOT_NEEDED),
    ("TKG_DEFAULT_BOM", NOT_NEEDED),
    ("TKG_VERSION", NOT_NEEDED),
    ("TKR_DATA", NOT_NEEDED),
    ("TKR_DISCOVER_FREQUENCY", NOT_NEEDED),
    ("DISABLE_TMC_CLOUD_PERMISSIONS", NOT_VSPHERE),
    ("BASTION_HOST_ENABLED", NOT_VSPHERE),
    ("CONTROL_PLANE_MACHINE_TYPE", NOT_VSPHERE),
    ("NODE_MACHINE_TYPE", NOT_VSPHERE),
    ("NODE_MACHINE_TYPE_*", NOT_VSPHERE),
    ("AWS_*", NOT_VSPHERE),
    ("AZURE_*", NOT_VSPHERE),
    ("DOCKER_*", NOT_VSPHERE),
    ("OCI_*", NOT_VSPHERE),
];

/// Returns the destination of a variable, or `None` if the variable is unknown.
pub fn destination(name: &str) -> Option<VariableDestination> {
    let fits = |pattern: &str| match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == pattern,
    };
    let known = VARIABLES.iter().filter(|(pattern, _)| fits(pattern));
    known.max_by_key(|(pattern, _)| pattern.trim_end_matches('*').len()).map(|(_, destination)| *destination)
}

/// The replacement for a secret value.
pub const SECRET: &str = "<secret>";

/// Returns true if the variable's name implies a secret value.
fn is_secret(name: &str) -> bool {
    ["PASSWORD", "_SECRET", "_TOKEN", "_KEY"].iter().any(|ending| name.ends_with(ending))
}

/// Returns the value, or [`SECRET`] if the variable's name implies a secret and the value isn't blank, or if the tanzu
/// command line has encoded the value.
pub fn redact(name: &str, value: String) -> String {
    let is_encoded = value.trim_start().starts_with("<encoded:");
    if is_encoded || (is_secret(name) && !value.trim().is_empty()) { SECRET.to_owned() } else { value }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_name_is_listed_once() {
        let names: BTreeSet<_> = VARIABLES.iter().map(|(name, _)| *name).collect();
        assert_eq!(names.len(), VARIABLES.len());
        let fits = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
        for name in names {
            assert!(name.strip_suffix('*').unwrap_or(name).chars().all(fits), "{name}");
        }
    }

    #[test]
    fn the_longest_name_decides() {
        assert_eq!(destination("AVI_ENABLE"), Some(LOAD_BALANCER));
        assert_ne!(destination("AVI_CONTROL_PLANE_HA_PROVIDER"), Some(LOAD_BALANCER));
        assert_eq!(destination("ADDITIONAL_IMAGE_REGISTRY_2_CA_CERTIFICATE"), Some(Field(TRUST)));
        assert!(matches!(destination("ADDITIONAL_IMAGE_REGISTRY_2"), Some(LeftOut(_))));
        assert_eq!(destination("WORKER_MACHINE_COUNT_1"), Some(POOL_PER_ZONE));
        for unknown in ["", "MY_VARIABLE", "CLUSTER_NAMES", "cluster_name", "AVI"] {
            assert_eq!(destination(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn secrets_are_redacted() {
        for (name, value, redacted) in [
            ("VSPHERE_PASSWORD", "one", SECRET),
            ("AVI_PASSWORD", "", ""),
            ("NSXT_VMC_ACCESS_TOKEN", "one", SECRET),
            ("OIDC_IDENTITY_PROVIDER_CLIENT_SECRET", "one", SECRET),
            ("VSPHERE_SSH_AUTHORIZED_KEY", "one", SECRET),
            ("VSPHERE_USERNAME", "<encoded:b25l>", SECRET),
            ("TKG_HTTP_PROXY", "http://user:one@proxy:3128", "http://user:one@proxy:3128"),
        ] {
            assert_eq!(redact(name, value.to_owned()), redacted, "{name}");
        }
    }

    #[test]
    fn no_secret_becomes_a_field() {
        for (name, destination) in VARIABLES {
            assert!(!(is_secret(name) && matches!(destination, Field(_))), "{name}");
        }
    }
}
