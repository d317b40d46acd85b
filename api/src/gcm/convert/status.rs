//! Converts a v1alpha1 status to the hub, and back.

use super::{hub, old};
use crate::conditions::{self, Condition, tkc};
use crate::gcm::parts::ClusterApiStatus;

/// An add-on in v1alpha1: its type in later versions, and an accessor.
type Slot = (&'static str, fn(&mut old::AddonsStatus) -> &mut Option<old::AddonStatus>);

const SLOTS: [Slot; 8] = [
    ("DNS", |addons| &mut addons.dns),
    ("Proxy", |addons| &mut addons.proxy),
    ("PSP", |addons| &mut addons.psp),
    ("CNI", |addons| &mut addons.cni),
    ("CSI", |addons| &mut addons.csi),
    ("CPI", |addons| &mut addons.cloudprovider),
    ("AuthService", |addons| &mut addons.authsvc),
    ("MetricsServer", |addons| &mut addons.metricsserver),
];

pub(super) fn to_hub(status: &old::TanzuKubernetesClusterStatus) -> hub::TanzuKubernetesClusterStatus {
    let old::TanzuKubernetesClusterStatus {
        phase,
        version,
        cluster_api_status,
        vm_status,
        node_status,
        addons,
        node_remediation_count,
        remediated_nodes,
        conditions,
        total_worker_replicas,
        observed_generation,
    } = status.clone();
    let mut cluster_api_status = cluster_api_status;
    let api_endpoints =
        cluster_api_status.as_mut().map(|below| std::mem::take(&mut below.api_endpoints)).unwrap_or_default();
    hub::TanzuKubernetesClusterStatus {
        api_endpoints,
        version,
        addons: addons.map(addons_to_hub).unwrap_or_default(),
        phase,
        conditions,
        total_worker_replicas,
        vm_status,
        node_status,
        cluster_api_status: cluster_api_status.filter(|below| *below != ClusterApiStatus::default()),
        node_remediation_count,
        remediated_nodes,
        observed_generation,
    }
}

pub(super) fn from_hub(status: &hub::TanzuKubernetesClusterStatus) -> old::TanzuKubernetesClusterStatus {
    let hub::TanzuKubernetesClusterStatus {
        api_endpoints,
        version,
        addons,
        phase,
        conditions,
        total_worker_replicas,
        vm_status,
        node_status,
        cluster_api_status,
        node_remediation_count,
        remediated_nodes,
        observed_generation,
    } = status.clone();
    let mut cluster_api_status = cluster_api_status;
    if !api_endpoints.is_empty() {
        cluster_api_status.get_or_insert_default().api_endpoints = api_endpoints;
    }
    old::TanzuKubernetesClusterStatus {
        phase,
        version,
        cluster_api_status,
        vm_status,
        node_status,
        addons: addons_from_hub(&addons),
        node_remediation_count,
        remediated_nodes,
        conditions,
        total_worker_replicas,
        observed_generation,
    }
}

fn addons_to_hub(mut addons: old::AddonsStatus) -> Vec<hub::AddonStatus> {
    let addon = |(type_, slot): &Slot| {
        let old::AddonStatus { name, status, version, last_error_message, conditions } =
            slot(&mut addons).take()?;
        let conditions = if conditions.is_empty() {
            provisioned(&status, last_error_message).into_iter().collect()
        } else {
            conditions
        };
        Some(hub::AddonStatus { name, type_: Some((*type_).to_owned()), version, conditions })
    };
    SLOTS.iter().filter_map(addon).collect()
}

fn addons_from_hub(addons: &[hub::AddonStatus]) -> Option<old::AddonsStatus> {
    let mut result = old::AddonsStatus::default();
    for addon in addons {
        let slot = SLOTS.iter().find(|(type_, _)| addon.type_.as_deref() == Some(*type_));
        if let Some((_, slot)) = slot {
            *slot(&mut result) = Some(addon_from_hub(addon));
        }
    }
    Some(result).filter(|result| *result != old::AddonsStatus::default())
}

fn addon_from_hub(addon: &hub::AddonStatus) -> old::AddonStatus {
    let provisioned = conditions::find(&addon.conditions, tkc::PROVISIONED);
    let (status, last_error_message) = match provisioned {
        Some(condition) if condition.status == conditions::TRUE => ("applied", None),
        Some(condition) if condition.status == conditions::FALSE => {
            if condition.reason.as_deref() == Some(tkc::ADDON_UNMANAGED) {
                ("unmanaged", None)
            } else {
                ("error", condition.message.clone())
            }
        }
        _ => ("pending", None),
    };
    old::AddonStatus {
        name: addon.name.clone(),
        status: status.to_owned(),
        version: addon.version.clone(),
        last_error_message,
        conditions: addon.conditions.clone(),
    }
}

/// Converts an add-on status in v1alpha1 to a condition.
fn provisioned(status: &str, message: Option<String>) -> Option<Condition> {
    match status {
        "applied" => Some(Condition::is_true(tkc::PROVISIONED)),
        "error" => Some(Condition::is_false(
            tkc::PROVISIONED,
            conditions::WARNING,
            tkc::PROVISIONING_FAILED,
            message.unwrap_or_default(),
        )),
        "unmanaged" => {
            Some(Condition::is_false(tkc::PROVISIONED, conditions::INFO, tkc::ADDON_UNMANAGED, String::new()))
        }
        _ => None,
    }
}
