//! VirtualMachineImage: what the content libraries offer, kept in step.
//!
//! Images are no object's wish: they follow the libraries. So there is no reconcile per object, but one
//! pass over the libraries at the start, when the connection, a source or an image changes, when a
//! machine misses an image, and slowly after. An unchanged item costs one small read, and none of its files.

pub mod descriptor;
pub mod libraries;

pub mod plan;
mod sync_requests;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use api::vmop::{ContentLibraryProvider, ContentSource, VirtualMachineImage, VirtualMachineImageStatus};
use kit::apply::Api;
use kit::optional::Optional;
use kit::retry::{Failures, jitter};
use kit::watch::Cache;
use kube::{Resource, ResourceExt};
use serde_json::json;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use vsphere::automation::LibraryItem;

use crate::error::Error;
use crate::vcenter::{ConnectionState, Provider, VCenter};
use libraries::Library;
pub use sync_requests::SyncRequests;

const RETRY: (Duration, Duration) = (Duration::from_secs(5), Duration::from_mins(5));
/// However many ask for a look, there is none sooner than this after the last.
const APART: Duration = Duration::from_secs(5);

/// What keeps the images in step.
pub struct Images {
    /// Writes as this controller.
    pub api: Api,
    /// The vCenter.
    pub provider: Arc<Provider>,
    /// The images there are.
    pub cache: Cache<VirtualMachineImage>,
    /// The sources of images beside the configured library.
    pub sources: Optional<ContentSource>,
    /// The libraries that sources stand for.
    pub providers: Optional<ContentLibraryProvider>,
    /// How often the libraries are looked at when nothing tells of a change.
    pub period: Duration,
    /// Told when a look before that is worth it.
    pub sync_requests: Arc<SyncRequests>,
}

/// Keeps the images in step with the libraries until the program ends.
pub async fn follow(images: Images, shutdown: CancellationToken) {
    tokio::join!(images.cache.complete(), images.sources.settled(), images.providers.settled());
    let lost = Arc::clone(&images.sync_requests);
    images.cache.listen(move |change| {
        if change.old.as_ref().is_some_and(|old| change.new.is_none() && ours(old)) {
            lost.request();
        }
    });
    told_of(images.sources.cache(), &images.sync_requests, |source| source.spec.clone());
    told_of(images.providers.cache(), &images.sync_requests, |provider| {
        (provider.spec.clone(), provider.uid())
    });
    let mut state = images.provider.changes();
    shutdown.run_until_cancelled(images.keep(&mut state)).await;
}

/// A change of what `matters` of an object is worth a look.
fn told_of<K, M>(
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

/// What one pass has found in the libraries.
#[derive(Default)]
struct Pass {
    /// The items of the libraries that could be listed.
    items: HashSet<String>,
    /// The libraries that could not be read wholly, by id: their images stay.
    unread: HashSet<String>,
    /// Which item has which name.
    names: HashMap<String, String>,
    /// What is wrong, for people.
    wrong: Vec<String>,
    /// Why the pass is to be repeated.
    failed: Option<Error>,
}

impl Pass {
    fn fail(&mut self, library: &Library, what: String, error: Error) {
        self.wrong.push(what);
        self.unread.insert(library.id.clone());
        self.failed = Some(error);
    }

    /// Whether the image stands for something that a library still offers, as far as is known.
    fn offers(&self, image: &VirtualMachineImage) -> bool {
        self.items.contains(&image.spec.image_id) || self.unread.iter().any(|library| is_of(image, library))
    }
}

impl Images {
    async fn keep(&self, state: &mut watch::Receiver<ConnectionState>) {
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
                    match self.pass(vcenter).await {
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
            let asked = async {
                tokio::time::sleep(APART).await;
                self.sync_requests.requested().await;
            };
            tokio::select! {
                changed = state.changed() => if changed.is_err() { return },
                () = asked => {}
                () = tokio::time::sleep(pause) => self.sync_requests.forget(),
            }
        }
    }

    /// The images are those of the libraries. One item's or library's failure does not keep the others back.
    async fn pass(&self, vcenter: &VCenter) -> Result<(), Error> {
        let configured = vcenter.settings.library.as_deref();
        let sources = self.sources.cache().all();
        let provider = |name: &str| self.providers.cache().get(None, name);
        let (libraries, wrong) = libraries::libraries(configured, &sources, provider);
        let mut pass = Pass { wrong, ..Pass::default() };
        if libraries.is_empty() {
            pass.wrong.push("the provider configuration has no ContentSource, and no ContentSource object names a library".to_owned());
            vcenter.set_library_problem(Some(pass.wrong.join("; ")));
            return Ok(());
        }
        if let Err(error) = self.own_providers(&sources).await {
            pass.failed = Some(error);
        }
        let mut listed = Vec::new();
        for library in &libraries {
            listed.push((library, self.list(vcenter, library, &mut pass).await));
        }
        for (library, ids) in listed {
            for id in ids {
                if let Err(error) = self.item(vcenter, library, &id, &mut pass).await {
                    pass.fail(library, format!("the content library's item {id}: {error}"), error);
                }
            }
        }
        let told = Some(pass.wrong.join("; ")).filter(|wrong| !wrong.is_empty());
        vcenter.set_library_problem(told);
        self.clear(&pass).await?;
        pass.failed.map_or(Ok(()), Err)
    }

    /// The items of a library; where it can't be listed its images stay, and say so if it is gone.
    async fn list(&self, vcenter: &VCenter, library: &Library, pass: &mut Pass) -> Vec<String> {
        let error = match vcenter.client.library_items(&library.id).await {
            Ok(ids) => {
                pass.items.extend(ids.iter().cloned());
                return ids;
            }
            Err(error) => error,
        };
        let why = format!("content library {}: {error}. {}", library.id, error.advice());
        if error.is_not_found() {
            for image in self.cache.all().iter().filter(|image| is_of(image, &library.id)) {
                let old = image.status.clone().unwrap_or_default();
                let status = settled(&old, plan::without_library(&old, &why));
                if let Err(error) = self.api.patch_status(&**image, &status).await {
                    pass.failed = Some(error.into());
                }
            }
        }
        pass.fail(library, why, error.into());
        Vec::new()
    }

    /// A provider is owned by the sources that name it, so it goes with the last of them.
    async fn own_providers(&self, sources: &[Arc<ContentSource>]) -> Result<(), Error> {
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

    /// Images that no library offers any more go.
    async fn clear(&self, pass: &Pass) -> Result<(), Error> {
        for image in self.cache.all().iter().filter(|image| ours(image)) {
            let named = pass.names.contains_key(&image.name_any());
            let unread = pass.unread.iter().any(|library| is_of(image, library));
            if !named && !unread {
                tracing::info!(image = image.name_any(), "gone from the content library");
                self.api.delete(&**image).await?;
            }
        }
        Ok(())
    }

    /// The item's image is in step, if the item is one to make machines of.
    async fn item(
        &self,
        vcenter: &VCenter,
        library: &Library,
        id: &str,
        pass: &mut Pass,
    ) -> Result<(), Error> {
        let item = match vcenter.client.library_item(id).await {
            Ok(item) => item,
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        if !item.kind.eq_ignore_ascii_case("ovf") {
            return Ok(());
        }
        let Some(name) = plan::name(&item) else { return Ok(()) };
        let name = self.free_name(name, &item, pass);
        pass.names.insert(name.clone(), item.id.clone());
        let live = self.cache.get(None, &name);
        match live {
            Some(image) if !ours(&image) => {
                tracing::warn!(name, "an image of this name was made by somebody else: it stays as it is");
            }
            Some(image) if plan::current(&image, library, &item) => {}
            live => self.read(vcenter, &name, library, &item, live).await?,
        }
        Ok(())
    }

    /// The item's own name, or a second one where another item, that is still there, has it.
    fn free_name(&self, name: String, item: &LibraryItem, pass: &Pass) -> String {
        let holder = self.cache.get(None, &name);
        let held =
            holder.is_some_and(|image| ours(&image) && image.spec.image_id != item.id && pass.offers(&image));
        let taken = pass.names.get(&name).is_some_and(|id| *id != item.id);
        if held || taken { plan::second_name(&name, item) } else { name }
    }

    async fn read(
        &self,
        vcenter: &VCenter,
        name: &str,
        library: &Library,
        item: &LibraryItem,
        live: Option<Arc<VirtualMachineImage>>,
    ) -> Result<(), Error> {
        let xml = vcenter.client.ovf_descriptor(&item.id).await?;
        let read = descriptor::read(&xml);
        let empty = descriptor::Descriptor::default();
        let wanted = plan::image(name, library, item, read.as_ref().unwrap_or(&empty));
        let image = match live {
            // What an unreadable item said before still helps people to know it.
            Some(image) if read.is_err() => image,
            live => Arc::clone(self.api.apply(&wanted, live.as_ref()).await?.object()),
        };
        let old = image.status.clone().unwrap_or_default();
        let why = read.as_ref().map_err(ToString::to_string);
        let why = why.as_ref().map(|it| *it).map_err(String::as_str);
        let status = settled(&old, plan::status(library, item, why, &old));
        self.api.patch_status(&*image, &status).await?;
        tracing::info!(image = name, content = item.content_version, "image read");
        Ok(())
    }
}

/// The status with the times at which its conditions came to be so.
fn settled(
    old: &VirtualMachineImageStatus,
    mut status: VirtualMachineImageStatus,
) -> VirtualMachineImageStatus {
    status.conditions = kit::status::settle(&old.conditions, status.conditions, jiff::Timestamp::now());
    status
}
