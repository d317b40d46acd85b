//! A cluster's settings for the built-in container network, flannel, which its annotations contain.

use std::ops::RangeInclusive;

use api::gcm::TanzuKubernetesCluster;
use api::names::annotation;
use bounds::printable;
use kube::ResourceExt;

/// The annotations with settings.
pub const ANNOTATIONS: [&str; 2] = [annotation::FLANNEL_BACKEND, annotation::FLANNEL_MTU];
/// The MTUs that can be set. 1280 is the smallest MTU of IPv6, and 9000 the usual one of jumbo frames.
const MTUS: RangeInclusive<u16> = 1280..=9000;
/// The maximum number of characters that a message quotes from a value.
const SHOWN: usize = 32;

/// The way in which flannel sends packets to other nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum FlannelBackend {
    /// In UDP packets between nodes.
    #[default]
    Vxlan,
    /// Through routes to the other nodes, which must be in the same network.
    HostGw,
}

/// The settings for flannel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlannelSettings {
    backend: FlannelBackend,
    /// The MTU of the nodes' network. Default: the MTU of the node's interface.
    mtu: Option<u16>,
}

/// An annotation that isn't valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidSetting {
    pub annotation: &'static str,
    pub reason: String,
    pub remedy: String,
}

impl FlannelSettings {
    /// Reads the settings from a cluster's annotations.
    ///
    /// # Errors
    /// Returns an error for an unknown backend, an invalid MTU, and an MTU for a backend without one.
    pub fn read(tkc: &TanzuKubernetesCluster) -> Result<Self, InvalidSetting> {
        let [backend, mtu] = ANNOTATIONS.map(|key| tkc.annotations().get(key).map(|text| text.trim()));
        let backend = match backend {
            None | Some("vxlan") => FlannelBackend::Vxlan,
            Some("host-gw") => FlannelBackend::HostGw,
            Some(other) => {
                return Err(InvalidSetting {
                    annotation: annotation::FLANNEL_BACKEND,
                    reason: format!("{:?} is not a backend", printable(other, SHOWN)),
                    remedy: "Write vxlan or host-gw".to_owned(),
                });
            }
        };
        let invalid = |reason: String, remedy: String| InvalidSetting {
            annotation: annotation::FLANNEL_MTU,
            reason,
            remedy,
        };
        let mtu = match mtu {
            None => None,
            Some(_) if backend == FlannelBackend::HostGw => {
                return Err(invalid(
                    "backend host-gw adds no header to packets, so Pods have the MTU of the nodes".to_owned(),
                    "Remove the annotation, or use the backend vxlan".to_owned(),
                ));
            }
            Some(text) => {
                let found = text.parse().ok().filter(|mtu| MTUS.contains(mtu));
                Some(found.ok_or_else(|| {
                    let (least, most) = (MTUS.start(), MTUS.end());
                    invalid(
                        format!("{:?} is not an MTU from {least} to {most}", printable(text, SHOWN)),
                        "Write the MTU of the nodes' network, such as \"1400\"".to_owned(),
                    )
                })?)
            }
        };
        Ok(Self { backend, mtu })
    }

    /// Returns the value of `Backend` in flannel's configuration. Without annotations, the text is the same as in
    /// versions without this setting, so that nothing is applied again.
    pub fn backend_json(self) -> String {
        match (self.backend, self.mtu) {
            (FlannelBackend::HostGw, _) => r#"{"Type": "host-gw"}"#.to_owned(),
            (FlannelBackend::Vxlan, None) => r#"{"Type": "vxlan"}"#.to_owned(),
            (FlannelBackend::Vxlan, Some(mtu)) => format!(r#"{{"Type": "vxlan", "MTU": {mtu}}}"#),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_become_the_backend_of_flannel() {
        for (backend, mtu, expected) in [
            (None, None, r#"{"Type": "vxlan"}"#),
            (Some("vxlan"), None, r#"{"Type": "vxlan"}"#),
            (Some("host-gw"), None, r#"{"Type": "host-gw"}"#),
            (None, Some("1400"), r#"{"Type": "vxlan", "MTU": 1400}"#),
            (Some("vxlan"), Some("9000"), r#"{"Type": "vxlan", "MTU": 9000}"#),
            (Some("ipip"), None, r#""ipip" is not a backend"#),
            (Some(""), None, r#""" is not a backend"#),
            (None, Some("1279"), r#""1279" is not an MTU from 1280 to 9000"#),
            (None, Some("9001"), r#""9001" is not an MTU from 1280 to 9000"#),
            (None, Some("jumbo"), r#""jumbo" is not an MTU from 1280 to 9000"#),
            (
                Some("host-gw"),
                Some("1400"),
                "backend host-gw adds no header to packets, so Pods have the MTU of the nodes",
            ),
        ] {
            let mut tkc = crate::testing::sound();
            let given = ANNOTATIONS.into_iter().zip([backend, mtu]);
            let given = given.filter_map(|(key, value)| Some((key.to_owned(), value?.to_owned())));
            tkc.annotations_mut().extend(given);
            let found = match FlannelSettings::read(&tkc) {
                Ok(settings) => settings.backend_json(),
                Err(invalid) => invalid.reason,
            };
            assert_eq!(found, expected);
        }
    }
}
