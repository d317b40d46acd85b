//! Tests each rule once, and that real configurations are accepted.

use serde_json::{Value, json};

use super::*;
use crate::testing::{SITE_VERSIONS, available, changed, cluster, set_at, sound};

const PEM: &str = include_str!("../authorities/authority.pem");

fn authenticator() -> Value {
    json!({
        "issuer": {"url": "https://login.example.com/realms/corp", "audiences": ["kubernetes"], "certificateAuthority": PEM},
        "claimMappings": {
            "username": {"claim": "sub", "prefix": "corp:"}, "groups": {"claim": "groups", "prefix": ""},
            "uid": {"claim": "oid"},
        },
        "claimValidationRules": [
            {"claim": "hd", "requiredValue": "example.com"},
            {"expression": "claims.exp - claims.nbf <= 86400", "message": "too long"},
        ],
    })
}

fn with(jwt: &Value) -> TanzuKubernetesCluster {
    changed(&sound(), "/spec/settings/authentication", json!({"jwt": jwt}))
}

fn denied(jwt: &Value) -> Vec<String> {
    denials(&with(jwt), None, &available(&SITE_VERSIONS)).iter().map(ToString::to_string).collect()
}

#[test]
fn issuers_that_api_servers_accept_are_accepted() {
    let mut other = authenticator();
    other["issuer"] = json!({
        "url": "https://other.example.com", "audiences": ["a", "b"], "audienceMatchPolicy": "MatchAny",
    });
    assert_eq!(denied(&json!([authenticator(), other])), Vec::<String>::new());
    assert_eq!(denied(&json!([])), Vec::<String>::new());
    let tkc = with(&json!([authenticator()]));
    let all = crate::admission::validate(&tkc, None, &available(&SITE_VERSIONS));
    assert_eq!(all, [], "a certificate has line breaks, and no node gets it");
}

#[test]
fn what_an_api_server_would_refuse_is_refused_with_its_field() {
    const URL: &str = "/issuer/url";
    const POLICY: &str = "/issuer/audienceMatchPolicy";
    const AUTHORITY: &str = "/issuer/certificateAuthority";
    const PREFIX: &str = "/claimMappings/username/prefix";
    const RULES: &str = "/claimValidationRules";
    let cases = [
        (URL, json!("http://login.example.com"), ".issuer.url: it does not begin with https://"),
        (URL, json!("login.example.com"), ".issuer.url: it is not a URL"),
        (URL, json!("https://u:hidden@login.example.com"), ".issuer.url: it contains a user or a password"),
        (URL, json!("https://login.example.com?a=hidden"), ".issuer.url: it contains a query"),
        (URL, json!("https://login.example.com/#a"), ".issuer.url: it contains a query or a fragment"),
        (URL, json!("https://kubernetes.default.svc.cluster.local"), "or of the cluster itself"),
        ("/issuer/audiences", json!([]), ".issuer.audiences: it is empty"),
        ("/issuer/audiences", json!([""]), ".issuer.audiences: an audience is empty"),
        ("/issuer/audiences", json!(["a", "b"]), ".issuer.audienceMatchPolicy: it is \"\""),
        (POLICY, json!("MatchAll"), ".issuer.audienceMatchPolicy: it is \"MatchAll\""),
        (AUTHORITY, json!("hidden"), ".issuer.certificateAuthority: it contains no PEM certificate"),
        (AUTHORITY, json!("-----BEGIN CERTIFICATE-----\nhidden\n"), "a certificate that is cut off"),
        ("/claimMappings/username", json!({"claim": "sub"}), ".username.prefix: it is missing"),
        ("/claimMappings/username", json!({"claim": "", "prefix": ""}), ".username.claim: it is missing"),
        (PREFIX, json!("system:"), ".username.prefix: \"system:\" begins with system:"),
        ("/claimMappings/groups/prefix", json!("system:masters:"), ".groups.prefix:"),
        ("/claimMappings/groups", json!({"claim": "groups"}), ".groups.prefix: it is missing"),
        ("/claimMappings/uid/claim", json!(""), ".uid.claim: it is missing"),
        (RULES, json!([{}]), ".claimValidationRules[0]: it has neither"),
        (RULES, json!([{"claim": "a", "expression": "true"}]), "[0]: it has a claim and an expression"),
        (RULES, json!([{"claim": "a", "message": "m"}]), "[0]: it has a message"),
        (RULES, json!([{"expression": "true", "requiredValue": "m"}]), "[0]: it has a requiredValue"),
        (RULES, json!([{"claim": "a"}, {"claim": "a"}]), "[1]: it has the claim"),
    ];
    for (pointer, value, part) in cases {
        let mut wrong = authenticator();
        set_at(&mut wrong, pointer, value);
        let found = denied(&json!([wrong]));
        assert!(found.len() == 1 && found[0].contains(part), "{pointer} {part}: {found:?}");
        assert!(found[0].starts_with("spec.settings.authentication.jwt[0]"), "{found:?}");
        assert!(!found[0].contains("hidden"), "{found:?}");
    }
    let mut repeated = authenticator();
    repeated["issuer"]["audiences"] = json!(["a", "a"]);
    repeated["issuer"]["audienceMatchPolicy"] = json!("MatchAny");
    assert!(denied(&json!([repeated]))[0].contains(".issuer.audiences: \"a\" is listed twice"));
    let twice = denied(&json!([authenticator(), authenticator()]));
    assert!(twice[0].starts_with("spec.settings.authentication.jwt[1].issuer.url:"), "{twice:?}");
}

#[test]
fn a_release_whose_api_servers_read_no_configuration_is_named() {
    let mut tkc = with(&json!([authenticator()]));
    tkc.spec.topology.control_plane.tkr =
        Some(api::gcm::parts::Tkr::named("v1.29.4---vmware.3-fips.1-tkg.1"));
    let found = denials(&tkc, None, &[]);
    assert_eq!(found.len(), 1);
    let text = found[0].to_string();
    assert!(text.contains("API servers of v1.29") && text.contains("Upgrade the cluster to v1.30"), "{text}");
    let none = cluster(
        "{apiVersion: run.tanzu.vmware.com/v1alpha3, kind: TanzuKubernetesCluster, metadata: {name: c}, spec: {topology: {controlPlane: {vmClass: a, storageClass: b}, nodePools: []}}}",
    );
    assert_eq!(denials(&none, None, &[]), []);
}
