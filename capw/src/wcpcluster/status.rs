//! Computes a WCPCluster's status, without I/O.

use std::net::IpAddr;
use std::sync::Arc;

use api::capi::{IpAddress, IpAddressClaim};
use api::capw::{ApiEndpoint, Initialization, WCPCluster, WCPClusterStatus};
use api::conditions::{self, contract, wcp_cluster as reasons};
use api::names;
use api::net::VirtualNetwork;
use api::vmop::{VirtualMachineService, VirtualMachineSetResourcePolicy};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kit::events::{Events, describe_object};
use kit::reconcile::ReconcileOutcome;
use kit::status::{condition, find};
use kube::Resource;

use super::act::{FrontResult, StepResults};
use super::address_pool::PoolState;
use super::gather::Facts;
use super::plan::load_balancer_address;
use crate::account;
use crate::error::{Error, InvalidInput};
use crate::upstream::paused_condition;

/// The message for a cluster that can't get an endpoint.
const NO_ENDPOINT: &str = "the cluster has no endpoint. Set spec.controlPlaneEndpoint of the Cluster, or start capw with --endpoint-pool to take the address from a pool, or with --endpoint-provider=load-balancer";

/// Computes the status from the facts and the outcome.
pub fn status(
    cluster: &WCPCluster,
    facts: &Facts,
    outcome: &ReconcileOutcome<Box<StepResults>, Error>,
) -> WCPClusterStatus {
    let old = cluster.status.clone().unwrap_or_default();
    let generation = cluster.meta().generation;
    let mut status = WCPClusterStatus { observed_generation: generation, ..old.clone() };
    let mut new = match outcome {
        ReconcileOutcome::Done(made) => of_steps(made, facts, generation),
        ReconcileOutcome::Paused => keep_conditions(&old.conditions),
        ReconcileOutcome::Failed(error) => of_error(cluster, error, &old.conditions),
    };
    if let ReconcileOutcome::Done(made) = outcome {
        if let Ok(Some(endpoint)) = &made.endpoint {
            status.api_endpoints = vec![endpoint.clone()];
        }
        status.failure_domains.clone_from(&facts.failure_domains);
        status.resource_policy_name = made.policy.is_ok().then(|| names::resource_policy(&facts.name));
    }
    // Cluster API reads `provisioned` until it is true, and ignores it afterwards.
    if is_usable(&new) && !status.api_endpoints.is_empty() {
        status.initialization = Some(Initialization { provisioned: Some(true) });
    }
    status.ready = Some(find(&new, contract::READY).is_some_and(|ready| ready.status == conditions::TRUE));
    new.retain(|condition| condition.type_ != reasons::PROVIDER_SERVICE_ACCOUNTS_READY);
    new.extend(account::status::sum(facts.accounts.iter().map(Arc::as_ref), generation));
    new.push(paused_condition(facts.paused, generation));
    status.conditions = new;
    status
}

/// Returns the conditions whose changes are published as events. `Ready` only repeats the other conditions, so it is omitted
/// unless a name is taken.
fn notable(conditions: &[Condition]) -> Vec<Condition> {
    let tells = |c: &&Condition| match c.type_.as_str() {
        contract::PAUSED => false,
        contract::READY => c.reason == contract::NAME_TAKEN,
        _ => true,
    };
    conditions.iter().filter(tells).cloned().collect()
}

/// Publishes events for changed conditions.
pub fn publish_changes(events: &Events, cluster: &WCPCluster, old: &[Condition], new: &[Condition]) {
    let expected = [
        contract::READY,
        contract::DELETING,
        reasons::CLUSTER_NETWORK_PROVISION_STARTED,
        reasons::WAITING_FOR_LOAD_BALANCER_IP,
        reasons::WAITING_FOR_IP_ADDRESS,
        reasons::WAITING_FOR_ENDPOINT_LOOKUP,
        reasons::WAITING_FOR_RESOURCE_POLICY,
        reasons::PROVIDER_SERVICE_ACCOUNTS_RECONCILING,
    ];
    events.transitions(cluster, &notable(old), &notable(new), |c| !expected.contains(&c.reason.as_str()));
}

/// Returns true if machines can be created: the network is ready, and so is the endpoint, which cloud-init data contains.
fn is_usable(conditions: &[Condition]) -> bool {
    let holds = |type_| find(conditions, type_).is_some_and(|c| c.status == conditions::TRUE);
    holds(contract::NETWORK_READY) && holds(reasons::LOAD_BALANCER_READY)
}

fn keep_conditions(old: &[Condition]) -> Vec<Condition> {
    let kept: Vec<_> = old.iter().filter(|condition| condition.type_ != contract::PAUSED).cloned().collect();
    if kept.is_empty() { vec![condition(contract::READY, false, contract::PAUSED, "", None)] } else { kept }
}

/// Returns the previous conditions with the error in `Ready`. If the cluster was moved away, `ResourcePolicyReady` contains the
/// error too.
fn of_error(cluster: &WCPCluster, error: &Error, old: &[Condition]) -> Vec<Condition> {
    let generation = cluster.meta().generation;
    let reason = match error {
        Error::Waiting(waiting) => waiting.reason(),
        _ if cluster.meta().deletion_timestamp.is_some() => contract::DELETING,
        Error::Invalid(invalid) => invalid.reason(),
        Error::Api { .. } | Error::Behind(_) => contract::INTERNAL_ERROR,
    };
    let mut new: Vec<_> =
        keep_conditions(old).into_iter().filter(|condition| condition.type_ != contract::READY).collect();
    if matches!(error, Error::Invalid(InvalidInput::MovedAway(_))) {
        new.retain(|condition| condition.type_ != reasons::RESOURCE_POLICY_READY);
        new.push(condition(reasons::RESOURCE_POLICY_READY, false, reason, error.to_string(), generation));
    }
    new.insert(0, condition(contract::READY, false, reason, error.to_string(), generation));
    new
}

fn of_steps(made: &StepResults, facts: &Facts, generation: Option<i64>) -> Vec<Condition> {
    let aspects = [
        policy_condition(&made.policy, generation),
        network_condition(made.network.as_ref(), generation),
        endpoint_condition(made, facts, generation),
    ];
    let first = aspects.iter().find(|aspect| aspect.status != conditions::TRUE);
    let ready = match first {
        None => condition(contract::READY, true, contract::READY, "", generation),
        Some(first) => condition(contract::READY, false, &first.reason, first.message.clone(), generation),
    };
    std::iter::once(ready).chain(aspects).collect()
}

/// Returns the `ResourcePolicyReady` condition. Older versions of the VM operator don't set conditions, so a policy without them
/// counts as ready.
fn policy_condition(
    policy: &Result<impl AsRef<VirtualMachineSetResourcePolicy>, Error>,
    generation: Option<i64>,
) -> Condition {
    let aspect = |ready: bool, reason: &str, message: String| {
        condition(reasons::RESOURCE_POLICY_READY, ready, reason, message, generation)
    };
    let policy = match policy {
        Ok(policy) => policy.as_ref(),
        Err(error) => return aspect(false, reasons::RESOURCE_POLICY_CREATION_FAILED, error.to_string()),
    };
    let of_policy = policy.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    match conditions::find(of_policy, conditions::READY).filter(|ready| ready.status == conditions::FALSE) {
        Some(cause) => {
            let reason = cause.reason.as_deref().unwrap_or(reasons::WAITING_FOR_RESOURCE_POLICY);
            aspect(false, reason, quote(&describe_object(policy), cause))
        }
        None => aspect(true, contract::READY, String::new()),
    }
}

fn network_condition(
    network: Option<&Result<Arc<VirtualNetwork>, Error>>,
    generation: Option<i64>,
) -> Condition {
    let aspect = |ready: bool, reason: &str, message: String| {
        condition(contract::NETWORK_READY, ready, reason, message, generation)
    };
    let network = match network {
        // The machines use an existing network instead of the cluster's own.
        None => return aspect(true, contract::READY, String::new()),
        Some(Ok(network)) => &**network,
        Some(Err(error)) => {
            return aspect(false, reasons::CLUSTER_NETWORK_PROVISION_FAILED, error.to_string());
        }
    };
    let name = describe_object(network);
    let of_network = network.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    match conditions::find(of_network, api::net::READY) {
        Some(ready) if ready.status == conditions::TRUE => aspect(true, contract::READY, String::new()),
        Some(cause) if cause.status == conditions::FALSE && cause.reason.is_some() => {
            aspect(false, reasons::CLUSTER_NETWORK_PROVISION_FAILED, quote(&name, cause))
        }
        _ => aspect(
            false,
            reasons::CLUSTER_NETWORK_PROVISION_STARTED,
            format!("the network provider has not realised {name} yet"),
        ),
    }
}

fn endpoint_condition(made: &StepResults, facts: &Facts, generation: Option<i64>) -> Condition {
    let (pool, former) = (facts.pool, &facts.former_claims);
    let aspect = |ready: bool, reason: &str, message: String| {
        condition(reasons::LOAD_BALANCER_READY, ready, reason, message, generation)
    };
    match (&made.front, &made.endpoint) {
        (FrontResult::LoadBalancer(Err(error)), _) | (_, Err(error)) => {
            aspect(false, reasons::LOAD_BALANCER_CREATION_FAILED, error.to_string())
        }
        (FrontResult::VirtualIp(Err(error), _), _) => {
            aspect(false, reasons::IP_ADDRESS_CLAIM_CREATION_FAILED, error.to_string())
        }
        (FrontResult::LoadBalancer(Ok(service)), Ok(Some(endpoint))) => {
            aspect(true, contract::READY, describe_other_address(service, endpoint))
        }
        (_, Ok(Some(_))) => aspect(true, contract::READY, describe_former(former)),
        (FrontResult::InUse(occupied), Ok(None)) => {
            aspect(false, reasons::ENDPOINT_IN_USE, occupied.to_string())
        }
        (FrontResult::Unchecked(address), Ok(None)) => {
            aspect(false, reasons::WAITING_FOR_ENDPOINT_LOOKUP, describe_lookup(*address, facts))
        }
        (FrontResult::LoadBalancer(Ok(service)), Ok(None)) => {
            let waits = format!("{} has no address yet", describe_object(&**service));
            aspect(false, reasons::WAITING_FOR_LOAD_BALANCER_IP, find_cause(service).unwrap_or(waits))
        }
        (FrontResult::VirtualIp(Ok(claim), address), Ok(None)) => {
            let (reason, message) = describe_claim(claim, address.as_deref(), pool);
            aspect(false, reason, message)
        }
        (FrontResult::Given | FrontResult::Missing, Ok(None)) => {
            aspect(false, reasons::CONTROL_PLANE_ENDPOINT_MISSING, NO_ENDPOINT.to_owned())
        }
    }
}

/// Returns the message while the VM operator hasn't looked up the address yet.
fn describe_lookup(address: IpAddr, facts: &Facts) -> String {
    let policy = names::resource_policy(&facts.name);
    format!(
        "waiting for the VM operator to look up in vCenter whether a VM has {address} as its control plane endpoint (status of VirtualMachineSetResourcePolicy {policy}). If this lasts, check that the VM operator runs, reaches vCenter, and has the version of capw: layercake doctor"
    )
}

/// Returns a message that lists the claims whose addresses other machines use.
fn describe_former(former: &[Arc<IpAddressClaim>]) -> String {
    let names: Vec<_> = former.iter().map(|claim| describe_object(&**claim)).collect();
    if names.is_empty() {
        return String::new();
    }
    format!(
        "the addresses of {} were not used, because other machines have them. Remove these addresses from the pool",
        names.join(", ")
    )
}

/// Returns the reason and message for a claim without a usable address.
fn describe_claim(
    claim: &IpAddressClaim,
    address: Option<&IpAddress>,
    state: PoolState,
) -> (&'static str, String) {
    let name = describe_object(claim);
    if let Some(address) = address {
        let message = format!(
            "{} of {name} is {:?}, which is not an address that nodes can use. Correct the pool, and delete the IPAddressClaim",
            describe_object(address),
            address.spec.address
        );
        return (reasons::IP_ADDRESS_INVALID, message);
    }
    let pool = &claim.spec.pool_ref;
    let conditions = claim.status.as_ref().and_then(|status| status.conditions.as_deref());
    let cause = conditions
        .unwrap_or_default()
        .iter()
        .find(|condition| condition.type_ == contract::READY && condition.status == conditions::FALSE);
    let message = match cause {
        Some(cause) => format!("{name}: {}: {}", cause.reason, cause.message),
        None => format!("{name} has no address yet: {}", describe_pool(&pool.kind, &pool.name, state)),
    };
    (reasons::WAITING_FOR_IP_ADDRESS, message)
}

/// Returns the reason why a pool doesn't provide an address, and the remedy.
fn describe_pool(kind: &str, name: &str, state: PoolState) -> String {
    match state {
        PoolState::Usable => format!("waiting for the IPAM provider of {kind} {name}"),
        PoolState::NotServed => {
            format!(
                "{kind} {name} does not exist, since the API server does not serve its kind. Install the IPAM provider"
            )
        }
        PoolState::Missing => format!("{kind} {name} does not exist. Create it"),
        PoolState::NotRead => {
            format!("the IPAM provider has not read {kind} {name}. Check that the provider is running")
        }
        PoolState::Full { used } => {
            format!(
                "{kind} {name} has no free address, {used} are in use. Add addresses to it, or delete clusters that use it"
            )
        }
    }
}

/// Returns a message if the load balancer's address differs from the endpoint.
///
/// This is only information: the user may have set the endpoint, and an endpoint never changes once it is known.
fn describe_other_address(service: &VirtualMachineService, endpoint: &ApiEndpoint) -> String {
    match load_balancer_address(service).filter(|address| *address != endpoint.host) {
        Some(address) => {
            format!(
                "{} has address {address}, but the endpoint remains {}",
                describe_object(service),
                endpoint.host
            )
        }
        None => String::new(),
    }
}

/// Returns the reason why a service doesn't have an address: the first false condition that has a message.
fn find_cause(service: &VirtualMachineService) -> Option<String> {
    let status = service.status.as_ref()?;
    let cause = status.conditions.iter().find(|condition| condition.status == conditions::FALSE)?;
    cause.message.is_some().then(|| quote(&describe_object(service), cause))
}

/// Returns the condition's reason and message, prefixed with the object name.
fn quote(name: &str, cause: &conditions::Condition) -> String {
    let words: Vec<_> = [cause.reason.as_deref(), cause.message.as_deref()].into_iter().flatten().collect();
    format!("{name}: {}", words.join(": "))
}

#[cfg(test)]
mod tests;
