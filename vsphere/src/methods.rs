//! The VIM API methods that Layercake calls. Methods that start a task return the task's reference. Arguments are in
//! WSDL order.

use crate::error::unexpected;
use crate::spec::{Allocation, CloneSpec, ConfigSpec, CustomizationSpec, VirtualDisk, escape_name};
use crate::{Client, MoRef, Object, Result, Value};

impl Client {
    /// Starts to clone a VM, and returns the task. If the response is lost, the call isn't repeated: look up the VM by its name
    /// and UUID.
    pub async fn clone_vm(
        &self,
        source: &MoRef,
        folder: &MoRef,
        name: &str,
        spec: CloneSpec,
    ) -> Result<MoRef> {
        let args = Object::new("CloneVMRequestType")
            .with("folder", folder)
            .with("name", escape_name(name))
            .with("spec", spec);
        self.task_of(source, "CloneVM_Task", Some(args)).await.map_err(|error| error.on(name))
    }

    /// Starts to reconfigure a VM, and returns the task.
    pub async fn reconfigure_vm(&self, vm: &MoRef, spec: ConfigSpec) -> Result<MoRef> {
        let args = Object::new("ReconfigVMRequestType").with("spec", spec);
        self.task_of(vm, "ReconfigVM_Task", Some(args)).await
    }

    /// Starts to upgrade a VM's virtual hardware to `vmx-VERSION`, and returns the task. The VM must be powered off.
    pub async fn upgrade_hardware(&self, vm: &MoRef, version: u32) -> Result<MoRef> {
        let args = Object::new("UpgradeVMRequestType").with("version", format!("vmx-{version}"));
        self.task_of(vm, "UpgradeVM_Task", Some(args)).await
    }

    /// Starts to promote a VM's linked disks to full disks, and returns the task. vCenter copies the content of the parent disks
    /// and unlinks the parents.
    ///
    /// If `disks` is empty, vCenter chooses the disks.
    pub async fn promote_disks(&self, vm: &MoRef, disks: &[VirtualDisk]) -> Result<MoRef> {
        let args = Object::new("PromoteDisksRequestType")
            .with("unlink", true)
            .with_list("disks", disks.iter().map(VirtualDisk::device).collect());
        self.task_of(vm, "PromoteDisks_Task", Some(args)).await
    }

    /// Starts to set a guest customization, which is applied at the next power-on, and returns the task. The VM must be powered
    /// off.
    pub async fn customize_vm(&self, vm: &MoRef, spec: CustomizationSpec) -> Result<MoRef> {
        let args = Object::new("CustomizeVMRequestType").with("spec", spec);
        self.task_of(vm, "CustomizeVM_Task", Some(args)).await
    }

    /// Starts to power on a VM, and returns the task.
    pub async fn power_on(&self, vm: &MoRef) -> Result<MoRef> {
        self.task_of(vm, "PowerOnVM_Task", Some(Object::new("PowerOnVMRequestType"))).await
    }

    /// Starts to power off a VM without a guest shutdown, and returns the task.
    pub async fn power_off(&self, vm: &MoRef) -> Result<MoRef> {
        self.task_of(vm, "PowerOffVM_Task", None).await
    }

    /// Starts to suspend a VM, and returns the task.
    pub async fn suspend(&self, vm: &MoRef) -> Result<MoRef> {
        self.task_of(vm, "SuspendVM_Task", None).await
    }

    /// Starts to reset a VM without a guest reboot, and returns the task.
    pub async fn reset(&self, vm: &MoRef) -> Result<MoRef> {
        self.task_of(vm, "ResetVM_Task", None).await
    }

    /// Asks the guest to shut down. The VM's power state changes when the guest has shut down.
    pub async fn shutdown_guest(&self, vm: &MoRef) -> Result<()> {
        self.call(vm, "ShutdownGuest", None).await.map(drop)
    }

    /// Asks the guest to stand by. The VM's power state changes when the guest is suspended.
    pub async fn standby_guest(&self, vm: &MoRef) -> Result<()> {
        self.call(vm, "StandbyGuest", None).await.map(drop)
    }

    /// Asks the guest to reboot.
    pub async fn reboot_guest(&self, vm: &MoRef) -> Result<()> {
        self.call(vm, "RebootGuest", None).await.map(drop)
    }

    /// Starts to rename a folder, a pool or a VM, and returns the task.
    pub async fn rename(&self, object: &MoRef, name: &str) -> Result<MoRef> {
        let args = Object::new("RenameRequestType").with("newName", escape_name(name));
        self.task_of(object, "Rename_Task", Some(args)).await
    }

    /// Starts to destroy a VM with its disks, a folder with its contents, or a pool. Returns the task.
    pub async fn destroy(&self, object: &MoRef) -> Result<MoRef> {
        self.task_of(object, "Destroy_Task", None).await
    }

    /// Starts to create a snapshot without memory and without quiescing the guest, and returns the task. The task's result is the
    /// snapshot.
    pub async fn create_snapshot(&self, vm: &MoRef, name: &str, description: &str) -> Result<MoRef> {
        let args = Object::new("CreateSnapshotRequestType")
            .with("name", name)
            .with("description", description)
            .with("memory", false)
            .with("quiesce", false);
        self.task_of(vm, "CreateSnapshot_Task", Some(args)).await
    }

    /// Converts a VM to a template.
    pub async fn mark_as_template(&self, vm: &MoRef) -> Result<()> {
        self.call(vm, "MarkAsTemplate", None).await.map(drop)
    }

    /// Creates a folder and returns its reference. A `DuplicateName` error contains the existing object's reference.
    pub async fn create_folder(&self, parent: &MoRef, name: &str) -> Result<MoRef> {
        let args = Object::new("CreateFolderRequestType").with("name", escape_name(name));
        moref(self.call(parent, "CreateFolder", Some(args)).await?, "CreateFolder")
    }

    /// Creates a resource pool and returns its reference. `cpu` is in MHz and `memory` in MiB. If fields are `None`, the pool has
    /// no limit, a reservation of 0, and an expandable reservation.
    pub async fn create_resource_pool(
        &self,
        parent: &MoRef,
        name: &str,
        cpu: Allocation,
        memory: Allocation,
    ) -> Result<MoRef> {
        let args = Object::new("CreateResourcePoolRequestType")
            .with("name", escape_name(name))
            .with("spec", pool_spec(cpu, memory));
        moref(self.call(parent, "CreateResourcePool", Some(args)).await?, "CreateResourcePool")
    }

    /// Sets a resource pool's reservations and limits. Fields that are `None` are reset to the defaults of
    /// [`Client::create_resource_pool`].
    pub async fn update_resource_pool(
        &self,
        pool: &MoRef,
        cpu: Allocation,
        memory: Allocation,
    ) -> Result<()> {
        let args = Object::new("UpdateConfigRequestType").with("config", pool_spec(cpu, memory));
        self.call(pool, "UpdateConfig", Some(args)).await.map(drop)
    }

    /// Finds a VM in the whole vCenter by instance UUID, or by BIOS UUID if `instance` is false. Returns `None` if it doesn't
    /// exist.
    pub async fn find_by_uuid(&self, uuid: uuid::Uuid, instance: bool) -> Result<Option<MoRef>> {
        let args = Object::new("FindByUuidRequestType")
            .with("uuid", uuid.to_string())
            .with("vmSearch", true)
            .with("instanceUuid", instance);
        let index = self.service("searchIndex")?;
        Ok(self.call(&index, "FindByUuid", Some(args)).await?.as_moref().cloned())
    }

    /// Finds a child of a folder or a pool by its unescaped name. Returns `None` if it doesn't exist.
    pub async fn find_child(&self, parent: &MoRef, name: &str) -> Result<Option<MoRef>> {
        let args = Object::new("FindChildRequestType").with("entity", parent).with("name", escape_name(name));
        let index = self.service("searchIndex")?;
        Ok(self.call(&index, "FindChild", Some(args)).await?.as_moref().cloned())
    }

    /// Returns vCenter's current time.
    pub async fn read_current_time(&self) -> Result<jiff::Timestamp> {
        let answer =
            self.call(&MoRef::new("ServiceInstance", "ServiceInstance"), "CurrentTime", None).await?;
        answer.as_str().and_then(|text| text.parse().ok()).ok_or_else(|| unexpected("CurrentTime", "no time"))
    }

    async fn task_of(&self, object: &MoRef, method: &'static str, args: Option<Object>) -> Result<MoRef> {
        moref(self.call(object, method, args).await?, method).map_err(|error| error.on(object))
    }
}

fn pool_spec(cpu: Allocation, memory: Allocation) -> Object {
    let full = |given: Allocation| {
        Object::new("ResourceAllocationInfo")
            .with("reservation", given.reservation.unwrap_or(0))
            .with("expandableReservation", given.expandable.unwrap_or(true))
            .with("limit", given.limit.unwrap_or(-1))
            .with("shares", Object::new("SharesInfo").with("shares", 0).with("level", "normal"))
    };
    Object::new("ResourceConfigSpec").with("cpuAllocation", full(cpu)).with("memoryAllocation", full(memory))
}

fn moref(value: Value, method: &'static str) -> Result<MoRef> {
    match value {
        Value::Ref(moref) => Ok(moref),
        _ => Err(unexpected(method, "no reference in the answer")),
    }
}
