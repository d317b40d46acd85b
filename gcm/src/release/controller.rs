//! Reconciles OSImages and TanzuKubernetesReleases with the node images.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::gcm::release::{OSImageStatus, TanzuKubernetesReleaseStatus};
use api::gcm::{OSImage, TanzuKubernetesRelease};
use api::names::{annotation, label};
use api::vmop::{VirtualMachineImage, VirtualMachineImageStatus};
use kit::bounded::Exceeded;
use kit::events::Events;
use kit::expectations::StaleCache;
use kit::index::Index;
use kit::reconcile::Seen;
use kit::watch::Cache;
use kit::{Controller, Disposition, Reconcile, ReconcileError, Runtime, apply};
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
            Self::Behind(_) => Disposition::Overtaken,
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
        .drive(Images(Arc::clone(&ctx)));
    let by_os_image = Controller::new("osimage", started, os_images).drive(OsImages(Arc::clone(&ctx)));
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
        .drive(Releases(ctx));
    tokio::join!(by_image, by_os_image, by_release);
}

/// Reconciles VirtualMachineImages: the OSImage and the release of each node image.
struct Images(Arc<Context>);

/// The facts about one image.
struct ImageFacts {
    /// The OSImage with the image's name, if it exists.
    os_image: Option<Arc<OSImage>>,
    /// The release and the container networks that the image contains. `None` if it isn't a node image.
    carried: Option<(CarriedRelease, CarriedNetworks)>,
}

impl Reconcile for Images {
    type Kind = VirtualMachineImage;
    type Facts = ImageFacts;
    /// The OSImage to apply and the name of its release. `None` if the image must not become a release.
    type Plan = Option<(OSImage, String)>;
    type Done = ();
    type Error = Error;

    fn api(&self) -> &apply::Api {
        &self.0.api
    }

    fn refused(_image: &VirtualMachineImage, error: kube::Error) -> Error {
        error.into()
    }

    async fn gather(&self, image: &Arc<VirtualMachineImage>) -> Result<ImageFacts, Error> {
        let os_image = self.0.os_images.current(None, &image.name_any())?;
        let carried = match image::carried(image).transpose()? {
            Some(carried) => {
                let networks = CarriedNetworks::of(image, &carried.version).await?;
                Some((carried, networks))
            }
            None => None,
        };
        Ok(ImageFacts { os_image, carried })
    }

    fn plan(image: &VirtualMachineImage, facts: &ImageFacts) -> Result<Self::Plan, Error> {
        let of = |(carried, networks): &(CarriedRelease, CarriedNetworks)| {
            (plan::os_image(image, carried, networks), carried.version.object_name())
        };
        Ok(facts.carried.as_ref().map(of))
    }

    async fn carry_out(
        &self,
        image: &mut Arc<VirtualMachineImage>,
        plan: Self::Plan,
        facts: &ImageFacts,
    ) -> Result<(), Error> {
        let ctx = &*self.0;
        let Some((intent, release)) = plan else {
            return exclude_image(image, facts.os_image.as_deref(), ctx).await;
        };
        if facts.os_image.as_deref().is_none_or(is_ours) {
            // Apply again to remove outdated annotations, even those that an earlier process wrote.
            let marks = [annotation::INCOMPATIBLE_REASON, annotation::UNUSABLE_CONTAINER_NETWORKS];
            let marked = |image: &OSImage| marks.map(|mark| image.annotations().get(mark).cloned());
            let live = facts.os_image.as_ref().filter(|live| marked(live) == marked(&intent));
            ctx.api.apply(&intent, live).await?;
        }
        apply_release(&release, ctx).await
    }

    /// The VM operator writes the image's status.
    fn status(_seen: &Seen<'_, Self>) -> Option<VirtualMachineImageStatus> {
        None
    }

    fn publish(&self, seen: &Seen<'_, Self>, _new: Option<&VirtualMachineImageStatus>) {
        if let Some(Error::Unreadable(unreadable)) = seen.outcome.error() {
            let note = format!("{unreadable}. {}", image::Unreadable::REMEDY);
            self.0.events.warning(seen.object, "InvalidNodeImage", note);
        }
    }
}

/// Reconciles OSImages, which only have a status.
struct OsImages(Arc<Context>);

impl Reconcile for OsImages {
    type Kind = OSImage;
    type Facts = ();
    type Plan = ();
    type Done = ();
    type Error = Error;

    fn api(&self) -> &apply::Api {
        &self.0.api
    }

    fn refused(_image: &OSImage, error: kube::Error) -> Error {
        error.into()
    }

    async fn gather(&self, _image: &Arc<OSImage>) -> Result<(), Error> {
        Ok(())
    }

    fn plan(_image: &OSImage, (): &()) -> Result<(), Error> {
        Ok(())
    }

    async fn carry_out(&self, _image: &mut Arc<OSImage>, (): (), (): &()) -> Result<(), Error> {
        Ok(())
    }

    fn status(seen: &Seen<'_, Self>) -> Option<OSImageStatus> {
        Some(status::os_image(seen.object))
    }
}

/// Reconciles TanzuKubernetesReleases: the object that gcm creates from node images, and the status.
struct Releases(Arc<Context>);

/// The facts about one release.
struct ReleaseFacts {
    /// The node images that contain the release, and the release as each of them describes it.
    images: Vec<(String, CarriedRelease)>,
    /// All releases that clusters can use.
    available: Arc<Vec<AvailableRelease>>,
    /// The names of the release's OSImages whose node image exists.
    usable_os_images: BTreeSet<String>,
}

impl Reconcile for Releases {
    type Kind = TanzuKubernetesRelease;
    type Facts = ReleaseFacts;
    type Plan = ();
    type Done = ();
    type Error = Error;

    fn api(&self) -> &apply::Api {
        &self.0.api
    }

    fn refused(_tkr: &TanzuKubernetesRelease, error: kube::Error) -> Error {
        error.into()
    }

    async fn gather(&self, tkr: &Arc<TanzuKubernetesRelease>) -> Result<ReleaseFacts, Error> {
        let ctx = &*self.0;
        let names = tkr.spec.os_images.iter().map(|image| &image.name);
        let usable = names.filter(|name| {
            let image = ctx.os_images.get(None, name);
            let image = image.and_then(|image| ReleaseImage::of(&image));
            image.is_some_and(|image| ctx.images.get(None, &image.name).is_some())
        });
        Ok(ReleaseFacts {
            images: if is_ours(&**tkr) { carrying_images(&tkr.name_any(), ctx) } else { Vec::new() },
            available: ctx.release_cache.available(),
            usable_os_images: usable.cloned().collect(),
        })
    }

    fn plan(_tkr: &TanzuKubernetesRelease, _facts: &ReleaseFacts) -> Result<(), Error> {
        Ok(())
    }

    async fn carry_out(
        &self,
        tkr: &mut Arc<TanzuKubernetesRelease>,
        (): (),
        _facts: &ReleaseFacts,
    ) -> Result<(), Error> {
        if is_ours(&**tkr) { apply_release(&tkr.name_any(), &self.0).await } else { Ok(()) }
    }

    fn status(seen: &Seen<'_, Self>) -> Option<TanzuKubernetesReleaseStatus> {
        let (tkr, facts, ours) = (seen.object, seen.facts?, is_ours(seen.object));
        // A release whose images are gone was deleted.
        if seen.outcome.error().is_some() || (ours && facts.images.is_empty()) {
            return None;
        }
        let disagreement = ours.then(|| conflict::explain(&facts.images, Some(tkr))).flatten();
        let has_image = |name: &str| facts.usable_os_images.contains(name);
        Some(status::release(tkr, has_image, disagreement.as_deref(), &facts.available))
    }
}

/// Deletes gcm's OSImage for an image that must not become a release. Other OSImages are kept.
async fn exclude_image(
    image: &VirtualMachineImage,
    os_image: Option<&OSImage>,
    ctx: &Context,
) -> Result<(), Error> {
    if let Some(why) = image::explain_exclusion(image).filter(|_| image::is_node_image(image)) {
        tracing::info!(image = image.name_any(), why, "cannot make a release from a node image");
    }
    if let Some(ours) = os_image.filter(|os_image| is_ours(*os_image)) {
        ctx.api.delete(ours).await?;
    }
    Ok(())
}

/// Applies the release with this name from its images, or deletes a release whose images are gone. Releases that gcm doesn't
/// manage are kept.
async fn apply_release(name: &str, ctx: &Context) -> Result<(), Error> {
    let live = ctx.releases.current(None, name)?;
    if !live.as_deref().is_none_or(is_ours) {
        return Ok(());
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
    Ok(())
}

/// Returns the names of the images that contain the release with this name, and the release as each image describes it.
fn carrying_images(name: &str, ctx: &Context) -> Vec<(String, CarriedRelease)> {
    let images = ctx.carriers.objects(name);
    let images = images.iter().filter(|image| image.meta().deletion_timestamp.is_none());
    images.filter_map(|image| Some((image.name_any(), image::carried(image)?.ok()?))).collect()
}
