//! Reads bundles from node images. VM Operator copies an image's OVF properties to annotations. In vSphere 7 images, a bundle's
//! property is `{"type": "inline", "version": …, "value": base64 of gzip of YAML}`.

use std::io::Read;

use api::vmop::VirtualMachineImage;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bounds::{Budget, Confidential, printable};
use kube::ResourceExt;
use serde::Deserialize;

use super::bundle::{Bundle, BundleError, BundleFile, MAX_BYTES};

/// The names of the node image add-ons that are container networks.
pub const NETWORKS: [&str; 3] = ["antrea", "antrea-nsx-routed", "calico"];
/// The prefix of a bundle's property name. The add-on name follows.
const PROPERTY: &str = "vmware-system.guest.kubernetes.addons.";

#[derive(Deserialize)]
struct Inline {
    #[serde(rename = "type")]
    type_: String,
    version: Option<String>,
    value: String,
}

/// Returns the image's property for an add-on.
pub fn property<'i>(image: &'i VirtualMachineImage, addon: &str) -> Option<&'i str> {
    image.annotations().get(&format!("{PROPERTY}{addon}")).map(String::as_str)
}

/// Returns the names of the add-ons in the image.
pub fn carried(image: &VirtualMachineImage) -> impl Iterator<Item = &str> {
    image.annotations().keys().filter_map(|key| key.strip_prefix(PROPERTY))
}

/// Parses the bundle in a property.
///
/// # Errors
/// Returns an error if the property can't be parsed or exceeds a limit.
pub fn read(property: &str, budget: &Budget) -> Result<Bundle, BundleError> {
    budget.spend(property.len().saturating_mul(2))?;
    let inline: Inline =
        serde_json::from_str(property).map_err(|_| "the property is not JSON of a bundle".to_owned())?;
    if inline.type_ != "inline" {
        let type_ = printable(&inline.type_, 64);
        return Err(format!("the property is of type {type_:?}, and only inline ones can be read").into());
    }
    let bytes = STANDARD.decode(inline.value.trim()).map_err(|_| "it is not base64".to_owned())?;
    let mut text = String::new();
    let most = u64::try_from(MAX_BYTES).unwrap_or(u64::MAX);
    budget.spend(bytes.len())?;
    let read = flate2::read::GzDecoder::new(bytes.as_slice()).take(most + 1).read_to_string(&mut text);
    let length = read.map_err(|error| format!("it is not gzip: {error}"))?;
    if length > MAX_BYTES {
        return Err(format!("it has more than {MAX_BYTES} bytes").into());
    }
    budget.spend(length)?;
    let text = Confidential::new(text);
    let file = BundleFile { name: "manifests.yaml".to_owned(), text, secret: false };
    Ok(Bundle { version: inline.version, files: vec![file], ..Bundle::default() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::addons::bundle::LIMITS;
    use crate::testing::packed;

    #[test]
    fn an_inline_add_on_is_unpacked_within_bounds() {
        let read =
            |property: &str| super::read(property, &Budget::new(LIMITS.bytes)).map_err(|e| e.to_string());
        let property =
            |value: String| json!({"name": "antrea", "type": "inline", "version": "v1", "value": value});
        let bundle = read(&property(packed(b"a: b")).to_string()).unwrap();
        assert_eq!((bundle.files[0].text.expose().as_str(), bundle.version.as_deref()), ("a: b", Some("v1")));
        let bomb = property(packed(&vec![b' '; MAX_BYTES + 1])).to_string();
        assert!(read(&bomb).is_err_and(|error| error.contains("more than")));
        assert!(read(&property("!".to_owned()).to_string()).is_err());
        assert!(read("{}").is_err());
    }
}
