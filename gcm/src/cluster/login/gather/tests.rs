//! Tests for generated, existing and invalid credentials.

use kit::apply::build_controller_reference;
use sha_crypt::PasswordVerifier;

use super::*;
use crate::cluster::cluster_secret::NewSecrets;
use crate::cluster::encryption::gather::Encryption;
use crate::cluster::fixtures::{ClusterFixture, nothing, secret, stored};
use crate::cluster::plan::{Plan, plan};
use crate::testing::sound;

const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILM+rvN+ot98qgEN796jTiQfZfG1KaT0PtFDJ/XFSqti";

fn none() -> Found {
    Found { key: None, password: None, hash: None }
}

fn enough() -> Budget {
    Budget::new(LIMITS.bytes)
}

/// Returns the login for a new cluster with these Secrets.
fn login_with(found: &Found) -> Result<Login, Error> {
    login(&stored(sound()), found, &enough())
}

fn value(secret: &Secret, key: &str) -> Option<String> {
    text(secret, key, LONGEST_KEY, &enough()).unwrap().map(|text| text.to_string())
}

/// The types of the fields ensure this at compile time.
#[test]
fn generated_new_secrets_are_wiped_from_memory() {
    let Login { public_key: _, new_private_key, new_password, new_password_hash } =
        login_with(&none()).unwrap();
    let drawn: [Option<Zeroizing<String>>; 3] = [new_private_key, new_password, new_password_hash];
    assert!(drawn.iter().all(Option::is_some));
}

fn planned(login: &Login) -> Plan {
    plan(&stored(sound()), &nothing(), login, &Encryption::default()).unwrap()
}

fn verify(password: &str, hash: &str) -> bool {
    let hash = sha_crypt::PasswordHash::new(hash).unwrap();
    ShaCrypt::SHA512.verify_password(password.as_bytes(), &hash).is_ok()
}

#[test]
fn a_new_cluster_gets_a_key_and_a_password_of_its_own() {
    let drawn = login_with(&none()).unwrap();
    let (private, password) = (drawn.new_private_key.clone().unwrap(), drawn.new_password.clone().unwrap());
    let parsed = PrivateKey::from_openssh(&private).unwrap();
    assert_eq!(parsed.public_key().to_openssh().unwrap(), drawn.public_key, "they are a pair");
    let other = login_with(&none()).unwrap();
    assert!(other.public_key != drawn.public_key && other.new_password != drawn.new_password);

    let plan = planned(&drawn);
    let NewSecrets(secrets) = &plan.new_secrets;
    let names: Vec<_> = secrets.iter().map(ResourceExt::name_any).collect();
    assert_eq!(
        names,
        ["c-ssh", "c-ssh-password", "c-ssh-password-hashed"],
        "a hash is younger than its password"
    );
    assert_eq!(secrets[0].type_.as_deref(), Some("kubernetes.io/ssh-auth"));
    assert!(value(&secrets[0], PRIVATE_KEY).unwrap().starts_with("-----BEGIN OPENSSH PRIVATE KEY-----\n"));
    assert!(value(&secrets[0], PUBLIC_KEY).unwrap().starts_with("ssh-ed25519 "));
    assert!(verify(&value(&secrets[1], PASSWORD).unwrap(), &value(&secrets[2], PASSWORD).unwrap()));
    for secret in secrets {
        let owner = &secret.metadata.owner_references.as_ref().unwrap()[0];
        assert_eq!(
            (owner.name.as_str(), owner.controller),
            ("c", Some(true)),
            "clusterctl moves what is owned"
        );
    }
    let print = format!("{plan:?}");
    assert!(!print.contains(password.as_str()) && !print.contains("PRIVATE KEY"), "no print holds them");
    let digits: Vec<String> = password.bytes().map(|byte| byte.to_string()).collect();
    assert!(!print.contains(&digits.join(", ")), "nor their bytes");
}

#[test]
fn nodes_get_the_public_key_and_where_the_hash_is_and_nothing_else() {
    let plan = planned(&login_with(&none()).unwrap());
    let config = plan.control_plane.spec.kubeadm_config_spec.clone().unwrap();
    let user = &config.users.as_ref().unwrap()[0];
    assert_eq!((user.name.as_str(), user.lock_password), ("vmware-system-user", Some(false)));
    assert_eq!(user.passwd, None, "a hash that everybody may read who sees the control plane");
    let from = &user.passwd_from.as_ref().unwrap().secret;
    assert_eq!((from.name.as_str(), from.key.as_str()), ("c-ssh-password-hashed", "ssh-passwordkey"));
    let public = value(&plan.new_secrets.0[0], PUBLIC_KEY).unwrap();
    assert_eq!(user.ssh_authorized_keys, Some(vec![public]));
    let worker = plan.config_templates[0].spec.template.spec.clone().unwrap();
    assert_eq!(serde_json::json!(worker.users), serde_json::json!(config.users));
}

#[test]
fn what_is_there_is_used_and_not_made_again() {
    let key = secret("c-ssh", &[(PUBLIC_KEY, &format!("{KEY} me@{{{{ ds }}}}\n"))]);
    let hash = secret("c-ssh-password-hashed", &[(PASSWORD, "$6$x")]);
    let all = login_with(&Found { key: Some(key.clone()), password: None, hash: Some(hash) }).unwrap();
    assert_eq!(all.public_key, KEY, "braces in a comment would be cloud-init's");
    assert!(planned(&all).new_secrets.0.is_empty());

    // A user provided a password, or gcm ended after it created the password.
    let password = secret("c-ssh-password", &[(PASSWORD, "of my own\n")]);
    let rest = login_with(&Found { key: Some(key), password: Some(password), hash: None }).unwrap();
    assert!(rest.new_private_key.is_none() && rest.new_password.is_none());
    assert!(verify("of my own", &rest.new_password_hash.unwrap()));

    let private = generate_key().unwrap();
    let key = secret("c-ssh", &[(PRIVATE_KEY, &private.0)]);
    let of_private = login_with(&Found { key: Some(key), ..none() }).unwrap();
    assert_eq!(of_private.public_key, private.1);
}

#[test]
fn what_cannot_be_used_is_named_and_never_printed() {
    for (found, wanted) in [
        (
            Found { key: Some(secret("c-ssh", &[(PRIVATE_KEY, "hidden")])), ..none() },
            "ns/c-ssh has no private key",
        ),
        (
            Found { key: Some(secret("c-ssh", &[(PUBLIC_KEY, "hidden")])), ..none() },
            "ns/c-ssh has no SSH public key",
        ),
        (
            Found { password: Some(secret("c-ssh-password", &[("password", "hidden")])), ..none() },
            "ns/c-ssh-password has no text at key ssh-passwordkey",
        ),
        (Found { password: Some(secret("c-ssh-password", &[(PASSWORD, "\n")])), ..none() }, "has no text"),
        (
            Found { hash: Some(secret("c-ssh-password-hashed", &[(PASSWORD, "$6$x\nhidden: 1")])), ..none() },
            "ns/c-ssh-password-hashed has no crypt hash",
        ),
    ] {
        let error = login_with(&found).err().unwrap();
        let message = error.to_string();
        assert!(message.contains(wanted) && !message.contains("hidden"), "{message}");
        assert!(matches!(error, Error::Secret(_)), "tried again: no watch shows that it was mended");
    }
}

/// The garbage collector is about to delete such a Secret, and the key for the new nodes would be lost with it.
#[test]
fn the_key_of_a_former_cluster_of_the_name_is_not_used() {
    let mut key = secret("c-ssh", &[(PUBLIC_KEY, KEY)]);
    key.metadata.owner_references = Some(vec![build_controller_reference(&stored(sound()))]);
    assert!(login_with(&Found { key: Some(key.clone()), ..none() }).is_ok());
    key.metadata.owner_references.as_mut().unwrap()[0].uid = "former".to_owned();
    let error = login_with(&Found { key: Some(key), ..none() }).err().unwrap();
    assert!(matches!(error, Error::Settling(_)), "{error}");
    assert!(error.to_string().contains("the deletion of Secret ns/c-ssh"), "{error}");
}

#[test]
fn another_key_replaces_no_nodes() {
    let fixture = ClusterFixture::running(sound());
    let facts = fixture.facts();
    let login = Login { public_key: KEY.to_owned(), ..Login::default() };
    let same = plan(&fixture.tkc, &facts, &login, &Encryption::default()).unwrap();
    assert_eq!(same.control_plane.spec, fixture.plan.control_plane.spec);
    assert_eq!(same.deployments[0].spec.template, fixture.plan.deployments[0].spec.template);
    let mut tkc = fixture.tkc.clone();
    tkc.spec.topology.control_plane.vm_class = "large".to_owned();
    let next = plan(&tkc, &facts, &login, &Encryption::default())
        .unwrap()
        .control_plane
        .spec
        .kubeadm_config_spec
        .unwrap();
    assert_eq!(next.users.unwrap()[0].ssh_authorized_keys, Some(vec![KEY.to_owned()]), "with the next roll");
}

/// The time for a hash grows with the square of the password's length: 100 kB take seconds, 900 kB most of an hour.
#[test]
fn rejects_a_password_that_takes_long_to_hash() {
    let long = secret("c-ssh-password", &[(PASSWORD, &"hidden".repeat(150_000))]);
    let error = login_with(&Found { password: Some(long), ..none() }).err().unwrap();
    let message = error.to_string();
    assert!(
        message.contains("ns/c-ssh-password has 900000 bytes at key ssh-passwordkey; the limit is 512"),
        "{message}"
    );
    assert!(!message.contains("hidden"), "{message}");
    let longest = secret("c-ssh-password", &[(PASSWORD, &"a".repeat(512))]);
    let login = login_with(&Found { password: Some(longest), ..none() }).unwrap();
    assert!(verify(&"a".repeat(512), &login.new_password_hash.unwrap()));
}

#[test]
fn rejects_keys_that_are_no_keys_by_their_length() {
    for key in [PUBLIC_KEY, PRIVATE_KEY] {
        let long = secret("c-ssh", &[(key, &format!("{KEY}{}", "A".repeat(1_000_000)))]);
        let error = login_with(&Found { key: Some(long), ..none() }).err().unwrap();
        assert!(error.to_string().contains("the limit is 32768"), "{error}");
    }
}
