//! The privileges that calls require, and a query for the privileges that a user has.

use std::collections::{BTreeSet, HashMap};

use crate::{Client, MoRef, Object, Result, Value};

/// The inventory object on which a privilege is required.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PrivilegeScope {
    /// The vCenter's root folder.
    VCenter,
    Datacenter,
    /// The folders with VMs and golden templates, including all objects below.
    Folder,
    /// The resource pools with VMs and golden templates, including all objects below.
    ResourcePool,
    /// The datastores on which disks are created.
    Datastore,
    /// The networks to which VMs are connected.
    Network,
}

impl PrivilegeScope {
    /// All scopes, widest first.
    pub const ALL: [Self; 6] =
        [Self::VCenter, Self::Datacenter, Self::Folder, Self::ResourcePool, Self::Datastore, Self::Network];

    /// Returns the scope's name in messages to users.
    pub fn name(self) -> &'static str {
        match self {
            Self::VCenter => "vCenter",
            Self::Datacenter => "datacenter",
            Self::Folder => "VM folder",
            Self::ResourcePool => "resource pool",
            Self::Datastore => "datastore",
            Self::Network => "network",
        }
    }
}

/// The use that requires a privilege: every VM, or a single feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrivilegeUse {
    /// Every VM requires the privilege.
    Always,
    /// Only the named feature requires the privilege.
    Only(&'static str),
}

/// A privilege, its scope and the calls that require it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Privilege {
    /// The ID, such as `VirtualMachine.Inventory.Delete`.
    pub id: &'static str,
    pub scope: PrivilegeScope,
    /// The calls that require the privilege.
    pub calls: &'static str,
    /// The use that requires the privilege.
    pub used: PrivilegeUse,
}

/// The privileges that the VM operator requires, sorted by scope.
///
/// For methods, the source is the VIM API description, which lists their privileges. For devices, fields and the Automation API,
/// the source is the text of the API documentation.
pub const PRIVILEGES: &[Privilege] = {
    use PrivilegeScope::{Datacenter, Datastore, Folder, Network, ResourcePool, VCenter};
    use PrivilegeUse::{Always, Only};
    const POLICY: PrivilegeUse = Only("VirtualMachineSetResourcePolicy");
    const LIBRARY: PrivilegeUse = Only("images of a content library");
    const PUBLISH: PrivilegeUse = Only("VirtualMachinePublishRequest");
    const RESIZE: PrivilegeUse = Only("another class for a VM");
    const POWER: PrivilegeUse = Only("power states and restarts that users ask for");
    const SUBSCRIBED: PrivilegeUse = Only("subscribed content libraries");
    const FOREIGN_DISKS: PrivilegeUse = Only("disks that others attached");
    const HARDWARE_VERSION: PrivilegeUse = Only("minHardwareVersion");
    const LARGER_DISKS: PrivilegeUse = Only("disks larger than the image's");
    const NO_CLOUD_INIT: PrivilegeUse = Only("guests without cloud-init");
    const OVF: PrivilegeUse = Only("OVF properties (transports vAppConfig and OvfEnv)");
    const fn of(
        id: &'static str,
        scope: PrivilegeScope,
        calls: &'static str,
        used: PrivilegeUse,
    ) -> Privilege {
        Privilege { id, scope, calls, used }
    }
    &[
        of("System.View", VCenter, "every call", Always),
        of(
            "StorageProfile.View",
            VCenter,
            "PbmQueryProfile, PbmRetrieveContent, PbmCheckRequirements",
            Only("storage classes with a policy"),
        ),
        of("ContentLibrary.DownloadSession", VCenter, "download-session", LIBRARY),
        of("ContentLibrary.SyncLibraryItem", VCenter, "subscribed-item sync", SUBSCRIBED),
        of("ContentLibrary.AddLibraryItem", VCenter, "ovf capture", PUBLISH),
        of("System.Read", Datacenter, "RetrievePropertiesEx, WaitForUpdatesEx", Always),
        of("VirtualMachine.Inventory.CreateFromExisting", Folder, "CloneVM_Task", Always),
        of("VirtualMachine.Inventory.Delete", Folder, "Destroy_Task", Always),
        of("VirtualMachine.Provisioning.DeployTemplate", Folder, "CloneVM_Task of a template", Always),
        of("VirtualMachine.Provisioning.MarkAsTemplate", Folder, "MarkAsTemplate", LIBRARY),
        of("VirtualMachine.State.CreateSnapshot", Folder, "CreateSnapshot_Task", LIBRARY),
        of("VApp.Import", Folder, "ovf deploy", LIBRARY),
        of("VirtualMachine.Inventory.Create", Folder, "ovf deploy", LIBRARY),
        of("VirtualMachine.Config.AddNewDisk", Folder, "CloneVM_Task, ReconfigVM_Task", Always),
        of("VirtualMachine.Config.AddRemoveDevice", Folder, "CloneVM_Task, ReconfigVM_Task", Always),
        of("VirtualMachine.Config.EditDevice", Folder, "CloneVM_Task, ReconfigVM_Task", Always),
        of(
            "VirtualMachine.Config.AdvancedConfig",
            Folder,
            "CloneVM_Task, ReconfigVM_Task (guestinfo)",
            Always,
        ),
        of("VirtualMachine.Config.CPUCount", Folder, "CloneVM_Task, ReconfigVM_Task", Always),
        of("VirtualMachine.Config.Memory", Folder, "CloneVM_Task, ReconfigVM_Task", Always),
        of("VirtualMachine.Config.Resource", Folder, "CloneVM_Task, ReconfigVM_Task", Always),
        of("VirtualMachine.Config.Settings", Folder, "CloneVM_Task, ReconfigVM_Task", Always),
        of("VirtualMachine.Config.ManagedBy", Folder, "CloneVM_Task (the mark)", Always),
        of("VirtualMachine.Config.RemoveDisk", Folder, "ReconfigVM_Task before Destroy_Task", FOREIGN_DISKS),
        of("VirtualMachine.Config.DiskExtend", Folder, "CloneVM_Task, ReconfigVM_Task", LARGER_DISKS),
        of("VirtualMachine.Config.ChangeTracking", Folder, "ReconfigVM_Task", RESIZE),
        of("VirtualMachine.Config.UpgradeVirtualHardware", Folder, "UpgradeVM_Task", HARDWARE_VERSION),
        of("VirtualMachine.Interact.PowerOn", Folder, "CloneVM_Task, PowerOnVM_Task", Always),
        of("VirtualMachine.Interact.PowerOff", Folder, "PowerOffVM_Task, ShutdownGuest", Always),
        of("VirtualMachine.Interact.Suspend", Folder, "SuspendVM_Task, StandbyGuest", POWER),
        of("VirtualMachine.Interact.Reset", Folder, "ResetVM_Task, RebootGuest", POWER),
        of("VirtualMachine.Interact.ConsoleInteract", Folder, "AcquireTicket", Only("WebConsoleRequest")),
        of("VirtualMachine.Provisioning.Customize", Folder, "CloneVM_Task, CustomizeVM_Task", NO_CLOUD_INIT),
        of("VirtualMachine.Provisioning.PromoteDisks", Folder, "PromoteDisks_Task", Only("PromoteDisksMode")),
        of("VApp.Export", Folder, "ovf capture", PUBLISH),
        of("VApp.ApplicationConfig", Folder, "CloneVM_Task, ReconfigVM_Task", OVF),
        of("Folder.Create", Folder, "CreateFolder", POLICY),
        of("Folder.Delete", Folder, "Destroy_Task of a folder", POLICY),
        of("Folder.Rename", Folder, "Rename_Task of a folder, before it is destroyed", POLICY),
        of("Resource.AssignVMToPool", ResourcePool, "CloneVM_Task, ovf deploy", Always),
        of("Resource.CreatePool", ResourcePool, "CreateResourcePool", POLICY),
        of("Resource.EditPool", ResourcePool, "UpdateConfig", POLICY),
        of("Resource.DeletePool", ResourcePool, "Destroy_Task of a pool", POLICY),
        of("Datastore.AllocateSpace", Datastore, "CloneVM_Task, ovf deploy", Always),
        of("Network.Assign", Network, "CloneVM_Task, ReconfigVM_Task", Always),
    ]
};

/// The privileges that an import into a content library requires, including the privileges to see the library. The VM
/// operator doesn't import.
pub const IMPORT_PRIVILEGES: &[Privilege] = {
    use PrivilegeScope::VCenter;
    use PrivilegeUse::{Always, Only};
    const fn of(id: &'static str, calls: &'static str, used: PrivilegeUse) -> Privilege {
        Privilege { id, scope: VCenter, calls, used }
    }
    &[
        of("System.View", "every call", Always),
        of("System.Read", "library, library item", Always),
        of("ContentLibrary.AddLibraryItem", "library item create", Always),
        of("ContentLibrary.UpdateSession", "update-session", Always),
        of(
            "ContentLibrary.DeleteLibraryItem",
            "library item delete",
            Only("imports that are interrupted or refused, whose empty items are removed"),
        ),
    ]
};

impl Client {
    /// Returns the privileges that the session's user has on each object, including privileges from groups and
    /// propagation.
    ///
    /// Makes two calls, regardless of the object count (`FetchUserPrivilegeOnEntities`).
    pub async fn own_privileges(&self, objects: &[MoRef]) -> Result<HashMap<MoRef, BTreeSet<String>>> {
        const METHOD: &str = "FetchUserPrivilegeOnEntities";
        let manager = self.service("sessionManager")?;
        let session = self.retrieve(std::slice::from_ref(&manager), &["currentSession"]).await?;
        let session =
            session.first().map(|manager| manager.get("currentSession").clone()).unwrap_or_default();
        let user = session.get("userName").as_str().unwrap_or(&self.config().credentials.username).to_owned();
        let args = Object::new("FetchUserPrivilegeOnEntitiesRequestType")
            .with_list("entities", objects.iter().map(Value::from).collect::<Vec<Value>>())
            .with("userName", user);
        let authorization = self.service("authorizationManager")?;
        let found = self.call(&authorization, METHOD, Some(args)).await?;
        let read = found.items().iter().filter_map(|result| {
            let object = result.get("entity").as_moref()?.clone();
            let held =
                result.get("privileges").items().iter().filter_map(|id| id.as_str().map(str::to_owned));
            Some((object, held.collect()))
        });
        Ok(read.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_privilege_stands_once_in_each_scope_and_scopes_stand_together() {
        let mut seen = BTreeSet::new();
        for table in [PRIVILEGES, IMPORT_PRIVILEGES] {
            seen.clear();
            for privilege in table {
                assert!(seen.insert((privilege.scope, privilege.id)), "{} stands twice", privilege.id);
            }
            assert!(table.is_sorted_by_key(|privilege| privilege.scope), "by scope");
        }
    }
}
