//! VirtualMachineImage: keeps one object per image in the content libraries.
//!
//! Images follow the libraries, so there isn't a reconcile per object but one sync of all libraries. The sync runs at startup,
//! when the connection, a source or an image changes, when a VM refers to a missing image, when an administrator announces a
//! library change, and periodically. An unchanged item costs one small read, and its files aren't read.

pub mod descriptor;
pub mod libraries;

pub mod plan;
mod sync_requests;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use api::vmop::{
    ContentLibraryProvider, ContentSource, PROVIDER_CONFIGURATION, VirtualMachineImage,
    VirtualMachineImageStatus,
};
use kit::apply::Api;
use kit::optional::Optional;
use kit::retry::{Failures, jitter};
use kit::watch::Cache;
use kube::{Resource, ResourceExt};
use serde_json::json;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use vsphere::Kind;
use vsphere::automation::LibraryItem;

use crate::error::Error;
use crate::vcenter::{ConnectionState, LibraryProblem, Provider, VCenter};
use descriptor::NotOvf;
use libraries::ImageLibrary;
pub use sync_requests::SyncRequests;

const RETRY: (Duration, Duration) = (Duration::from_secs(5), Duration::from_mins(5));
/// The minimum time between two syncs, however many are requested.
const APART: Duration = Duration::from_secs(5);

/// Syncs the images with the content libraries.
pub struct Images {
    /// The API client with this controller's field manager.
    pub api: Api,
    pub provider: Arc<Provider>,
    /// The operator's namespace, which contains the provider configuration.
    pub namespace: String,
    /// The existing images.
    pub cache: Cache<VirtualMachineImage>,
    /// The image sources in addition to the configured library.
    pub sources: Optional<ContentSource>,
    /// The content libraries that sources refer to.
    pub providers: Optional<ContentLibraryProvider>,
    /// The time between two syncs if no event triggers one.
    pub period: Duration,
    /// Requests for an earlier sync.
    pub sync_requests: Arc<SyncRequests>,
}

/// Syncs the images with the libraries until the program ends.
pub async fn follow(images: Images, shutdown: CancellationToken) {
    tokio::join!(images.cache.complete(), images.sources.settled(), images.providers.settled());
    let lost = Arc::clone(&images.sync_requests);
    images.cache.listen(move |change| {
        if change.old.as_ref().is_some_and(|old| change.new.is_none() && ours(old)) {
            lost.request();
        }
    });
    request_when_changed(images.sources.cache(), &images.sync_requests, |source| {
        (source.spec.clone(), libraries::is_for_releases(source))
    });
    request_when_changed(images.providers.cache(), &images.sync_requests, |provider| {
        (provider.spec.clone(), provider.uid())
    });
    let mut state = images.provider.changes();
    let following =
        async { tokio::join!(images.keep_in_step(&mut state), images.request_when_library_changes()) };
    shutdown.run_until_cancelled(following).await;
}

/// Requests a sync whenever the result of `matters` changes for an object.
fn request_when_changed<K, M>(
    cache: &Cache<K>,
    sync_requests: &Arc<SyncRequests>,
    matters: impl Fn(&K) -> M + Send + 'static,
) where
    K: kit::watch::Watchable,
    M: PartialEq,
{
    let sync_requests = Arc::clone(sync_requests);
    cache.listen(move |change| {
        let of = |side: &Option<Arc<K>>| side.as_deref().map(&matters);
        if of(&change.old) != of(&change.new) {
            sync_requests.request();
        }
    });
}

fn ours(image: &VirtualMachineImage) -> bool {
    image.labels().contains_key(plan::LIBRARY_LABEL)
}

fn is_of(image: &VirtualMachineImage, library: &str) -> bool {
    image.labels().get(plan::LIBRARY_LABEL).is_some_and(|label| label == library)
}

/// The result of one sync.
#[derive(Default)]
struct Sync {
    /// The ids of the items in the libraries that could be listed.
    items: HashSet<String>,
    /// The ids of libraries that couldn't be listed. Their images are kept.
    unread: HashSet<String>,
    /// The ids of items that couldn't be read. Their images are kept.
    unread_items: HashSet<String>,
    /// Item ids by image name.
    names: HashMap<String, String>,
    /// The problems with libraries and items.
    wrong: Vec<LibraryProblem>,
    /// The error that requires another sync, if there is one.
    failed: Option<Error>,
}

impl Sync {
    fn fail(&mut self, library: &ImageLibrary, message: String, error: Error) {
        let library = library.id.clone();
        self.unread.insert(library.clone());
        self.wrong.push(LibraryProblem { library: Some(library), message, ..LibraryProblem::default() });
        self.failed = Some(error);
    }

    /// Records that an item can't be read. This affects only its own image. The sync is repeated only if the error is
    /// transient.
    fn fail_item(&mut self, library: &ImageLibrary, id: &str, error: Error) {
        let image = self.names.iter().find(|(_, item)| *item == id).map(|(name, _)| name.clone());
        let message = format!("the content library's item {id}: {error}");
        tracing::warn!(library = library.id, item = id, %error, "an item of the content library can't be read");
        let (library, item) = (Some(library.id.clone()), Some(id.to_owned()));
        self.wrong.push(LibraryProblem { source: None, library, item, image, message });
        self.unread_items.insert(id.to_owned());
        if is_transient(&error) {
            self.failed = Some(error);
        }
    }

    /// Returns true if a library still offers the image's item, or may offer it because it couldn't be listed.
    fn offers(&self, image: &VirtualMachineImage) -> bool {
        self.items.contains(&image.spec.image_id) || self.unread.iter().any(|library| is_of(image, library))
    }
}

/// Returns true if a retry may succeed without a change to the item.
fn is_transient(error: &Error) -> bool {
    match error {
        Error::Vcenter(error) => error.retryable(),
        Error::Api(kube::Error::Api(refused)) => !matches!(refused.code, 400 | 413 | 422),
        _ => true,
    }
}

impl Images {
    /// Requests a sync when an administrator announces a library change.
    async fn request_when_library_changes(&self) {
        let mut changes = self.provider.library_changes();
        while changes.changed().await.is_ok() {
            self.sync_requests.request();
        }
    }

    async fn keep_in_step(&self, state: &mut watch::Receiver<ConnectionState>) {
        let failures = Failures::new(RETRY.0, RETRY.1);
        loop {
            let vcenter = match &*state.borrow_and_update() {
                ConnectionState::Connected(vcenter) => Some(Arc::clone(vcenter)),
                ConnectionState::Starting | ConnectionState::Broken(_) => None,
            };
            let pause = match &vcenter {
                None => Duration::MAX,
                Some(vcenter) => {
                    self.sync_requests.begin();
                    match self.sync(vcenter).await {
                        Ok(()) => {
                            failures.reset(&());
                            jitter(self.period)
                        }
                        Err(error) => {
                            tracing::warn!(%error, "the content libraries can't be read; trying again");
                            failures.next(())
                        }
                    }
                }
            };
            let requested = async {
                tokio::time::sleep(APART).await;
                self.sync_requests.requested().await;
            };
            tokio::select! {
                changed = state.changed() => if changed.is_err() { return },
                () = requested => {}
                () = tokio::time::sleep(pause) => self.sync_requests.forget(),
            }
        }
    }

    /// Syncs all images. A failure for one item or library doesn't stop the others.
    async fn sync(&self, vcenter: &VCenter) -> Result<(), Error> {
        let configured = vcenter.settings.library.as_deref();
        let sources = self.sources.cache().all();
        let provider = |name: &str| self.providers.cache().get(None, name);
        let (libraries, wrong) = libraries::libraries(configured, &sources, provider);
        let mut sync = Sync { wrong, ..Sync::default() };
        if libraries.is_empty() {
            let message = format!(
                "no content library is configured. Set key ContentSource in ConfigMap {}/{PROVIDER_CONFIGURATION}, or create a ContentSource object",
                self.namespace
            );
            sync.wrong.push(LibraryProblem { message, ..LibraryProblem::default() });
            vcenter.set_library_problems(sync.wrong);
            return Ok(());
        }
        if let Err(error) = self.set_provider_owners(&sources).await {
            sync.failed = Some(error);
        }
        let mut listed = Vec::new();
        for library in &libraries {
            listed.push((library, self.list_items(vcenter, library, &mut sync).await));
        }
        for (library, ids) in listed {
            for id in ids {
                if let Err(error) = self.sync_item(vcenter, library, &id, &mut sync).await {
                    sync.fail_item(library, &id, error);
                }
            }
        }
        vcenter.set_library_problems(std::mem::take(&mut sync.wrong));
        self.remove_images(&sync).await?;
        sync.failed.map_or(Ok(()), Err)
    }

    /// Returns the library's item ids. If the library can't be listed, its images are kept. If the library is missing, the
    /// images report that in their status.
    async fn list_items(&self, vcenter: &VCenter, library: &ImageLibrary, sync: &mut Sync) -> Vec<String> {
        let error = match vcenter.client.list_library_items(&library.id).await {
            Ok(ids) => {
                sync.items.extend(ids.iter().cloned());
                return ids;
            }
            Err(error) => error,
        };
        let why = format!("content library {}: {error}. {}", library.id, error.advice());
        if error.is_not_found() {
            for image in self.cache.all().iter().filter(|image| is_of(image, &library.id)) {
                let old = image.status.clone().unwrap_or_default();
                let status = with_times(&old, plan::without_library(&old, &why));
                if let Err(error) = self.api.patch_status(&**image, &status).await {
                    sync.failed = Some(error.into());
                }
            }
        }
        sync.fail(library, why, error.into());
        Vec::new()
    }

    /// Adds each source as an owner of the provider that it refers to, so that the provider is deleted with its last source.
    async fn set_provider_owners(&self, sources: &[Arc<ContentSource>]) -> Result<(), Error> {
        for source in sources {
            let named = libraries::provider_of(source).unwrap_or_default();
            let (Some(provider), Some(owner)) =
                (self.providers.cache().get(None, named), source.owner_ref(&()))
            else {
                continue;
            };
            let mut owners = provider.owner_references().to_vec();
            if owners.iter().any(|there| there.uid == owner.uid) {
                continue;
            }
            owners.push(owner);
            let patch = json!({ "metadata": { "ownerReferences": owners } });
            self.api.patch(&*provider, patch).await?;
        }
        Ok(())
    }

    /// Deletes images that aren't in a library anymore.
    async fn remove_images(&self, sync: &Sync) -> Result<(), Error> {
        for image in self.cache.all().iter().filter(|image| ours(image)) {
            let named = sync.names.contains_key(&image.name_any());
            let unread = sync.unread.iter().any(|library| is_of(image, library))
                || sync.unread_items.contains(&image.spec.image_id);
            if !named && !unread {
                tracing::info!(image = image.name_any(), "gone from the content library");
                self.api.delete(&**image).await?;
            }
        }
        Ok(())
    }

    /// Syncs one item's image, if the item is an OVF template.
    async fn sync_item(
        &self,
        vcenter: &VCenter,
        library: &ImageLibrary,
        id: &str,
        sync: &mut Sync,
    ) -> Result<(), Error> {
        let item = match vcenter.client.read_library_item(id).await {
            Ok(item) => item,
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        if !item.kind.eq_ignore_ascii_case("ovf") {
            return Ok(());
        }
        let Some(name) = plan::name(&item) else { return Ok(()) };
        let name = self.free_name(name, &item, sync);
        sync.names.insert(name.clone(), item.id.clone());
        let live = self.cache.get(None, &name);
        match live {
            Some(image) if !ours(&image) => {
                tracing::warn!(
                    name,
                    "this controller did not create the image of this name; leaving it unchanged"
                );
            }
            Some(image) if plan::current(&image, library, &item) => {}
            live => self.read_item(vcenter, &name, library, &item, live).await?,
        }
        Ok(())
    }

    /// Returns the image name for the item, or an alternative if another existing item has that name.
    fn free_name(&self, name: String, item: &LibraryItem, sync: &Sync) -> String {
        let holder = self.cache.get(None, &name);
        let held =
            holder.is_some_and(|image| ours(&image) && image.spec.image_id != item.id && sync.offers(&image));
        let taken = sync.names.get(&name).is_some_and(|id| *id != item.id);
        if held || taken { plan::second_name(&name, item) } else { name }
    }

    async fn read_item(
        &self,
        vcenter: &VCenter,
        name: &str,
        library: &ImageLibrary,
        item: &LibraryItem,
        live: Option<Arc<VirtualMachineImage>>,
    ) -> Result<(), Error> {
        let read = match vcenter.client.download_ovf_descriptor(&item.id).await {
            Ok(xml) => descriptor::read_bounded(&library.id, xml).await,
            // An item that doesn't have files yet isn't an image.
            Err(_) if vcenter.client.list_library_item_files(&item.id).await?.is_empty() => return Ok(()),
            Err(error) if matches!(error.kind(), Kind::TooLarge { .. } | Kind::Unexpected { .. }) => {
                Err(NotOvf::new(error.to_string()))
            }
            Err(error) => return Err(error.into()),
        };
        let empty = descriptor::Descriptor::default();
        let wanted = plan::image(name, library, item, read.as_ref().unwrap_or(&empty));
        let image = match live {
            // The data that an unreadable item had before still helps users to identify it.
            Some(image) if read.is_err() && plan::is_labelled(&image, library, item) => image,
            Some(image) if read.is_err() => {
                Arc::new(self.api.patch(&*image, plan::label_patch(library, item)).await?)
            }
            live => {
                // Wrong labels may also have to be removed, so an image with wrong labels is always applied.
                let labelled = live.filter(|image| plan::is_labelled(image, library, item));
                Arc::clone(self.api.apply(&wanted, labelled.as_ref()).await?.object())
            }
        };
        let old = image.status.clone().unwrap_or_default();
        let status = with_times(&old, plan::status(library, item, read.as_ref(), &old));
        self.api.patch_status(&*image, &status).await?;
        tracing::info!(image = name, content = item.content_version, "image read");
        Ok(())
    }
}

/// Sets the conditions' transition times. A condition whose status didn't change keeps its time in `old`.
fn with_times(
    old: &VirtualMachineImageStatus,
    mut status: VirtualMachineImageStatus,
) -> VirtualMachineImageStatus {
    status.conditions = kit::status::settle(&old.conditions, status.conditions, jiff::Timestamp::now());
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    fn library(id: &str) -> ImageLibrary {
        ImageLibrary { id: id.into(), provider: None, releases: false }
    }

    fn image(item: &str, library: &str) -> VirtualMachineImage {
        let mut image = VirtualMachineImage::default();
        image.spec.image_id = item.into();
        image.metadata.labels = Some([(plan::LIBRARY_LABEL.to_owned(), library.to_owned())].into());
        image
    }

    #[test]
    fn a_bad_item_is_a_problem_of_that_item_and_nothing_is_repeated_for_it() {
        let mut sync = Sync::default();
        sync.names.insert("photon".into(), "item-1".into());
        let cause = || vsphere::Error::new("fetch", Kind::TooLarge { limit: 1 });
        sync.fail_item(&library("lib-1"), "item-1", cause().into());
        assert!(sync.failed.is_none(), "it is as large the next time");
        assert!(sync.unread.is_empty(), "the library was listed");
        let problem = &sync.wrong[0];
        assert_eq!((problem.library.as_deref(), problem.image.as_deref()), (Some("lib-1"), Some("photon")));
        assert!(!sync.offers(&image("item-2", "lib-1")), "what is gone from the library goes");
        sync.fail_item(&library("lib-1"), "item-3", vsphere::Error::new("fetch", Kind::TimedOut).into());
        assert!(sync.failed.is_some());
    }
}
