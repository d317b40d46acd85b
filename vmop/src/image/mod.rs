//! VirtualMachineImage: what the content library offers, kept in step.
//!
//! Images are no object's wish: they follow the library. So there is no reconcile per object, but one
//! pass over the library at the start, when the connection or an image changes, and slowly after.

pub mod descriptor;
pub mod plan;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use api::vmop::VirtualMachineImage;
use kit::apply::Api;
use kit::retry::{Failures, jittered};
use kit::watch::Cache;
use kube::ResourceExt;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use vsphere::automation::LibraryItem;

use crate::provider::{Provider, Site, State};

const RETRY: (Duration, Duration) = (Duration::from_secs(5), Duration::from_mins(5));

/// What keeps the images in step.
pub struct Images {
    /// Writes as this controller.
    pub api: Api,
    /// The vCenter.
    pub provider: Arc<Provider>,
    /// The images there are.
    pub cache: Cache<VirtualMachineImage>,
    /// How often the library is looked at when nothing tells of a change.
    pub period: Duration,
    /// Told when the library has changed.
    pub look: Arc<Notify>,
}

/// Why a pass did not come through.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Vcenter(#[from] vsphere::Error),
    #[error(transparent)]
    Api(#[from] kube::Error),
}

/// Keeps the images in step with the library until the program ends.
pub async fn follow(images: Images, shutdown: CancellationToken) {
    let lost = Arc::clone(&images.look);
    let told = Arc::clone(&lost);
    images.cache.listen(move |change| {
        if change.old.as_ref().is_some_and(|old| change.new.is_none() && ours(old)) {
            told.notify_one();
        }
    });
    images.cache.complete().await;
    let mut state = images.provider.changes();
    shutdown.run_until_cancelled(images.keep(&mut state, &lost)).await;
}

fn ours(image: &VirtualMachineImage) -> bool {
    image.labels().contains_key(plan::LIBRARY_LABEL)
}

impl Images {
    async fn keep(&self, state: &mut watch::Receiver<State>, lost: &Notify) {
        let failures = Failures::new(RETRY.0, RETRY.1);
        loop {
            let site = match &*state.borrow_and_update() {
                State::Connected(site) => Some(Arc::clone(site)),
                State::Starting | State::Broken(_) => None,
            };
            let pause = match &site {
                None => Duration::MAX,
                Some(site) => match self.pass(site).await {
                    Ok(()) => {
                        failures.reset(&());
                        jittered(self.period)
                    }
                    Err(error) => {
                        tracing::warn!(%error, "the content library can't be read; trying again");
                        failures.next(())
                    }
                },
            };
            tokio::select! {
                changed = state.changed() => if changed.is_err() { return },
                () = lost.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// The images are those of the library. One item's failure does not keep the others back.
    async fn pass(&self, site: &Site) -> Result<(), Error> {
        let Some(library) = &site.settings.library else {
            site.set_library_trouble(Some("the provider configuration has no ContentSource".to_owned()));
            return Ok(());
        };
        let ids = site.client.library_items(library).await.inspect_err(|error| {
            site.set_library_trouble(Some(format!("content library {library}: {error}. {}", error.advice())));
        })?;
        site.set_library_trouble(None);
        let mut offered = HashSet::new();
        let mut failed = None;
        for id in ids {
            match self.item(site, &id).await {
                Ok(name) => offered.extend(name),
                Err(error) => {
                    site.set_library_trouble(Some(format!("the content library's item {id}: {error}")));
                    failed = Some(error);
                }
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        for image in
            self.cache.all().iter().filter(|image| ours(image) && !offered.contains(&image.name_any()))
        {
            tracing::info!(image = image.name_any(), "gone from the content library");
            self.api.delete(&**image).await?;
        }
        Ok(())
    }

    /// The item's image is in step; its name, if the item is one to make machines of.
    async fn item(&self, site: &Site, id: &str) -> Result<Option<String>, Error> {
        let item = match site.client.library_item(id).await {
            Ok(item) => item,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let Some(name) = plan::name(&item).filter(|_| item.kind.eq_ignore_ascii_case("ovf")) else {
            return Ok(None);
        };
        let live = self.cache.get(None, &name);
        match live {
            Some(image) if !ours(&image) => {
                tracing::warn!(name, "an image of this name was made by somebody else: it stays as it is");
            }
            Some(image) if plan::current(&image, &item) => {}
            live => self.read(site, &name, &item, live).await?,
        }
        Ok(Some(name))
    }

    async fn read(
        &self,
        site: &Site,
        name: &str,
        item: &LibraryItem,
        live: Option<Arc<VirtualMachineImage>>,
    ) -> Result<(), Error> {
        let xml = site.client.ovf_descriptor(&item.id).await?;
        let read = descriptor::read(&xml);
        let empty = descriptor::Descriptor::default();
        let wanted = plan::image(name, item, read.as_ref().unwrap_or(&empty));
        let image = match live {
            // What an unreadable item said before still helps people to know it.
            Some(image) if read.is_err() => image,
            live => Arc::clone(self.api.apply(&wanted, live.as_ref()).await?.object()),
        };
        let old = image.status.clone().unwrap_or_default();
        let why = read.as_ref().map_err(ToString::to_string);
        let mut status = plan::status(item, why.as_ref().map(|it| *it).map_err(String::as_str), &old);
        status.conditions = kit::status::settle(&old.conditions, status.conditions, jiff::Timestamp::now());
        self.api.patch_status(&*image, &status).await?;
        tracing::info!(image = name, content = item.content_version, "image read");
        Ok(())
    }
}
