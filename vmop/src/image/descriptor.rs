//! Parses OVF descriptors.

use std::collections::BTreeMap;
use std::time::Duration;

use api::vmop::OvfProperty;
use bounds::printable;
use kit::bounded::{Budget, ComputationLimits, Exceeded, compute};
use quick_xml::XmlVersion;
use quick_xml::events::{BytesStart, Event};
use quick_xml::reader::Reader;

use crate::extra_config::DEFER_CLOUD_INIT;

/// The parts of a descriptor that an image shows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Descriptor {
    /// Product, vendor, short version and full version.
    pub product: [Option<String>; 4],
    /// The vSphere guest id.
    pub os_type: Option<String>,
    /// The operating system version.
    pub os_version: Option<String>,
    pub hardware: Option<i32>,
    pub firmware: Option<String>,
    /// True if the image's cloud-init can wait for VMware Tools.
    pub defers: bool,
    /// The OVF properties by key.
    pub properties: BTreeMap<String, Property>,
    /// The number of properties that are omitted because the image object can't hold them.
    pub left_out: usize,
}

/// An OVF property.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Property {
    /// The part that the image shows.
    pub shown: OvfProperty,
    /// True if users may set the property.
    pub configurable: bool,
}

/// The error for an invalid OVF descriptor.
#[derive(Debug, thiserror::Error)]
#[error("the OVF descriptor can't be read: {0}")]
pub struct NotOvf(String);

impl NotOvf {
    /// Creates the error with its cause.
    pub fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

impl From<Exceeded> for NotOvf {
    fn from(exceeded: Exceeded) -> Self {
        Self(exceeded.to_string())
    }
}

/// The limits for parsing one descriptor.
const LIMITS: ComputationLimits = ComputationLimits { bytes: 96 << 20, time: Duration::from_secs(10) };
/// The number of bytes that each element counts against the budget, in addition to its text.
const ELEMENT: usize = 64;
/// The maximum nesting depth. OVF needs six.
const DEPTH: usize = 64;
/// The maximum number of properties.
const PROPERTIES: usize = 1000;
/// The maximum size of all properties together, in bytes. Image objects contain some properties twice.
const PROPERTY_BYTES: usize = 200 << 10;
/// The maximum length of a property key, in bytes.
const KEY: usize = 256;
/// The maximum length of a string that users see, in characters.
const TEXT: usize = 1000;

/// Parses an item's descriptor on a separate thread, within limits per library.
pub async fn read_bounded(library: &str, xml: String) -> Result<Descriptor, NotOvf> {
    compute(&format!("library {library}"), LIMITS, move |budget| read(&xml, budget)).await
}

const PRODUCT: [&str; 4] = ["Product", "Vendor", "Version", "FullVersion"];

/// Parses a descriptor. If there are several product sections, the first value of each product field counts.
///
/// Properties that exceed the limits are omitted, and counted in `left_out`.
pub fn read(xml: &str, budget: &Budget) -> Result<Descriptor, NotOvf> {
    let bad = |error: &dyn std::fmt::Display| NotOvf(error.to_string());
    let mut reader = Reader::from_str(xml);
    let mut state = DescriptorReader::default();
    budget.spend(xml.len())?;
    loop {
        match reader.read_event().map_err(|error| bad(&error))? {
            Event::Start(start) => {
                budget.spend(start.len() + ELEMENT)?;
                if state.path.len() >= DEPTH {
                    return Err(NotOvf::new("its elements are nested too deep"));
                }
                state.open(&start).map_err(|error| bad(&error))?;
                state.path.push(start.local_name().as_ref().to_owned());
                state.text.clear();
            }
            Event::Empty(start) => {
                budget.spend(start.len() + ELEMENT)?;
                state.open(&start).map_err(|error| bad(&error))?;
            }
            Event::Text(text) => state.text.push_str(&text.xml_content(XmlVersion::Implicit1_0)),
            Event::CData(text) => state.text.push_str(&text.xml_content(XmlVersion::Implicit1_0)),
            Event::GeneralRef(entity) => {
                let resolved = entity.resolve_char_ref().map_err(|error| bad(&error))?.map(String::from);
                let named = || quick_xml::escape::resolve_predefined_entity(&entity).map(str::to_owned);
                state.text.push_str(&resolved.or_else(named).unwrap_or_default());
            }
            Event::End(_) => state.close(),
            Event::Eof => break,
            _ => {}
        }
    }
    if !state.envelope {
        return Err(NotOvf("it has no Envelope".to_owned()));
    }
    state.descriptor.bound();
    Ok(state.descriptor)
}

impl Descriptor {
    /// Omits properties that the image object can't hold, and replaces control characters in strings.
    fn bound(&mut self) {
        let texts =
            self.product.iter_mut().chain([&mut self.os_type, &mut self.os_version, &mut self.firmware]);
        texts.flatten().for_each(|text| *text = printable(text, TEXT));
        let (mut count, mut bytes) = (0, 0);
        let before = self.properties.len();
        self.properties.retain(|key, property| {
            let shown = &mut property.shown;
            shown.type_ = printable(&shown.type_, TEXT);
            [&mut shown.label, &mut shown.description]
                .into_iter()
                .flatten()
                .for_each(|text| *text = printable(text, TEXT));
            let texts = [&shown.default, &shown.label, &shown.description];
            let size =
                key.len() + shown.type_.len() + texts.into_iter().flatten().map(String::len).sum::<usize>();
            let fits = key.len() <= KEY && *key == printable(key, KEY);
            let fits = fits && count < PROPERTIES && bytes + size <= PROPERTY_BYTES;
            if fits {
                count += 1;
                bytes += size;
            }
            fits
        });
        self.left_out = before - self.properties.len();
    }
}

#[derive(Default)]
struct DescriptorReader {
    descriptor: Descriptor,
    path: Vec<String>,
    text: String,
    envelope: bool,
    /// The class of the current product section. The class qualifies property keys.
    class: String,
    /// The current property's key.
    key: String,
}

fn read_attributes(start: &BytesStart<'_>) -> quick_xml::Result<BTreeMap<String, String>> {
    let mut attributes = BTreeMap::new();
    for attribute in start.attributes() {
        let attribute = attribute?;
        let value = attribute.normalized_value(XmlVersion::Implicit1_0)?.into_owned();
        attributes.insert(attribute.key.local_name().as_ref().to_owned(), value);
    }
    Ok(attributes)
}

impl DescriptorReader {
    fn open(&mut self, start: &BytesStart<'_>) -> quick_xml::Result<()> {
        let mut attributes = read_attributes(start)?;
        let mut take = |name: &str| attributes.remove(name).filter(|value| !value.is_empty());
        match start.local_name().as_ref() {
            "Envelope" => self.envelope = true,
            "OperatingSystemSection" => {
                self.descriptor.os_type = take("osType");
                self.descriptor.os_version = take("version");
            }
            "ProductSection" => self.class = take("class").unwrap_or_default(),
            "Config" if take("key").as_deref() == Some("firmware") => {
                self.descriptor.firmware = take("value");
            }
            "ExtraConfig" if take("key").as_deref() == Some(DEFER_CLOUD_INIT) => {
                self.descriptor.defers = take("value").as_deref() == Some("ready");
            }
            "Property" => {
                let key = take("key").unwrap_or_default();
                self.key = if self.class.is_empty() { key } else { format!("{}.{key}", self.class) };
                let shown = OvfProperty {
                    key: self.key.clone(),
                    type_: take("type").unwrap_or_else(|| "string".to_owned()),
                    default: take("value"),
                    description: None,
                    label: None,
                };
                let configurable = take("userConfigurable").as_deref() == Some("true");
                self.descriptor.properties.insert(self.key.clone(), Property { shown, configurable });
            }
            "Value" => {
                let value = take("value");
                if let Some(property) = self.property() {
                    property.shown.default = property.shown.default.take().or(value);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn close(&mut self) {
        let name = self.path.pop().unwrap_or_default();
        let text = Some(std::mem::take(&mut self.text).trim().to_owned()).filter(|text| !text.is_empty());
        let within = self.path.last().map(String::as_str);
        match (within, name.as_str()) {
            (Some("ProductSection"), name) => {
                if let Some(at) = PRODUCT.iter().position(|field| *field == name) {
                    let field = &mut self.descriptor.product[at];
                    *field = field.take().or(text);
                }
            }
            (Some("Property"), "Label") => {
                self.property().into_iter().for_each(|it| it.shown.label.clone_from(&text));
            }
            (Some("Property"), "Description") => {
                self.property().into_iter().for_each(|it| it.shown.description.clone_from(&text));
            }
            (_, "VirtualSystemType") => {
                let version = text.as_deref().and_then(|text| text.split_whitespace().next_back());
                self.descriptor.hardware = version.and_then(|text| text.strip_prefix("vmx-")?.parse().ok());
            }
            _ => {}
        }
    }

    fn property(&mut self) -> Option<&mut Property> {
        self.descriptor.properties.get_mut(&self.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OVF: &str = r#"<?xml version="1.0"?>
<Envelope xmlns="http://schemas.dmtf.org/ovf/envelope/1" xmlns:ovf="http://schemas.dmtf.org/ovf/envelope/1"
          xmlns:vmw="http://www.vmware.com/schema/ovf" xmlns:vssd="x">
  <VirtualSystem ovf:id="vm">
    <OperatingSystemSection ovf:id="36" ovf:version="3" vmw:osType="vmwarePhoton64Guest"><Info>o</Info></OperatingSystemSection>
    <VirtualHardwareSection>
      <System><vssd:VirtualSystemType>vmx-13 vmx-17</vssd:VirtualSystemType></System>
      <vmw:Config ovf:required="false" vmw:key="firmware" vmw:value="efi"/>
    </VirtualHardwareSection>
    <ProductSection>
      <Info>i</Info><Product>Guest &amp; Cluster</Product><Vendor>V</Vendor>
      <Version>v1.17.4+vmware.1</Version><FullVersion>v1.17.4+vmware.1-tkg.1</FullVersion>
      <Property ovf:key="vmware-system.tkr" ovf:type="string" ovf:value="{&quot;a&quot;:1}&#10;b"/>
      <Property ovf:key="user-data" ovf:type="string" ovf:userConfigurable="true" ovf:value="">
        <Label>User data</Label><Description>For cloud-init</Description><Value ovf:value="none"/>
      </Property>
    </ProductSection>
    <ProductSection ovf:class="net"><Product>other</Product><Property ovf:key="ip" ovf:type="string"/></ProductSection>
  </VirtualSystem>
</Envelope>"#;

    #[test]
    fn a_descriptor_tells_product_system_and_properties() {
        insta::assert_debug_snapshot!(read(OVF, &Budget::new(1 << 20)).unwrap());
    }

    #[test]
    fn properties_have_an_end_and_what_is_left_out_is_counted() {
        let property = |at: usize, value: &str| format!(r#"<Property key="k{at:05}" value="{value}"/>"#);
        let large = "x".repeat(300 << 10);
        let of = |properties: String| {
            let xml = format!("<Envelope><ProductSection>{properties}</ProductSection></Envelope>");
            read(&xml, &Budget::new(96 << 20)).unwrap()
        };
        let one = of(property(0, &large) + &property(1, "small"));
        assert_eq!((one.properties.len(), one.left_out), (1, 1));
        let many = of((0..50_000).map(|at| property(at, "v")).collect());
        assert_eq!((many.properties.len(), many.left_out), (PROPERTIES, 50_000 - PROPERTIES));
        let hostile = of("<Product>a\u{1b}[2J\u{202e}b</Product><Property key=\"a\u{1b}\"/>".to_owned());
        assert_eq!((hostile.product[0].as_deref(), hostile.left_out), (Some("a [2J b"), 1));
    }

    #[test]
    fn reading_has_an_end_whatever_the_elements_are() {
        let refused = |xml: &str| read(xml, &Budget::new(1 << 20)).unwrap_err().to_string();
        assert!(refused(&"<a>".repeat(1000)).contains("nested too deep"));
        let wide = format!("<Envelope>{}</Envelope>", "<a/>".repeat(100_000));
        assert!(refused(&wide).contains("more than 1048576 bytes"));
        let stopped = Budget::new(1 << 20);
        stopped.stop();
        assert!(read(OVF, &stopped).is_err());
    }

    #[test]
    fn something_else_is_refused() {
        for text in ["", "<html><body>busy</body></html>", "<Envelope><a></Envelope>"] {
            assert!(read(text, &Budget::new(1 << 20)).is_err(), "{text}");
        }
    }
}
