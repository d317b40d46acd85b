//! Kubernetes releases that a user adds to a site.

use std::str::FromStr;

use super::releases::{NodeImage, Os, Shape, image};

/// The minor releases that can be simulated.
const MINORS: std::ops::RangeInclusive<u32> = 22..=36;
/// The first minor release whose images use the vSphere 8 format.
const EMBEDDED_SINCE: u32 = 26;

/// A release that one site offers in addition to [`NODE_IMAGES`](super::releases::NODE_IMAGES).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FurtherRelease {
    item: String,
    version: String,
    kubernetes: String,
    shape: Shape,
}

impl FromStr for FurtherRelease {
    type Err = String;

    /// Parses a version or a TanzuKubernetesRelease name. A missing patch or build gets a default: `v1.24` is
    /// `v1.24.0+vmware.1-tkg.1`. Fails if the minor release can't be simulated or the image name would be too long.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("{text:?} is no release of Kubernetes, such as v1.29.4+vmware.3-tkg.1 or v1.29");
        let text = text.trim().replacen("---", "+", 1);
        let text = if text.starts_with('v') { text } else { format!("v{text}") };
        let (number, build) = text.split_once('+').unwrap_or((&text, "vmware.1-tkg.1"));
        let parts: Vec<u32> = number
            .trim_start_matches('v')
            .split('.')
            .map(str::parse)
            .collect::<Result<_, _>>()
            .map_err(|_| wrong())?;
        let (minor, patch) = match parts[..] {
            [1, minor] => (minor, 0),
            [1, minor, patch] => (minor, patch),
            _ => return Err(wrong()),
        };
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '.' || c == '-';
        if build.is_empty() || !build.chars().all(plain) {
            return Err(wrong());
        }
        if !MINORS.contains(&minor) {
            return Err(format!(
                "v1.{minor} can't be simulated: v1.{} to v1.{} can",
                MINORS.start(),
                MINORS.end()
            ));
        }
        let version = format!("v1.{minor}.{patch}+{build}");
        let end = ["-tkg.", "-vkr."].iter().filter_map(|of| version.find(of)).min().unwrap_or(version.len());
        let kubernetes = version[..end].to_owned();
        let embedded = minor >= EMBEDDED_SINCE;
        let (shape, os) =
            if embedded { (Shape::Embedded, "photon-5") } else { (Shape::Distribution, "photon-3") };
        let item = format!("{os}-amd64-{}", version.replace('+', "---"));
        if item.len() > 80 {
            return Err(format!("{version} makes a name that is longer than vSphere's may be"));
        }
        Ok(Self { item, version, kubernetes, shape })
    }
}

impl FurtherRelease {
    /// Returns the node image for this release.
    pub fn image(&self) -> NodeImage<'_> {
        let os = if self.shape == Shape::Embedded { Os::Photon5 } else { Os::Photon3 };
        NodeImage { shape: self.shape, ..image(&self.item, &self.version, &self.kubernetes, os) }
    }

    /// Returns the full version, for example `v1.24.0+vmware.1-tkg.1`.
    pub fn version(&self) -> &str {
        &self.version
    }
}

/// Returns true if `wanted` is a release's `version` or a prefix of it that ends before `.`, `+` or `-`. Accepts `---`
/// instead of `+`, and ignores a leading `v`.
pub fn is_of(version: &str, wanted: &str) -> bool {
    let wanted = wanted.trim().replacen("---", "+", 1);
    let wanted = wanted.trim_start_matches('v');
    let rest = version.trim_start_matches('v').strip_prefix(wanted);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '+', '-']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_further_release_is_made_of_what_a_manifest_says() {
        for (text, version, kubernetes) in [
            ("v1.24", "v1.24.0+vmware.1-tkg.1", "v1.24.0+vmware.1"),
            ("1.24.9", "v1.24.9+vmware.1-tkg.1", "v1.24.9+vmware.1"),
            ("v1.29.4---vmware.3-fips.1-tkg.1", "v1.29.4+vmware.3-fips.1-tkg.1", "v1.29.4+vmware.3-fips.1"),
            ("v1.31.1+vmware.2-fips-vkr.2", "v1.31.1+vmware.2-fips-vkr.2", "v1.31.1+vmware.2-fips"),
            ("v1.22.9+vmware.1-tkg.1.cc71bc8", "v1.22.9+vmware.1-tkg.1.cc71bc8", "v1.22.9+vmware.1"),
        ] {
            let release: FurtherRelease = text.parse().unwrap();
            let image = release.image();
            assert_eq!((image.version, image.kubernetes), (version, kubernetes), "{text}");
            assert!(image.item.ends_with(&image.release()) && is_of(version, text), "{text}");
        }
        for (text, why) in [
            ("v1.21.2+vmware.1-tkg.1", "v1.22 to v1.36"),
            ("v1.99", "v1.22 to v1.36"),
            ("v2.0", "no release"),
            ("latest", "no release"),
            ("v1.24+", "no release"),
            ("v1.24.0+a b", "no release"),
        ] {
            let error = text.parse::<FurtherRelease>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
        assert!(is_of("v1.23.8+vmware.3-tkg.1", "v1.23") && is_of("v1.23.8+vmware.3-tkg.1", "1.23.8"));
        assert!(!is_of("v1.23.8+vmware.3-tkg.1", "v1.2") && !is_of("v1.23.8+vmware.3-tkg.1", "v1.23.80"));
    }
}
