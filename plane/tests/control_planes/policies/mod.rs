//! Tests each admission policy rule in config/ on a real API server.
//!
//! The test sends requests that a rule must refuse. Then it replaces the rule with `true`, and the same requests must
//! be accepted. It fails if the API server doesn't evaluate a rule, if another rule refuses the same request, or if a
//! rule has no request. All requests are dry runs.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use plane::wait::until;
use plane::{Guard, Options, Plane, StackIdentity, tools};
use serde_json::json;

use self::objects::{NAMESPACE, api, api_in, definition_of_cluster_api, prepare, resource};
use self::requests::{FOR_EVERYONE, Request, refused};

mod objects;
mod programs;
mod requests;

/// The maximum time until the API server enforces a changed policy.
const SEEN: Duration = Duration::from_mins(1);

pub(crate) async fn each_admission_rule_refuses_requests_that_no_other_rule_refuses(tools: tools::Tools) {
    let stack = Arc::new(StackIdentity::ephemeral().unwrap());
    let guard = Guard::start(&std::env::current_exe().unwrap(), &stack).unwrap();
    let definitions = ["Machine", "MachineSet", "MachineDeployment"].map(definition_of_cluster_api).to_vec();
    let plane = Plane::bare(Options { stack, tools, definitions, guest_proxy: None }).await.unwrap();
    let admin = plane.client();
    prepare(&admin).await;
    let all = refused();
    for one in &all {
        let client = act_as(&plane, &one.who).await;
        let what = format!("{} is asked", one.name());
        let words = format!("'{}'", one.policy);
        until(&what, SEEN, async || match send(&client, &one.request).await {
            Err(refusal) if refusal.contains(&words) => Ok(()),
            other => Err(format!("{}: {other:?}", one.request)),
        })
        .await
        .unwrap();
        if !FOR_EVERYONE.contains(&one.policy) {
            // The rule refuses the user, not the request itself.
            send(&admin, &one.request).await.unwrap_or_else(|error| panic!("{}: {error}", one.name()));
        }
    }
    for (who, request) in programs::accepted() {
        let client = act_as(&plane, who).await;
        send(&client, &request).await.unwrap_or_else(|error| panic!("{request} by {who}: {error}"));
    }
    let rules: BTreeSet<_> = all.iter().map(|one| (one.policy, one.rule)).collect();
    assert_eq!(rules, rules_of(&admin).await, "each rule has a request that it refuses");
    for (policy, rule) in rules {
        let kept = replace_expression(&admin, policy, rule, "true").await;
        for one in all.iter().filter(|one| (one.policy, one.rule) == (policy, rule)) {
            let client = act_as(&plane, &one.who).await;
            let what = format!("{} is what refuses", one.name());
            until(&what, SEEN, async || {
                send(&client, &one.request).await.map_err(|error| format!("{}: {error}", one.request))
            })
            .await
            .unwrap();
        }
        replace_expression(&admin, policy, rule, &kept).await;
    }
    plane.stop().await;
    tokio::task::spawn_blocking(move || guard.finish()).await.unwrap().unwrap();
}

async fn rules_of(admin: &Client) -> BTreeSet<(&'static str, usize)> {
    let policies = Api::<DynamicObject>::all_with(admin.clone(), &resource("ValidatingAdmissionPolicy"));
    let policies = policies.list(&ListParams::default()).await.unwrap().items;
    let rules = policies.into_iter().flat_map(|policy| {
        let name: &'static str = policy.metadata.name.unwrap().leak();
        let count = policy.data["spec"]["validations"].as_array().unwrap().len();
        (0..count).map(move |rule| (name, rule))
    });
    rules.collect()
}

/// Replaces a rule's expression, and returns the previous one.
async fn replace_expression(admin: &Client, policy: &str, rule: usize, expression: &str) -> String {
    let policies = Api::<DynamicObject>::all_with(admin.clone(), &resource("ValidatingAdmissionPolicy"));
    let before = policies.get(policy).await.unwrap().data["spec"]["validations"][rule]["expression"].clone();
    let path = format!("/spec/validations/{rule}/expression");
    let replace =
        serde_json::from_value(json!([{"op": "replace", "path": path, "value": expression}])).unwrap();
    policies.patch(policy, &PatchParams::default(), &Patch::Json::<()>(replace)).await.unwrap();
    before.as_str().unwrap().to_owned()
}

async fn act_as(plane: &Plane, user: &str) -> Client {
    let kubeconfig = Kubeconfig::read_from(plane.kubeconfig()).unwrap();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    config.auth_info.impersonate = Some(user.to_owned());
    Client::try_from(config).unwrap()
}

async fn send(client: &Client, request: &Request) -> Result<(), String> {
    let result = match request.clone() {
        Request::Create(object) => {
            let params = PostParams { dry_run: true, ..PostParams::default() };
            let object: DynamicObject = serde_json::from_value(object).unwrap();
            let kind = object.types.as_ref().unwrap().kind.clone();
            let namespace = object.metadata.namespace.clone().unwrap_or_else(|| NAMESPACE.to_owned());
            api_in(client, &kind, &namespace).create(&params, &object).await.map(drop)
        }
        Request::Change(kind, name, patch) => {
            let params = PatchParams { dry_run: true, ..PatchParams::default() };
            api(client, kind).patch(name, &params, &Patch::Merge(patch)).await.map(drop)
        }
        Request::Delete(kind, name) => {
            let params = DeleteParams { dry_run: true, ..DeleteParams::default() };
            api(client, kind).delete(name, &params).await.map(drop)
        }
    };
    result.map_err(|error| error.to_string())
}
