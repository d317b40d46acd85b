//! A file that a node gets before kubeadm runs.

use api::capi::{
    KubeadmConfigTemplateTemplateSpecFiles as WorkerFile,
    KubeadmControlPlaneKubeadmConfigSpecFiles as ControlPlaneFile,
};

/// Who has the files of a node.
const FILE_OWNER: &str = "root:root";

/// A file that a node gets before kubeadm runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFile {
    /// Its absolute path.
    pub path: String,
    /// Its permissions, octal.
    pub permissions: &'static str,
    /// What is in it.
    pub content: String,
}

impl From<NodeFile> for ControlPlaneFile {
    fn from(file: NodeFile) -> Self {
        let NodeFile { path, permissions, content } = file;
        Self {
            path,
            owner: Some(FILE_OWNER.to_owned()),
            permissions: Some(permissions.to_owned()),
            content: Some(content),
            ..Self::default()
        }
    }
}

impl From<NodeFile> for WorkerFile {
    fn from(file: NodeFile) -> Self {
        let NodeFile { path, permissions, content } = file;
        Self {
            path,
            owner: Some(FILE_OWNER.to_owned()),
            permissions: Some(permissions.to_owned()),
            content: Some(content),
            ..Self::default()
        }
    }
}
