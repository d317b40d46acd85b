//! Reconciles OSImages and TanzuKubernetesReleases with the node images.

use std::sync::Arc;

use api::gcm::{OSImage, TanzuKubernetesRelease};
use api::names::{annotation, label};
use api::vmop::VirtualMachineImage;
use jiff::Timestamp;
use kit::bounded::Exceeded;
use kit::events::Events;
use kit::expectations::StaleCache;
use kit::index::Index;
use kit::status::settle;
use kit::watch::Cache;
use kit::{Controller, Disposition, Next, ReconcileError, Runtime, apply};
use kube::runtime::reflector::ObjectRef;
use kube::{Resource, ResourceExt};

use super::cache::ReleaseCache;
use super::image::{self, CarriedRelease};
use super::kubernetes_release::KubernetesRelease;
use super::labels::MANAGED_BY;
use super::networks::CarriedNetworks;
use super::node_image::ReleaseImage;
use super::resolution::AvailableRelease;
use super::{conflict, plan, status};

/// The state that the release controllers share.
pub struct Context {
    api: apply::Api,
    images: Cache<VirtualMachineImage>,
    os_images: Cache<OSImage>,
    releases: Cache<TanzuKubernetesRelease>,
    /// VirtualMachineImages by the name of the release that they contain.
    carriers: Index<VirtualMachineImage>,
    release_cache: ReleaseCache,
    events: Events,
}

/// The reasons why a reconcile fails.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The image can't be parsed. An administrator must correct it.
    #[error(transparent)]
    Unreadable(#[from] image::Unreadable),
    /// Reading the image took too long.
    #[error("the add-ons of the image cannot be read: {0}")]
    Late(#[from] Exceeded),
    /// The cache doesn't contain gcm's own last write yet.
    #[error(transparent)]
    Behind(#[from] StaleCache),
    /// The API server refused the request or didn't respond.
    #[error("the API server: {}", kit::api_error::message(.0))]
    Api(#[from] kube::Error),
}

impl ReconcileError for Error {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Unreadable(_) => Disposition::Invalid,
            Self::Late(_) => Disposition::Failed,
            Self::Behind(_) => Disposition::Waiting(Some(kit::retry::REQUEUE_SOON)),
            Self::Api(error) => Disposition::from_api_error(error),
        }
    }

    fn label(&self) -> &'static str {
        match self {
            Self::Unreadable(_) => "Unreadable",
            Self::Late(_) => "Late",
            Self::Behind(_) => "Behind",
            Self::Api(_) => "Api",
        }
    }
}

/// Returns the name of the release that an image contains.
fn release_name(image: &VirtualMachineImage) -> Option<String> {
    image::carried(image)?.ok().map(|carried| carried.version.object_name())
}

fn is_ours<K: Resource>(object: &K) -> bool {
    object.labels().get(MANAGED_BY.0).is_some_and(|by| by == MANAGED_BY.1)
}

/// Runs the three controllers until shutdown.
pub async fn run(
    started: &Runtime,
    images: &Cache<VirtualMachineImage>,
    os_images: &Cache<OSImage>,
    releases: &Cache<TanzuKubernetesRelease>,
    release_cache: &ReleaseCache,
) {
    let carriers = images.index(|image| release_name(image).into_iter().collect());
    let users = releases.index(|tkr| tkr.spec.os_images.iter().map(|image| image.name.clone()).collect());
    // Index all releases under one key, because any of them can list a changed release as an update.
    let everyone = releases.index(|_| vec![String::new()]);
    let ctx = Arc::new(Context {
        api: apply::Api::new(started, "gcm/release"),
        images: images.clone(),
        os_images: os_images.clone(),
        releases: releases.clone(),
        carriers: carriers.clone(),
        release_cache: release_cache.clone(),
        events: Events::new(started, "gcm-release"),
    });
    let by_image = Controller::new("image", started, images)
        .owns(os_images)
        // Recreate a deleted release if images still contain it.
        .watches_changes(releases, move |change| match (&change.old, &change.new) {
            (Some(gone), None) => carriers.refs(&gone.name_any()),
            _ => Vec::new(),
        })
        .run(Arc::clone(&ctx), reconcile_image);
    let by_os_image =
        Controller::new("osimage", started, os_images).run(Arc::clone(&ctx), reconcile_os_image);
    let by_release = Controller::new("release", started, releases)
        .watches(images, |image| release_name(image).map(|name| ObjectRef::new(&name)).into_iter().collect())
        .watches_changes(os_images, move |change| match (&change.old, &change.new) {
            (Some(_), Some(_)) => Vec::new(),
            _ => change.sides().flat_map(|image| users.refs(&image.name_any())).collect(),
        })
        .watches_changes(releases, move |change| {
            let candidate = |side: &Option<Arc<TanzuKubernetesRelease>>| {
                side.as_deref()
                    .and_then(|tkr| KubernetesRelease::of(tkr).ok())
                    .map(|release| release.candidate)
            };
            if candidate(&change.old) == candidate(&change.new) { Vec::new() } else { everyone.refs("") }
        })
        .run(ctx, reconcile_release);
    tokio::join!(by_image, by_os_image, by_release);
}

async fn reconcile_image(image: Arc<VirtualMachineImage>, ctx: Arc<Context>) -> Result<Next, Error> {
    if image.meta().deletion_timestamp.is_some() {
        return Ok(Next::OnChange);
    }
    let name = image.name_any();
    let live = ctx.os_images.current(None, &name)?;
    let carried = image::carried(&image).transpose().inspect_err(|unreadable| {
        let note = format!("{unreadable}. {}", image::Unreadable::REMEDY);
        ctx.events.warning(&*image, "InvalidNodeImage", note);
    })?;
    let Some(carried) = carried else {
        return exclude_image(&image, live.as_deref(), &ctx).await;
    };
    if live.as_deref().is_none_or(is_ours) {
        let networks = CarriedNetworks::of(&image, &carried.version).await?;
        let intent = plan::os_image(&image, &carried, &networks);
        // Apply again to remove outdated annotations, even those that an earlier process wrote.
        let marks = [annotation::INCOMPATIBLE_REASON, annotation::UNUSABLE_CONTAINER_NETWORKS];
        let marked = |image: &OSImage| marks.map(|mark| image.annotations().get(mark).cloned());
        let live = live.as_ref().filter(|live| marked(live) == marked(&intent));
        ctx.api.apply(&intent, live).await?;
    }
    apply_release(&carried.version.object_name(), &ctx).await
}

/// Deletes gcm's OSImage for an image that must not become a release. Other OSImages are kept.
async fn exclude_image(
    image: &VirtualMachineImage,
    os_image: Option<&OSImage>,
    ctx: &Context,
) -> Result<Next, Error> {
    if let Some(why) = image::explain_exclusion(image).filter(|_| image::is_node_image(image)) {
        tracing::info!(image = image.name_any(), why, "cannot make a release from a node image");
    }
    if let Some(ours) = os_image.filter(|os_image| is_ours(*os_image)) {
        ctx.api.delete(ours).await?;
    }
    Ok(Next::OnChange)
}

/// Applies the release with this name from its images, or deletes a release whose images are gone. Releases that gcm doesn't
/// manage are kept.
async fn apply_release(name: &str, ctx: &Context) -> Result<Next, Error> {
    let live = ctx.releases.current(None, name)?;
    if !live.as_deref().is_none_or(is_ours) {
        return Ok(Next::OnChange);
    }
    match (plan::release(&carrying_images(name, ctx), live.as_deref()), &live) {
        (Some(intent), live) => {
            // Apply again to remove an outdated conflict label or reason, even if the object is otherwise unchanged.
            let marked = |tkr: &TanzuKubernetesRelease| {
                let conflict = tkr.labels().contains_key(label::CONFLICTING_OS_IMAGES);
                (conflict, tkr.annotations().get(annotation::INCOMPATIBLE_REASON).cloned())
            };
            let live = live.as_ref().filter(|live| marked(live) == marked(&intent));
            ctx.api.apply(&intent, live).await?;
        }
        (None, Some(live)) => {
            ctx.api.delete(&**live).await?;
        }
        (None, None) => {}
    }
    Ok(Next::OnChange)
}

/// Returns the names of the images that contain the release with this name, and the release as each image describes it.
fn carrying_images(name: &str, ctx: &Context) -> Vec<(String, CarriedRelease)> {
    let images = ctx.carriers.objects(name);
    let images = images.iter().filter(|image| image.meta().deletion_timestamp.is_none());
    images.filter_map(|image| Some((image.name_any(), image::carried(image)?.ok()?))).collect()
}

async fn reconcile_os_image(image: Arc<OSImage>, ctx: Arc<Context>) -> Result<Next, Error> {
    let mut new = status::os_image(&image);
    let old = image.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    new.conditions = settle(old, new.conditions, Timestamp::now());
    ctx.api.patch_status(&*image, &new).await?;
    Ok(Next::OnChange)
}

async fn reconcile_release(tkr: Arc<TanzuKubernetesRelease>, ctx: Arc<Context>) -> Result<Next, Error> {
    if tkr.meta().deletion_timestamp.is_some() {
        return Ok(Next::OnChange);
    }
    if is_ours(&*tkr) {
        apply_release(&tkr.name_any(), &ctx).await?;
        if ctx.releases.current(None, &tkr.name_any())?.is_none()
            || ctx.carriers.refs(&tkr.name_any()).is_empty()
        {
            return Ok(Next::OnChange);
        }
    }
    let disagreement = is_ours(&*tkr)
        .then(|| conflict::explain(&carrying_images(&tkr.name_any(), &ctx), Some(&tkr)))
        .flatten();
    let available: Arc<Vec<AvailableRelease>> = ctx.release_cache.available();
    let has_image = |name: &str| {
        let image = ctx.os_images.get(None, name);
        image
            .and_then(|image| ReleaseImage::of(&image))
            .is_some_and(|image| ctx.images.get(None, &image.name).is_some())
    };
    let mut new = status::release(&tkr, has_image, disagreement.as_deref(), &available);
    let old = tkr.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    new.conditions = settle(old, new.conditions, Timestamp::now());
    ctx.api.patch_status(&*tkr, &new).await?;
    Ok(Next::OnChange)
}
