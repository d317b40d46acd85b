//! Destroys the golden templates that an installation leaves in vCenter when its management cluster is deleted.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use vsphere::{Inventory, inventory};

use crate::doctor::{self, Options};
use crate::templates::{self, TemplateCache};
use crate::vcenter::VCenter;
pub use crate::vcenter::drawn_stack_id;

/// The timeout for reading all VMs. All VMs must be known, because a VM's disks can depend on a template.
const READ_WITHIN: Duration = Duration::from_mins(2);

/// The golden templates that an installation left in vCenter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// The templates that were destroyed.
    pub destroyed: Vec<String>,
    /// The templates that were kept because a disk depends on them.
    pub kept: Vec<String>,
}

/// Destroys the golden templates of this management cluster's installation, except the templates on which a disk depends. The
/// caller ensures that the installation doesn't have or create VMs.
///
/// # Errors
///
/// Returns a message that says why templates weren't destroyed.
pub async fn destroy_templates(kube: &Client, options: &Options) -> Result<Leftovers, String> {
    let Some((mut settings, client, folders)) = doctor::connect_to_site(kube, options).await? else {
        return Ok(Leftovers::default());
    };
    if settings.stack.is_empty() {
        let drawn = drawn_stack_id(kube, &options.namespace).await.map_err(|error| error.to_string())?;
        settings.stack = drawn.unwrap_or_default();
    }
    let inventory = Inventory::start(client.clone(), folders, inventory::Options::default());
    let vcenter = VCenter::new(settings, client, inventory);
    let outcome = destroy(&vcenter).await;
    vcenter.disconnect().await;
    outcome
}

async fn destroy(vcenter: &VCenter) -> Result<Leftovers, String> {
    // An installation that has no id yet has created nothing.
    if vcenter.settings.stack.is_empty() {
        return Ok(Leftovers::default());
    }
    let complete = tokio::time::timeout(READ_WITHIN, vcenter.inventory.wait_until_complete()).await;
    complete.map_err(|_| "the VMs of vCenter could not be read in time".to_owned())?;
    let (cache, _requests) = TemplateCache::new(Arc::new(|_| ()), Arc::new(|_, _| false));
    let mut kept = templates::unused(vcenter, |_, _| false);
    let destroyed = templates::collect(&cache, vcenter, |_, _| false).await;
    let destroyed = destroyed.map_err(|error| vcenter.call_problem(&error).to_string())?;
    kept.retain(|name| !destroyed.contains(name));
    Ok(Leftovers { destroyed, kept })
}
