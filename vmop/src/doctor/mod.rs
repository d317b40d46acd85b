//! Checks that the VM operator can work with its configuration and vCenter. `layercake doctor` runs these checks.
//!
//! Each file contains the checks for one subject. A check first reads and then judges with pure functions. Findings
//! address vSphere administrators. Checks don't change anything.

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

use kit::diagnosis::{Check, CheckOutcome, Diagnosis};
use kube::Client;
use vsphere::{Client as VCenter, Inventory, MoRef, Recorder, Secret, inventory};

pub use checks::ALL as CHECKS;

use crate::vcenter::settings::ProviderSettings;
use site::ConnectedSite;

/// The timeout for reading the inventory for a recording.
const LONGEST_READING: Duration = Duration::from_mins(5);

/// The input for the checks.
#[derive(Clone, Debug)]
pub struct Options {
    /// The VM operator's namespace, which contains its configuration.
    pub namespace: String,
    /// A CA bundle (PEM) that replaces the configured `CAFilePath`, which may exist only in the VM operator's container.
    pub ca: Option<String>,
    /// Records the requests to vCenter and its responses. Off by default.
    pub recorder: Recorder,
}

/// The account for the vCenter login.
#[derive(Clone)]
pub struct Account {
    /// The user name, such as `admin@vsphere.local`.
    pub username: String,
    pub password: Secret,
}

/// Connects to the configured vCenter like the VM operator, but with `account` if one is given. Returns the findings if that
/// fails.
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

/// Connects to the configured vCenter like the VM operator, and returns the settings, the client and the VM folders. Returns
/// `None` if there isn't a configuration. The error is a message.
pub(crate) async fn connect_to_site(
    client: &Client,
    options: &Options,
) -> Result<Option<(ProviderSettings, vsphere::Client, Vec<MoRef>)>, String> {
    let (settings, found) = configuration::check(client, &options.namespace).await;
    let Some(settings) = settings else {
        let exists = configuration::exists(client, &options.namespace).await;
        return if exists.is_ok_and(|exists| !exists) { Ok(None) } else { Err(describe_failures(&found)) };
    };
    let (vcenter, mut found) = connection::check(&settings, options.ca.as_deref(), &options.recorder).await;
    if let Some(vcenter) = vcenter {
        let (site, read) = ConnectedSite::read(client, &settings, &vcenter).await;
        if let Some(folders) = site.map(|site| site.folders.into_keys().collect()) {
            return Ok(Some((settings, vcenter, folders)));
        }
        vcenter.logout().await;
        found.extend(read);
    }
    Err(describe_failures(&found))
}

/// Joins the findings that keep the checks from continuing.
fn describe_failures(found: &[Diagnosis]) -> String {
    let failures =
        found.iter().filter(|one| matches!(one.outcome, CheckOutcome::Error | CheckOutcome::Skipped));
    let failures: Vec<_> = failures.map(|one| format!("{} {}", one.check.code, one.found)).collect();
    failures.join("; ")
}

/// Runs all checks and returns the findings for the checks that are `wanted`. Checks that depend on a failed one are reported
/// as skipped.
pub async fn diagnose(client: &Client, options: &Options, wanted: impl Fn(Check) -> bool) -> Vec<Diagnosis> {
    let (settings, mut found) = configuration::check(client, &options.namespace).await;
    if let Some(settings) = settings {
        let (vcenter, connected) =
            connection::check(&settings, options.ca.as_deref(), &options.recorder).await;
        found.extend(connected);
        if let Some(vcenter) = vcenter {
            let (site, read) = ConnectedSite::read(client, &settings, &vcenter).await;
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
    let earlier = if found.iter().any(|diagnosis| diagnosis.outcome == CheckOutcome::Error) {
        "an earlier check failed"
    } else {
        "an earlier check was skipped"
    };
    found.extend(open.into_iter().map(|check| check.skipped(earlier)));
    found.retain(|diagnosis| wanted(diagnosis.check));
    found.sort_by_key(|diagnosis| diagnosis.check.code);
    found
}

/// Reads the VMs in the folders like the VM operator's inventory, so that a recording also contains the stream of property
/// updates.
async fn read_inventory(vcenter: &VCenter, folders: Vec<MoRef>) {
    let inventory = Inventory::start(vcenter.clone(), folders, inventory::Options::default());
    drop(tokio::time::timeout(LONGEST_READING, inventory.wait_until_complete()).await);
}

/// Runs the checks that need only a connected vCenter, concurrently.
async fn diagnose_site(site: &ConnectedSite<'_>, operator_namespace: &str) -> Vec<Diagnosis> {
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
