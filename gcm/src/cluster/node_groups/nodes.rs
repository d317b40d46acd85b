//! How far each machine of a cluster is, in the words of v1alpha1's `vmStatus` and `nodeStatus`.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::capi::Machine;
use api::capw::WCPMachine;
use api::capw::vm_status;
use api::conditions::{FALSE, TRUE, capi, metav1};
use api::gcm::parts::node_status;
use api::names::label;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;

use crate::cluster::facts::Facts;

/// A Machine with what stands below it.
pub struct Node<'a> {
    /// The Machine.
    pub machine: &'a Machine,
    /// Its infrastructure, once there is some.
    pub wcp: Option<&'a WCPMachine>,
}

/// The conditions of a Machine.
pub fn conditions(machine: &Machine) -> &[Condition] {
    machine.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default()
}

impl<'a> Node<'a> {
    /// Every Machine of the cluster, by name.
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

    /// The Machine's name.
    pub fn name(&self) -> String {
        self.machine.name_any()
    }

    /// Whether the Machine belongs to the control plane.
    pub fn is_control_plane(&self) -> bool {
        self.machine.labels().contains_key(label::CONTROL_PLANE)
    }

    /// Whether the Machine is going away.
    pub fn is_deleting(&self) -> bool {
        self.machine.metadata.deletion_timestamp.is_some()
    }

    /// The name of the node, once it joined.
    pub fn node(&self) -> Option<&str> {
        self.machine.status.as_ref()?.node_ref.as_ref().map(|node| node.name.as_str())
    }

    /// How far the virtual machine is, one of [`vm_status`].
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

    /// How the node is, one of [`node_status`].
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
