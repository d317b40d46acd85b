//! Caches the TkgServiceConfiguration for admission, so that users don't need permission to read it.

use std::sync::Arc;

use api::gcm::service_configuration::SERVICE_CONFIGURATION;
use api::gcm::{TkgServiceConfiguration, TkgServiceConfigurationSpec};
use kit::watch::Cache;
use kube::ResourceExt;
use parking_lot::RwLock;

/// The latest configuration that the watch delivered. Clones share the configuration.
#[derive(Clone, Default)]
pub struct ServiceConfiguration(Arc<RwLock<Arc<TkgServiceConfigurationSpec>>>);

impl ServiceConfiguration {
    /// Returns a configuration that a watch keeps current.
    pub fn following(cache: &Cache<TkgServiceConfiguration>) -> Self {
        let configuration = Self::default();
        let followed = configuration.clone();
        cache.listen(move |change| {
            if change.sides().any(|object| object.name_any() == SERVICE_CONFIGURATION) {
                followed.set(change.new.as_ref().map(|new| new.spec.clone()).unwrap_or_default());
            }
        });
        configuration
    }

    pub(crate) fn set(&self, spec: TkgServiceConfigurationSpec) {
        *self.0.write() = Arc::new(spec);
    }

    /// Returns the current configuration. It is empty if the object doesn't exist.
    pub fn current(&self) -> Arc<TkgServiceConfigurationSpec> {
        Arc::clone(&self.0.read())
    }
}
