//! Reads the state that Cluster API keeps on objects (owner, pause, node), and builds the metadata of the objects that capw
//! creates.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::capi;
use api::capw;
use api::conditions::contract::{NOT_PAUSED, PAUSED};
use api::names::{annotation, label};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kit::apply::build_controller_reference;
use kit::status::condition;
use kit::watch::{Cache, Watchable};
use kube::api::ObjectMeta;
use kube::{Resource, ResourceExt};

/// Returns the name of the first owner of this kind (`Cluster` or `Machine`) in the Cluster API group.
pub fn owner<'a, K: Resource>(object: &'a K, kind: &str) -> Option<&'a str> {
    let owners = object.meta().owner_references.as_deref().unwrap_or_default();
    let ours = |api_version: &str| api_version.split_once('/').is_some_and(|(group, _)| group == capi::GROUP);
    owners
        .iter()
        .find(|owner| owner.kind == kind && ours(&owner.api_version))
        .map(|owner| owner.name.as_str())
}

/// Returns true if the Machine references this WCPMachine. The owner reference isn't proof, because anyone who can write the
/// WCPMachine can set it.
pub fn is_named_by_machine(wcp_machine: &capw::WCPMachine, machine: &capi::Machine) -> bool {
    let reference = &machine.spec.infrastructure_ref;
    reference.kind == capw::WCPMachine::kind(&()) && reference.name == wcp_machine.name_any()
}

/// Returns true if the Cluster references this WCPCluster.
pub fn is_named_by_cluster(wcp_cluster: &capw::WCPCluster, cluster: &capi::Cluster) -> bool {
    cluster.spec.infrastructure_ref.as_ref().is_some_and(|reference| {
        reference.kind == capw::WCPCluster::kind(&()) && reference.name == wcp_cluster.name_any()
    })
}

/// Returns true if the object or its Cluster is paused.
pub fn is_paused<K: Resource>(object: &K, cluster: Option<&capi::Cluster>) -> bool {
    let cluster_paused = cluster.and_then(|cluster| cluster.spec.paused).unwrap_or(false);
    cluster_paused || object.annotations().contains_key(annotation::PAUSED)
}

/// Returns true if the object's `managed-by` annotation says that another controller manages this infrastructure.
pub fn is_externally_managed<K: Resource>(object: &K) -> bool {
    object.annotations().contains_key(annotation::MANAGED_BY)
}

/// Returns true for a control plane Machine. If a KubeadmControlPlane or MachineSet controls the Machine, that kind decides,
/// because users can remove the label and the VM must then keep its role. Otherwise the label decides.
pub fn is_control_plane(machine: &capi::Machine) -> bool {
    let controller = machine.owner_references().iter().find(|owner| owner.controller == Some(true));
    match controller.map(|owner| owner.kind.as_str()) {
        Some("KubeadmControlPlane") => true,
        Some("MachineSet") => false,
        _ => machine.labels().contains_key(label::CONTROL_PLANE),
    }
}

/// Returns true if the Machine's node has joined.
pub fn has_node(machine: &capi::Machine) -> bool {
    machine.status.as_ref().is_some_and(|status| status.node_ref.is_some())
}

/// Returns true once Cluster API has reported the cluster infrastructure as provisioned.
pub fn infrastructure_provisioned(cluster: &capi::Cluster) -> bool {
    let initialization = cluster.status.as_ref().and_then(|status| status.initialization.as_ref());
    initialization.and_then(|it| it.infrastructure_provisioned).unwrap_or(false)
}

/// Returns true once Cluster API has reported the control plane as initialized.
pub fn is_control_plane_initialized(cluster: &capi::Cluster) -> bool {
    let initialization = cluster.status.as_ref().and_then(|status| status.initialization.as_ref());
    initialization.and_then(|it| it.control_plane_initialized).unwrap_or(false)
}

/// Returns the `Paused` condition, which Cluster API requires of infrastructure providers.
pub fn paused_condition(paused: bool, generation: Option<i64>) -> Condition {
    condition(PAUSED, paused, if paused { PAUSED } else { NOT_PAUSED }, "", generation)
}

/// Returns the cached object with this name in the namespace of `of`.
pub fn beside<K: Watchable>(cache: &Cache<K>, of: &impl Resource, name: &str) -> Option<Arc<K>> {
    cache.get(of.meta().namespace.as_deref(), name)
}

/// The state of a name that an owner needs for a child object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameAvailability {
    /// The child doesn't exist or belongs to the owner, so capw may write it.
    Free,
    /// The child belongs to a deleted owner with the same name and will be garbage-collected.
    Former,
    /// The child belongs to another owner and must not be changed.
    Taken,
}

/// Returns true if `owner` controls the child. capw only deletes such children.
pub fn is_controlled<O, C>(owner: &O, child: &C) -> bool
where
    O: Resource<DynamicType = ()>,
    C: Resource,
{
    claim(owner, Some(child), |_| false) == NameAvailability::Free
}

/// Returns whether `owner` may write `child`, an object that has the name of one of the owner's children.
///
/// A child without a controller is `Taken`, unless `marked` finds a value in the child that only capw sets. Such a child lost
/// its owner reference, for example through an orphaning deletion or a restored backup.
pub fn claim<O, C>(owner: &O, child: Option<&C>, marked: impl FnOnce(&C) -> bool) -> NameAvailability
where
    O: Resource<DynamicType = ()>,
    C: Resource,
{
    let Some(child) = child else { return NameAvailability::Free };
    let owners = child.meta().owner_references.as_deref().unwrap_or_default();
    let Some(controller) = owners.iter().find(|owner| owner.controller == Some(true)) else {
        return if marked(child) { NameAvailability::Free } else { NameAvailability::Taken };
    };
    let namesake = controller.kind == O::kind(&()) && Some(&controller.name) == owner.meta().name.as_ref();
    match namesake {
        true if Some(&controller.uid) == owner.meta().uid.as_ref() => NameAvailability::Free,
        true => NameAvailability::Former,
        false => NameAvailability::Taken,
    }
}

/// Returns the metadata of a child that `owner` controls. `cluster` is the value of the cluster label.
pub fn child<O>(owner: &O, name: String, cluster: &str) -> ObjectMeta
where
    O: Resource<DynamicType = ()>,
{
    ObjectMeta {
        name: Some(name),
        namespace: owner.namespace(),
        labels: Some(BTreeMap::from([(label::CLUSTER_NAME.to_owned(), cluster.to_owned())])),
        owner_references: Some(vec![build_controller_reference(owner)]),
        ..ObjectMeta::default()
    }
}

#[cfg(test)]
mod tests {
    use api::capw::WCPMachine;
    use api::vmop::VirtualMachine;

    use super::*;

    fn wcp_machine(name: &str, uid: &str) -> WCPMachine {
        let mut machine = WCPMachine::default();
        machine.metadata.name = Some(name.into());
        machine.metadata.uid = Some(uid.into());
        machine
    }

    #[test]
    fn a_child_is_ours_by_name_and_uid() {
        let ours = wcp_machine("a", "1");
        let of = |owner: &WCPMachine| {
            let mut vm = VirtualMachine::default();
            vm.metadata.owner_references = Some(vec![build_controller_reference(owner)]);
            vm
        };
        let claimed = |child: Option<&VirtualMachine>, marked| claim(&ours, child, |_| marked);
        assert_eq!(claimed(None, false), NameAvailability::Free);
        assert_eq!(claimed(Some(&of(&ours)), false), NameAvailability::Free);
        assert_eq!(claimed(Some(&of(&wcp_machine("a", "0"))), true), NameAvailability::Former);
        assert_eq!(claimed(Some(&of(&wcp_machine("b", "1"))), true), NameAvailability::Taken);
        assert_eq!(claimed(Some(&VirtualMachine::default()), true), NameAvailability::Free);
        assert_eq!(
            claimed(Some(&VirtualMachine::default()), false),
            NameAvailability::Taken,
            "a user made it"
        );
    }

    #[test]
    fn a_label_that_is_removed_or_added_by_hand_changes_no_role() {
        let machine = |controller: Option<&str>, labelled: bool| {
            let mut machine = crate::fixtures::machine(labelled);
            machine.metadata.owner_references = controller.map(|kind| {
                let mut owner = build_controller_reference(&capi::Cluster::default());
                owner.kind = kind.to_owned();
                vec![owner]
            });
            machine
        };
        assert!(is_control_plane(&machine(Some("KubeadmControlPlane"), false)));
        assert!(!is_control_plane(&machine(Some("MachineSet"), true)));
        for controller in [None, Some("OtherControlPlane")] {
            assert!(is_control_plane(&machine(controller, true)));
            assert!(!is_control_plane(&machine(controller, false)));
        }
    }

    #[test]
    fn an_owner_of_another_group_is_none_of_cluster_api() {
        let mut machine = WCPMachine::default();
        let mut reference = build_controller_reference(&capi::Machine::default());
        reference.name = "m".into();
        machine.metadata.owner_references = Some(vec![reference.clone()]);
        assert_eq!(owner(&machine, "Machine"), Some("m"));
        assert_eq!(owner(&machine, "Cluster"), None);
        reference.api_version = "other.io/v1".into();
        machine.metadata.owner_references = Some(vec![reference]);
        assert_eq!(owner(&machine, "Machine"), None);
    }
}
