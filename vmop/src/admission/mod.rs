//! Admission webhooks: defaults, validation that the CRD schema can't express, and version conversion.
//!
//! Every replica decides from its own caches alone. Requests by programs (ServiceAccounts) aren't denied because of missing
//! objects: the objects may be created later, conditions report that they are missing, and programs don't have to retry.

mod classes;
mod denial;
mod fill;
mod known;
mod rules;
#[cfg(test)]
mod tests;
mod versions;
mod volumes;

use std::collections::BTreeMap;
use std::sync::Arc;

use api::crds::CONVERSION_PATH;
use api::names::{annotation, label};
use api::vmop::{VirtualMachine, VirtualMachineClass, WebConsoleRequest};
use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kit::webhook::conversion::{self, Conversion};
use kit::webhook::review::Review;
use kit::webhook::self_managed::SelfManaged;
use kube::ResourceExt;
use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

pub use denial::{Asker, Denial};
pub use known::Known;

/// The webhook path for VirtualMachine defaults.
const MUTATE: &str = "/default-mutate-vmoperator-vmware-com-v1alpha1-virtualmachine";
/// The webhook path for checks of the requester who sets VirtualMachine UUIDs.
const VALIDATE_IDENTITY: &str = "/identity-validate-vmoperator-vmware-com-v1alpha1-virtualmachine";
/// The webhook path for VirtualMachine validation.
const VALIDATE: &str = "/default-validate-vmoperator-vmware-com-v1alpha1-virtualmachine";
/// The webhook path for WebConsoleRequest validation.
const VALIDATE_CONSOLE: &str = "/default-validate-vmoperator-vmware-com-v1alpha1-webconsolerequest";
/// The webhook path for VirtualMachineSetResourcePolicy validation.
const VALIDATE_POLICY: &str =
    "/default-validate-vmoperator-vmware-com-v1alpha1-virtualmachinesetresourcepolicy";
/// The webhook path for VirtualMachineClass validation.
const VALIDATE_CLASS: &str = "/default-validate-vmoperator-vmware-com-v1alpha1-virtualmachineclass";
/// The webhook path for validation of instance storage claims.
const VALIDATE_CLAIM: &str = "/default-validate--v1-persistentvolumeclaim";

/// The names of the webhook objects in config/vmop.
pub const OWN: SelfManaged = SelfManaged {
    secret: "vmware-system-vmop-webhook-own-cert",
    service: "vmware-system-vmop-webhook-service",
    mutating: "vmware-system-vmop-mutating-webhook",
    validating: "vmware-system-vmop-validating-webhook",
    definition: "virtualmachines.vmoperator.vmware.com",
};

/// Returns the webhook routes.
pub fn router(known: Known) -> Router {
    Router::new()
        .route(MUTATE, post(mutate))
        .route(VALIDATE_IDENTITY, post(validate_identity))
        .route(VALIDATE, post(validate))
        .route(VALIDATE_CONSOLE, post(validate_console))
        .route(VALIDATE_POLICY, post(validate_policy))
        .route(VALIDATE_CLASS, post(validate_class))
        .route(VALIDATE_CLAIM, post(validate_claim))
        .route(CONVERSION_PATH, post(converted))
        .with_state(Arc::new(known))
}

/// An object of any kind, with only its annotations.
#[derive(Deserialize)]
struct Annotated {
    #[serde(default)]
    metadata: Annotations,
}

#[derive(Default, Deserialize)]
struct Annotations {
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

async fn mutate(State(known): State<Arc<Known>>, review: Review) -> Json<Value> {
    let (Some(new), old) = review.objects::<VirtualMachine>() else { return review.allow(&[]) };
    let operations = match old {
        None => fill::created(&new, &known.settings(), Uuid::new_v4()),
        Some(old) => fill::updated(&new, &old, jiff::Timestamp::now()),
    };
    review.patch(&operations)
}

async fn validate_identity(State(known): State<Arc<Known>>, review: Review) -> Json<Value> {
    let (Some(new), old) = review.objects::<VirtualMachine>() else { return review.allow(&[]) };
    let asker = Asker::new(&review.user, &review.groups, &known.settings().privileged);
    respond(review, asker, rules::identity_denials(&new, old.as_ref(), asker))
}

async fn validate(State(known): State<Arc<Known>>, review: Review) -> Json<Value> {
    // Objects that can't be parsed are left to the CRD schema, which reports better errors.
    let (Some(new), old) = review.objects::<VirtualMachine>() else { return review.allow(&[]) };
    let facts = known.facts(&new);
    let asker = Asker::new(&review.user, &review.groups, &known.settings().privileged);
    let mut denials = rules::denials(&new, old.as_ref(), facts, asker);
    denials.extend(versions::version_denials(&review.version, &new, old.as_ref()));
    denials.extend(rules::policy_user_denial(&new, old.as_ref(), known.cluster_of_policy(&new).as_deref()));
    denials
        .extend(rules::network_denials(&new, old.as_ref(), asker, |name| known.network_refusal(&new, name)));
    respond(review, asker, denials)
}

async fn validate_console(review: Review) -> Json<Value> {
    let (Some(new), Some(old)) = review.objects::<WebConsoleRequest>() else { return review.allow(&[]) };
    if new.labels().get(label::UUID) == old.labels().get(label::UUID) {
        return review.allow(&[]);
    }
    review.deny(&format!("metadata.labels[{}]: field is immutable", label::UUID))
}

async fn validate_policy(State(known): State<Arc<Known>>, review: Review) -> Json<Value> {
    let asker = Asker::new(&review.user, &review.groups, &known.settings().privileged);
    // Parse only the annotations: a policy whose spec can't be parsed has a ledger too.
    let (new, old) = review.objects::<Annotated>();
    let record = |object: Option<Annotated>| {
        object.and_then(|mut object| object.metadata.annotations.remove(annotation::RESOURCE_POLICY_LEDGER))
    };
    let denial = rules::policy_denials(&record(new).into(), &record(old).into(), asker);
    respond(review, asker, denial.into_iter().collect())
}

async fn validate_class(review: Review) -> Json<Value> {
    let (Some(new), old) = review.objects::<VirtualMachineClass>() else { return review.allow(&[]) };
    let denials = classes::class_denials(&new, old.as_ref());
    let texts = denials.iter().map(Denial::to_string).collect::<Vec<_>>();
    if texts.is_empty() { review.allow(&[]) } else { review.deny(&texts.join("; ")) }
}

async fn validate_claim(State(known): State<Arc<Known>>, review: Review) -> Json<Value> {
    let (Some(new), old) = review.objects::<PersistentVolumeClaim>() else { return review.allow(&[]) };
    let asker = Asker::new(&review.user, &review.groups, &known.settings().privileged);
    let denials = volumes::claim_denials(new.labels(), old.as_ref().map(ResourceExt::labels), asker);
    respond(review, asker, denials)
}

async fn converted(review: Conversion) -> Json<Value> {
    conversion::answer(&review, api::vmop::convert)
}

/// Denies the request, or allows it with a warning for each denial that doesn't stop the requester.
fn respond(review: Review, asker: Asker, denials: Vec<Denial>) -> Json<Value> {
    let (refused, warned): (Vec<_>, Vec<_>) = denials.into_iter().partition(|denial| denial.stops(asker));
    let texts = |denials: Vec<Denial>| denials.iter().map(Denial::to_string).collect::<Vec<_>>();
    if refused.is_empty() {
        return review.allow(&texts(warned));
    }
    review.deny(&texts(refused).join("; "))
}
