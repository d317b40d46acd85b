//! Parses cloud-config documents strictly: errors that cloud-init would only log end the boot here.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;
use std::fmt;
use std::io::Read;

use super::failure::{Failure, Reason, without_values};

/// Keys that cloud-init supports, but that don't affect the node.
///
/// Their values aren't checked.
const WITHOUT_EFFECT: [&str; 20] = [
    "ca_certs",
    "chpasswd",
    "disable_root",
    "final_message",
    "growpart",
    "locale",
    "manage_etc_hosts",
    "merge_how",
    "network",
    "output",
    "package_update",
    "package_upgrade",
    "packages",
    "preserve_hostname",
    "resize_rootfs",
    "ssh_authorized_keys",
    "ssh_deletekeys",
    "ssh_pwauth",
    "swap",
    "timezone",
];

/// The users and groups that exist in a node image.
const ACCOUNTS: [&str; 9] = ["root", "daemon", "bin", "sys", "adm", "nobody", "nogroup", "etcd", "users"];

/// A cloud-config. A boot applies it in this order: bootcmd, files, disks, users, deferred files, runcmd.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CloudConfig {
    /// Commands that run before everything else. cloud-init runs them at every boot, but a simulated guest runs them
    /// only at its first boot.
    pub bootcmd: Vec<Line>,
    /// Partition tables by device.
    pub disk_setup: std::collections::BTreeMap<String, DiskSetup>,
    pub fs_setup: Vec<Filesystem>,
    /// Entries for fstab.
    pub mounts: Vec<Vec<String>>,
    /// The host name. Overrides the metadata.
    pub hostname: Option<String>,
    pub fqdn: Option<String>,
    pub ntp: Option<Ntp>,
    /// Files, in the order in which they are written.
    pub write_files: Vec<CloudConfigFile>,
    /// Users. `default` stands for the image's default user.
    pub users: Vec<UserEntry>,
    /// Commands that run last, at the first boot only.
    pub runcmd: Vec<Line>,
}

/// A command. `Debug` omits arguments, which may contain tokens.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Line {
    /// A line for a shell.
    Shell(String),
    /// A program and its arguments.
    Words(Vec<String>),
}

/// A partition table.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DiskSetup {
    /// `mbr` or `gpt`.
    pub table_type: Option<String>,
    /// `true`, or a list with sizes and types.
    pub layout: Value,
    /// True to replace existing partitions.
    pub overwrite: Option<bool>,
}

/// A filesystem to create.
#[allow(clippy::struct_field_names, reason = "cloud-init's own names")]
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Filesystem {
    pub label: Option<String>,
    pub filesystem: String,
    pub device: String,
    /// The partition: a number, `auto`, `any` or `none`.
    pub partition: Option<Value>,
    /// True to replace an existing filesystem.
    pub overwrite: Option<bool>,
    /// The filesystem type that may be replaced.
    pub replace_fs: Option<String>,
    /// Additional options for mkfs.
    pub extra_opts: Option<Vec<String>>,
}

/// The NTP configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ntp {
    pub enabled: Option<bool>,
    pub servers: Vec<String>,
    pub pools: Vec<String>,
}

/// The image's default user, or an additional user.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum UserEntry {
    /// The name `default`.
    Named(String),
    /// A user with properties.
    User(Box<CloudConfigUser>),
}

/// A user. `Debug` prints only the name.
#[derive(Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CloudConfigUser {
    pub name: String,
    pub gecos: Option<String>,
    pub groups: Option<Value>,
    pub homedir: Option<String>,
    pub inactive: Option<Value>,
    pub lock_passwd: Option<bool>,
    pub passwd: Option<String>,
    pub primary_group: Option<String>,
    pub shell: Option<String>,
    pub ssh_authorized_keys: Vec<String>,
    pub sudo: Option<Value>,
}

/// A file to write. `Debug` omits the content.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CloudConfigFile {
    /// The absolute path.
    pub path: String,
    /// The content, encoded with `encoding`.
    pub content: String,
    /// The owner as `user` or `user:group`.
    pub owner: Option<String>,
    /// The mode as a quoted octal number.
    pub permissions: Option<String>,
    /// The encoding: `text/plain` (default), `base64`, `gzip`, `gzip+base64`, or a short form such as `b64`.
    pub encoding: Option<String>,
    /// True to append to an existing file.
    pub append: Option<bool>,
    /// True to write the file only after packages are installed and users are created.
    pub defer: Option<bool>,
}

impl fmt::Debug for CloudConfigUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CloudConfigUser({})", self.name)
    }
}

impl fmt::Debug for CloudConfigFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CloudConfigFile({}, <{} bytes>)", self.path, self.content.len())
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let program = match self {
            Self::Shell(line) => line.split_whitespace().next(),
            Self::Words(words) => words.first().map(String::as_str),
        };
        write!(f, "Line({} …)", program.unwrap_or_default())
    }
}

impl CloudConfig {
    /// Parses a cloud-config document whose template has been rendered.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        let document: Value = serde_saphyr::from_str(text).map_err(|error| {
            let line = error.location().map_or_else(String::new, |at| format!(" at line {}", at.line()));
            unreadable(&format!("{}{line}", without_values(&error.without_snippet().to_string())))
        })?;
        let Value::Object(mut keys) = document else {
            return Err(unreadable("no mapping"));
        };
        keys.retain(|key, _| !WITHOUT_EFFECT.contains(&key.as_str()));
        // Templates write a key without a value for an empty list.
        keys.retain(|_, value| !value.is_null());
        serde_json::from_value(Value::Object(keys)).map_err(|error| {
            let message = without_values(&error.to_string());
            let reason =
                if message.starts_with("unknown field") { Reason::UnknownKey } else { Reason::CloudConfig };
            Failure::new(reason, format!("cloud-config: {message}"))
        })
    }

    /// Checks the files, users and filesystems before anything is written.
    pub fn check(&self) -> Result<(), Failure> {
        self.write_files.iter().try_for_each(|file| file.check(&self.accounts(file)))?;
        for user in &self.users {
            match user {
                UserEntry::Named(name) if name != "default" => {
                    return Err(unreadable(&format!("users: {name} has no properties")));
                }
                UserEntry::User(user) if user.name.is_empty() => {
                    return Err(unreadable("users: a user has no name"));
                }
                _ => {}
            }
        }
        match self.fs_setup.iter().find(|fs| fs.device.is_empty() || fs.filesystem.is_empty()) {
            Some(_) => Err(unreadable("fs_setup: an entry lacks device or filesystem")),
            None => Ok(()),
        }
    }
}

impl CloudConfig {
    /// Returns the users and groups that exist when a file is written. Deferred files may also belong to the document's users.
    fn accounts(&self, file: &CloudConfigFile) -> Vec<&str> {
        let mut accounts = ACCOUNTS.to_vec();
        if file.defer == Some(true) {
            accounts.extend(self.users.iter().map(|entry| match entry {
                UserEntry::Named(name) => name.as_str(),
                UserEntry::User(user) => user.name.as_str(),
            }));
        }
        accounts
    }
}

impl CloudConfigFile {
    fn check(&self, accounts: &[&str]) -> Result<(), Failure> {
        if !self.path.starts_with('/') || self.path.split('/').any(|part| part == "..") {
            return Err(self.wrong("path is not absolute"));
        }
        self.mode()?;
        let owner = self.owner.as_deref().unwrap_or("root:root");
        if owner.split(':').count() > 2 || owner.split(':').any(|part| part.is_empty() || part.contains(' '))
        {
            return Err(self.wrong("owner is not user:group"));
        }
        if let Some(unknown) = owner.split(':').find(|part| !accounts.contains(part)) {
            return Err(self.wrong(&format!("the node image has no user or group {unknown:?}")));
        }
        self.bytes().map(drop)
    }

    /// Returns the file mode. The default is 0644. Fails unless `permissions` is an octal number with at least three
    /// digits, up to 07777.
    pub fn mode(&self) -> Result<u32, Failure> {
        let Some(permissions) = self.permissions.as_deref() else { return Ok(0o644) };
        match u32::from_str_radix(permissions, 8) {
            Ok(mode) if mode <= 0o7777 && permissions.len() >= 3 => Ok(mode),
            _ => Err(self.wrong("permissions are not octal")),
        }
    }

    /// Returns the decoded content.
    pub fn bytes(&self) -> Result<Vec<u8>, Failure> {
        let raw = self.content.as_bytes();
        let base64 = || {
            let compact: String = self.content.chars().filter(|c| !c.is_ascii_whitespace()).collect();
            STANDARD.decode(compact).map_err(|_| self.wrong("content is not base64"))
        };
        match self.encoding.as_deref().unwrap_or_default() {
            "" | "text/plain" => Ok(raw.to_vec()),
            "b64" | "base64" => base64(),
            "gz" | "gzip" => self.gunzip(raw),
            "gz+b64" | "gz+base64" | "gzip+b64" | "gzip+base64" => self.gunzip(&base64()?),
            _ => Err(self.wrong("encoding is none that cloud-init knows")),
        }
    }

    fn gunzip(&self, packed: &[u8]) -> Result<Vec<u8>, Failure> {
        let mut plain = Vec::new();
        match flate2::read::MultiGzDecoder::new(packed).read_to_end(&mut plain) {
            Ok(_) => Ok(plain),
            Err(_) => Err(self.wrong("content is not gzip")),
        }
    }

    fn wrong(&self, what: &str) -> Failure {
        Failure::new(Reason::WriteFile, format!("write_files {:?}: {what}", self.path))
    }
}

fn unreadable(what: &str) -> Failure {
    Failure::new(Reason::CloudConfig, format!("cloud-config: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_bootstrap_provider_writes_is_read() {
        let text = "#cloud-config\n\nwrite_files:\n-   path: /a\n    encoding: \"base64\"\n    owner: root:root\n    \
                    permissions: '0640'\n    content: |\n      aGk=\n-   path: /b\n    content: \"x\"\nbootcmd:\n  - \
                    \"one\"\nruncmd:\n  - 'two && three > /x'\n  - [four, five]\nntp:\n  enabled: true\n  servers:\n    \
                    - time\nusers:\n  - name: me\n    sudo: ALL\ndisk_setup:\n  /dev/sdb:\n    table_type: gpt\n    \
                    layout: true\nfs_setup:\n  - label: etcd\n    filesystem: ext4\n    device: /dev/sdb\nmounts:\n  - \
                    - LABEL=etcd\n    - /var/lib/etcd\n    \n";
        let config = CloudConfig::parse(text).unwrap();
        config.check().unwrap();
        assert_eq!(config.write_files[0].bytes().unwrap(), b"hi");
        assert_eq!(config.write_files[0].mode(), Ok(0o640));
        assert_eq!(
            config.runcmd,
            [Line::Shell("two && three > /x".into()), Line::Words(vec!["four".into(), "five".into()])]
        );
        assert_eq!(config.mounts, [["LABEL=etcd", "/var/lib/etcd"]]);
    }

    #[test]
    fn debug_output_of_cloud_config_omits_secrets() {
        let text = "#cloud-config\nwrite_files:\n- {path: /a, content: canary}\nusers:\n- {name: me, passwd: canary}\n\
                    runcmd:\n- kubeadm join --token canary\n- [curl, canary]\n";
        let shown = format!("{:?}", CloudConfig::parse(text).unwrap());
        assert!(!shown.contains("canary"), "{shown}");
        assert!(["/a", "me", "kubeadm", "curl"].iter().all(|word| shown.contains(word)), "{shown}");
    }

    #[test]
    fn what_is_wrong_has_a_reason() {
        let wrong = |text: &str| {
            let parsed = CloudConfig::parse(text).and_then(|config| config.check());
            parsed.unwrap_err().reason
        };
        assert_eq!(wrong("runcmds: []"), Reason::UnknownKey);
        assert_eq!(wrong("write_files: [{path: /a, contents: x}]"), Reason::UnknownKey);
        assert_eq!(wrong("write_files: [{path: /a}]\nwrite_files: []"), Reason::CloudConfig);
        assert_eq!(wrong("write_files:\n\t- path: /a"), Reason::CloudConfig);
        assert_eq!(wrong("- a list"), Reason::CloudConfig);
        assert_eq!(wrong("runcmd: kubeadm"), Reason::CloudConfig);
        assert_eq!(wrong("write_files: [{path: a}]"), Reason::WriteFile);
        assert_eq!(wrong("write_files: [{path: /a/../../etc}]"), Reason::WriteFile);
        assert_eq!(wrong("write_files: [{path: /a, permissions: 'rw-r'}]"), Reason::WriteFile);
        assert_eq!(wrong("write_files: [{path: /a, encoding: zip, content: x}]"), Reason::WriteFile);
        assert_eq!(wrong("write_files: [{path: /a, encoding: gz+b64, content: aGk=}]"), Reason::WriteFile);
        assert_eq!(wrong("users: [nobody]"), Reason::CloudConfig);
        let owned = |defer| {
            format!("users: [{{name: me}}]\nwrite_files: [{{path: /a, owner: 'me:root', defer: {defer}}}]")
        };
        assert_eq!(wrong(&owned(false)), Reason::WriteFile);
        assert!(CloudConfig::parse(&owned(true)).unwrap().check().is_ok());
    }

    #[test]
    fn keys_without_effect_are_let_pass() {
        assert_eq!(CloudConfig::parse("timezone: UTC\nruncmd:\n"), Ok(CloudConfig::default()));
    }
}
