//! Validates a cluster before its objects are planned.

use api::gcm::TanzuKubernetesCluster;

use super::facts::Facts;
use super::invalid::Invalid;
use crate::addons::choice::container_networks;
use crate::admission::denial::FieldDenial;
use crate::admission::{self, InstallationFacts};
use crate::spec::network::ClusterNetwork;

/// A TanzuKubernetesCluster, including its defaults, that satisfies all rules that planning depends on. Objects are built only
/// from this type.
pub struct ValidatedCluster(TanzuKubernetesCluster);

impl ValidatedCluster {
    /// Validates a cluster with the admission rules. An existing cluster is only checked for what its nodes would execute or
    /// mount.
    pub fn validate(tkc: &TanzuKubernetesCluster, facts: &Facts) -> Result<Self, Invalid> {
        let tkc = admission::defaults::with_defaults(tkc, None, &facts.available_releases);
        // An existing cluster may violate rules that were added later. Only the rules that its objects depend on are checked
        // again.
        if facts.cluster.is_none()
            && let Some(denial) = find_denials(&tkc, facts).into_iter().next()
        {
            return Err(Invalid::Denied(denial));
        }
        // Checked for existing clusters too, because a node would execute such strings, or lose folders below such volumes.
        let mut denials = admission::node_text::denials(&tkc.spec);
        denials.extend(admission::volumes::denials(&tkc.spec.topology, None));
        if let Some(denial) = denials.into_iter().next() {
            return Err(Invalid::Denied(denial));
        }
        Ok(Self(tkc))
    }

    /// Returns the cluster with its defaults.
    pub fn tkc(&self) -> &TanzuKubernetesCluster {
        &self.0
    }

    pub fn network(&self) -> ClusterNetwork<'_> {
        ClusterNetwork::read(&self.0.spec)
    }
}

fn find_denials(tkc: &TanzuKubernetesCluster, facts: &Facts) -> Vec<FieldDenial> {
    let bundles = container_networks(facts.bundles.iter().map(AsRef::as_ref));
    let installation = InstallationFacts {
        available: &facts.available_releases,
        bundles: &bundles,
        virtual_ip: Some(&facts.virtual_ip),
    };
    let mut denials = admission::validate_with(tkc, None, &installation);
    // Admission accepts overlaps for clusters with gcm's finalizer, because they may be running clusters that were moved here.
    // But anyone can set the finalizer.
    denials.extend(admission::overlap::denials(&tkc.spec, &facts.management));
    denials
}
