//! Destroys what an installation leaves in vCenter when its management cluster is deleted: golden templates.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use vsphere::{Inventory, inventory};

use crate::doctor::{self, Options};
use crate::templates::{self, TemplateCache};
use crate::vcenter::{VCenter, drawn_stack_id};

/// The time in which all VMs must be known, since a VM can depend on a template.
const READ_WITHIN: Duration = Duration::from_mins(2);

/// The golden templates of an installation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// The templates that were destroyed.
    pub destroyed: Vec<String>,
    /// The templates that stay, because a disk depends on them.
    pub kept: Vec<String>,
}

/// Destroys the golden templates of the installation in this management cluster on which no disk depends. The caller makes sure that the
/// installation has no VMs and creates none.
///
/// # Errors
/// A sentence that says why nothing, or not everything, was destroyed.
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
    // Templates without an id may be another installation's.
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
