//! The VM operator's checks, ordered by code.

use kit::diagnosis::Check;

pub const CONFIGURED: Check = Check::new("LC0201", "the provider configuration is complete");
pub const CREDENTIALS: Check = Check::new("LC0202", "the credentials Secret has user name and password");
pub const REACHABLE: Check = Check::new("LC0301", "vCenter can be reached");
pub const CERTIFICATE: Check = Check::new("LC0302", "the certificate of vCenter is valid for a while");
pub const TRUSTED: Check = Check::new("LC0303", "the certificate of vCenter is verified");
pub const LOGIN: Check = Check::new("LC0304", "vCenter accepts the credentials");
pub const VERSION: Check = Check::new("LC0305", "vCenter's version is supported");
pub const CLOCK: Check = Check::new("LC0306", "the clocks of vCenter and of this machine agree");
pub const PRIVILEGES: Check = Check::new("LC0401", "the user has the privileges that every VM needs");
pub const OPTIONAL_PRIVILEGES: Check =
    Check::new("LC0402", "the user has the privileges that some features need");
pub const PLACEMENT: Check = Check::new("LC0501", "datacenter, folders and resource pools exist");
pub const HOSTS: Check = Check::new("LC0502", "hosts are connected and not in maintenance");
pub const DRS: Check = Check::new("LC0503", "DRS places VMs");
pub const HEADROOM: Check = Check::new("LC0504", "resource pools have room for the VM classes");
pub const LIBRARY: Check = Check::new("LC0601", "the content libraries exist");
pub const ITEMS: Check = Check::new("LC0602", "the libraries' items can be deployed");
pub const DATASTORES: Check = Check::new("LC0701", "datastores are accessible and have space");
pub const POLICIES: Check = Check::new("LC0702", "the policies of storage classes exist and fit a datastore");
pub const NETWORK: Check = Check::new("LC0801", "the configured network exists");
pub const NETWORK_HOSTS: Check = Check::new("LC0802", "the network is on all hosts");
pub const ENDPOINTS: Check =
    Check::new("LC0804", "no VM of another installation has an address of the pools");
pub const NAMES: Check = Check::new("LC0901", "names of VirtualMachines fit into vCenter");

pub const CLASSES: Check = Check::new("LC0902", "namespaces may use VM classes");
pub const QUOTA: Check = Check::new("LC0903", "quotas of namespaces have room");

/// All checks, ordered by code.
pub const ALL: &[Check] = &[
    CONFIGURED,
    CREDENTIALS,
    REACHABLE,
    CERTIFICATE,
    TRUSTED,
    LOGIN,
    VERSION,
    CLOCK,
    PRIVILEGES,
    OPTIONAL_PRIVILEGES,
    PLACEMENT,
    HOSTS,
    DRS,
    HEADROOM,
    LIBRARY,
    ITEMS,
    DATASTORES,
    POLICIES,
    NETWORK,
    NETWORK_HOSTS,
    ENDPOINTS,
    NAMES,
    CLASSES,
    QUOTA,
];
