//! Users log in with tokens from an OIDC issuer, which is added, changed and removed without replacing nodes.

use std::collections::BTreeSet;

use k8s_openapi::api::authentication::v1::{SelfSubjectReview, UserInfo};
use k8s_openapi::api::core::v1::Node;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::config::AuthInfo;
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::harness::issuer::IdentityProvider;
use crate::harness::objects::{SMALL, one_node, role_binding};
use crate::harness::story::{CLUSTER, SOON, Story, assert_contains, condition, story};

const NAME: &str = "login";

#[test]
fn users_log_in_with_tokens_of_an_issuer_that_is_added_in_place() {
    story("login", |story| async move {
        let issuer = IdentityProvider::start("kubernetes,other");
        let stranger = IdentityProvider::start("kubernetes");
        story.apply(&one_node(NAME, "v1.33.1---vmware.1-fips-vkr.2", SMALL)).await;
        story.wait_until_running(NAME).await;
        let machines = machines(&story).await;
        what_api_servers_would_refuse_is_refused(&story, &issuer).await;
        let token = issuer.log_in("kubernetes");
        assert_eq!(user_of(&story, &token).await, None, "the cluster has no issuer");

        issuers_are(&story, json!([jwt(&issuer)])).await;
        becomes(&story, "True", &[]).await;
        let user = user_of(&story, &token).await.expect("a user");
        assert_eq!(user.username.as_deref(), Some("corp:ann"));
        assert!(user.groups.unwrap_or_default().contains(&"corp:devs".to_owned()));
        assert_eq!(user_of(&story, &issuer.log_in("other")).await, None, "another audience");
        assert_eq!(user_of(&story, &stranger.log_in("kubernetes")).await, None, "another issuer");
        who_may_edit_the_namespace_administers_the_cluster(&story, &token).await;

        no_token_becomes_a_group_of_kubernetes(&story, &issuer, &token).await;
        an_issuer_that_does_not_answer_is_named(&story, &issuer, &token).await;
        issuers_are(&story, Value::Null).await;
        becomes(&story, "True", &[]).await;
        assert_eq!(user_of(&story, &issuer.log_in("kubernetes")).await, None, "the issuer is removed");
        is_forgotten(&story, &token).await;
        assert_eq!(self::machines(&story).await, machines, "no node is replaced");
        story.delete("TanzuKubernetesCluster", NAME, CLUSTER).await;
    });
}

fn jwt(issuer: &IdentityProvider) -> Value {
    json!({
        "issuer": {"url": issuer.url, "audiences": ["kubernetes"], "certificateAuthority": issuer.authority()},
        "claimMappings": {
            "username": {"claim": "sub", "prefix": "corp:"}, "groups": {"claim": "groups", "prefix": "corp:"},
        },
        "claimValidationRules": [{"expression": "claims.sub != ''", "message": "no name"}],
    })
}

fn patch(jwt: &Value) -> Value {
    json!({"spec": {"settings": {"authentication": {"jwt": jwt}}}})
}

async fn issuers_are(story: &Story, jwt: Value) {
    story.patch("TanzuKubernetesCluster", NAME, patch(&jwt)).await;
}

/// Waits until the condition has this status and its message contains these parts.
async fn becomes(story: &Story, status: &str, parts: &[&str]) {
    let generation =
        story.get("TanzuKubernetesCluster", NAME).await.expect("it")["metadata"]["generation"].clone();
    story
        .wait_for(&format!("AuthenticationReady is {status}"), CLUSTER, async || {
            let cluster = story.get("TanzuKubernetesCluster", NAME).await?;
            let found = condition(&cluster, "AuthenticationReady")?;
            let message = found["message"].as_str().unwrap_or_default();
            let is_so = cluster["status"]["observedGeneration"] == generation && found["status"] == status;
            (is_so && parts.iter().all(|part| message.contains(part))).then_some(())
        })
        .await;
}

async fn machines(story: &Story) -> BTreeSet<String> {
    let machines = story.list("Machine").await;
    machines.iter().filter_map(|machine| machine["metadata"]["name"].as_str().map(str::to_owned)).collect()
}

async fn client_with(story: &Story, token: &str) -> Client {
    let mut config = story.guest_config(NAME).await;
    config.auth_info = AuthInfo { token: Some(token.to_owned().into()), ..AuthInfo::default() };
    Client::try_from(config).expect("a client")
}

/// Returns the user that the API server authenticates for a token, or `None` if it refuses the token.
async fn user_of(story: &Story, token: &str) -> Option<UserInfo> {
    let reviews: Api<SelfSubjectReview> = Api::all(client_with(story, token).await);
    match reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await {
        Ok(review) => review.status.and_then(|status| status.user_info),
        Err(kube::Error::Api(status)) if status.code == 401 => None,
        Err(error) => panic!("{error}"),
    }
}

/// Waits until an accepted token is refused. The API server caches tokens for ten seconds.
async fn is_forgotten(story: &Story, token: &str) {
    story.wait_until("the token is refused", SOON, async || user_of(story, token).await.is_none()).await;
}

/// A user tries manifests in a server-side dry run.
async fn what_api_servers_would_refuse_is_refused(story: &Story, issuer: &IdentityProvider) {
    let api: Api<DynamicObject> = story.api("TanzuKubernetesCluster");
    let dry_run = PatchParams { dry_run: true, ..PatchParams::default() };
    let good = jwt(issuer);
    let changed = |pointer: &str, value: Value| {
        let mut changed = good.clone();
        *changed.pointer_mut(pointer).expect("a field") = value;
        changed
    };
    for (jwt, parts) in [
        (json!([changed("/issuer/url", json!("http://a.example.com"))]), ["jwt[0].issuer.url", "https://"]),
        (json!([good, good]), ["jwt[1].issuer.url", "another issuer"]),
        (
            json!([changed("/claimMappings/username", json!({"claim": "sub"}))]),
            ["username.prefix", "missing"],
        ),
        (json!([changed("/claimMappings/groups/prefix", json!("system:"))]), ["groups.prefix", "reserved"]),
        (
            json!([changed("/issuer/certificateAuthority", json!("x"))]),
            ["certificateAuthority", "no PEM certificate"],
        ),
    ] {
        let refused = api.patch(NAME, &dry_run, &Patch::Merge(patch(&jwt))).await.expect_err("a refusal");
        assert_contains(refused, &parts);
    }
    api.patch(NAME, &dry_run, &Patch::Merge(patch(&json!([good])))).await.expect("it is accepted");
}

/// User and group names are the same as in the management cluster, so its role bindings apply.
async fn who_may_edit_the_namespace_administers_the_cluster(story: &Story, token: &str) {
    let group = json!([{"kind": "Group", "name": "corp:devs", "apiGroup": "rbac.authorization.k8s.io"}]);
    story.apply_object(&role_binding(&story.namespace, "devs", "edit", &group)).await;
    let nodes: Api<Node> = Api::all(client_with(story, token).await);
    story
        .wait_until("a user with edit rights lists nodes", CLUSTER, async || {
            nodes.list(&ListParams::default()).await.is_ok()
        })
        .await;
    story.wait_for_condition("TanzuKubernetesCluster", NAME, "RoleBindingSynced", "True").await;
}

/// The token contains the group `system:masters`. Without a prefix, the API server refuses the token.
async fn no_token_becomes_a_group_of_kubernetes(story: &Story, issuer: &IdentityProvider, token: &str) {
    let mut bare = jwt(issuer);
    bare["claimMappings"]["groups"]["prefix"] = json!("");
    issuers_are(story, json!([bare])).await;
    becomes(story, "True", &[]).await;
    assert_eq!(user_of(story, &issuer.log_in("kubernetes")).await, None);
    is_forgotten(story, token).await;
    issuers_are(story, json!([jwt(issuer)])).await;
    becomes(story, "True", &[]).await;
}

/// An issuer is down. The user sees its URL, and API servers keep the issuers that they had.
async fn an_issuer_that_does_not_answer_is_named(story: &Story, issuer: &IdentityProvider, token: &str) {
    let mut away = jwt(issuer);
    away["issuer"]["url"] = json!("https://127.0.0.1:9/away");
    issuers_are(story, json!([jwt(issuer), away])).await;
    becomes(story, "False", &["https://127.0.0.1:9/away", "does not answer"]).await;
    story.wait_for_ready(NAME, &["spec.settings.authentication.jwt"]).await;
    assert!(user_of(story, token).await.is_some());
    issuers_are(story, json!([jwt(issuer)])).await;
    becomes(story, "True", &[]).await;
    story.wait_until_running(NAME).await;
}
