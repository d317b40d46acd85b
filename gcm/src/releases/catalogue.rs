//! All releases, read once when they change and not once per question.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::gcm::TanzuKubernetesRelease;
use kit::watch::Cache;
use kube::ResourceExt;
use parking_lot::RwLock;

use super::Release;
use crate::resolution::Offer;

/// The releases as the watch last showed them. Clones share one catalogue.
#[derive(Clone, Default)]
pub struct Catalogue(Arc<RwLock<State>>);

#[derive(Default)]
struct State {
    releases: BTreeMap<String, Arc<Release>>,
    offers: Arc<Vec<Offer>>,
}

impl Catalogue {
    /// A catalogue that follows a watch.
    pub fn following(cache: &Cache<TanzuKubernetesRelease>) -> Self {
        let catalogue = Self::default();
        let followed = catalogue.clone();
        cache.listen(move |change| {
            let Some(object) = change.sides().next() else { return };
            followed.set(&object.name_any(), change.new.as_ref().and_then(|tkr| Release::of(tkr).ok()));
        });
        catalogue
    }

    pub(crate) fn set(&self, name: &str, release: Option<Release>) {
        let mut state = self.0.write();
        match release {
            Some(release) => state.releases.insert(name.to_owned(), Arc::new(release)),
            None => state.releases.remove(name),
        };
        state.offers = Arc::new(state.releases.values().map(|release| release.offer.clone()).collect());
    }

    /// What resolution chooses from.
    pub fn offers(&self) -> Arc<Vec<Offer>> {
        Arc::clone(&self.0.read().offers)
    }

    /// The release of this offer.
    pub fn release(&self, offer: &Offer) -> Option<Arc<Release>> {
        let state = self.0.read();
        let named = state.releases.get(&offer.version.object_name());
        let release = named.filter(|release| release.offer == *offer);
        release.or_else(|| state.releases.values().find(|release| release.offer == *offer)).cloned()
    }
}
