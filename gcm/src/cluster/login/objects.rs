//! How people get into nodes: the node user, its SSH key and its password, and the Secrets that hold them.

use api::capi::{
    KubeadmConfigSpecUsers as ConfigUser, KubeadmConfigSpecUsersPasswdFrom as ConfigPassword,
    KubeadmConfigSpecUsersPasswdFromSecret as ConfigPasswordSecret,
};
use api::names;
use k8s_openapi::api::core::v1::Secret;

use super::gather::{Login, PASSWORD, PRIVATE_KEY, PUBLIC_KEY};
use crate::cluster::cluster_secret::{OPAQUE, new_secret};
use crate::cluster::input::Input;

/// The type of Secrets that hold a private key for SSH.
const SSH_TYPE: &str = "kubernetes.io/ssh-auth";
/// The user for those who must get into a node.
pub const USER: &str = "vmware-system-user";
/// What the user may do: become root without a password.
const SUDO: &str = "ALL=(ALL) NOPASSWD:ALL";
const SHELL: &str = "/bin/bash";

/// Returns the Secrets of a cluster's login that do not exist yet. The hash comes after its password.
pub fn secrets(input: &Input<'_>, login: &Login) -> Vec<Secret> {
    let Login { public_key, new_private_key, new_password, new_password_hash } = login;
    let cluster = input.name();
    let key = new_private_key.as_ref().map(|private| {
        let data = [(PRIVATE_KEY, private.as_str()), (PUBLIC_KEY, public_key)];
        new_secret(input, &names::ssh_secret(&cluster), SSH_TYPE, &data)
    });
    let opaque = |name: String, text: &str| new_secret(input, &name, OPAQUE, &[(PASSWORD, text)]);
    let password = new_password.as_ref().map(|text| opaque(names::ssh_password_secret(&cluster), text));
    let hash = new_password_hash.as_ref().map(|text| opaque(names::ssh_password_hash_secret(&cluster), text));
    key.into_iter().chain(password).chain(hash).collect()
}

/// Returns the user of the cluster's nodes. Its password comes from a Secret: no other object holds even the hash.
pub fn node_user(input: &Input<'_>, login: &Login) -> ConfigUser {
    let name = names::ssh_password_hash_secret(&input.name());
    let secret = ConfigPasswordSecret { name, key: PASSWORD.to_owned() };
    ConfigUser {
        name: USER.to_owned(),
        sudo: Some(SUDO.to_owned()),
        shell: Some(SHELL.to_owned()),
        lock_password: Some(false),
        passwd_from: Some(ConfigPassword { secret }),
        ssh_authorized_keys: Some(vec![login.public_key.clone()]),
        ..ConfigUser::default()
    }
}
