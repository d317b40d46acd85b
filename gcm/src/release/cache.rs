//! All releases, read once when they change and not once per question.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::gcm::TanzuKubernetesRelease;
use kit::watch::Cache;
use kube::ResourceExt;
use parking_lot::RwLock;

use super::kubernetes_release::KubernetesRelease;
use super::resolution::AvailableRelease;

/// The releases as the watch last showed them. Clones share one cache.
#[derive(Clone, Default)]
pub struct ReleaseCache(Arc<RwLock<State>>);

#[derive(Default)]
struct State {
    releases: BTreeMap<String, Arc<KubernetesRelease>>,
    available: Arc<Vec<AvailableRelease>>,
}

impl ReleaseCache {
    /// A cache that follows a watch.
    pub fn following(cache: &Cache<TanzuKubernetesRelease>) -> Self {
        let release_cache = Self::default();
        let followed = release_cache.clone();
        cache.listen(move |change| {
            let Some(object) = change.sides().next() else { return };
            followed
                .set(&object.name_any(), change.new.as_ref().and_then(|tkr| KubernetesRelease::of(tkr).ok()));
        });
        release_cache
    }

    pub(crate) fn set(&self, name: &str, release: Option<KubernetesRelease>) {
        let mut state = self.0.write();
        match release {
            Some(release) => state.releases.insert(name.to_owned(), Arc::new(release)),
            None => state.releases.remove(name),
        };
        state.available =
            Arc::new(state.releases.values().map(|release| release.candidate.clone()).collect());
    }

    /// What resolution chooses from.
    pub fn available(&self) -> Arc<Vec<AvailableRelease>> {
        Arc::clone(&self.0.read().available)
    }

    /// The release that resolution chose.
    pub fn release(&self, candidate: &AvailableRelease) -> Option<Arc<KubernetesRelease>> {
        let state = self.0.read();
        let named = state.releases.get(&candidate.version.object_name());
        let release = named.filter(|release| release.candidate == *candidate);
        release.or_else(|| state.releases.values().find(|release| release.candidate == *candidate)).cloned()
    }
}
