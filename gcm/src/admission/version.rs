//! Validates a cluster's release, and upgrades to other releases.

use std::fmt::Write;

use api::gcm::TanzuKubernetesCluster;
use api::gcm::parts::Tkr;
use api::names::annotation;
use kube::ResourceExt;

use super::denial::FieldDenial;
use super::queries;
use crate::release::resolution::{self, AvailableRelease, ReleaseRequest, RequestField, Unresolved};
use crate::release::version::Version;
use crate::spec::release::{current_version, release_request};

const FULL: &str = "spec.distribution.fullVersion";
const HINT: &str = "spec.distribution.version";
const REFERENCE: &str = "spec.topology.controlPlane.tkr.reference.name";

fn name(tkr: Option<&Tkr>) -> &str {
    tkr.and_then(Tkr::name).unwrap_or_default()
}

/// Returns the release that the author intends. Values that the author changed take precedence over values that admission filled
/// in.
///
/// The full version and the reference name the same release, and admission always sets both. If the author changes one of them,
/// the unchanged one is ignored. The same applies if the author removes the full version, so that the version hint
/// (`spec.distribution.version`) applies again.
pub fn intended_request<'a>(
    new: &'a TanzuKubernetesCluster,
    old: Option<&'a TanzuKubernetesCluster>,
) -> ReleaseRequest<'a> {
    let request = release_request(new);
    let Some(before) = old.map(release_request) else { return request };
    let (full, hint, reference) =
        (before.full != request.full, before.hint != request.hint, before.reference != request.reference);
    let other_full = full && !request.full.is_empty();
    if reference && !other_full && runs_it(request.reference, before) {
        let whole = [before.reference, before.full].into_iter().find(|text| Version::parse(text).is_ok());
        return ReleaseRequest { full: "", reference: whole.unwrap_or(request.reference), ..request };
    }
    match (full, reference) {
        (true, false) if !request.full.is_empty() => ReleaseRequest { reference: "", ..request },
        (true, false) if !request.hint.is_empty() => ReleaseRequest { reference: "", ..request },
        (false, true) if !request.reference.is_empty() => ReleaseRequest { full: "", ..request },
        (false, false) if hint && request.full.is_empty() && !request.hint.is_empty() => {
            ReleaseRequest { reference: "", ..request }
        }
        _ => request,
    }
}

/// Returns true if a reference is a prefix that matches the current release.
///
/// Applying the same manifest again sends the prefix, although admission stored the full name. This isn't an upgrade request,
/// even if newer releases match the prefix by then.
fn runs_it(reference: &str, before: ReleaseRequest<'_>) -> bool {
    !reference.is_empty() && before.exact().is_some_and(|version| version.matches(reference))
}

pub(super) fn denials(
    new: &TanzuKubernetesCluster,
    old: Option<&TanzuKubernetesCluster>,
    available: &[AvailableRelease],
) -> Vec<FieldDenial> {
    let before = old.and_then(current_version);
    let request = intended_request(new, old);
    let mut denials = Vec::new();
    match resolution::resolve_release(request, available) {
        Ok(candidate) => {
            denials.extend(step(new, before.as_ref(), &candidate.version, available));
            denials.extend(pools(new, old, &candidate.version));
        }
        // A cluster can keep its current release, even if the release no longer exists or is incompatible.
        Err(Unresolved::Unknown { .. } | Unresolved::Incompatible { .. })
            if before.is_some() && request.exact() == before => {}
        Err(unresolved) => denials.push(unresolved_denial(&unresolved, request, available)),
    }
    denials
}

fn unresolved_denial(
    unresolved: &Unresolved,
    request: ReleaseRequest<'_>,
    available: &[AvailableRelease],
) -> FieldDenial {
    let field = match unresolved.field() {
        RequestField::Full => FULL,
        RequestField::Hint => HINT,
        RequestField::Reference => REFERENCE,
        RequestField::Query => queries::TKR,
    };
    let remedy = match unresolved {
        Unresolved::Disagree { .. } => {
            format!("To follow the hint, set {FULL}: null; to stay with the full version, remove {HINT}")
        }
        Unresolved::ReferenceDisagrees { .. } => {
            format!(
                "To follow the reference, set spec.distribution: null; to follow the distribution, remove {REFERENCE}"
            )
        }
        _ => works(request, available, unresolved.field()),
    };
    FieldDenial::new(field, unresolved.to_string(), remedy)
}

/// Returns a remedy that lists the usable releases in the format of `field`: a reference contains an object name, other fields
/// a version.
fn works(request: ReleaseRequest<'_>, available: &[AvailableRelease], field: RequestField) -> String {
    let fit = resolution::usable_versions(available);
    if fit.is_empty() {
        return "No release can be used. Check that the content library is synchronised (kubectl get tkr,vmi)".to_owned();
    }
    let written = |version: &Version| match field {
        RequestField::Reference => version.object_name(),
        RequestField::Full | RequestField::Hint | RequestField::Query => version.to_string(),
    };
    let mut text = "Use one of".to_owned();
    for (count, version) in fit.iter().enumerate() {
        let _ = write!(text, "{} {}", if count == 0 { ":" } else { "," }, written(version));
    }
    let beginning = [request.hint, request.full, request.reference].into_iter().find(|text| !text.is_empty());
    let minor = beginning.and_then(minor_of);
    match fit.iter().find(|version| Some(version.minor()) == minor) {
        Some(near) => format!("{text}; the closest is {}", written(near)),
        None => text,
    }
}

fn minor_of(text: &str) -> Option<(u64, u64)> {
    let mut numbers = text.trim().trim_start_matches(['v', 'V']).split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn step(
    new: &TanzuKubernetesCluster,
    before: Option<&Version>,
    after: &Version,
    available: &[AvailableRelease],
) -> Option<FieldDenial> {
    let before = before?;
    let why = resolution::explain_unreachable(before, after)?;
    let steps = resolution::find_steps(before, after, available);
    let in_steps = new.annotations().get(annotation::UPGRADE_IN_STEPS).is_some_and(|value| value == "true");
    let mut remedy =
        format!("Choose a release that status condition UpdatesAvailable lists, or stay at {before}");
    if let Some(steps) = steps {
        if in_steps {
            return None;
        }
        let steps: Vec<String> = steps.iter().map(ToString::to_string).collect();
        let _ = write!(
            remedy,
            ". To upgrade step by step through {}, set the annotation {}=true on the cluster",
            steps.join(", "),
            annotation::UPGRADE_IN_STEPS
        );
    }
    Some(FieldDenial::new(FULL, why, remedy))
}

/// Checks the releases of the pools. A pool must run the control plane's release. A reference to the previous release is
/// accepted too, because admission updates it.
fn pools<'a>(
    new: &'a TanzuKubernetesCluster,
    old: Option<&'a TanzuKubernetesCluster>,
    version: &'a Version,
) -> impl Iterator<Item = FieldDenial> + use<'a> {
    let before = old.and_then(current_version);
    new.spec.topology.node_pools.iter().enumerate().filter_map(move |(at, pool)| {
        let written = name(pool.tkr.as_ref());
        if written.is_empty() || follows(written, version, before.as_ref()) {
            return None;
        }
        Some(FieldDenial::new(
            format!("spec.topology.nodePools[{at}].tkr.reference.name"),
            format!(
                "node pool {:?} requests {written}, but the control plane requests {}",
                pool.name,
                version.object_name()
            ),
            "Leave out the tkr of the pool; the pool then uses that of the control plane",
        ))
    })
}

/// Returns true if a pool's reference matches `version` (the requested release) or `before` (the previous one).
pub(super) fn follows(reference: &str, version: &Version, before: Option<&Version>) -> bool {
    version.matches(reference) || before.is_some_and(|before| before.matches(reference))
}

pub(super) fn warnings(new: &TanzuKubernetesCluster, available: &[AvailableRelease]) -> Vec<String> {
    let resolved = resolution::resolve_release(release_request(new), available).ok();
    let support = resolved.and_then(|candidate| resolution::support_warning(&candidate.version));
    support.into_iter().chain(resolved.and_then(|candidate| queries::idle(new, candidate))).collect()
}
