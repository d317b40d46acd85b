//! Built-in bundles: the container network for Layercake's own node images, and metrics-server.

use bounds::Confidential;

use super::bundle::{AddonType, Bundle, BundleFile};

/// A bundle that is compiled into gcm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuiltIn {
    pub name: &'static str,
    pub type_: AddonType,
    version: &'static str,
    file: (&'static str, &'static str),
}

/// The built-in container network's name.
pub const NETWORK: &str = "flannel";

/// All built-in bundles.
pub const BUILT_IN: [BuiltIn; 2] = [
    BuiltIn {
        name: NETWORK,
        type_: AddonType::Cni,
        version: "v0.28.10",
        file: ("flannel.yaml.jinja", include_str!("builtin/flannel.yaml.jinja")),
    },
    BuiltIn {
        name: "metrics-server",
        type_: AddonType::MetricsServer,
        version: "v0.9.0",
        file: ("metrics-server.yaml", include_str!("builtin/metrics-server.yaml")),
    },
];

impl BuiltIn {
    /// Returns the built-in bundle with this name.
    pub fn named(name: &str) -> Option<Self> {
        BUILT_IN.into_iter().find(|bundle| bundle.name == name)
    }

    /// Returns the bundle's files and version.
    pub fn bundle(self) -> Bundle {
        let (name, text) = self.file;
        let file =
            BundleFile { name: name.to_owned(), text: Confidential::new(text.to_owned()), secret: false };
        Bundle { version: Some(self.version.to_owned()), files: vec![file], ..Bundle::default() }
    }
}

#[cfg(test)]
mod tests {
    use bounds::Budget;

    use super::*;
    use crate::addons::bundle::LIMITS;
    use crate::addons::manifest::parse;
    use crate::addons::render::Values;
    use crate::spec::flannel::FlannelSettings;

    #[test]
    fn what_is_built_in_can_be_applied() {
        let values = Values {
            pod_cidr: "192.168.0.0/16".into(),
            flannel_backend: FlannelSettings::default().backend_json(),
            ..Values::default()
        };
        for built_in in BUILT_IN {
            let manifests = parse(&built_in.bundle().files, &values, &Budget::new(LIMITS.bytes)).unwrap();
            assert!(manifests.len() > 4, "{}", built_in.name);
            let text: String = manifests.iter().map(|manifest| manifest.json.as_str()).collect();
            assert!(
                !text.contains("Always"),
                "{}: nodes without a way out have their images already",
                built_in.name
            );
            if built_in.type_ == AddonType::Cni {
                assert!(text.contains(r#"\"Network\": \"192.168.0.0/16\""#), "{text}");
            }
        }
    }
}
