//! Reconciles OSImages and TanzuKubernetesReleases with the node images.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::gcm::release::{OSImageStatus, TanzuKubernetesReleaseStatus};
use api::gcm::{OSImage, TanzuKubernetesRelease};
use api::names::annotation;
use api::vmop::{VirtualMachineImage, VirtualMachineImageStatus};
use kit::events::Events;
use kit::expectations::StaleCache;
use kit::index::Index;
use kit::reconcile::Seen;
use kit::watch::Cache;
use kit::{Controller, Reconcile, Runtime, apply};
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;

use super::cache::ReleaseCache;
use super::error::Error;
use super::image::{self, CarriedRelease};
use super::kubernetes_release::KubernetesRelease;
use super::labels::is_ours;
use super::networks::CarriedNetworks;
use super::node_image::ReleaseImage;
use super::resolution::AvailableRelease;
use super::sources::{ReleaseSources, ReleaseWrite};
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

impl Context {
    fn sources(&self, release: &str) -> Result<ReleaseSources, StaleCache> {
        ReleaseSources::read(release, &self.releases, &self.carriers)
    }
}

/// Returns the name of the release that an image contains.
fn release_name(image: &VirtualMachineImage) -> Option<String> {
    image::carried(image)?.ok().map(|carried| carried.version.object_name())
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
    /// The contents of a node image. `None` if it isn't a node image.
    carried: Option<CarriedFacts>,
}

/// The facts about the contents of one node image.
struct CarriedFacts {
    release: CarriedRelease,
    networks: CarriedNetworks,
    /// The release's object and images.
    sources: ReleaseSources,
}

impl Reconcile for Images {
    type Kind = VirtualMachineImage;
    type Facts = ImageFacts;
    /// The OSImage to apply and the write to its release. `None` if the image must not become a release.
    type Plan = Option<(OSImage, ReleaseWrite)>;
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
            Some(release) => {
                let networks = CarriedNetworks::of(image, &release.version).await?;
                let sources = self.0.sources(&release.version.object_name())?;
                Some(CarriedFacts { release, networks, sources })
            }
            None => None,
        };
        Ok(ImageFacts { os_image, carried })
    }

    fn plan(image: &VirtualMachineImage, facts: &ImageFacts) -> Result<Self::Plan, Error> {
        let of = |CarriedFacts { release, networks, sources }: &CarriedFacts| {
            (plan::os_image(image, release, networks), sources.plan())
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
        let (Some((intent, release)), Some(carried)) = (plan, &facts.carried) else {
            return exclude_image(image, facts.os_image.as_deref(), ctx).await;
        };
        if facts.os_image.as_deref().is_none_or(is_ours) {
            // Apply again to remove outdated annotations, even those that an earlier process wrote.
            let marks = [annotation::INCOMPATIBLE_REASON, annotation::UNUSABLE_CONTAINER_NETWORKS];
            let marked = |image: &OSImage| marks.map(|mark| image.annotations().get(mark).cloned());
            let live = facts.os_image.as_ref().filter(|live| marked(live) == marked(&intent));
            ctx.api.apply(&intent, live).await?;
        }
        carried.sources.carry_out(release, &ctx.releases, &ctx.api).await
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
    /// The release's object and images. `None` if gcm doesn't manage the release.
    sources: Option<ReleaseSources>,
    /// All releases that clusters can use.
    available: Arc<Vec<AvailableRelease>>,
    /// The names of the release's OSImages whose node image exists.
    usable_os_images: BTreeSet<String>,
}

impl Reconcile for Releases {
    type Kind = TanzuKubernetesRelease;
    type Facts = ReleaseFacts;
    type Plan = ReleaseWrite;
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
        let sources = is_ours(&**tkr).then(|| ctx.sources(&tkr.name_any())).transpose()?;
        Ok(ReleaseFacts {
            sources,
            available: ctx.release_cache.available(),
            usable_os_images: usable.cloned().collect(),
        })
    }

    fn plan(_tkr: &TanzuKubernetesRelease, facts: &ReleaseFacts) -> Result<ReleaseWrite, Error> {
        Ok(facts.sources.as_ref().map_or(ReleaseWrite::Keep, ReleaseSources::plan))
    }

    async fn carry_out(
        &self,
        _tkr: &mut Arc<TanzuKubernetesRelease>,
        plan: ReleaseWrite,
        facts: &ReleaseFacts,
    ) -> Result<(), Error> {
        let Some(sources) = &facts.sources else { return Ok(()) };
        sources.carry_out(plan, &self.0.releases, &self.0.api).await
    }

    fn status(seen: &Seen<'_, Self>) -> Option<TanzuKubernetesReleaseStatus> {
        let (tkr, facts) = (seen.object, seen.facts?);
        let images = facts.sources.as_ref().map(|sources| &sources.images);
        // A release whose images are gone was deleted.
        if seen.outcome.error().is_some() || images.is_some_and(Vec::is_empty) {
            return None;
        }
        let disagreement = images.and_then(|images| conflict::explain(images, Some(tkr)));
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
