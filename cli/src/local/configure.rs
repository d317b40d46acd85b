//! Configures a management cluster on this machine for a site.

use std::time::Duration;

use anyhow::Result;
use api::names::VMOP_NAMESPACE;
use kit::objects::Objects;
use kube::Client;
use serde_json::json;

use crate::image::import::appearance::all_appeared;
use crate::init::given::{GivenSite, operator_flags};
use crate::init::install::InstallationWriter;
use crate::init::site_file::SiteFile;

/// The timeout for the programs to become ready and serve their webhooks.
pub const WITHIN: Duration = Duration::from_mins(2);
/// The timeout for the VM operator to read a content library.
const IMAGES: Duration = Duration::from_mins(1);
/// The interval between checks for the images.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Checks and applies a site file and its credentials. The programs need a part of the file to start, and check the rest with
/// their webhooks. So `start`, which starts them and waits until they are ready, is called in between.
///
/// # Errors
/// Returns an error if the VM operator can't use the site, if the API server refuses it, or if `start` fails.
pub async fn apply_site<T>(
    client: &Client,
    given: &GivenSite,
    start: impl AsyncFnOnce() -> Result<T>,
) -> Result<T> {
    given.check(client).await?;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": VMOP_NAMESPACE}});
    Objects::new(client).apply(&namespace).await?;
    let writer = InstallationWriter::quiet(client, WITHIN);
    writer.apply_configuration(&given.file, given.credentials.as_ref()).await?;
    let started = start().await?;
    writer.apply_site(&given.file, None).await?;
    Ok(started)
}

/// Waits until the library's images and their releases appear. Until then, gcm refuses clusters. Doesn't fail after the
/// timeout, because the doctor checks report missing images.
///
/// # Errors
/// Returns an error if the flags of the VM operator's checks are invalid.
pub async fn wait_for_images(client: &Client, site: &SiteFile) -> Result<()> {
    let Some(library) = site.library() else { return Ok(()) };
    let Ok(vcenter) = vmop::doctor::connect(client, &operator_flags(None).doctor_options()?, None).await
    else {
        return Ok(());
    };
    let items = vcenter.list_library_items(library).await;
    vcenter.logout().await;
    let Ok(items) = items else { return Ok(()) };
    let seen = async || Ok::<_, anyhow::Error>(all_appeared(client, &items).await?.then_some(()));
    plane::wait::poll(IMAGES, POLL_INTERVAL, seen).await?;
    Ok(())
}
