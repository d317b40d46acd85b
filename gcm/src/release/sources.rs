//! The object and the images of a release, and the write that follows from them.

use std::sync::Arc;

use api::gcm::TanzuKubernetesRelease;
use api::names::{annotation, label};
use api::vmop::VirtualMachineImage;
use kit::apply::Api;
use kit::expectations::StaleCache;
use kit::index::Index;
use kit::watch::Cache;
use kube::{Resource, ResourceExt};

use super::error::Error;
use super::image::{self, CarriedRelease};
use super::labels::is_ours;
use super::plan;

/// The object and the images of one release.
pub struct ReleaseSources {
    /// The release's name.
    name: String,
    live: Option<Arc<TanzuKubernetesRelease>>,
    /// The node images that contain the release, and the release as each of them describes it.
    pub images: Vec<(String, CarriedRelease)>,
}

/// The intended write to a release.
#[derive(Debug, PartialEq)]
pub enum ReleaseWrite {
    Apply(Box<TanzuKubernetesRelease>),
    /// The release's images are gone.
    Delete,
    /// gcm doesn't manage the release, or there is nothing to write.
    Keep,
}

impl ReleaseSources {
    /// Reads the sources of the release with this name. `carriers` are the images by the name of the release that they contain.
    pub fn read(
        name: &str,
        releases: &Cache<TanzuKubernetesRelease>,
        carriers: &Index<VirtualMachineImage>,
    ) -> Result<Self, StaleCache> {
        let live = releases.current(None, name)?;
        let images = carriers.objects(name);
        let images = images.iter().filter(|image| image.metadata.deletion_timestamp.is_none());
        let images = images.filter_map(|image| Some((image.name_any(), image::carried(image)?.ok()?)));
        Ok(Self { name: name.to_owned(), live, images: images.collect() })
    }

    /// Plans the write to the release: it is applied from its images, or deleted if they are gone.
    pub fn plan(&self) -> ReleaseWrite {
        if !self.live.as_deref().is_none_or(is_ours) {
            return ReleaseWrite::Keep;
        }
        match (plan::release(&self.images, self.live.as_deref()), &self.live) {
            (Some(intent), _) => ReleaseWrite::Apply(Box::new(intent)),
            (None, Some(_)) => ReleaseWrite::Delete,
            (None, None) => ReleaseWrite::Keep,
        }
    }

    /// Carries out the write. Fails as overtaken if another reconcile wrote the release since it was read: several images of one
    /// release are reconciled at the same time, and the first of them decides the release's facts.
    pub async fn carry_out(
        &self,
        write: ReleaseWrite,
        releases: &Cache<TanzuKubernetesRelease>,
        api: &Api,
    ) -> Result<(), Error> {
        let version = |live: &Option<Arc<TanzuKubernetesRelease>>| {
            live.as_ref().map(|live| (live.uid(), live.resource_version()))
        };
        if version(&releases.current(None, &self.name)?) != version(&self.live) {
            let kind = TanzuKubernetesRelease::kind(&()).into_owned();
            return Err(StaleCache { kind, name: self.name.clone() }.into());
        }
        match (write, &self.live) {
            (ReleaseWrite::Apply(intent), live) => {
                // Apply again to remove an outdated conflict label or reason, even if the object is otherwise unchanged.
                let marked = |tkr: &TanzuKubernetesRelease| {
                    let conflict = tkr.labels().contains_key(label::CONFLICTING_OS_IMAGES);
                    (conflict, tkr.annotations().get(annotation::INCOMPATIBLE_REASON).cloned())
                };
                let live = live.as_ref().filter(|live| marked(live) == marked(&intent));
                api.apply(&*intent, live).await?;
            }
            (ReleaseWrite::Delete, Some(live)) => {
                api.delete(&**live).await?;
            }
            (ReleaseWrite::Delete | ReleaseWrite::Keep, _) => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use kit::{ReconcileError, Runtime};
    use serde_json::json;
    use support::api_server::{Request, server};

    use super::*;
    use crate::cluster::fixtures::tkr;
    use crate::release::labels::MANAGED_BY;

    const VERSION: &str = "v1.33.1+vmware.1-fips-vkr.2";

    fn releases(live: Option<&TanzuKubernetesRelease>) -> Cache<TanzuKubernetesRelease> {
        Cache::filled(live.cloned())
    }

    /// Returns a release that gcm manages.
    fn ours() -> TanzuKubernetesRelease {
        let mut ours = tkr(VERSION);
        ours.metadata.labels =
            Some([MANAGED_BY].map(|(key, value)| (key.to_owned(), value.to_owned())).into());
        ours.metadata.resource_version = Some("7".to_owned());
        ours
    }

    /// Returns a node image that contains the release.
    fn image() -> VirtualMachineImage {
        let mut image = VirtualMachineImage::new("photon", api::vmop::VirtualMachineImageSpec::default());
        let property = json!({"distribution": {"version": VERSION}}).to_string();
        image.annotations_mut().insert(image::DISTRIBUTION.to_owned(), property);
        image
    }

    fn sources(live: Option<&TanzuKubernetesRelease>, image: Option<VirtualMachineImage>) -> ReleaseSources {
        let name = ours().name_any();
        let carriers = Cache::filled(image).index(|_| vec![ours().name_any()]);
        ReleaseSources::read(&name, &releases(live), &carriers).unwrap()
    }

    #[test]
    fn a_release_is_applied_from_its_images_and_deleted_without_them() {
        assert!(matches!(sources(None, Some(image())).plan(), ReleaseWrite::Apply(_)));
        assert!(matches!(sources(Some(&ours()), Some(image())).plan(), ReleaseWrite::Apply(_)));
        assert_eq!(sources(Some(&ours()), None).plan(), ReleaseWrite::Delete);
        assert_eq!(sources(None, None).plan(), ReleaseWrite::Keep);
        let others = tkr(VERSION);
        assert_eq!(sources(Some(&others), Some(image())).plan(), ReleaseWrite::Keep);
    }

    #[tokio::test]
    async fn a_release_that_was_written_meanwhile_is_planned_again() {
        let (client, requests) = server(|_: &Request| (200, json!(ours())));
        let api = Api::new(&Runtime::detached(client), "gcm/release");
        let read = sources(None, Some(image()));
        let late = read.carry_out(read.plan(), &releases(Some(&ours())), &api).await.unwrap_err();
        assert!(late.is_overtaken() && requests.lock().is_empty());
        read.carry_out(read.plan(), &releases(None), &api).await.unwrap();
        assert_eq!(requests.lock().len(), 1);
    }
}
