//! Token issuers with which users log in to a cluster.
//!
//! Names and semantics match `JWTAuthenticator` in `apiserver.config.k8s.io`, of which this is a subset.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Authentication methods in addition to the client certificates in the cluster's kubeconfig.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AuthenticationSettings {
    /// Issuers whose tokens the cluster's API servers accept. Changes don't replace nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub jwt: Option<Vec<JwtAuthenticator>>,
}

/// Token issuer and the mapping of its tokens to users.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["issuer", "claimMappings"]))]
pub struct JwtAuthenticator {
    /// OpenID Connect provider that issues the tokens.
    pub issuer: Issuer,
    /// Claims that are mapped to user name, groups and UID.
    pub claim_mappings: ClaimMappings,
    /// Rules that each token must satisfy.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub claim_validation_rules: Option<Vec<ClaimValidationRule>>,
}

/// OpenID Connect provider that issues tokens.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["url", "audiences"]))]
pub struct Issuer {
    /// Issuer URL, which must match the claim `iss` in tokens: `https://`, without user, query and fragment. Control
    /// plane nodes must be able to reach it.
    #[schemars(length(min = 1, max = 2048))]
    pub url: String,
    /// Accepted audiences. The claim `aud` in a token must contain at least one of them.
    #[schemars(length(min = 1, max = 16), inner(length(min = 1, max = 512)))]
    pub audiences: Vec<String>,
    /// CA certificates in PEM format that verify the issuer's TLS certificate. Defaults to the CAs that the node
    /// trusts.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32_768))]
    pub certificate_authority: Option<String>,
    /// Audience match policy: `MatchAny`. Required if there are several audiences.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub audience_match_policy: Option<String>,
}

/// Claims that are mapped to user name, groups and UID.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["username"]))]
pub struct ClaimMappings {
    /// Claim with the user name.
    pub username: PrefixedClaim,
    /// Claim with the groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<PrefixedClaim>,
    /// Claim with the UID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<Claim>,
}

/// Claim with a prefix for its value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["claim"]))]
pub struct PrefixedClaim {
    /// Claim name, such as `sub`, `email` or `groups`.
    #[schemars(length(min = 1, max = 256))]
    pub claim: String,
    /// Prefix for the value, such as `corp:`. Required, but can be empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub prefix: Option<String>,
}

/// Claim in a token.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["claim"]))]
pub struct Claim {
    /// Claim name.
    #[schemars(length(min = 1, max = 256))]
    pub claim: String,
}

/// Validation rule for tokens: either a claim with a required value, or a CEL expression.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimValidationRule {
    /// Claim name. Mutually exclusive with expression.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub claim: Option<String>,
    /// Value that the claim must have. Defaults to the empty string.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub required_value: Option<String>,
    /// CEL expression over `claims` that must be true, such as `claims.hd == 'example.com'`. Mutually exclusive with
    /// claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub expression: Option<String>,
    /// Message for a token that doesn't satisfy the expression.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub message: Option<String>,
}
