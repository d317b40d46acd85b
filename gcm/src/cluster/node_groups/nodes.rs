//! The state of each machine in the terms of v1alpha1's `vmStatus` and `nodeStatus`.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::capi::Machine;
use api::capw::{WCPMachine, vm_status};
use api::conditions::{FALSE, TRUE, capi, metav1};
use api::gcm::parts::node_status;
use api::names::label;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;

use crate::cluster::facts::Facts;

/// A Machine and its WCPMachine.
pub struct ClusterMachine<'a> {
    pub machine: &'a Machine,
    /// The WCPMachine, or `None` before Cluster API creates it and after its deletion.
    pub wcp: Option<&'a WCPMachine>,
}

pub fn conditions(machine: &Machine) -> &[Condition] {
    machine.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default()
}

impl<'a> ClusterMachine<'a> {
    /// Returns the cluster's Machines, sorted by name.
    pub fn all(facts: &'a Facts) -> Vec<Self> {
        let below: BTreeMap<String, &Arc<WCPMachine>> =
            facts.wcp_machines.iter().map(|wcp| (wcp.name_any(), wcp)).collect();
        facts
            .machines
            .iter()
            .map(|machine| Self {
                machine,
                wcp: below.get(&machine.spec.infrastructure_ref.name).map(|wcp| &***wcp),
            })
            .collect()
    }

    pub fn name(&self) -> String {
        self.machine.name_any()
    }

    pub fn is_control_plane(&self) -> bool {
        self.machine.labels().contains_key(label::CONTROL_PLANE)
    }

    pub fn is_deleting(&self) -> bool {
        self.machine.metadata.deletion_timestamp.is_some()
    }

    /// Returns the Node's name, once the machine has joined.
    pub fn node(&self) -> Option<&str> {
        self.machine.status.as_ref()?.node_ref.as_ref().map(|node| node.name.as_str())
    }

    /// Returns the VM status, one of [`vm_status`].
    pub fn vm_status(&self) -> String {
        if self.is_deleting() {
            return vm_status::DELETING.to_owned();
        }
        let Some(wcp) = self.wcp else {
            let initialization =
                self.machine.status.as_ref().and_then(|status| status.initialization.as_ref());
            let existed = initialization.is_some_and(|done| done.infrastructure_provisioned == Some(true));
            return if existed { vm_status::NOT_FOUND } else { vm_status::PENDING }.to_owned();
        };
        let reported = wcp.status.as_ref().and_then(|status| status.vm_status.clone());
        reported.filter(|status| !status.is_empty()).unwrap_or_else(|| vm_status::PENDING.to_owned())
    }

    /// Returns the node status, one of [`node_status`].
    pub fn node_status(&self) -> &'static str {
        if self.node().is_none() {
            return node_status::PENDING;
        }
        let ready = metav1::find(conditions(self.machine), capi::NODE_READY);
        match ready.map(|condition| condition.status.as_str()) {
            Some(TRUE) => node_status::READY,
            Some(FALSE) => node_status::NOT_READY,
            _ => node_status::UNKNOWN,
        }
    }
}
