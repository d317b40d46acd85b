//! Configures a control plane's API servers: files, the arguments that name the files, and the volumes that mount them into the
//! static Pod.
//!
//! To add a file, call `ApiServerSetup::add_file`. If some API servers of a cluster must not read the file before all have it,
//! as with encryption, only new clusters can get it.

use api::capi::{
    KubeadmArgument as Argument, KubeadmConfigSpec as ConfigSpec, KubeadmConfigSpecFiles as ConfigFile,
    KubeadmConfigSpecFilesContentFrom as ContentFrom,
    KubeadmConfigSpecFilesContentFromSecret as ContentFromSecret, KubeadmHostMount as HostMount,
};
use api::names;

use crate::cluster::node_file::NodeFile;
use crate::spec::authentication::{AUTHENTICATION_FOLDER, authentication_file, configuration, is_supported};

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
    /// Returns the setup for a cluster's API servers with this Kubernetes version.
    pub fn new(cluster: &str, kubernetes: &str) -> Self {
        let mut setup = Self::default();
        let policy = include_str!("api_server/audit-policy.yaml").to_owned();
        setup.add_file("audit-policy-file", AUDIT_POLICY, FileContent::Text(policy));
        setup.add_audit_log();
        let keys = FileContent::Secret(names::encryption_secret(cluster));
        setup.add_file("encryption-provider-config", ENCRYPTION, keys);
        if is_supported(kubernetes) {
            setup.add_authentication(kubernetes);
        }
        setup
    }

    /// Adds an authentication configuration without issuers. On running nodes, Pods replace the file with one that contains the
    /// issuers: if this file contained them, each change to an issuer would replace the nodes.
    fn add_authentication(&mut self, kubernetes: &str) {
        let (path, content) = (authentication_file(), configuration(&[], kubernetes));
        self.files.push(ConfigFile::from(NodeFile { path: path.clone(), permissions: "0600", content }));
        self.add_volume("authentication", AUTHENTICATION_FOLDER, "Directory", Some(true));
        self.add_argument("authentication-config", &path);
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

    /// Adds the setup to the node configuration.
    pub fn put_into(self, config: &mut ConfigSpec) {
        let Self { arguments, files, volumes } = self;
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
