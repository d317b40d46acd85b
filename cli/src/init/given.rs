//! Reads a user's site file and vCenter credentials, and checks them before they are applied.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use api::names::VMOP_NAMESPACE;
use api::vmop::PROVIDER_CONFIGURATION;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::storage::v1::StorageClass;
use kit::diagnosis::{CheckOutcome, Diagnosis};
use kube::{Api, Client, ResourceExt as _};

use super::site_file::SiteFile;
use crate::args::{ClusterFlags, CredentialFlags, OperatorFlags};
use crate::files::read_password;
use crate::kube::manifest;
use crate::terminal::exit::{ExitStatus, refuse};
use crate::terminal::output::say;

/// The Secret key for the user name.
const USER: &str = "username";
/// The Secret key for the password.
const PASSWORD: &str = "password";

/// The code of the check that logs in to vCenter.
const LOGIN: &str = "LC0304";

/// The data of the vCenter credentials Secret.
pub type Credentials = BTreeMap<String, Vec<u8>>;

/// A user's site file and credentials. The credentials contain a password, so `Debug` isn't implemented.
pub struct GivenSite {
    pub file: SiteFile,
    /// The credentials from the command line.
    pub credentials: Option<Credentials>,
    /// The path to vCenter's CA bundle (PEM).
    vcenter_ca: Option<PathBuf>,
}

impl GivenSite {
    /// Creates a site from a site file and a user's password.
    pub fn new(file: SiteFile, user: &str, password: &str) -> Self {
        let credentials = [(USER, user), (PASSWORD, password)];
        let credentials = credentials.map(|(key, value)| (key.to_owned(), value.as_bytes().to_vec())).into();
        Self { file, credentials: Some(credentials), vcenter_ca: None }
    }

    /// Reads the files, which together are one site file. Returns `None` if `files` is empty.
    ///
    /// # Errors
    /// Returns an error if a file can't be read or isn't a site file, or if there are credentials or a CA bundle
    /// without a site file, or a password without a user.
    pub fn read(files: &[PathBuf], flags: &CredentialFlags) -> Result<Option<Self>> {
        let credentials = read_credentials(flags)?;
        if credentials.as_ref().is_some_and(|credentials| !credentials.contains_key(USER)) {
            let missing = "--password-file needs --user, whose password it has";
            return Err(ExitStatus::Usage.error(missing.to_owned()));
        }
        let Some(file) = read_file(files)? else {
            return match (&credentials, &flags.vcenter_ca) {
                (None, None) => Ok(None),
                _ => Err(ExitStatus::Usage.error(
                    "--user, --password-file and --vcenter-ca need a site file, which says where vCenter is"
                        .to_owned(),
                )),
            };
        };
        Ok(Some(Self { file, credentials, vcenter_ca: flags.vcenter_ca.clone() }))
    }

    /// Reads the cluster's current site. The given credentials override the stored credentials.
    ///
    /// # Errors
    /// Returns an error if the cluster doesn't have a provider configuration, or if the stored or given credentials
    /// can't be read.
    pub async fn of_cluster(client: &Client, flags: &CredentialFlags) -> Result<Self> {
        let configurations: Api<ConfigMap> = Api::namespaced(client.clone(), VMOP_NAMESPACE);
        let stored = configurations.get(PROVIDER_CONFIGURATION).await;
        let stored = stored
            .with_context(|| format!("cannot read ConfigMap {VMOP_NAMESPACE}/{PROVIDER_CONFIGURATION}"))?;
        let file = SiteFile::from_stored(&stored.data.unwrap_or_default())?;
        let mut credentials = stored_credentials(client, &file).await?;
        credentials.extend(read_credentials(flags)?.into_iter().flatten());
        Ok(Self { file, credentials: Some(credentials), vcenter_ca: flags.vcenter_ca.clone() })
    }

    /// Checks that the VM operator can work with the site file, and that the cluster will accept it.
    ///
    /// # Errors
    /// Returns all errors that the vCenter checks found, or the first StorageClass that can't be updated.
    pub async fn check(&self, client: &Client) -> Result<()> {
        let credentials = match &self.credentials {
            Some(given) => given.clone(),
            None => stored_credentials(client, &self.file).await?,
        };
        self.check_vcenter(client, credentials).await?;
        check_storage_classes(client, &self.file).await
    }

    async fn check_vcenter(&self, client: &Client, credentials: Credentials) -> Result<()> {
        let flags = operator_flags(self.vcenter_ca.clone());
        let site = self.file.new_site(credentials);
        let found = vmop::doctor::new_site::check(client, &flags.doctor_options()?, &site).await;
        let mut errors = Vec::new();
        for diagnosis in found {
            let text = finding(&diagnosis, self.credentials.is_some());
            match diagnosis.outcome {
                CheckOutcome::Error => errors.push(text),
                CheckOutcome::Warning => say!("warning: {text}"),
                CheckOutcome::Ok | CheckOutcome::Skipped => {}
            }
        }
        ensure!(errors.is_empty(), refuse(&errors.join("\nerror: ")));
        Ok(())
    }
}

/// Reads the files, which together are one site file. Returns `None` if `files` is empty.
///
/// # Errors
/// Returns an error if a file can't be read or isn't a site file.
pub fn read_file(files: &[PathBuf]) -> Result<Option<SiteFile>> {
    if files.is_empty() {
        return Ok(None);
    }
    let mut objects = Vec::new();
    for path in files {
        objects.extend(manifest::read(path).map_err(|error| ExitStatus::Usage.error(format!("{error:#}")))?);
    }
    SiteFile::new(objects).map(Some).map_err(|error| refuse(&format!("{error:#}")))
}

/// Returns the flags for a VM operator in the namespace that `init` uses.
pub fn operator_flags(vcenter_ca: Option<PathBuf>) -> OperatorFlags {
    let operator_namespace = VMOP_NAMESPACE.to_owned();
    OperatorFlags { cluster: ClusterFlags::default(), operator_namespace, vcenter_ca }
}

fn read_credentials(flags: &CredentialFlags) -> Result<Option<Credentials>> {
    let Some(file) = &flags.password_file else { return Ok(None) };
    let password = read_password(file).map_err(|error| ExitStatus::Usage.error(format!("{error:#}")))?;
    let user = flags.user.as_ref().map(|user| (USER.to_owned(), user.as_bytes().to_vec()));
    let password = (PASSWORD.to_owned(), password.expose().as_bytes().to_vec());
    Ok(Some(user.into_iter().chain([password]).collect()))
}

/// Reads the credentials from the cluster.
async fn stored_credentials(client: &Client, site: &SiteFile) -> Result<Credentials> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), VMOP_NAMESPACE);
    let secret = secrets.get_opt(site.secret()).await;
    let secret = secret.context("cannot read the Secret with the credentials of vCenter")?;
    let Some(secret) = secret else {
        return Err(refuse(&format!(
            "there is no Secret {VMOP_NAMESPACE}/{} with the credentials of vCenter. Pass --user and --password-file",
            site.secret()
        )));
    };
    Ok(secret.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0)).collect())
}

/// Rejects a StorageClass that exists with other settings, because these settings are immutable.
async fn check_storage_classes(client: &Client, site: &SiteFile) -> Result<()> {
    let existing: Api<StorageClass> = Api::all(client.clone());
    for wanted in site.storage_classes() {
        let name = wanted.name_any();
        let found =
            existing.get_opt(&name).await.with_context(|| format!("cannot read StorageClass {name}"))?;
        if found.is_some_and(|found| !can_become(&found, &wanted)) {
            return Err(refuse(&format!(
                "StorageClass {name} exists with other settings, which cannot be changed. Delete it first (kubectl delete storageclass {name}), or rename the class in the site file"
            )));
        }
    }
    Ok(())
}

/// Returns true if Kubernetes accepts the wanted class as an update to the existing class.
fn can_become(existing: &StorageClass, wanted: &StorageClass) -> bool {
    let parameters = |class: &StorageClass| class.parameters.clone().unwrap_or_default();
    let stays = |old: &Option<String>, new: &Option<String>| new.is_none() || old == new;
    existing.provisioner == wanted.provisioner
        && parameters(existing) == parameters(wanted)
        && stays(&existing.reclaim_policy, &wanted.reclaim_policy)
        && stays(&existing.volume_binding_mode, &wanted.volume_binding_mode)
}

/// Formats a diagnosis with its remedy, without a final period. `has_user` means that the command line contains
/// credentials.
fn finding(diagnosis: &Diagnosis, has_user: bool) -> String {
    let remedy = match diagnosis.check.code {
        LOGIN if has_user => "Correct --user or the password in --password-file".to_owned(),
        // The ConfigMap isn't in the cluster yet.
        _ => diagnosis
            .remedy
            .trim_end_matches('.')
            .replace(&format!("ConfigMap {PROVIDER_CONFIGURATION}"), "the site file"),
    };
    let separator = if remedy.is_empty() { "" } else { ". " };
    format!("{} {}{separator}{remedy}", diagnosis.check.code, diagnosis.found)
}
