//! Keys of a VM's ExtraConfig that more than one room reads or writes.

/// Makes the cloud-init of an image wait for VMware Tools: `ready` where the image can wait, `enabled` where it must.
pub const DEFER_CLOUD_INIT: &str = "guestinfo.vmservice.defer-cloud-init";
