//! The script with which a node reports the result of its first boot, and the guestinfo keys of the report.

/// A POSIX shell script that a node gets as vendordata. It reports the result of the node's first boot through guestinfo.
///
/// cloud-init runs the script regardless of the userdata format, and the userdata isn't changed. In a guest without
/// both `vmware-rpctool` and `vmtoolsd`, the script exits without a report. It removes secrets from the output before
/// it reports.
pub const BOOTSTRAP_REPORTER: &str = include_str!("reporter.sh");

/// The guestinfo key of the reported condition. VM Operator defines the key and the format of the value:
/// `true|false[,reason[,message]]`.
pub const BOOTSTRAP_CONDITION: &str = "guestinfo.vmservice.bootstrap.condition";
/// The guestinfo key of the last part of the boot output, with secrets removed. The node sets it only after a failure.
pub const BOOTSTRAP_LOG: &str = "guestinfo.vmservice.bootstrap.log";
/// The guestinfo key that is set to `true` if the bootstrap data contains a reporter. VM Operator waits for a report
/// only if this key is set.
pub const BOOTSTRAP_REPORTED: &str = "guestinfo.vmservice.bootstrap.reported";
