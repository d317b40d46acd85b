//! The files of the API servers of a control plane, with the arguments that name them and the volumes through which the static
//! Pod sees them.
//!
//! A new file is a call of `ApiServerSetup::add_file`. If not every cluster gets it, whether a cluster has it must not change
//! by an upgrade of gcm: see [`ApiServerFeatures`].

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

/// The key of the encryption configuration in its Secret, and the name of its file on nodes.
pub const ENCRYPTION: &str = "encryption.yaml";
/// The path of that file.
pub const ENCRYPTION_FILE: &str = "/etc/kubernetes/api-server/encryption.yaml";
/// The folder of the files, on nodes and in the static Pod.
const FOLDER: &str = "/etc/kubernetes/api-server";
const AUDIT_POLICY: &str = "audit-policy.yaml";
/// The folder of the audit log, on nodes and in the static Pod. The kubelet creates it.
const LOG_FOLDER: &str = "/var/log/kubernetes";
/// The most MiB of one file of the audit log. With the file that is written, a node keeps 300 MiB.
const AUDIT_LOG_MIB: &str = "50";
/// The number of files that are kept besides the one that is written.
const AUDIT_LOG_BACKUPS: &str = "5";
/// The days that a file is kept.
const AUDIT_LOG_DAYS: &str = "30";

/// What the API servers of a cluster do that clusters of earlier versions do not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ApiServerFeatures {
    /// They write an audit log.
    pub audit: bool,
    /// They encrypt Secrets before etcd stores them.
    pub encryption: bool,
    /// They read a configuration of issuers, if their release can.
    pub authentication: bool,
}

impl ApiServerFeatures {
    /// The value of [`api::names::annotation::API_SERVER`] for a new cluster.
    pub const OF_NEW_CLUSTER: &str = "audit,encryption,authentication";

    /// Returns the features of a cluster. They are noted on the TanzuKubernetesCluster before anything is created for it, and a
    /// control plane that has them keeps them. A cluster of an earlier version has none, until its spec has an issuer.
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

/// Returns true if the API servers of this control plane read a configuration of issuers.
pub fn reads_authentication(live: &KubeadmControlPlane) -> bool {
    has_file(live, &authentication_file())
}

/// What the nodes of a control plane are configured with for their API servers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ApiServerSetup {
    arguments: Vec<Argument>,
    files: Vec<ConfigFile>,
    volumes: Vec<HostMount>,
}

/// Where the content of a file comes from.
enum FileContent {
    /// Here.
    Text(String),
    /// From the key of a Secret that has the file's name. Cluster API reads it when it configures a node.
    Secret(String),
}

impl ApiServerSetup {
    /// Returns the setup of this cluster's API servers, which have this version of Kubernetes.
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

    /// Adds the configuration of issuers. It has none here: another file would replace the nodes for each change of an issuer.
    fn add_authentication(&mut self, kubernetes: &str) {
        let (path, content) = (authentication_file(), configuration(&[], kubernetes));
        self.files.push(ConfigFile::from(NodeFile { path: path.clone(), permissions: "0600", content }));
        self.add_volume(AUTHENTICATION, AUTHENTICATION_FOLDER, "Directory", Some(true));
        self.add_argument(AUTHENTICATION_ARGUMENT, &path);
    }

    /// Adds a file that the API server reads, and the argument that names it. The kubelet does not start an API server whose
    /// file is missing.
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

    /// Mounts a path of the node into the static Pod, at the same path.
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

    /// Puts it into what the nodes are configured with.
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
