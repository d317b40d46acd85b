//! Issuers of tokens with which users log in to a cluster.
//!
//! Names and meaning are those of `JWTAuthenticator` in `apiserver.config.k8s.io`, as far as it is offered here.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How users authenticate themselves to the cluster, in addition to the certificates of its kubeconfig.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AuthenticationSettings {
    /// The issuers whose tokens the API servers of the cluster accept. Changes are applied in place.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub jwt: Option<Vec<JwtAuthenticator>>,
}

/// An issuer of tokens, and how the API servers read its tokens.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["issuer", "claimMappings"]))]
pub struct JwtAuthenticator {
    /// The OpenID Connect provider.
    pub issuer: Issuer,
    /// The claims that become the name and the groups of a user.
    pub claim_mappings: ClaimMappings,
    /// Rules that each accepted token meets.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub claim_validation_rules: Option<Vec<ClaimValidationRule>>,
}

/// An OpenID Connect provider.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["url", "audiences"]))]
pub struct Issuer {
    /// The URL of the provider, which is the claim `iss` of its tokens: `https://`, without user, query and fragment. Control
    /// plane nodes must reach it.
    #[schemars(length(min = 1, max = 2048))]
    pub url: String,
    /// The clients whose tokens are accepted: a token has one of them in its claim `aud`.
    #[schemars(length(min = 1, max = 16), inner(length(min = 1, max = 512)))]
    pub audiences: Vec<String>,
    /// The certificates (PEM) that the provider's own certificate is verified with. If left out: those of the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32_768))]
    pub certificate_authority: Option<String>,
    /// `MatchAny`; required if there are several audiences.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub audience_match_policy: Option<String>,
}

/// The claims that become the name and the groups of a user.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["username"]))]
pub struct ClaimMappings {
    /// The name of the user.
    pub username: PrefixedClaim,
    /// The groups of the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<PrefixedClaim>,
    /// The uid of the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<Claim>,
}

/// A claim, and the prefix of its value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["claim"]))]
pub struct PrefixedClaim {
    /// The name of the claim, such as `sub`, `email` or `groups`.
    #[schemars(length(min = 1, max = 256))]
    pub claim: String,
    /// The text before its value, such as `corp:`. It must be written; it may be empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub prefix: Option<String>,
}

/// A claim.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["claim"]))]
pub struct Claim {
    /// The name of the claim.
    #[schemars(length(min = 1, max = 256))]
    pub claim: String,
}

/// A rule for tokens: a claim with a value, or a CEL expression that is true.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimValidationRule {
    /// The name of a claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub claim: Option<String>,
    /// The value that the claim must have. If left out: the empty text.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub required_value: Option<String>,
    /// A CEL expression over `claims`, such as `claims.hd == 'example.com'`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub expression: Option<String>,
    /// The message if the expression is false.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub message: Option<String>,
}
