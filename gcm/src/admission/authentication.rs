//! Validates token issuers: rejects configurations that API servers would refuse or would wrongly accept.
//!
//! An API server that refuses a configuration keeps the previous one, so one invalid issuer would block all later changes.

use std::collections::BTreeSet;

use api::gcm::TanzuKubernetesCluster;
use api::gcm::authentication::{ClaimMappings, ClaimValidationRule, Issuer, JwtAuthenticator, PrefixedClaim};
use bounds::printable;
use url::Url;

use super::authorities::pem_fault;
use super::denial::FieldDenial;
use super::version;
use crate::release::resolution::{self, AvailableRelease};
use crate::spec::authentication::{FIRST_RELEASE, issuers};
use crate::spec::network::ClusterNetwork;
use crate::spec::release::current_version;

const FIELD: &str = "spec.settings.authentication.jwt";
/// The only match policy that allows several audiences.
const MATCH_ANY: &str = "MatchAny";
/// The prefix of Kubernetes' built-in users and groups.
const RESERVED: &str = "system:";
/// The maximum number of characters that a message quotes from a value.
const LONGEST_SHOWN: usize = 128;

/// Returns the denials for a cluster's issuers.
pub(super) fn denials(
    new: &TanzuKubernetesCluster,
    old: Option<&TanzuKubernetesCluster>,
    available: &[AvailableRelease],
) -> Vec<FieldDenial> {
    let issuers = issuers(&new.spec);
    let mut denials: Vec<_> = release_denial(new, old, available).into_iter().collect();
    let own = format!("https://kubernetes.default.svc.{}", ClusterNetwork::read(&new.spec).domain);
    let mut urls = BTreeSet::from([own.as_str()]);
    for (at, authenticator) in issuers.iter().enumerate() {
        let JwtAuthenticator { issuer, claim_mappings, claim_validation_rules } = authenticator;
        let field = format!("{FIELD}[{at}]");
        denials.extend(issuer_denials(&format!("{field}.issuer"), issuer));
        if !urls.insert(issuer.url.as_str()) {
            denials.push(FieldDenial::new(
                format!("{field}.issuer.url"),
                format!("{} is the URL of another issuer, or of the cluster itself", shown(&issuer.url)),
                "Give each issuer its own URL, and list several clients of an issuer in its audiences",
            ));
        }
        denials.extend(mapping_denials(&format!("{field}.claimMappings"), claim_mappings));
        let rules = claim_validation_rules.as_deref().unwrap_or_default();
        denials.extend(rule_denials(&format!("{field}.claimValidationRules"), rules));
    }
    denials
}

fn release_denial(
    new: &TanzuKubernetesCluster,
    old: Option<&TanzuKubernetesCluster>,
    available: &[AvailableRelease],
) -> Option<FieldDenial> {
    if issuers(&new.spec).is_empty() {
        return None;
    }
    let resolved = resolution::resolve_release(version::intended_request(new, old), available);
    let release = resolved.map(|release| release.version.clone()).ok().or_else(|| current_version(new))?;
    (release.minor() < FIRST_RELEASE).then(|| {
        FieldDenial::new(
            FIELD,
            format!("API servers of {} read no configuration of issuers", release.minor_text()),
            "Upgrade the cluster to v1.30 or later first, or leave this field out",
        )
    })
}

fn issuer_denials(field: &str, issuer: &Issuer) -> Vec<FieldDenial> {
    let Issuer { url, audiences, certificate_authority, audience_match_policy } = issuer;
    let mut denials = Vec::new();
    denials.extend(url_fault(url).map(|reason| {
        FieldDenial::new(
            format!("{field}.url"),
            reason,
            "Write the claim iss of the provider's tokens, such as https://login.example.com/realms/corp",
        )
    }));
    denials.extend(audience_fault(audiences).map(|reason| {
        FieldDenial::new(format!("{field}.audiences"), reason, "List each client id once, and at least one")
    }));
    let policy = audience_match_policy.as_deref().unwrap_or_default();
    if policy != MATCH_ANY && (audiences.len() > 1 || !policy.is_empty()) {
        denials.push(FieldDenial::new(
            format!("{field}.audienceMatchPolicy"),
            format!("it is {}, and several audiences need {MATCH_ANY}", shown(policy)),
            format!("Set it to {MATCH_ANY}, or list one audience and leave it out"),
        ));
    }
    let authority = certificate_authority.as_deref().filter(|pem| !pem.is_empty());
    denials.extend(authority.and_then(pem_fault).map(|fault| {
        FieldDenial::new(
            format!("{field}.certificateAuthority"),
            format!("it {fault}"),
            "Write the PEM certificates themselves, or leave the field out to use those that the nodes trust",
        )
    }));
    denials
}

fn url_fault(text: &str) -> Option<String> {
    let url = match Url::parse(text) {
        // Don't quote the string, which can contain a password.
        Err(error) => return Some(format!("it is not a URL: {error}")),
        Ok(url) => url,
    };
    let fault = if text.contains(|c: char| c.is_whitespace() || c.is_control()) {
        "it contains a blank or a line break"
    } else if url.scheme() != "https" {
        "it does not begin with https://"
    } else if url.host_str().is_none_or(str::is_empty) {
        "it has no host"
    } else if !url.username().is_empty() || url.password().is_some() {
        "it contains a user or a password"
    } else if url.query().is_some() || url.fragment().is_some() {
        "it contains a query or a fragment"
    } else {
        return None;
    };
    Some(fault.to_owned())
}

fn audience_fault(audiences: &[String]) -> Option<String> {
    if audiences.is_empty() {
        return Some("it is empty".to_owned());
    }
    let mut seen = BTreeSet::new();
    audiences.iter().find_map(|audience| {
        if audience.is_empty() {
            Some("an audience is empty".to_owned())
        } else {
            (!seen.insert(audience)).then(|| format!("{} is listed twice", shown(audience)))
        }
    })
}

fn mapping_denials(field: &str, mappings: &ClaimMappings) -> Vec<FieldDenial> {
    let ClaimMappings { username, groups, uid } = mappings;
    let mut denials = claim_denials(&format!("{field}.username"), username);
    denials.extend(groups.iter().flat_map(|groups| claim_denials(&format!("{field}.groups"), groups)));
    if uid.as_ref().is_some_and(|uid| uid.claim.is_empty()) {
        denials.push(unnamed(&format!("{field}.uid")));
    }
    denials
}

fn claim_denials(field: &str, mapping: &PrefixedClaim) -> Vec<FieldDenial> {
    let PrefixedClaim { claim, prefix } = mapping;
    let mut denials: Vec<_> = claim.is_empty().then(|| unnamed(field)).into_iter().collect();
    let (reason, remedy) = match prefix {
        None => (
            "it is missing".to_owned(),
            "Write a prefix that tells these names from others, such as \"corp:\", or \"\" for none",
        ),
        Some(prefix) if prefix.starts_with(RESERVED) => (
            format!("{} begins with {RESERVED}, which is reserved for Kubernetes", shown(prefix)),
            "Write another prefix",
        ),
        Some(_) => return denials,
    };
    denials.push(FieldDenial::new(format!("{field}.prefix"), reason, remedy));
    denials
}

fn unnamed(field: &str) -> FieldDenial {
    FieldDenial::new(format!("{field}.claim"), "it is missing", "Write the name of a claim, such as sub")
}

fn rule_denials(field: &str, rules: &[ClaimValidationRule]) -> Vec<FieldDenial> {
    let mut seen = BTreeSet::new();
    let mut denials = Vec::new();
    for (at, rule) in rules.iter().enumerate() {
        let is_set = |text: &Option<String>| text.as_deref().is_some_and(|text| !text.is_empty());
        let ClaimValidationRule { claim, required_value, expression, message } = rule;
        let reason = match (is_set(claim), is_set(expression)) {
            (true, true) => "it has a claim and an expression",
            (false, false) => "it has neither a claim nor an expression",
            (true, false) if is_set(message) => "it has a message, which belongs to an expression",
            (false, true) if is_set(required_value) => "it has a requiredValue, which belongs to a claim",
            _ if !seen.insert((claim, expression)) => "it has the claim or the expression of another rule",
            _ => continue,
        };
        denials.push(FieldDenial::new(
            format!("{field}[{at}]"),
            reason,
            "Write claim and requiredValue, or expression and message, and each claim or expression once",
        ));
    }
    denials
}

fn shown(text: &str) -> String {
    format!("{:?}", printable(text, LONGEST_SHOWN))
}

#[cfg(test)]
mod tests;
