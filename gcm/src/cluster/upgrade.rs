//! The gates of an upgrade, in the order in which a cluster reaches them.
//!
//! | gate | waits until | meanwhile |
//! |---|---|---|
//! | `check_oldest_pool` | every pool runs a version that the next API server supports | pools go to the control plane's release |
//! | `check_settled` | all control plane machines run their release, before the next minor release | the whole cluster keeps its release |
//! | `check_addons` | the next release's add-ons are applied | the control plane keeps its release |
//! | `choose_step` | the control plane's next release is the requested one | pools keep their release |
//! | `check_control_plane` | every control plane machine has that release's version | pools keep their release |
//!
//! Kubernetes allows API servers to differ by one minor release, and a kubelet to be up to three minor releases older than an
//! API server. The control plane is therefore upgraded one minor release at a time, and pools follow at the end.

pub mod present;

use api::capi::KubeadmControlPlane;
use api::gcm::TanzuKubernetesCluster;
use api::names::{annotation, label};
use kube::ResourceExt;

use super::facts::Facts;
use super::input::release_label;
use super::invalid::Invalid;
use super::node_groups::replicas::ReplicaCounts;
use crate::addons::report::{AddonReport, AddonState};
use crate::release::node_image::choose;
use crate::release::resolution::{self, AvailableRelease, RequestField, Unresolved};
use crate::release::version::Version;
use crate::release::{KubernetesRelease, ReleaseImage};
use crate::spec::release::{current_version, release_request};

/// The maximum number of minor releases by which a kubelet may be older than an API server.
const SKEW: u64 = 3;

/// A gate's result.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum GateResult {
    /// The upgrade continues.
    Continue,
    /// The upgrade waits at this gate.
    Waiting(WaitReason),
}

/// The reason why an upgrade waits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WaitReason {
    /// A pool runs a version that the next API server doesn't support.
    OldPool,
    /// A control plane machine is missing, not ready, or too old.
    ControlPlane,
    /// The next release's add-ons aren't applied yet.
    Addons,
    /// The control plane must be upgraded to a later release first.
    LaterRelease,
}

impl GateResult {
    fn waits_if(waits: bool, reason: WaitReason) -> Self {
        if waits { Self::Waiting(reason) } else { Self::Continue }
    }

    /// Returns this gate if the upgrade waits at it, or otherwise the result of `next`.
    fn then(self, next: impl FnOnce() -> Self) -> Self {
        match self {
            Self::Continue => next(),
            Self::Waiting(_) => self,
        }
    }

    /// Returns true if the upgrade waits at this gate.
    pub fn is_waiting(self) -> bool {
        matches!(self, Self::Waiting(_))
    }
}

/// The release for which a cluster's objects are built, and the gates that decide which node groups are upgraded to it.
#[derive(Debug)]
pub struct UpgradeTarget {
    pub release: KubernetesRelease,
    /// The node image.
    pub image: ReleaseImage,
    pub gates: Gates,
}

/// The gate for each part of a cluster. A part that waits keeps its release.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Gates {
    pub control_plane: GateResult,
    pub pools: GateResult,
}

/// Returns the release that the cluster requests, or the next release on the way to it, with the node image. If the requested
/// release or its images don't exist anymore, returns the release that the cluster runs.
pub fn choose_target(tkc: &TanzuKubernetesCluster, facts: &Facts) -> Result<UpgradeTarget, Invalid> {
    let (release, image, last_step) = match choose_release(tkc, facts) {
        Ok(chosen) => chosen,
        Err(invalid) if invalid.is_gone() => {
            let (release, image) = present::release(tkc, facts).ok_or(invalid)?;
            (release, image, GateResult::Continue)
        }
        Err(invalid) => return Err(invalid),
    };
    let gates = Gates {
        control_plane: check_addons(&release.kubernetes, facts),
        pools: last_step.then(|| check_control_plane(&release.kubernetes, facts)),
    };
    Ok(UpgradeTarget { release, image, gates })
}

fn choose_release(
    tkc: &TanzuKubernetesCluster,
    facts: &Facts,
) -> Result<(KubernetesRelease, ReleaseImage, GateResult), Invalid> {
    let wanted = resolution::resolve_release(release_request(tkc), &facts.available_releases)
        .or_else(|unresolved| running(tkc, facts).ok_or(unresolved))?;
    let Step { release: candidate, last_step } = choose_step(wanted, facts)?;
    let query = tkc.annotations().get(annotation::RESOLVE_OS_IMAGE);
    let missing = |all: bool| Invalid::NoImage {
        release: candidate.version.object_name(),
        query: query.cloned().filter(|_| !all),
    };
    let release = facts.releases.release(candidate).ok_or_else(|| missing(true))?;
    let images = facts.releases.images(&release.os_images);
    let image = choose(&images, query.map(String::as_str), present::image(facts))
        .ok_or_else(|| missing(images.is_empty()))?;
    Ok(((*release).clone(), image.clone(), last_step))
}

/// Returns the requested release if the control plane's label already names that release. A release that was taken out of use
/// remains available to clusters that run it.
fn running<'f>(tkc: &TanzuKubernetesCluster, facts: &'f Facts) -> Option<&'f AvailableRelease> {
    let version = current_version(tkc)?;
    let runs = facts.control_plane.as_ref()?.labels().get(label::TKR)? == &release_label(&version);
    facts.available_releases.iter().find(|candidate| runs && candidate.version == version)
}

/// The next step of an upgrade.
#[derive(Debug, PartialEq)]
struct Step<'f> {
    release: &'f AvailableRelease,
    /// The gate for the pools. They wait while the control plane continues to another release.
    last_step: GateResult,
}

/// Returns the next step to `wanted`. A joining machine reads the release from the cluster, but only contains the container
/// images of its own release. All control plane machines must therefore have joined before the next minor release.
///
/// # Errors
/// Fails if the next minor version doesn't have a usable release, or if the release to which the control plane is being
/// upgraded was deleted.
fn choose_step<'f>(wanted: &'f AvailableRelease, facts: &'f Facts) -> Result<Step<'f>, Invalid> {
    let last = Step { release: wanted, last_step: GateResult::Continue };
    let Some(live) = &facts.control_plane else { return Ok(last) };
    let Ok(runs) = Version::parse(&live.spec.version) else { return Ok(last) };
    let ((major, minor), (wanted_major, wanted_minor)) = (runs.minor(), wanted.version.minor());
    if major != wanted_major || wanted_minor <= minor {
        return Ok(last);
    }
    let bears = live.labels().get(label::TKR);
    let current =
        facts.available_releases.iter().find(|release| Some(&release_label(&release.version)) == bears);
    if let Some(release) = current.filter(|_| check_oldest_pool(minor, facts).is_waiting()) {
        return Ok(Step { release, last_step: GateResult::Continue });
    }
    let settled = check_settled(live);
    if settled.is_waiting() {
        let name = bears.cloned().unwrap_or_else(|| runs.object_name());
        let gone = || Unresolved::Unknown { field: RequestField::Reference, text: name };
        return Ok(current.map(|release| Step { release, last_step: settled }).ok_or_else(gone)?);
    }
    if wanted_minor == minor + 1 {
        return Ok(last);
    }
    let step = resolution::find_step((major, minor + 1), &wanted.version, &facts.available_releases);
    let step = step.and_then(|step| facts.available_releases.iter().find(|release| release.version == *step));
    let later = GateResult::Waiting(WaitReason::LaterRelease);
    step.map(|release| Step { release, last_step: later }).ok_or(Invalid::NoStep { from: runs })
}

/// Waits while a pool is too old for the API server of the minor release after `minor`. Such a pool is upgraded first.
fn check_oldest_pool(minor: u64, facts: &Facts) -> GateResult {
    let too_old = oldest_pool(facts).is_some_and(|oldest| minor + 1 > oldest + SKEW);
    GateResult::waits_if(too_old, WaitReason::OldPool)
}

/// Returns the oldest minor release among worker machines and pools, or `None` without workers.
fn oldest_pool(facts: &Facts) -> Option<u64> {
    let workers =
        facts.machines.iter().filter(|machine| !machine.labels().contains_key(label::CONTROL_PLANE));
    let machines = workers.filter_map(|machine| machine.spec.version.as_deref());
    let pools = facts.deployments.iter().filter_map(|pool| pool.spec.template.spec.version.as_deref());
    let minor = |text| Version::parse(text).ok().map(|version| version.minor().1);
    machines.chain(pools).filter_map(minor).min()
}

/// Waits until all control plane machines are ready and run the version in the spec.
fn check_settled(live: &KubeadmControlPlane) -> GateResult {
    let reached =
        live.status.as_ref().is_some_and(|status| status.version.as_ref() == Some(&live.spec.version))
            && ReplicaCounts::of_control_plane(live).is_settled();
    GateResult::waits_if(!reached, WaitReason::ControlPlane)
}

/// Waits until the add-ons for the next version are applied without a failure. The add-ons must exist before the upgrade, and a
/// broken add-on must be detected before a node is replaced. A control plane that isn't initialized doesn't wait.
fn check_addons(kubernetes: &str, facts: &Facts) -> GateResult {
    let Some(live) = &facts.control_plane else { return GateResult::Continue };
    let failed =
        |reports: &[AddonReport]| reports.iter().any(|report| matches!(report.state, AddonState::Failed(_)));
    let applied = facts.addons_for.as_deref() == Some(kubernetes)
        && facts.addons.as_ref().is_some_and(|reports| !failed(reports));
    let waits = facts.is_initialized() && live.spec.version != kubernetes && !applied;
    GateResult::waits_if(waits, WaitReason::Addons)
}

/// Waits until every control plane machine has this version, because a kubelet must not be newer than an API server.
fn check_control_plane(kubernetes: &str, facts: &Facts) -> GateResult {
    let Some(live) = &facts.control_plane else { return GateResult::Continue };
    let oldest = live.status.as_ref().and_then(|status| status.version.as_deref());
    let behind = live.spec.version != kubernetes || oldest.is_some_and(|oldest| oldest != kubernetes);
    GateResult::waits_if(behind, WaitReason::ControlPlane)
}

/// Returns true if the control plane's label names the release that the cluster requests, or if either is unknown. gcm changes
/// the label as soon as the control plane's gate is open.
pub fn is_control_plane_sent(tkc: &TanzuKubernetesCluster, facts: &Facts) -> bool {
    let wanted = current_version(tkc).map(|version| release_label(&version));
    let live = facts.control_plane.as_ref().and_then(|kcp| kcp.labels().get(label::TKR));
    wanted.is_none() || live.is_none() || live == wanted.as_ref()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cluster::fixtures::ClusterFixture;
    use crate::testing::sound;

    const V33: &str = "v1.33.1+vmware.1-fips-vkr.2";
    const V34: &str = "v1.34.2+vmware.1-vkr.1";

    /// Returns facts about a control plane whose version is `spec` and whose oldest machine has the version `oldest`, and about
    /// pools with the version `pools`.
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

    fn find_release<'f>(facts: &'f Facts, version: &str) -> &'f AvailableRelease {
        let version = Version::parse(version).unwrap();
        facts.available_releases.iter().find(|release| release.version == version).unwrap()
    }

    #[test]
    fn a_control_plane_takes_one_minor_release_after_the_other() {
        const V32: &str = "v1.32.0+vmware.6-fips-vkr.2";
        const V35: &str = "v1.35.1+vmware.1-vkr.1";
        const V36: &str = "v1.36.3+vmware.1-vkr.1";
        for (spec, oldest, pools, wanted, expected) in [
            (V33, V33, V33, V33, (V33, false)),
            (V33, V33, V33, V34, (V34, false)),
            (V33, V33, V33, V36, (V34, true)),
            (V34, V33, V33, V36, (V34, true)),
            (V34, V34, V33, V36, (V35, true)),
            (V34, V33, V33, V35, (V34, true)),
            (V35, V34, V33, V36, (V35, true)),
            (V35, V35, V33, V36, (V36, false)),
            (V36, V36, V33, V36, (V36, false)),
            (V35, V35, V32, V36, (V35, false)),
        ] {
            let facts = at(spec, oldest, pools);
            let Step { release, last_step } = choose_step(find_release(&facts, wanted), &facts).unwrap();
            assert_eq!(
                (release.version.to_string().as_str(), last_step.is_waiting()),
                expected,
                "{spec} {oldest} {pools}"
            );
        }
        let mut facts = at(V33, V33, V33);
        let wanted = find_release(&facts, V36).clone();
        Arc::make_mut(&mut facts.available_releases).retain(|release| release.version.minor() != (1, 34));
        let error = choose_step(&wanted, &facts).unwrap_err();
        assert!(matches!(error, Invalid::NoStep { from } if from.to_string() == "v1.33.1+vmware.1"));
        let mut facts = at(V34, V33, V33);
        Arc::make_mut(&mut facts.available_releases).retain(|release| release.version.minor() != (1, 34));
        assert!(choose_step(&wanted, &facts).unwrap_err().is_gone(), "what is on the way stays");
    }

    #[test]
    fn an_upgrade_waits_at_one_gate_after_the_other() {
        const KUBERNETES: &str = "v1.34.2+vmware.1";
        let mut tkc = sound();
        tkc.spec.topology.control_plane.tkr = Some(api::gcm::parts::Tkr::named("v1.34.2---vmware.1-vkr.1"));
        let gates = |facts: &Facts| {
            let target = choose_target(&tkc, facts).unwrap();
            assert_eq!(target.release.kubernetes, KUBERNETES);
            (target.gates.control_plane, target.gates.pools)
        };
        let (addons, control_plane) =
            (GateResult::Waiting(WaitReason::Addons), GateResult::Waiting(WaitReason::ControlPlane));
        let mut facts = at(V33, V33, V33);
        assert_eq!(gates(&facts), (addons, control_plane), "nobody has looked at the add-ons of v1.34");
        facts.addons_for = Some(KUBERNETES.to_owned());
        assert_eq!(gates(&facts), (GateResult::Continue, control_plane));
        let facts = Facts { addons_for: facts.addons_for, ..at(V34, V33, V33) };
        assert_eq!(gates(&facts), (GateResult::Continue, control_plane), "a machine is still of v1.33");
        let facts = Facts { addons_for: facts.addons_for, ..at(V34, V34, V33) };
        assert_eq!(gates(&facts), (GateResult::Continue, GateResult::Continue));
    }
}
