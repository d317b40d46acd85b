//! Parses the bundles that users provide as ConfigMaps in the cluster's namespace.
//!
//! The label `tkg.tanzu.vmware.com/addon-name` names the add-on, the label `tkg.tanzu.vmware.com/cluster-name` restricts the
//! bundle to one cluster, and the annotation `tkg.tanzu.vmware.com/addon-type` sets the add-on type. Each key that ends in
//! `.yaml` or `.yml` is a manifest file. With `.jinja` appended, it is a template.

use std::collections::BTreeMap;

use bounds::{Confidential, printable};
use k8s_openapi::api::core::v1::Secret;

use super::bundle::{Bundle, BundleFile, BundleMode, BundleSecret, MAX_BYTES};
use super::render::TEMPLATE;

/// The type of a Secret that contains bundle files. gcm doesn't read Secrets of other types.
pub const SECRET_TYPE: &str = "run.tanzu.vmware.com/addon-bundle";
/// The maximum number of add-ons in the key `after`. Further names are ignored.
const MAX_AFTER: usize = 32;

fn is_manifests(key: &str) -> bool {
    let key = key.strip_suffix(TEMPLATE).unwrap_or(key);
    [".yaml", ".yml"].iter().any(|end| key.ends_with(end))
}

/// Parses the bundle in a ConfigMap.
///
/// # Errors
/// Returns an error that names the first unknown key or invalid value, or if the files are too large.
pub fn read(data: &BTreeMap<String, String>) -> Result<Bundle, String> {
    let mut bundle = Bundle::default();
    for (key, text) in data {
        let word = text.trim();
        match key.as_str() {
            "version" => bundle.version = Some(word.chars().take(64).collect()),
            "mode" => {
                bundle.mode = BundleMode::of(word).ok_or_else(|| {
                    format!(
                        "mode {:?} is not Reconcile, ApplyOnce, OncePerVersion or Unmanaged",
                        printable(word, 64)
                    )
                })?;
            }
            "after" => {
                let names = word.split(',').map(str::trim).filter(|name| !name.is_empty());
                bundle.after = names.take(MAX_AFTER).map(str::to_owned).collect();
            }
            "secret" => {
                let secret = BundleSecret { name: word.to_owned(), version: None };
                bundle.secret = Some(secret).filter(|secret| !secret.name.is_empty());
            }
            key if is_manifests(key) => {
                let text = Confidential::new(text.clone());
                bundle.files.push(BundleFile { name: key.to_owned(), text, secret: false });
            }
            _ => {
                return Err(format!(
                    "key {key} is not version, mode, after or secret, and does not end in .yaml or .yaml{TEMPLATE}"
                ));
            }
        }
    }
    check_size(&bundle)?;
    Ok(bundle)
}

/// Returns an error for a bundle that exceeds [`MAX_BYTES`].
fn check_size(bundle: &Bundle) -> Result<(), String> {
    let bytes: usize = bundle.files.iter().map(|file| file.text.expose().len()).sum();
    if bytes > MAX_BYTES {
        return Err(format!("its files have {bytes} bytes; the limit is {MAX_BYTES}"));
    }
    Ok(())
}

/// Adds the files from the Secret that the bundle names.
///
/// # Errors
/// Returns an error if the Secret doesn't have the type [`SECRET_TYPE`]: users who can write the ConfigMap might not be allowed
/// to read other Secrets. Also returns an error for keys that aren't manifest files, for data that isn't UTF-8, and if the files
/// are too large.
pub fn add_secret(bundle: &mut Bundle, name: &str, secret: Secret) -> Result<(), String> {
    if secret.type_.as_deref() != Some(SECRET_TYPE) {
        return Err(format!(
            "Secret {name} is not of type {SECRET_TYPE}. Only Secrets of that type are read"
        ));
    }
    bundle.secret = Some(BundleSecret { name: name.to_owned(), version: secret.metadata.resource_version });
    for (key, bytes) in secret.data.unwrap_or_default() {
        if !is_manifests(&key) {
            return Err(format!("Secret {name}: key {key} does not end in .yaml or .yaml{TEMPLATE}"));
        }
        let text =
            String::from_utf8(bytes.0).map_err(|_| format!("Secret {name}: key {key} is not UTF-8"))?;
        bundle.files.push(BundleFile { name: key, text: Confidential::new(text), secret: true });
    }
    check_size(bundle)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;

    use super::*;

    fn data(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn a_config_map_becomes_a_bundle() {
        let bundle = read(&data(&[
            ("version", "v3.30.0\n"),
            ("mode", "ApplyOnce"),
            ("after", "antrea, metrics-server"),
            ("secret", "keys"),
            ("b.yaml.jinja", "b"),
            ("a.yml", "a"),
        ]))
        .unwrap();
        assert_eq!((bundle.version.as_deref(), bundle.mode), (Some("v3.30.0"), BundleMode::ApplyOnce));
        assert_eq!(
            (bundle.after.len(), bundle.secret.as_ref().map(|secret| secret.name.as_str())),
            (2, Some("keys"))
        );
        let files: Vec<_> = bundle.files.iter().map(|file| file.name.as_str()).collect();
        assert_eq!(files, ["a.yml", "b.yaml.jinja"]);
        assert!(read(&data(&[("mode", "always")])).is_err_and(|error| error.contains("ApplyOnce")));
        assert!(read(&data(&[("manifest", "")])).is_err_and(|error| error.contains("key manifest")));
    }

    #[test]
    fn only_a_secret_that_is_meant_for_it_is_read() {
        let mut bundle = Bundle::default();
        let mut secret = Secret {
            type_: Some("cluster.x-k8s.io/secret".into()),
            data: Some([("a.yaml".to_owned(), ByteString(b"a".to_vec()))].into()),
            ..Secret::default()
        };
        assert!(add_secret(&mut bundle, "c-ca", secret.clone()).unwrap_err().contains(SECRET_TYPE));
        secret.type_ = Some(SECRET_TYPE.to_owned());
        add_secret(&mut bundle, "files", secret).unwrap();
        assert!(bundle.files[0].secret);
    }
}
