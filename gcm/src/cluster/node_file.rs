//! Files that are written to a node before kubeadm runs.

use std::fmt;

use api::capi::KubeadmConfigSpecFiles as ConfigFile;

/// The owner and group of a node's files.
const FILE_OWNER: &str = "root:root";

/// A file that is written to a node before kubeadm runs. `Debug` omits the content, which can contain a proxy password.
#[derive(Clone, PartialEq, Eq)]
pub struct NodeFile {
    /// The absolute path.
    pub path: String,
    /// The permissions in octal.
    pub permissions: &'static str,
    pub content: String,
}

impl fmt::Debug for NodeFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeFile({}, {}, <{} bytes>)", self.path, self.permissions, self.content.len())
    }
}

impl From<NodeFile> for ConfigFile {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_of_a_node_file_omits_its_content() {
        let content = "HTTPS_PROXY=http://u:hunter2@proxy".to_owned();
        let file = NodeFile { path: "/etc/proxy".to_owned(), permissions: "0600", content };
        let text = format!("{file:?}");
        assert!(text.contains("/etc/proxy") && !text.contains("hunter2"), "{text}");
    }
}
