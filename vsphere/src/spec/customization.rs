//! What vCenter has VMware Tools (or cloud-init) set up in a guest at its next power-on.

use std::fmt;

use crate::{Object, Value};

/// What a guest is given at its next power-on.
#[derive(Clone, Debug, PartialEq)]
pub struct CustomizationSpec {
    /// Who the guest is.
    pub identity: CustomizationIdentity,
    /// Search domains for all NICs.
    pub dns_suffixes: Vec<String>,
    /// Name servers for all NICs.
    pub dns_servers: Vec<String>,
    /// One for each NIC, in the order of the NICs; vCenter refuses another number of them.
    pub adapters: Vec<CustomizationAdapter>,
}

/// Who a guest is, in the terms of its operating system. `Debug` prints no content.
#[derive(Clone, PartialEq, Eq)]
pub enum CustomizationIdentity {
    /// A Linux that VMware Tools set up.
    LinuxPrep {
        /// The host name.
        host_name: String,
        /// The domain; may be empty.
        domain: String,
    },
    /// A Windows, by an answer file for Sysprep. Secret.
    SysprepText(String),
    /// A Linux that cloud-init sets up (vCenter 7.0 U3 and later); the adapters stay empty.
    CloudinitPrep {
        /// The metadata, plain.
        metadata: String,
        /// The userdata, plain. Secret.
        userdata: Option<String>,
    },
}

impl fmt::Debug for CustomizationIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LinuxPrep { host_name, domain } => write!(f, "LinuxPrep({host_name:?}, {domain:?})"),
            Self::SysprepText(text) => write!(f, "SysprepText(<{} bytes>)", text.len()),
            Self::CloudinitPrep { metadata, userdata } => {
                let userdata = userdata.as_deref().unwrap_or_default().len();
                write!(f, "CloudinitPrep(<{} bytes>, <{userdata} bytes>)", metadata.len())
            }
        }
    }
}

/// How a guest sets up one network adapter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CustomizationAdapter {
    /// The NIC, where it is known by its MAC; else the order tells.
    pub mac: Option<String>,
    /// The IPv4 address; `None` for DHCP.
    pub ipv4: Option<FixedIpv4>,
    /// IPv6 addresses, with prefix lengths.
    pub ipv6: Vec<(String, u8)>,
    /// IPv6 routers.
    pub gateways6: Vec<String>,
    /// Name servers of this NIC.
    pub dns_servers: Vec<String>,
}

/// A static IPv4 address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FixedIpv4 {
    /// The address.
    pub address: String,
    /// The mask, such as `255.255.255.0`.
    pub mask: String,
    /// The routers.
    pub gateways: Vec<String>,
}

impl From<CustomizationSpec> for Value {
    fn from(spec: CustomizationSpec) -> Self {
        let global = Object::new("CustomizationGlobalIPSettings")
            .with_list("dnsSuffixList", spec.dns_suffixes)
            .with_list("dnsServerList", spec.dns_servers);
        Object::new("CustomizationSpec")
            .with("identity", spec.identity)
            .with("globalIPSettings", global)
            .with_list("nicSettingMap", spec.adapters)
            .into()
    }
}

impl From<CustomizationIdentity> for Value {
    fn from(identity: CustomizationIdentity) -> Self {
        match identity {
            CustomizationIdentity::LinuxPrep { host_name, domain } => {
                let name = Object::new("CustomizationFixedName").with("name", host_name);
                Object::new("CustomizationLinuxPrep")
                    .with("hostName", name)
                    .with("domain", domain)
                    .with("hwClockUTC", true)
            }
            CustomizationIdentity::SysprepText(text) => {
                Object::new("CustomizationSysprepText").with("value", text)
            }
            CustomizationIdentity::CloudinitPrep { metadata, userdata } => {
                Object::new("CustomizationCloudinitPrep")
                    .with("metadata", metadata)
                    .with_some("userdata", userdata)
            }
        }
        .into()
    }
}

impl From<CustomizationAdapter> for Value {
    fn from(adapter: CustomizationAdapter) -> Self {
        let (ip, mask, gateways) = match adapter.ipv4 {
            None => (Object::new("CustomizationDhcpIpGenerator"), None, Vec::new()),
            Some(FixedIpv4 { address, mask, gateways }) => {
                (Object::new("CustomizationFixedIp").with("ipAddress", address), Some(mask), gateways)
            }
        };
        let fixed6 = |(address, prefix): (String, u8)| {
            Object::new("CustomizationFixedIpV6")
                .with("ipAddress", address)
                .with("subnetMask", i32::from(prefix))
        };
        let v6 = (!adapter.ipv6.is_empty()).then(|| {
            Object::new("CustomizationIPSettingsIpV6AddressSpec")
                .with_list("ip", adapter.ipv6.into_iter().map(fixed6).collect())
                .with_list("gateway", adapter.gateways6)
        });
        let settings = Object::new("CustomizationIPSettings")
            .with("ip", ip)
            .with_some("subnetMask", mask)
            .with_list("gateway", gateways)
            .with_some("ipV6Spec", v6)
            .with_list("dnsServerList", adapter.dns_servers);
        Object::new("CustomizationAdapterMapping")
            .with_some("macAddress", adapter.mac)
            .with("adapter", settings)
            .into()
    }
}
