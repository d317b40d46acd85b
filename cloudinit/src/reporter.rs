//! How a node says what became of its first boot.

/// The vendordata of a node: a POSIX shell script that reports through guestinfo how the first boot went.
///
/// cloud-init runs it whatever form the userdata has, and leaves the userdata as it is. A guest without VMware Tools'
/// programs reports nothing. Secrets are taken out before anything leaves the guest.
pub const BOOTSTRAP_REPORTER: &str = include_str!("reporter.sh");

/// What the guest reports, as `true|false[,reason[,message]]`: VM Operator's own key.
pub const BOOTSTRAP_CONDITION: &str = "guestinfo.vmservice.bootstrap.condition";
/// After a failure: the end of the guest's output, without secrets.
pub const BOOTSTRAP_LOG: &str = "guestinfo.vmservice.bootstrap.log";
/// `true` where the bootstrap data brings a reporter, so that silence means something.
pub const BOOTSTRAP_REPORTED: &str = "guestinfo.vmservice.bootstrap.reported";
