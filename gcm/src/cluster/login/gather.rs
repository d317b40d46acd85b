//! Reads the Secrets for logging in to nodes. Generates missing keys and passwords, which are stored when the plan is
//! carried out.
//!
//! An existing Secret is used even if a user created it, so that users can provide their own keys and passwords.

use std::time::Duration;

use api::gcm::TanzuKubernetesCluster;
use api::names;
use k8s_openapi::api::core::v1::Secret;
use kit::apply;
use kit::bounded::{Budget, ComputationLimits, compute};
use kube::ResourceExt;
use rand::RngExt;
use rand::distr::Alphanumeric;
use ring::signature::{Ed25519KeyPair, KeyPair};
use sha_crypt::{PasswordHasher, ShaCrypt};
use ssh_key::private::{Ed25519Keypair, Ed25519PrivateKey, KeypairData};
use ssh_key::public::Ed25519PublicKey;
use ssh_key::{LineEnding, PrivateKey, PublicKey};
use zeroize::Zeroizing;

use crate::cluster::cluster_secret::{refuse_leftover, text, wrong};
use crate::cluster::error::Error;

/// The key in the Secret's `data` under which the SSH private key is stored. The Secret's type requires this name.
pub const PRIVATE_KEY: &str = "ssh-privatekey";
/// The key in the Secret's `data` under which the SSH public key is stored, as a line of `authorized_keys`.
pub const PUBLIC_KEY: &str = "ssh-publickey";
/// The key in `data` under which one Secret stores the password, and another Secret stores the password hash.
pub const PASSWORD: &str = "ssh-passwordkey";

/// The length, in characters, of a generated password: 142 bits of entropy.
const PASSWORD_LENGTH: usize = 24;
/// The maximum length, in bytes, of a password. The time to compute a hash grows with the square of the length, and Linux
/// doesn't accept longer passwords at login.
const LONGEST_PASSWORD: usize = 512;
/// The maximum length, in bytes, of an SSH key.
const LONGEST_KEY: usize = 32 << 10;
/// The limits for one login. Hashing the longest password takes a few milliseconds.
const LIMITS: ComputationLimits = ComputationLimits { bytes: 1 << 20, time: Duration::from_secs(10) };
/// The length, in bytes, of the salt. crypt encodes it as 16 characters of six bits each.
const SALT_BYTES: usize = 12;

/// The credentials for logging in to a cluster's nodes. The secret values can't be printed, and are wiped from memory when they
/// are dropped.
#[derive(Clone, Default)]
pub struct Login {
    /// The SSH public key, as a line of `authorized_keys`.
    pub public_key: String,
    /// The private key, if it isn't in a Secret yet.
    pub new_private_key: Option<Zeroizing<String>>,
    /// The password, if it isn't in a Secret yet.
    pub new_password: Option<Zeroizing<String>>,
    /// The password hash, if it isn't in a Secret yet.
    pub new_password_hash: Option<Zeroizing<String>>,
}

/// A cluster's existing login Secrets. They aren't cached, so they are read by name.
struct Found {
    key: Option<Secret>,
    password: Option<Secret>,
    hash: Option<Secret>,
}

/// Reads the credentials for a cluster's nodes, and generates those that aren't in a Secret. The password Secret is only read
/// if the hash doesn't exist.
pub async fn gather(tkc: &TanzuKubernetesCluster, api: &apply::Api) -> Result<Login, Error> {
    let (namespace, cluster) = (tkc.namespace(), tkc.name_any());
    let namespace = namespace.as_deref();
    let names = (names::ssh_secret(&cluster), names::ssh_password_hash_secret(&cluster));
    let (key, hash) = tokio::try_join!(api.get(namespace, &names.0), api.get(namespace, &names.1))?;
    let password = match hash {
        Some(_) => None,
        None => api.get(namespace, &names::ssh_password_secret(&cluster)).await?,
    };
    let (found, of) = (Found { key, password, hash }, tkc.clone());
    compute(namespace.unwrap_or_default(), LIMITS, move |budget| login(&of, &found, budget)).await
}

fn login(tkc: &TanzuKubernetesCluster, found: &Found, budget: &Budget) -> Result<Login, Error> {
    let Found { key, password, hash } = found;
    for secret in [key, password, hash].into_iter().flatten() {
        refuse_leftover(tkc, secret)?;
    }
    let mut login = Login::default();
    if let Some(secret) = key {
        login.public_key = read_public_key(secret, budget)?;
    } else {
        let (private, public) = generate_key().ok_or_else(|| failed(names::ssh_secret(&tkc.name_any())))?;
        (login.new_private_key, login.public_key) = (Some(private), public);
    }
    match hash {
        Some(secret) => check_hash(secret, budget)?,
        None => complete_password(&mut login, tkc, password.as_ref(), budget)?,
    }
    Ok(login)
}

/// Hashes the password in the existing Secret, or a generated password if the Secret doesn't exist.
fn complete_password(
    login: &mut Login,
    tkc: &TanzuKubernetesCluster,
    password: Option<&Secret>,
    budget: &Budget,
) -> Result<(), Error> {
    const REMEDY: &str = "has no text at key ssh-passwordkey. Set it to the password of the nodes' user";
    let text = match password {
        Some(secret) => text(secret, PASSWORD, LONGEST_PASSWORD, budget)?
            .filter(|text| !text.trim().is_empty())
            .ok_or_else(|| wrong(secret, REMEDY))?,
        None => login.new_password.insert(generate_password()).clone(),
    };
    // Editors append a line break, which isn't part of the password.
    let hash = hash_password(text.trim_end_matches(['\r', '\n']));
    let name = || names::ssh_password_hash_secret(&tkc.name_any());
    login.new_password_hash = Some(hash.ok_or_else(|| failed(name()))?);
    Ok(())
}

/// Rejects a Secret whose value isn't a crypt hash. cloud-init's document contains the value without escaping.
fn check_hash(secret: &Secret, budget: &Budget) -> Result<(), Error> {
    let is_of_crypt = |text: &Zeroizing<String>| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"$./=,_-".contains(&byte);
        text.starts_with('$') && text.bytes().all(plain)
    };
    text(secret, PASSWORD, LONGEST_PASSWORD, budget)?.filter(is_of_crypt).map(drop).ok_or_else(|| {
        wrong(
            secret,
            "has no crypt hash at key ssh-passwordkey. Delete the Secret; gcm creates it again from the password Secret of the cluster",
        )
    })
}

fn failed(name: String) -> Error {
    Error::Secret(name + " cannot be created: the cryptographic library reported an error. Report this")
}

/// Returns the public key in a Secret, or derives it from the private key. Removes the key's comment, because cloud-init would
/// interpret braces in it.
fn read_public_key(secret: &Secret, budget: &Budget) -> Result<String, Error> {
    let mut key = match text(secret, PUBLIC_KEY, LONGEST_KEY, budget)? {
        Some(public) => PublicKey::from_openssh(public.trim()).map_err(|_| {
            wrong(secret, "has no SSH public key at key ssh-publickey. Set one, in the format of authorized_keys")
        })?,
        None => text(secret, PRIVATE_KEY, LONGEST_KEY, budget)?
            .and_then(|private| PrivateKey::from_openssh(private).ok())
            .map(|private| private.public_key().clone())
            .ok_or_else(|| {
                wrong(
                    secret,
                    "has no private key in OpenSSH format at key ssh-privatekey. Set one, or set its public key at ssh-publickey, or delete the Secret so that gcm creates another",
                )
            })?,
    };
    key.set_comment("");
    key.to_openssh()
        .map_err(|_| wrong(secret, "has a key that cannot be written in the format of authorized_keys"))
}

/// Generates a key pair: the private key in OpenSSH format, and the public key as a line of `authorized_keys`.
fn generate_key() -> Option<(Zeroizing<String>, String)> {
    let seed = Zeroizing::new(rand::random::<[u8; Ed25519PrivateKey::BYTE_SIZE]>());
    let drawn = Ed25519KeyPair::from_seed_unchecked(&*seed).ok()?;
    let public = Ed25519PublicKey(drawn.public_key().as_ref().try_into().ok()?);
    let pair = Ed25519Keypair { public, private: Ed25519PrivateKey::from_bytes(&seed) };
    let private = PrivateKey::new(KeypairData::Ed25519(pair), "").ok()?;
    let text = private.to_openssh(LineEnding::LF).ok()?;
    Some((text, private.public_key().to_openssh().ok()?))
}

fn generate_password() -> Zeroizing<String> {
    let mut password = Zeroizing::new(String::with_capacity(PASSWORD_LENGTH));
    password.extend(rand::rng().sample_iter(Alphanumeric).take(PASSWORD_LENGTH).map(char::from));
    password
}

/// Hashes a password for `/etc/shadow`, with SHA-512 crypt. Returns `None` if hashing fails.
fn hash_password(password: &str) -> Option<Zeroizing<String>> {
    let salt = rand::random::<[u8; SALT_BYTES]>();
    let hash = ShaCrypt::SHA512.hash_password_with_salt(password.as_bytes(), &salt).ok()?;
    Some(Zeroizing::new(hash.as_str().to_owned()))
}

#[cfg(test)]
mod tests;
