//! Which release a cluster may run, and which it may go to.

use std::fmt::Write;

use api::gcm::TanzuKubernetesCluster;
use api::gcm::parts::Tkr;

use super::Denial;
use crate::resolution::{self, Offer, Source, Unresolved, Wish};
use crate::version::Version;

const FULL: &str = "spec.distribution.fullVersion";
const HINT: &str = "spec.distribution.version";
const REFERENCE: &str = "spec.topology.controlPlane.tkr.reference.name";

fn name(tkr: Option<&Tkr>) -> &str {
    tkr.and_then(Tkr::name).unwrap_or_default()
}

/// What the cluster says about its release, as it is written.
pub fn written(tkc: &TanzuKubernetesCluster) -> Wish<'_> {
    let distribution = tkc.spec.distribution.as_ref();
    Wish {
        full: distribution.and_then(|d| d.full_version.as_deref()).unwrap_or_default(),
        hint: distribution.and_then(|d| d.version.as_deref()).unwrap_or_default(),
        reference: name(tkc.spec.topology.control_plane.tkr.as_ref()),
    }
}

/// What the cluster's author means: what admission filled in itself gives way to what its author changes.
///
/// Full version and reference are two names of one thing, and both are always written. Who changes one of them,
/// or takes the full version away to follow the hint again, means the other to follow.
pub fn meant<'a>(new: &'a TanzuKubernetesCluster, old: Option<&'a TanzuKubernetesCluster>) -> Wish<'a> {
    let wish = written(new);
    let Some(before) = old.map(written) else { return wish };
    let (full, hint, reference) =
        (before.full != wish.full, before.hint != wish.hint, before.reference != wish.reference);
    match (full, reference) {
        (true, false) if !wish.full.is_empty() => Wish { reference: "", ..wish },
        (true, false) if !wish.hint.is_empty() => Wish { reference: "", ..wish },
        (false, true) if !wish.reference.is_empty() => Wish { full: "", ..wish },
        (false, false) if hint && wish.full.is_empty() && !wish.hint.is_empty() => {
            Wish { reference: "", ..wish }
        }
        _ => wish,
    }
}

/// The version the cluster runs according to its spec.
pub fn current(tkc: &TanzuKubernetesCluster) -> Option<Version> {
    written(tkc).exact()
}

pub(super) fn denials(
    new: &TanzuKubernetesCluster,
    old: Option<&TanzuKubernetesCluster>,
    offers: &[Offer],
) -> Vec<Denial> {
    let before = old.and_then(current);
    let wish = meant(new, old);
    let mut denials = Vec::new();
    match resolution::resolve(wish, offers) {
        Ok(offer) => {
            denials.extend(step(before.as_ref(), &offer.version));
            denials.extend(pools(new, old, &offer.version));
        }
        // What runs already may go on running, whatever became of its release.
        Err(Unresolved::Unknown { .. } | Unresolved::Unfit { .. })
            if before.is_some() && wish.exact() == before => {}
        Err(unresolved) => denials.push(unresolved_denial(&unresolved, wish, offers)),
    }
    denials
}

fn unresolved_denial(unresolved: &Unresolved, wish: Wish<'_>, offers: &[Offer]) -> Denial {
    let field = match unresolved.source_of() {
        Source::Full => FULL,
        Source::Hint => HINT,
        Source::Reference => REFERENCE,
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
        _ => works(wish, offers, unresolved.source_of()),
    };
    Denial::new(field, unresolved.to_string(), remedy)
}

/// The releases that work, written as the field wants them: a reference is to an object's name.
fn works(wish: Wish<'_>, offers: &[Offer], source_of: Source) -> String {
    let fit = resolution::fit(offers);
    if fit.is_empty() {
        return "No release can be used: see whether the content library is synchronised (kubectl get tkr,vmi)".to_owned();
    }
    let written = |version: &Version| match source_of {
        Source::Reference => version.object_name(),
        Source::Full | Source::Hint => version.to_string(),
    };
    let mut text = "Use one of".to_owned();
    for (count, version) in fit.iter().enumerate() {
        let _ = write!(text, "{} {}", if count == 0 { ":" } else { "," }, written(version));
    }
    let beginning = [wish.hint, wish.full, wish.reference].into_iter().find(|text| !text.is_empty());
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

fn step(before: Option<&Version>, after: &Version) -> Option<Denial> {
    let why = resolution::unreachable(before?, after)?;
    let remedy =
        format!("Choose a release that status condition UpdatesAvailable lists, or stay at {}", before?);
    Some(Denial::new(FULL, why, remedy))
}

/// A pool runs what the control plane runs. A reference that only lags behind follows by itself.
fn pools<'a>(
    new: &'a TanzuKubernetesCluster,
    old: Option<&'a TanzuKubernetesCluster>,
    version: &'a Version,
) -> impl Iterator<Item = Denial> + use<'a> {
    let before = old.and_then(current);
    new.spec.topology.node_pools.iter().enumerate().filter_map(move |(at, pool)| {
        let written = name(pool.tkr.as_ref());
        let pool_version = Version::parse(written).ok();
        let follows = written.is_empty() || pool_version.as_ref() == Some(version);
        if follows || (before.is_some() && pool_version == before) {
            return None;
        }
        Some(Denial::new(
            format!("spec.topology.nodePools[{at}].tkr.reference.name"),
            format!(
                "node pool {:?} asks for {written}, and the control plane for {}",
                pool.name,
                version.object_name()
            ),
            "Leave the pool's tkr out: it is the control plane's",
        ))
    })
}

pub(super) fn warnings(new: &TanzuKubernetesCluster, offers: &[Offer]) -> Vec<String> {
    let resolved = resolution::resolve(written(new), offers).ok();
    resolved.and_then(|offer| resolution::support_warning(&offer.version)).into_iter().collect()
}
