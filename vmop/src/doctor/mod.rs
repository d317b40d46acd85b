//! Whether the VM operator can work with its configuration and its vCenter: what `layercake doctor` asks of this layer.
//!
//! Each file has the checks of one subject. A check reads in its own words and then judges, purely; what it finds is
//! for a vSphere admin. Nothing is changed anywhere.

mod checks;
mod compute;
mod configuration;
mod connection;
pub mod endpoints;
mod library;
mod namespaces;
mod network;
pub mod new_site;
mod privileges;
mod site;
mod storage;
#[cfg(test)]
mod tests;

use std::time::Duration;

use kit::diagnosis::{Check, Diagnosis, Outcome};
use kube::Client;
use vsphere::{Client as VCenter, Inventory, MoRef, Recorder, Secret, inventory};

pub use checks::ALL as CHECKS;

use crate::vcenter::settings::Settings;
use site::Site;

/// So long an inventory is followed for a recording.
const LONGEST_READING: Duration = Duration::from_mins(5);

/// What the checks are given.
#[derive(Clone, Debug)]
pub struct Options {
    /// The namespace of the VM operator, where its configuration is.
    pub namespace: String,
    /// A CA bundle (PEM) to use where the configured `CAFilePath` is a file of the program's container.
    pub ca: Option<String>,
    /// Keeps what is asked of vCenter and answered; off by default.
    pub recorder: Recorder,
}

/// Who logs in at vCenter.
#[derive(Clone)]
pub struct Account {
    /// The name, such as `admin@vsphere.local`.
    pub username: String,
    /// The password.
    pub password: Secret,
}

/// Connects to the vCenter of the provider configuration as the program does, or as another user; or says why it can't.
pub async fn connect(
    client: &Client,
    options: &Options,
    account: Option<Account>,
) -> Result<vsphere::Client, Vec<Diagnosis>> {
    let (settings, found) = configuration::check(client, &options.namespace).await;
    let Some(mut settings) = settings else { return Err(found) };
    if let Some(Account { username, password }) = account {
        (settings.username, settings.password) = (username, password);
    }
    let (vcenter, found) = connection::check(&settings, options.ca.as_deref(), &options.recorder).await;
    vcenter.ok_or(found)
}

/// Connects to the vCenter of the provider configuration as the program does, and finds the folders of its VMs. None if nothing is
/// configured.
pub(crate) async fn connect_to_site(
    client: &Client,
    options: &Options,
) -> Result<Option<(Settings, vsphere::Client, Vec<MoRef>)>, String> {
    let (settings, _) = configuration::check(client, &options.namespace).await;
    let Some(settings) = settings else { return Ok(None) };
    let (vcenter, mut found) = connection::check(&settings, options.ca.as_deref(), &options.recorder).await;
    if let Some(vcenter) = vcenter {
        let (site, read) = Site::read(client, &settings, &vcenter).await;
        if let Some(folders) = site.map(|site| site.folders.into_keys().collect()) {
            return Ok(Some((settings, vcenter, folders)));
        }
        vcenter.logout().await;
        found.extend(read);
    }
    let errors = found.iter().filter(|one| one.outcome == Outcome::Error);
    let errors: Vec<_> = errors.map(|one| format!("{} {}", one.check.code, one.found)).collect();
    Err(errors.join("; "))
}

/// Runs all checks that `wanted` names; what a failed one leaves open is skipped and says so.
pub async fn diagnose(client: &Client, options: &Options, wanted: impl Fn(Check) -> bool) -> Vec<Diagnosis> {
    let (settings, mut found) = configuration::check(client, &options.namespace).await;
    if let Some(settings) = settings {
        let (vcenter, connected) =
            connection::check(&settings, options.ca.as_deref(), &options.recorder).await;
        found.extend(connected);
        if let Some(vcenter) = vcenter {
            let (site, read) = Site::read(client, &settings, &vcenter).await;
            found.extend(read);
            if let Some(site) = site {
                found.extend(Box::pin(diagnose_site(&site, &options.namespace)).await);
                if options.recorder.is_on() {
                    read_inventory(&vcenter, site.folders.keys().cloned().collect()).await;
                }
            }
            vcenter.logout().await;
        }
    }
    let looked_at = |check: &Check| found.iter().any(|diagnosis| diagnosis.check == *check);
    let open: Vec<_> = CHECKS.iter().filter(|check| !looked_at(check)).collect();
    let earlier = if found.iter().any(|diagnosis| diagnosis.outcome == Outcome::Error) {
        "an earlier check failed"
    } else {
        "an earlier check was skipped"
    };
    found.extend(open.into_iter().map(|check| check.skipped(earlier)));
    found.retain(|diagnosis| wanted(diagnosis.check));
    found.sort_by_key(|diagnosis| diagnosis.check.code);
    found
}

/// Follows the VMs below the folders until all are known, as the program does: a recording shows the property stream, too.
async fn read_inventory(vcenter: &VCenter, folders: Vec<MoRef>) {
    let inventory = Inventory::start(vcenter.clone(), folders, inventory::Options::default());
    drop(tokio::time::timeout(LONGEST_READING, inventory.wait_until_complete()).await);
}

/// The checks that need nothing but a connected vCenter, side by side.
async fn diagnose_site(site: &Site<'_>, operator_namespace: &str) -> Vec<Diagnosis> {
    let (privileges, compute, library, storage, network, namespaces, endpoints) = tokio::join!(
        privileges::check(site),
        compute::check(site),
        library::check(site),
        storage::check(site),
        network::check(site),
        namespaces::check(site),
        endpoints::check(site, operator_namespace),
    );
    [privileges, compute, library, storage, network, namespaces, vec![endpoints]].concat()
}
