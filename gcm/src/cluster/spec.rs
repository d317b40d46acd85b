//! A cluster that objects can be planned for.

use api::gcm::TanzuKubernetesCluster;

use super::facts::Facts;
use super::invalid::Invalid;
use crate::addons::choice::container_networks;
use crate::admission::denial::FieldDenial;
use crate::admission::{self, Installation};
use crate::spec::network::NetworkSpec;

/// A TanzuKubernetesCluster with its defaults, which breaks no rule that planning needs. Objects are made only from this type.
pub struct ValidatedCluster(TanzuKubernetesCluster);

impl ValidatedCluster {
    /// Validates a cluster with the functions of admission. A cluster that exists is checked only for text that its nodes would
    /// run.
    pub fn validate(tkc: &TanzuKubernetesCluster, facts: &Facts) -> Result<Self, Invalid> {
        let tkc = admission::defaults::with_defaults(tkc, None, &facts.available_releases);
        // What runs may stay: only the rules that the objects themselves need are asked again.
        if facts.cluster.is_none()
            && let Some(denial) = denials(&tkc, facts).into_iter().next()
        {
            return Err(Invalid::Denied(denial));
        }
        // No node is made of what it would run instead of reading it, whatever runs already.
        if let Some(denial) = admission::node_text::denials(&tkc.spec).into_iter().next() {
            return Err(Invalid::Denied(denial));
        }
        Ok(Self(tkc))
    }

    /// The cluster, with its defaults.
    pub fn tkc(&self) -> &TanzuKubernetesCluster {
        &self.0
    }

    /// Its network.
    pub fn network(&self) -> NetworkSpec<'_> {
        NetworkSpec::read(&self.0.spec)
    }
}

fn denials(tkc: &TanzuKubernetesCluster, facts: &Facts) -> Vec<FieldDenial> {
    let bundles = container_networks(facts.bundles.iter().map(AsRef::as_ref));
    let installation = Installation {
        available: &facts.available_releases,
        bundles: &bundles,
        virtual_ip: Some(&facts.virtual_ip),
    };
    let mut denials = admission::validate_with(tkc, None, &installation);
    // Admission lets those by that bear our finalizer, since they may run elsewhere; anybody may write it.
    denials.extend(admission::overlap::denials(&tkc.spec, &facts.management));
    denials
}
