//! Upgrades over several minor releases: the control plane takes one after the other, and pools follow at the end.
//!
//! Kubernetes lets an API server be one minor release newer at a time, and a kubelet be [`SKEW`] older than it.

pub mod present;

use api::names::label;
use kube::ResourceExt;

use super::facts::Facts;
use super::input::release_label;
use super::node_groups::replicas::ReplicaCounts;
use crate::release::resolution::{self, AvailableRelease};
use crate::release::version::Version;

/// So many minor releases a kubelet may be older than an API server.
const SKEW: u64 = 3;

/// Where a cluster goes next.
#[derive(Debug, PartialEq)]
pub struct Step<'f> {
    /// The release.
    pub release: &'f AvailableRelease,
    /// Whether pools stay what they are, since the control plane goes on after this.
    pub pools_wait: bool,
}

/// The next step to `wanted`; an error names the minor release of which none can be used.
pub fn next<'f>(wanted: &'f AvailableRelease, facts: &'f Facts) -> Result<Step<'f>, Version> {
    let last = Step { release: wanted, pools_wait: false };
    let Some(live) = &facts.control_plane else { return Ok(last) };
    let Ok(runs) = Version::parse(&live.spec.version) else { return Ok(last) };
    let ((major, minor), (wanted_major, wanted_minor)) = (runs.minor(), wanted.version.minor());
    if major != wanted_major || wanted_minor <= minor {
        return Ok(last);
    }
    let current = || {
        let bears = live.labels().get(label::TKR);
        facts.available_releases.iter().find(|release| Some(&release_label(&release.version)) == bears)
    };
    // What a pool runs must bear the next API server: else it catches up first.
    if oldest_pool(facts).is_some_and(|oldest| minor + 1 > oldest + SKEW)
        && let Some(release) = current()
    {
        return Ok(Step { release, pools_wait: false });
    }
    if wanted_minor == minor + 1 {
        return Ok(last);
    }
    let reached =
        live.status.as_ref().is_some_and(|status| status.version.as_ref() == Some(&live.spec.version))
            && ReplicaCounts::of_control_plane(live).is_settled();
    if !reached && let Some(release) = current() {
        return Ok(Step { release, pools_wait: true });
    }
    let of_next = |version: &&Version| version.minor() == (major, minor + 1);
    let step = resolution::usable_versions(&facts.available_releases).into_iter().find(of_next);
    let step = step.and_then(|step| facts.available_releases.iter().find(|release| release.version == *step));
    step.map(|release| Step { release, pools_wait: true }).ok_or(runs)
}

/// The minor release of the oldest machine of a pool.
fn oldest_pool(facts: &Facts) -> Option<u64> {
    let workers =
        facts.machines.iter().filter(|machine| !machine.labels().contains_key(label::CONTROL_PLANE));
    let machines = workers.filter_map(|machine| machine.spec.version.as_deref());
    let pools = facts.deployments.iter().filter_map(|pool| pool.spec.template.spec.version.as_deref());
    let minor = |text| Version::parse(text).ok().map(|version| version.minor().1);
    machines.chain(pools).filter_map(minor).min()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cluster::fixtures::ClusterFixture;
    use crate::testing::sound;

    /// Facts about a control plane that is to run one version, of which the oldest machine runs another, and of pools.
    fn at(spec: &str, oldest: &str, pools: &str) -> Facts {
        let kubernetes = |text: &str| {
            text.rsplit_once("-fips-vkr").or(text.rsplit_once("-vkr")).map(|(k, _)| k.to_owned())
        };
        let mut facts = ClusterFixture::running(sound()).facts();
        let live = Arc::make_mut(facts.control_plane.as_mut().unwrap());
        live.spec.version = kubernetes(spec).unwrap();
        live.status.as_mut().unwrap().version = kubernetes(oldest);
        let release = release_label(&Version::parse(spec).unwrap());
        live.labels_mut().insert(label::TKR.to_owned(), release);
        for pool in &mut facts.deployments {
            Arc::make_mut(pool).spec.template.spec.version = kubernetes(pools);
        }
        facts
    }

    #[test]
    fn a_control_plane_takes_one_minor_release_after_the_other() {
        const V32: &str = "v1.32.0+vmware.6-fips-vkr.2";
        const V33: &str = "v1.33.1+vmware.1-fips-vkr.2";
        const V34: &str = "v1.34.2+vmware.1-vkr.1";
        const V35: &str = "v1.35.1+vmware.1-vkr.1";
        const V36: &str = "v1.36.3+vmware.1-vkr.1";
        for (spec, oldest, pools, wanted, expected) in [
            (V33, V33, V33, V33, (V33, false)),
            (V33, V33, V33, V34, (V34, false)),
            (V33, V33, V33, V36, (V34, true)),
            (V34, V33, V33, V36, (V34, true)),
            (V34, V34, V33, V36, (V35, true)),
            (V35, V34, V33, V36, (V36, false)),
            (V35, V35, V33, V36, (V36, false)),
            (V36, V36, V33, V36, (V36, false)),
            (V35, V35, V32, V36, (V35, false)),
        ] {
            let facts = at(spec, oldest, pools);
            let version = Version::parse(wanted).unwrap();
            let wanted = facts.available_releases.iter().find(|release| release.version == version).unwrap();
            let Step { release, pools_wait } = next(wanted, &facts).unwrap();
            assert_eq!(
                (release.version.to_string().as_str(), pools_wait),
                expected,
                "{spec} {oldest} {pools}"
            );
        }
        let mut facts = at(V33, V33, V33);
        let wanted = facts
            .available_releases
            .iter()
            .find(|release| release.version.minor() == (1, 36))
            .unwrap()
            .clone();
        Arc::make_mut(&mut facts.available_releases).retain(|release| release.version.minor() != (1, 34));
        assert_eq!(next(&wanted, &facts).unwrap_err().to_string(), "v1.33.1+vmware.1");
    }
}
