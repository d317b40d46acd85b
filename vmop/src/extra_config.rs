//! ExtraConfig keys that several modules read or write.

/// Makes an image's cloud-init wait for VMware Tools: `ready` if the image supports it, `enabled` to turn it on.
pub const DEFER_CLOUD_INIT: &str = "guestinfo.vmservice.defer-cloud-init";
