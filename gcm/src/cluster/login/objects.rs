//! How people get into nodes: the node user, its SSH key and its password, and the Secrets that hold them.

use std::collections::BTreeMap;
use std::fmt;

use api::capi::{
    KubeadmConfigTemplateTemplateSpecUsers as WorkerUser,
    KubeadmConfigTemplateTemplateSpecUsersPasswdFrom as WorkerPassword,
    KubeadmConfigTemplateTemplateSpecUsersPasswdFromSecret as WorkerPasswordSecret,
    KubeadmControlPlaneKubeadmConfigSpecUsers as ControlPlaneUser,
    KubeadmControlPlaneKubeadmConfigSpecUsersPasswdFrom as ControlPlanePassword,
    KubeadmControlPlaneKubeadmConfigSpecUsersPasswdFromSecret as ControlPlanePasswordSecret,
};
use api::names;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;

use super::gather::{Login, PASSWORD, PRIVATE_KEY, PUBLIC_KEY};
use crate::cluster::input::Input;

/// The type of Secrets that hold a private key for SSH.
const SSH_TYPE: &str = "kubernetes.io/ssh-auth";
/// The user for those who must get into a node.
pub const USER: &str = "vmware-system-user";
/// What the user may do: become root without a password.
const SUDO: &str = "ALL=(ALL) NOPASSWD:ALL";
/// The user's shell.
const SHELL: &str = "/bin/bash";

/// Secrets that are to be created, in this order: a hash is younger than its password.
pub struct NewSecrets(pub Vec<Secret>);

/// Their content is in no print.
impl fmt::Debug for NewSecrets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.0.iter().map(ResourceExt::name_any)).finish()
    }
}

/// The Secrets of a cluster's login that are not there yet.
pub fn secrets(input: &Input<'_>, login: &Login) -> NewSecrets {
    let Login { public_key, new_private_key, new_password, new_password_hash } = login;
    let cluster = input.name();
    let secret = |name: String, type_: &str, data: &[(&str, &str)]| Secret {
        metadata: input.metadata(&name, &[]),
        type_: Some(type_.to_owned()),
        data: Some(
            data.iter()
                .map(|(key, value)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec())))
                .collect::<BTreeMap<_, _>>(),
        ),
        ..Secret::default()
    };
    let key = new_private_key.as_ref().map(|private| {
        secret(
            names::ssh_secret(&cluster),
            SSH_TYPE,
            &[(PRIVATE_KEY, private.as_str()), (PUBLIC_KEY, public_key)],
        )
    });
    let opaque = |name: String, text: &str| secret(name, "Opaque", &[(PASSWORD, text)]);
    let password = new_password.as_ref().map(|text| opaque(names::ssh_password_secret(&cluster), text));
    let hash = new_password_hash.as_ref().map(|text| opaque(names::ssh_password_hash_secret(&cluster), text));
    NewSecrets(key.into_iter().chain(password).chain(hash).collect())
}

/// The user of a node, whichever object carries it. Its password comes from a Secret: no other object holds even the hash.
pub struct NodeUser {
    public_key: String,
    password_hash_secret: String,
}

impl NodeUser {
    /// The user of the cluster's nodes.
    pub fn of(input: &Input<'_>, login: &Login) -> Self {
        Self {
            public_key: login.public_key.clone(),
            password_hash_secret: names::ssh_password_hash_secret(&input.name()),
        }
    }
}

impl From<NodeUser> for ControlPlaneUser {
    fn from(user: NodeUser) -> Self {
        let NodeUser { public_key, password_hash_secret } = user;
        let secret = ControlPlanePasswordSecret { name: password_hash_secret, key: PASSWORD.to_owned() };
        Self {
            name: USER.to_owned(),
            sudo: Some(SUDO.to_owned()),
            shell: Some(SHELL.to_owned()),
            lock_password: Some(false),
            passwd_from: Some(ControlPlanePassword { secret }),
            ssh_authorized_keys: Some(vec![public_key]),
            ..Self::default()
        }
    }
}

impl From<NodeUser> for WorkerUser {
    fn from(user: NodeUser) -> Self {
        let NodeUser { public_key, password_hash_secret } = user;
        let secret = WorkerPasswordSecret { name: password_hash_secret, key: PASSWORD.to_owned() };
        Self {
            name: USER.to_owned(),
            sudo: Some(SUDO.to_owned()),
            shell: Some(SHELL.to_owned()),
            lock_password: Some(false),
            passwd_from: Some(WorkerPassword { secret }),
            ssh_authorized_keys: Some(vec![public_key]),
            ..Self::default()
        }
    }
}
