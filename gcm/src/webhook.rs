//! The admission and conversion webhooks, served by every replica.
//!
//! The API server shows admission the stored version, whatever version was sent; texts name fields as their author
//! wrote them. Whatever cannot be read here is let through: the schema, which is looked at later, says it better.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::gcm::TanzuKubernetesCluster;
use api::gcm::convert;
use api::vmop::VirtualMachineClassBinding;
use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::admission::{self, defaults};
use crate::releases::cache::ReleaseCache;

/// Where defaults are filled in.
pub const MUTATE: &str = "/mutate-run-tanzu-vmware-com-v1alpha3-tanzukubernetescluster";
/// Where rules are checked.
pub const VALIDATE: &str = "/validate-run-tanzu-vmware-com-v1alpha3-tanzukubernetescluster";
/// Where versions are converted.
pub const CONVERT: &str = "/convert";
/// Hints about classes are no reason to make anybody wait.
const PATIENCE: Duration = Duration::from_secs(2);

/// What the webhooks work with.
#[derive(Clone)]
pub struct Webhooks {
    /// The releases.
    pub release_cache: ReleaseCache,
    /// For looking at a namespace's classes.
    pub client: Client,
}

/// The routes of the webhooks.
pub fn router(webhooks: Webhooks) -> Router {
    Router::new()
        .route(MUTATE, post(mutate))
        .route(VALIDATE, post(validate))
        .route(CONVERT, post(converted))
        .with_state(Arc::new(webhooks))
}

/// What an AdmissionReview asks about.
struct Question {
    uid: Value,
    /// The version of the API that the author used.
    version: String,
    object: Value,
    new: Option<TanzuKubernetesCluster>,
    old: Option<TanzuKubernetesCluster>,
}

impl Question {
    fn read(review: &Value) -> Self {
        let request = &review["request"];
        let cluster = |key: &str| {
            serde_json::from_value(request[key].clone()).ok().filter(|_| request[key].is_object())
        };
        let version = request.pointer("/requestKind/version").or_else(|| request.pointer("/kind/version"));
        Self {
            uid: request["uid"].clone(),
            version: version.and_then(Value::as_str).unwrap_or_default().to_owned(),
            object: request["object"].clone(),
            new: cluster("object"),
            old: cluster("oldObject"),
        }
    }

    fn answer(&self, mut response: Value) -> Json<Value> {
        response["uid"] = self.uid.clone();
        Json(json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response }))
    }
}

async fn mutate(State(webhooks): State<Arc<Webhooks>>, Json(review): Json<Value>) -> Json<Value> {
    let question = Question::read(&review);
    let Some(new) = &question.new else { return question.answer(json!({ "allowed": true })) };
    let values = defaults::missing_values(new, question.old.as_ref(), &webhooks.release_cache.available());
    if values.is_empty() {
        return question.answer(json!({ "allowed": true }));
    }
    let patch = defaults::patch(&question.object, &values).to_string();
    question.answer(json!({ "allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(patch) }))
}

async fn validate(State(webhooks): State<Arc<Webhooks>>, Json(review): Json<Value>) -> Json<Value> {
    let question = Question::read(&review);
    let Some(new) = &question.new else { return question.answer(json!({ "allowed": true })) };
    let available = webhooks.release_cache.available();
    let mut denials = admission::validate(new, question.old.as_ref(), &available);
    if question.version == "v1alpha1" {
        denials.extend(question.old.as_ref().and_then(|old| admission::unseen_pools(new, old)));
    }
    if !denials.is_empty() {
        let texts: Vec<String> = denials
            .into_iter()
            .map(|mut denial| {
                denial.field = admission::path_in(&question.version, &denial.field);
                denial.remedy = admission::path_in(&question.version, &denial.remedy);
                denial.to_string()
            })
            .collect();
        let status = json!({ "code": 422, "reason": "Invalid", "message": texts.join(" ") });
        return question.answer(json!({ "allowed": false, "status": status }));
    }
    let mut warnings: Vec<String> = admission::warnings(new, &available)
        .iter()
        .map(|text| admission::path_in(&question.version, text))
        .collect();
    if question.old.as_ref().is_none_or(|old| old.spec.topology != new.spec.topology) {
        let missing = tokio::time::timeout(PATIENCE, missing(new, &webhooks.client)).await;
        warnings.extend(missing.unwrap_or_default());
    }
    question.answer(json!({ "allowed": true, "warnings": warnings }))
}

/// Classes the cluster names and its namespace does not have. They may still come, so this only warns.
async fn missing(tkc: &TanzuKubernetesCluster, client: &Client) -> Vec<String> {
    let namespace = tkc.namespace().unwrap_or_default();
    let all = ListParams::default();
    let bindings = Api::<VirtualMachineClassBinding>::namespaced(client.clone(), &namespace);
    let quotas = Api::<ResourceQuota>::namespaced(client.clone(), &namespace);
    let (bindings, quotas) = tokio::join!(bindings.list(&all), quotas.list(&all));
    let mut texts = Vec::new();
    if let Ok(bindings) = bindings {
        let bound = bindings.items.into_iter().map(|binding| binding.spec.class_ref.name).collect();
        texts.extend(admission::nodes::unbound(&tkc.spec.topology, &namespace, &bound));
    }
    if let Ok(quotas) = quotas {
        let assigned: BTreeSet<String> = quotas
            .items
            .into_iter()
            .filter_map(|quota| quota.spec?.hard)
            .flat_map(BTreeMap::into_keys)
            .filter_map(|key| {
                key.split_once(".storageclass.storage.k8s.io/").map(|(class, _)| class.to_owned())
            })
            .collect();
        texts.extend(admission::nodes::unassigned(&tkc.spec.topology, &namespace, &assigned));
    }
    texts
}

async fn converted(Json(review): Json<Value>) -> Json<Value> {
    let request = &review["request"];
    let desired = request["desiredAPIVersion"].as_str().unwrap_or_default();
    let objects = request["objects"].as_array().map(Vec::as_slice).unwrap_or_default();
    let converted: Result<Vec<Value>, _> = objects.iter().map(|object| convert(object, desired)).collect();
    let mut response = match converted {
        Ok(objects) => json!({ "result": { "status": "Success" }, "convertedObjects": objects }),
        Err(error) => {
            json!({ "result": { "status": "Failure", "message": error.to_string() }, "convertedObjects": [] })
        }
    };
    response["uid"] = request["uid"].clone();
    Json(json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": response }))
}

#[cfg(test)]
mod tests;
