//! Deletes bootstrap clusters.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use kube::Client;
use plane::{Plane, StackIdentity};
use vmop::leftovers::{Leftovers, destroy_templates};

use super::summary;
use crate::init::given::operator_flags;
use crate::kube::connection::client;
use crate::kubeconfig;
use crate::local::guarded::{GuardedStack, StackPrograms};
use crate::state::folder::BootstrapFolder;
use crate::state::record::Record;
use crate::terminal::exit::ExitStatus;
use crate::terminal::output::say;

/// The maximum number of VMs that an error names.
const MAX_NAMES: usize = 5;

/// Deletes a bootstrap cluster and its folder. Refuses if it has VMs, unless `orphan` is set.
pub async fn remove(name: &str, orphan: bool) -> Result<()> {
    let folder = BootstrapFolder::of(name)?;
    if !folder.path().exists() {
        say!("{name}: does not exist");
        return Ok(());
    }
    folder.check()?;
    let _lock = folder.lock()?;
    if !orphan {
        let vms = with_objects(&folder, async |client| empty(name, client).await).await?;
        if let Some(vms) = vms.filter(|vms| !vms.is_empty()) {
            return Err(ExitStatus::Refused.error(refusal(name, &vms)));
        }
    }
    delete(&folder).await?;
    say!("{name}: deleted");
    Ok(())
}

/// Deletes a bootstrap cluster if a command with `--bootstrap` created it, it is stopped, and it has neither clusters
/// nor VMs.
pub async fn delete_if_empty(name: &str) -> Result<()> {
    let folder = BootstrapFolder::of(name)?;
    let for_command = folder.settings()?.is_some_and(|settings| settings.for_command);
    if for_command && folder.daemon().holder()?.is_none() && summary::is_empty(&folder)? {
        // The summary can be older than the last VMs.
        let vms = with_objects(&folder, async |client| empty(name, client).await).await?;
        if vms.is_none_or(|vms| vms.is_empty()) {
            delete(&folder).await?;
        }
    }
    Ok(())
}

/// Stops a bootstrap cluster, and deletes its folder and its kubeconfig context.
pub async fn delete(folder: &BootstrapFolder) -> Result<()> {
    folder.daemon().stop().await?;
    folder.delete()?;
    if let Ok(file) = kubeconfig::users_file(None) {
        kubeconfig::remove_bootstrap(folder.name(), &file).await?;
    }
    Ok(())
}

/// Returns the namespace and name of each VM in a bootstrap cluster. If there aren't any VMs, destroys the cluster's
/// golden templates, because their owner can't be found after the cluster is deleted.
async fn empty(name: &str, client: &Client) -> Result<Vec<(String, String)>> {
    let vms = summary::vms(client).await?;
    if !vms.is_empty() {
        return Ok(vms);
    }
    match destroy_templates(client, &operator_flags(None).doctor_options()?).await {
        Ok(Leftovers { destroyed, kept }) => {
            for template in destroyed {
                say!("{name}: golden template {template} is destroyed");
            }
            for template in kept {
                say!(
                    "{name}: golden template {template} stays in vCenter, because disks depend on it. When they are gone: govc vm.destroy {template}"
                );
            }
        }
        Err(error) => say!(
            "warning: the golden templates of {name} stay in vCenter: {error}. Delete them there: the templates that no VM was cloned from"
        ),
    }
    Ok(vms)
}

/// Runs `work` with a client for a bootstrap cluster's API server. If the cluster is stopped, starts the API server for
/// this call, without the programs. Returns `None` if the cluster never stored objects.
async fn with_objects<T>(
    folder: &BootstrapFolder,
    work: impl AsyncFnOnce(&Client) -> Result<T>,
) -> Result<Option<T>> {
    if let Some(record) = folder.daemon().read::<Record>()? {
        return work(&client(Some(&record.kubeconfig), None).await?).await.map(Some);
    }
    // Without a store, the cluster can't have VMs.
    if !folder.path().join("etcd").exists() {
        return Ok(None);
    }
    let needs = StackPrograms::of_this_program(Vec::new())?;
    let open = || Ok(StackIdentity::kept(folder.path())?);
    let start = async |stack: &Arc<StackIdentity>, tools| {
        let options =
            plane::Options { stack: stack.clone(), tools, definitions: Vec::new(), guest_proxy: None };
        Plane::bare(options).await.context(
            "cannot read the objects of the bootstrap cluster, so it was not deleted. --orphan deletes it in any case",
        )
    };
    let Some((guarded, plane)) = GuardedStack::start(&needs, open, start, std::future::pending()).await?
    else {
        return Ok(None);
    };
    let found = work(&plane.client()).await;
    plane.stop().await;
    drop(plane);
    guarded.clean_up().await;
    found.map(Some)
}

fn refusal(name: &str, vms: &[(String, String)]) -> String {
    let mut named: Vec<_> =
        vms.iter().take(MAX_NAMES).map(|(namespace, vm)| format!("{namespace}/{vm}")).collect();
    if vms.len() > MAX_NAMES {
        named.push(format!("{} more", vms.len() - MAX_NAMES));
    }
    let count = if vms.len() == 1 { "1 VM".to_owned() } else { format!("{} VMs", vms.len()) };
    format!(
        "bootstrap cluster {name} has {count} in vCenter: {}. Nothing was changed. First delete the clusters of these VMs with layercake delete: layercake list -A --bootstrap {name} lists them. With --orphan, {name} is deleted and its VMs stay, but nothing manages them",
        named.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_some_vms() {
        let vms =
            |count: usize| -> Vec<_> { (0..count).map(|at| ("dev".to_owned(), format!("vm{at}"))).collect() };
        assert!(refusal("lab", &vms(1)).contains("lab has 1 VM in vCenter: dev/vm0. "));
        assert!(
            refusal("lab", &vms(7))
                .contains("lab has 7 VMs in vCenter: dev/vm0, dev/vm1, dev/vm2, dev/vm3, dev/vm4, 2 more. ")
        );
    }
}
