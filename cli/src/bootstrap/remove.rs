//! Deleting a bootstrap cluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use plane::{Guard, Plane};

use super::folder::Folder;
use super::record::Record;
use super::summary;
use crate::connection::client;
use crate::exit::ExitStatus;
use crate::kubeconfig;
use crate::output::say;
use crate::stack::{clean_up, ensure_programs};

/// The most VMs that an error names.
const MAX_NAMES: usize = 5;

/// Deletes a bootstrap cluster and its folder, if it has no VMs or if they are to be left alone.
pub async fn remove(name: &str, orphan: bool) -> Result<()> {
    let folder = Folder::of(name)?;
    if !folder.path().exists() {
        say!("{name}: does not exist");
        return Ok(());
    }
    folder.check()?;
    let _lock = folder.lock()?;
    let vms = if orphan { Vec::new() } else { vms(&folder).await? };
    if !vms.is_empty() {
        return Err(ExitStatus::Refused.error(refusal(name, &vms)));
    }
    delete(&folder).await?;
    say!("{name}: deleted");
    Ok(())
}

/// Deletes a bootstrap cluster that a command created and that is stopped, if nothing is left in it.
pub async fn delete_if_empty(name: &str) -> Result<()> {
    let folder = Folder::of(name)?;
    let for_command = folder.settings()?.is_some_and(|settings| settings.for_command);
    if for_command && folder.daemon().holder()?.is_none() && summary::is_empty(&folder)? {
        delete(&folder).await?;
    }
    Ok(())
}

/// Stops a bootstrap cluster and deletes its folder, with the context in the user's kubeconfig.
pub async fn delete(folder: &Folder) -> Result<()> {
    folder.daemon().stop().await?;
    folder.delete()?;
    if let Ok(file) = kubeconfig::users_file(None) {
        kubeconfig::remove_bootstrap(folder.name(), &file).await?;
    }
    Ok(())
}

/// The VMs of a bootstrap cluster, as namespace and name.
async fn vms(folder: &Folder) -> Result<Vec<(String, String)>> {
    if let Some(record) = folder.daemon().read::<Record>()? {
        return summary::vms(&client(Some(&record.kubeconfig), None).await?).await;
    }
    // One that never had a store has no VMs.
    if !folder.path().join("etcd").exists() {
        return Ok(Vec::new());
    }
    let exe = std::env::current_exe().context("cannot find the path of this program")?;
    let tools = ensure_programs(BTreeMap::new(), Vec::new()).await?;
    let stack = Arc::new(plane::Stack::kept(folder.path())?);
    let guard = Guard::start(&exe, &stack)?;
    let options = plane::Options { stack, tools, definitions: Vec::new() };
    let found = match Plane::bare(options).await {
        Ok(plane) => {
            let found = summary::vms(&plane.client()).await;
            plane.stop().await;
            found
        }
        Err(error) => Err(error).context(
            "cannot read the objects of the bootstrap cluster, so it was not deleted. --orphan deletes it in any case",
        ),
    };
    clean_up(guard, folder.path()).await;
    found
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
