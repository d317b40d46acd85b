//! Writes an image's OVF descriptor: the VM hardware, and the properties from which release objects are created.

use std::fmt::Write as _;

use serde_json::json;

use crate::containers::KEEPALIVED;
use crate::os::OperatingSystem;
use crate::release::{CNI, CONTAINERD, COREDNS, SupportedRelease};

/// The values in an OVF descriptor.
pub struct OvfDescriptor<'a> {
    pub name: &'a str,
    /// The name and the version of the operating system.
    pub os: (&'a str, &'a str),
    /// The vSphere guest ID.
    pub guest_id: &'a str,
    /// The virtual hardware version, such as `vmx-17`.
    pub hardware: &'a str,
    /// The settings (key and value) of the virtual hardware, such as the firmware.
    pub config: &'a [(&'a str, &'a str)],
    /// The VM's ExtraConfig (key and value).
    pub extra_config: &'a [(&'a str, &'a str)],
    pub product: String,
    pub vendor: &'a str,
    /// The image's release version.
    pub version: &'a str,
    pub disk_file: &'a str,
    pub disk_file_bytes: u64,
    pub disk_bytes: u64,
    /// The OVF properties (key and value).
    pub properties: Vec<(&'a str, String)>,
}

/// Returns a node image's OVF properties (key and value): first the `vmware-system` properties, then the properties
/// that image-builder sets.
///
/// `version` is the image's release version, such as `v1.36.3+layercake.20261121`.
pub fn properties(
    os: &OperatingSystem,
    release: &SupportedRelease,
    version: &str,
) -> Vec<(&'static str, String)> {
    let registry = "registry.k8s.io";
    let (keepalived, keepalived_tag) = KEEPALIVED;
    let distribution = json!({
        "distribution": {"version": version},
        "kubernetes": {"version": release.version, "imageRepository": registry},
        "etcd": {"imageRepository": registry, "version": SupportedRelease::etcd_tag()},
        "coredns": {"imageRepository": format!("{registry}/coredns"), "version": format!("v{COREDNS}")},
        "pause": {"imageRepository": registry, "version": release.defaults.pause},
        "keepalived": {"imageRepository": keepalived, "version": keepalived_tag},
        "compatibility-7.0.0.10100": {"isCompatible": "true"},
    });
    let text = str::to_owned;
    vec![
        ("vmware-system.guest.kubernetes.distribution.image.version", distribution.to_string()),
        ("vmware-system.tkr.os-name", text(os.distro)),
        ("vmware-system.tkr.os-version", text(os.version)),
        ("vmware-system.tkr.os-type", text("linux")),
        ("vmware-system.tkr.os-arch", text("amd64")),
        ("KUBERNETES_SEMVER", text(release.version)),
        ("KUBERNETES_SOURCE_TYPE", text("go")),
        ("DISTRO_NAME", text(os.distro)),
        ("DISTRO_VERSION", text(os.version)),
        ("DISTRO_ARCH", text("amd64")),
        ("CNI_VERSION", text(CNI)),
        ("CONTAINERD_VERSION", text(CONTAINERD)),
    ]
}

impl<'a> OvfDescriptor<'a> {
    /// Returns the descriptor of a node image, without its disk.
    pub(crate) fn of_release(
        name: &'a str,
        os: &OperatingSystem,
        release: &SupportedRelease,
        version: &'a str,
    ) -> Self {
        Self {
            name,
            os: (os.distro, os.version),
            guest_id: os.guest_id,
            hardware: "vmx-17",
            config: &[("firmware", "efi")],
            extra_config: &[("disk.EnableUUID", "TRUE")],
            product: format!("Kubernetes {} on {} {}", release.version, os.distro, os.version),
            vendor: "Layercake",
            version,
            disk_file: "",
            disk_file_bytes: 0,
            disk_bytes: 0,
            properties: properties(os, release, version),
        }
    }

    /// Returns the descriptor in XML.
    pub fn text(&self) -> String {
        let properties = self.properties.iter().fold(String::new(), |mut text, (key, value)| {
            let value = escaped(value);
            let _ = writeln!(
                text,
                r#"      <Property ovf:key="{key}" ovf:type="string" ovf:userConfigurable="false" ovf:value="{value}"/>"#
            );
            text
        });
        let devices = devices();
        let config = elements("Config", self.config) + &elements("ExtraConfig", self.extra_config);
        let Self { name, guest_id, hardware, product, vendor, version, .. } = self;
        let Self { disk_file, disk_file_bytes, disk_bytes, .. } = self;
        let (distro, distro_version) = self.os;
        format!(
            r#"<?xml version="1.0" encoding="UTF-8"?>
<Envelope xmlns="http://schemas.dmtf.org/ovf/envelope/1" xmlns:ovf="http://schemas.dmtf.org/ovf/envelope/1"
          xmlns:rasd="http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_ResourceAllocationSettingData"
          xmlns:vssd="http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_VirtualSystemSettingData"
          xmlns:vmw="http://www.vmware.com/schema/ovf">
  <References>
    <File ovf:id="file1" ovf:href="{disk_file}" ovf:size="{disk_file_bytes}"/>
  </References>
  <DiskSection>
    <Info>Virtual disks</Info>
    <Disk ovf:diskId="vmdisk1" ovf:fileRef="file1" ovf:capacity="{disk_bytes}" ovf:capacityAllocationUnits="byte"
          ovf:format="http://www.vmware.com/interfaces/specifications/vmdk.html#streamOptimized"/>
  </DiskSection>
  <NetworkSection>
    <Info>Networks</Info>
    <Network ovf:name="VM Network"><Description>The node's network</Description></Network>
  </NetworkSection>
  <VirtualSystem ovf:id="{name}">
    <Info>A node of a Kubernetes cluster</Info>
    <Name>{name}</Name>
    <OperatingSystemSection ovf:id="96" ovf:version="{distro_version}" vmw:osType="{guest_id}">
      <Info>{distro} {distro_version}</Info>
    </OperatingSystemSection>
    <VirtualHardwareSection ovf:transport="com.vmware.guestInfo">
      <Info>Virtual hardware</Info>
      <System>
        <vssd:ElementName>Virtual Hardware Family</vssd:ElementName>
        <vssd:InstanceID>0</vssd:InstanceID>
        <vssd:VirtualSystemIdentifier>{name}</vssd:VirtualSystemIdentifier>
        <vssd:VirtualSystemType>{hardware}</vssd:VirtualSystemType>
      </System>
{devices}{config}    </VirtualHardwareSection>
    <ProductSection ovf:required="false">
      <Info>The release that the image carries</Info>
      <Product>{product}</Product>
      <Vendor>{vendor}</Vendor>
      <Version>{version}</Version>
      <FullVersion>{version}</FullVersion>
{properties}    </ProductSection>
  </VirtualSystem>
</Envelope>
"#
        )
    }
}

/// Returns the virtual devices in XML. Each item's fields are sorted by name, because the schema requires it.
fn devices() -> String {
    let devices: [&[(&str, &str)]; 5] = [
        &[
            ("AllocationUnits", "hertz * 10^6"),
            ("ElementName", "2 virtual CPUs"),
            ("InstanceID", "1"),
            ("ResourceType", "3"),
            ("VirtualQuantity", "2"),
        ],
        &[
            ("AllocationUnits", "byte * 2^20"),
            ("ElementName", "2048 MiB of memory"),
            ("InstanceID", "2"),
            ("ResourceType", "4"),
            ("VirtualQuantity", "2048"),
        ],
        &[
            ("Address", "0"),
            ("ElementName", "SCSI controller 0"),
            ("InstanceID", "3"),
            ("ResourceSubType", "VirtualSCSI"),
            ("ResourceType", "6"),
        ],
        &[
            ("AddressOnParent", "0"),
            ("ElementName", "Hard disk 1"),
            ("HostResource", "ovf:/disk/vmdisk1"),
            ("InstanceID", "4"),
            ("Parent", "3"),
            ("ResourceType", "17"),
        ],
        &[
            ("AddressOnParent", "7"),
            ("AutomaticAllocation", "true"),
            ("Connection", "VM Network"),
            ("ElementName", "Network adapter 1"),
            ("InstanceID", "5"),
            ("ResourceSubType", "VmxNet3"),
            ("ResourceType", "10"),
        ],
    ];
    devices.iter().fold(String::new(), |mut text, fields| {
        text.push_str("      <Item>\n");
        for (field, value) in *fields {
            let _ = writeln!(text, "        <rasd:{field}>{value}</rasd:{field}>");
        }
        text.push_str("      </Item>\n");
        text
    })
}

/// Returns an element of VMware's extension for each key and value.
fn elements(element: &str, pairs: &[(&str, &str)]) -> String {
    pairs.iter().fold(String::new(), |mut text, (key, value)| {
        let _ = writeln!(
            text,
            r#"      <vmw:{element} ovf:required="false" vmw:key="{key}" vmw:value="{value}"/>"#
        );
        text
    })
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use quick_xml::XmlVersion;
    use quick_xml::events::Event;
    use quick_xml::reader::Reader;

    use super::*;

    fn text() -> String {
        let os = OperatingSystem::find("debian-13").unwrap();
        let release = SupportedRelease::find("v1.36").unwrap();
        let name = "debian-13-amd64-v1.36.3---layercake.20261121";
        OvfDescriptor {
            disk_file: "disk.vmdk",
            disk_file_bytes: 1234,
            disk_bytes: 20 << 30,
            ..OvfDescriptor::of_release(name, os, release, "v1.36.3+layercake.20261121")
        }
        .text()
    }

    /// Parses the descriptor as XML and returns the property keys and values.
    fn properties(text: &str) -> Vec<(String, String)> {
        let mut reader = Reader::from_str(text);
        let mut found = Vec::new();
        loop {
            match reader.read_event().unwrap() {
                Event::Eof => return found,
                Event::Empty(start) if start.local_name().as_ref() == "Property" => {
                    let value = |name: &str| {
                        let attributes = start.attributes().map(Result::unwrap);
                        let mut named = attributes.filter(|a| a.key.local_name().as_ref() == name);
                        named.next().unwrap().normalized_value(XmlVersion::Implicit1_0).unwrap().into_owned()
                    };
                    found.push((value("key"), value("value")));
                }
                _ => {}
            }
        }
    }

    #[test]
    fn a_release_can_be_read_from_the_properties() {
        let found = properties(&text());
        let value = |key: &str| found.iter().find(|(found, _)| found == key).unwrap().1.clone();
        let document: serde_json::Value =
            serde_json::from_str(&value("vmware-system.guest.kubernetes.distribution.image.version"))
                .unwrap();
        assert_eq!(document["distribution"]["version"], "v1.36.3+layercake.20261121");
        assert_eq!(document["kubernetes"]["version"], "v1.36.3");
        assert_eq!(document["etcd"]["version"], "3.6.14-0");
        assert_eq!(value("vmware-system.tkr.os-name"), "debian");
        assert_eq!(value("KUBERNETES_SEMVER"), "v1.36.3");
        assert_eq!(value("CONTAINERD_VERSION"), "2.2.9");
        assert!(found.iter().all(|(key, _)| key.len() <= 62), "vSphere takes no longer keys");
    }

    #[test]
    fn the_descriptor_that_others_tests_read_is_ours() {
        assert_eq!(text(), include_str!("testdata/node.ovf"));
    }

    #[test]
    fn the_hardware_is_what_the_image_has_drivers_for() {
        let text = text();
        for part in [
            "VirtualSCSI",
            "VmxNet3",
            "vmw:value=\"efi\"",
            "vmx-17",
            "debian12_64Guest",
            "capacity=\"21474836480\"",
        ] {
            assert!(text.contains(part), "{part}");
        }
    }
}
