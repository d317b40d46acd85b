//! Caches all releases, so that they are parsed once per change instead of once per lookup.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::gcm::{OSImage, TanzuKubernetesRelease};
use kit::watch::Cache;
use kube::ResourceExt;
use parking_lot::RwLock;

use super::kubernetes_release::KubernetesRelease;
use super::node_image::ReleaseImage;
use super::resolution::AvailableRelease;

/// The releases and images that the watches last delivered. Clones share one cache.
#[derive(Clone, Default)]
pub struct ReleaseCache(Arc<RwLock<State>>);

#[derive(Default)]
struct State {
    releases: BTreeMap<String, Arc<KubernetesRelease>>,
    images: BTreeMap<String, ReleaseImage>,
    available: Arc<Vec<AvailableRelease>>,
}

impl ReleaseCache {
    /// Returns a cache that follows the release and OSImage watches.
    pub fn following(cache: &Cache<TanzuKubernetesRelease>, images: &Cache<OSImage>) -> Self {
        let release_cache = Self::default();
        let followed = release_cache.clone();
        cache.listen(move |change| {
            let Some(object) = change.sides().next() else { return };
            followed
                .set(&object.name_any(), change.new.as_ref().and_then(|tkr| KubernetesRelease::of(tkr).ok()));
        });
        let followed = release_cache.clone();
        images.listen(move |change| {
            let Some(object) = change.sides().next() else { return };
            followed.set_image(&object.name_any(), change.new.as_deref().and_then(ReleaseImage::of));
        });
        release_cache
    }

    pub(crate) fn set(&self, name: &str, release: Option<KubernetesRelease>) {
        let mut state = self.0.write();
        match release {
            Some(release) => state.releases.insert(name.to_owned(), Arc::new(release)),
            None => state.releases.remove(name),
        };
        state.list();
    }

    pub(crate) fn set_image(&self, name: &str, image: Option<ReleaseImage>) {
        let mut state = self.0.write();
        match image {
            Some(image) => state.images.insert(name.to_owned(), image),
            None => state.images.remove(name),
        };
        state.list();
    }

    /// Returns the releases that resolution can choose from.
    pub fn available(&self) -> Arc<Vec<AvailableRelease>> {
        Arc::clone(&self.0.read().available)
    }

    /// Returns the full release for a candidate from [`Self::available`], or `None` if the release has changed or is gone.
    pub fn release(&self, candidate: &AvailableRelease) -> Option<Arc<KubernetesRelease>> {
        let state = self.0.read();
        let is_it = |release: &&Arc<KubernetesRelease>| {
            let own = &release.candidate;
            own.version == candidate.version && own.labels == candidate.labels
        };
        let named = state.releases.get(&candidate.version.object_name());
        named.filter(is_it).or_else(|| state.releases.values().find(is_it)).cloned()
    }
}

impl State {
    /// Rebuilds the list of available releases, with their images.
    fn list(&mut self) {
        let with_images = |release: &Arc<KubernetesRelease>| {
            let is_known = |name: &&String| self.images.contains_key(*name);
            let (known, missing): (Vec<_>, Vec<_>) = release.os_images.iter().partition(is_known);
            AvailableRelease {
                images: known.into_iter().filter_map(|name| self.images.get(name).cloned()).collect(),
                missing_images: missing.into_iter().cloned().collect(),
                ..release.candidate.clone()
            }
        };
        self.available = Arc::new(self.releases.values().map(with_images).collect());
    }
}
