//! Configures a control plane's API servers: files, the arguments that name the files, and the volumes that mount them into the
//! static Pod.
//!
//! To add a file, call `ApiServerSetup::add_file`. If not every cluster gets the file, upgrading gcm must not change whether a
//! cluster has it: see [`ApiServerFeatures`].

use api::capi::{
    KubeadmArgument as Argument, KubeadmConfigSpec as ConfigSpec, KubeadmConfigSpecFiles as ConfigFile,
    KubeadmConfigSpecFilesContentFrom as ContentFrom,
    KubeadmConfigSpecFilesContentFromSecret as ContentFromSecret, KubeadmControlPlane,
    KubeadmHostMount as HostMount,
};
use api::gcm::TanzuKubernetesCluster;
use api::names;

use crate::addons::api_servers::AUTHENTICATION_ARGUMENT;
use crate::cluster::node_file::NodeFile;
use crate::spec::authentication::{
    AUTHENTICATION_FOLDER, authentication_file, configuration, distributes_issuers, is_supported,
};
use crate::spec::records::{AUDIT, AUTHENTICATION, ENCRYPTED, is_noted};

/// The name of the encryption configuration: the file name on nodes, and the key in the Secret's `data`.
pub const ENCRYPTION: &str = "encryption.yaml";
/// The path of the encryption configuration on nodes.
pub const ENCRYPTION_FILE: &str = "/etc/kubernetes/api-server/encryption.yaml";
/// The folder for the API server's files, on nodes and in the static Pod.
const FOLDER: &str = "/etc/kubernetes/api-server";
const AUDIT_POLICY: &str = "audit-policy.yaml";
/// The folder for the audit log, on nodes and in the static Pod. The kubelet creates this folder.
const LOG_FOLDER: &str = "/var/log/kubernetes";
/// The maximum size of an audit log file, in MiB. Including the backups, the log takes at most 300 MiB on a node.
const AUDIT_LOG_MIB: &str = "50";
/// The number of audit log backups.
const AUDIT_LOG_BACKUPS: &str = "5";
/// The retention time of audit log backups, in days.
const AUDIT_LOG_DAYS: &str = "30";

/// The API server features that clusters from earlier gcm versions may lack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ApiServerFeatures {
    /// The API servers write an audit log.
    pub audit: bool,
    /// The API servers encrypt Secrets before etcd stores them.
    pub encryption: bool,
    /// The API servers read an authentication configuration with token issuers, if their Kubernetes version supports it.
    pub authentication: bool,
}

impl ApiServerFeatures {
    /// The value of [`api::names::annotation::API_SERVER`] for a new cluster.
    pub const OF_NEW_CLUSTER: &str = "audit,encryption,authentication";

    /// Returns a cluster's features. They are recorded on the TanzuKubernetesCluster before the cluster's objects are created,
    /// and a control plane never loses a feature. A cluster from an earlier gcm version doesn't get more features, except for
    /// `authentication` when it gets its first issuer.
    pub fn of(tkc: &TanzuKubernetesCluster, live: Option<&KubeadmControlPlane>) -> Self {
        let is_noted = |feature| is_noted(tkc, feature);
        let has = |path: &str| live.is_some_and(|live| has_file(live, path));
        Self {
            audit: is_noted(AUDIT) || has(&path(AUDIT_POLICY)),
            encryption: is_noted(ENCRYPTED) || has(ENCRYPTION_FILE),
            authentication: is_noted(AUTHENTICATION)
                || distributes_issuers(tkc)
                || has(&authentication_file()),
        }
    }
}

fn has_file(live: &KubeadmControlPlane, path: &str) -> bool {
    let files = live.spec.kubeadm_config_spec.as_ref().and_then(|config| config.files.as_deref());
    files.unwrap_or_default().iter().any(|file| file.path == path)
}

/// Returns true if the control plane's API servers read an authentication configuration.
pub fn reads_authentication(live: &KubeadmControlPlane) -> bool {
    has_file(live, &authentication_file())
}

/// The API server part of a control plane's node configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ApiServerSetup {
    arguments: Vec<Argument>,
    files: Vec<ConfigFile>,
    volumes: Vec<HostMount>,
}

/// The source of a file's content.
enum FileContent {
    /// The content itself.
    Text(String),
    /// The name of the Secret that contains the content under the file's name. Cluster API reads the Secret when it configures
    /// a node.
    Secret(String),
}

impl ApiServerSetup {
    /// Returns the setup of the API servers in the cluster `cluster`. `kubernetes` is their Kubernetes version.
    pub fn new(features: ApiServerFeatures, cluster: &str, kubernetes: &str) -> Self {
        let ApiServerFeatures { audit, encryption, authentication } = features;
        let mut setup = Self::default();
        if audit {
            let policy = include_str!("api_server/audit-policy.yaml").to_owned();
            setup.add_file("audit-policy-file", AUDIT_POLICY, FileContent::Text(policy));
            setup.add_audit_log();
        }
        if encryption {
            let content = FileContent::Secret(names::encryption_secret(cluster));
            setup.add_file("encryption-provider-config", ENCRYPTION, content);
        }
        if authentication && is_supported(kubernetes) {
            setup.add_authentication(kubernetes);
        }
        setup
    }

    /// Adds an authentication configuration without issuers. On running nodes, Pods replace the file with one that contains the
    /// issuers: if this file contained them, each change to an issuer would replace the nodes.
    fn add_authentication(&mut self, kubernetes: &str) {
        let (path, content) = (authentication_file(), configuration(&[], kubernetes));
        self.files.push(ConfigFile::from(NodeFile { path: path.clone(), permissions: "0600", content }));
        self.add_volume(AUTHENTICATION, AUTHENTICATION_FOLDER, "Directory", Some(true));
        self.add_argument(AUTHENTICATION_ARGUMENT, &path);
    }

    /// Adds a file that the API server reads, and the argument that names the file. Without the file on a node, the kubelet
    /// doesn't start the API server.
    fn add_file(&mut self, argument: &str, name: &str, content: FileContent) {
        let file_path = path(name);
        let file = NodeFile { path: file_path.clone(), permissions: "0600", content: String::new() };
        let mut file = ConfigFile::from(file);
        match content {
            FileContent::Text(text) => file.content = Some(text),
            FileContent::Secret(secret) => {
                file.content = None;
                let secret = ContentFromSecret { name: secret, key: name.to_owned() };
                file.content_from = Some(ContentFrom { secret });
            }
        }
        self.files.push(file);
        self.add_volume(&name.replace('.', "-"), &file_path, "File", Some(true));
        self.add_argument(argument, &file_path);
    }

    fn add_audit_log(&mut self) {
        self.add_volume("audit-log", LOG_FOLDER, "DirectoryOrCreate", None);
        self.add_argument("audit-log-path", &format!("{LOG_FOLDER}/audit.log"));
        self.add_argument("audit-log-maxage", AUDIT_LOG_DAYS);
        self.add_argument("audit-log-maxbackup", AUDIT_LOG_BACKUPS);
        self.add_argument("audit-log-maxsize", AUDIT_LOG_MIB);
    }

    /// Mounts a node path into the static Pod, at the same path.
    fn add_volume(&mut self, name: &str, path: &str, path_type: &str, read_only: Option<bool>) {
        self.volumes.push(HostMount {
            name: name.to_owned(),
            host_path: path.to_owned(),
            mount_path: path.to_owned(),
            path_type: Some(path_type.to_owned()),
            read_only,
        });
    }

    fn add_argument(&mut self, name: &str, value: &str) {
        self.arguments.push(Argument { name: name.to_owned(), value: value.to_owned() });
    }

    /// Adds the setup to the node configuration, unless the setup is empty.
    pub fn put_into(self, config: &mut ConfigSpec) {
        let Self { arguments, files, volumes } = self;
        if files.is_empty() {
            return;
        }
        config.files.get_or_insert_default().extend(files);
        let server = config.cluster_configuration.get_or_insert_default().api_server.get_or_insert_default();
        server.extra_args.get_or_insert_default().extend(arguments);
        server.extra_volumes.get_or_insert_default().extend(volumes);
    }
}

fn path(name: &str) -> String {
    format!("{FOLDER}/{name}")
}

#[cfg(test)]
mod tests;
