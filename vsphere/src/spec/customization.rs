//! Guest customization specs, which VMware Tools or cloud-init apply at the guest's next power-on.

use std::fmt;

use crate::{Object, Value};

/// A guest customization for the next power-on.
#[derive(Clone, Debug, PartialEq)]
pub struct CustomizationSpec {
    /// The guest's identity, which depends on its operating system.
    pub identity: CustomizationIdentity,
    /// The DNS search domains for all NICs.
    pub dns_suffixes: Vec<String>,
    /// The DNS servers for all NICs.
    pub dns_servers: Vec<String>,
    /// The IP settings of the NICs, one entry per NIC in NIC order. vCenter rejects any other number of entries.
    pub adapters: Vec<CustomizationAdapter>,
}

/// A guest identity for a specific operating system. `Debug` prints host and domain names only and hides all other
/// content.
#[derive(Clone, PartialEq, Eq)]
pub enum CustomizationIdentity {
    /// A Linux guest that VMware Tools customizes.
    LinuxPrep {
        host_name: String,
        /// The domain, which may be empty.
        domain: String,
    },
    /// The Sysprep answer file for a Windows guest, which can contain secrets.
    SysprepText(String),
    /// A Linux guest that cloud-init customizes (vCenter 7.0 U3 and later). `adapters` must be empty.
    CloudinitPrep {
        /// The metadata in plain text.
        metadata: String,
        /// The userdata in plain text, which can contain secrets.
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

/// The IP settings of one network adapter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CustomizationAdapter {
    /// The MAC address that identifies the NIC. If `None`, the position in the list identifies the NIC.
    pub mac: Option<String>,
    /// The IPv4 address; `None` for DHCP.
    pub ipv4: Option<FixedIpv4>,
    /// The IPv6 addresses with their prefix lengths.
    pub ipv6: Vec<(String, u8)>,
    /// The IPv6 gateways.
    pub gateways6: Vec<String>,
    /// The DNS servers for this NIC.
    pub dns_servers: Vec<String>,
}

/// A static IPv4 address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FixedIpv4 {
    /// The IPv4 address, such as `192.0.2.10`.
    pub address: String,
    /// The subnet mask, such as `255.255.255.0`.
    pub mask: String,
    /// The IPv4 gateways.
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
