//! ExtraConfig keys that several modules read or write.

/// The key that makes an image's cloud-init wait for VMware Tools. Values: `ready` if the image supports it, `enabled` to turn
/// it on.
pub const DEFER_CLOUD_INIT: &str = "guestinfo.vmservice.defer-cloud-init";
