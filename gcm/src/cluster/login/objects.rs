//! Builds the node user, with its SSH key and password, and the Secrets that contain them.

use api::capi::{
    KubeadmConfigSpecUsers as ConfigUser, KubeadmConfigSpecUsersPasswdFrom as ConfigPassword,
    KubeadmConfigSpecUsersPasswdFromSecret as ConfigPasswordSecret,
};
use api::names;
use k8s_openapi::api::core::v1::Secret;

use super::gather::{Login, PASSWORD, PRIVATE_KEY, PUBLIC_KEY};
use crate::cluster::cluster_secret::{OPAQUE, new_secret};
use crate::cluster::input::Input;

/// The type of a Secret that contains an SSH private key.
const SSH_TYPE: &str = "kubernetes.io/ssh-auth";
/// The user for logging in to nodes.
pub const USER: &str = "vmware-system-user";
/// The sudo rule: the user can become root without a password.
const SUDO: &str = "ALL=(ALL) NOPASSWD:ALL";
const SHELL: &str = "/bin/bash";

/// Returns the missing Secrets for a cluster's login, with the password before its hash.
pub fn build_secrets(input: &Input<'_>, login: &Login) -> Vec<Secret> {
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

/// Returns the user for a cluster's nodes. The user refers to the Secret that contains the password hash.
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
