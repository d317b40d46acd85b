//! Writes the simulated vCenter's input files: inventory, certificate and secrets. Also parses its startup message.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use pki::{Authority, Subject, Validity};
use serde::Deserialize;
use serde_json::json;

use super::endpoint::VcenterEndpoint;
use super::error::Error;
use super::further_release::FurtherRelease;
use super::library;
use super::nodes::NodeRuntime;
use super::releases::{NODE_IMAGES, SHARED_IMAGE};

/// The name of the resource pool, folder and content library that the site's namespaces use.
const OWN: &str = "layercake";
/// The subscribed library, whose files are downloaded on demand from [`PUBLIC`].
const SUBSCRIBED: &str = "subscribed";
const PUBLIC: &str = "public";
/// An empty local library, to which VMs can be published.
const PUBLISHED: &str = "published";
/// A local library that an administrator can share with some namespaces.
const SHARED: &str = "shared";
const DATASTORE: &str = "sharedVmfs-0";
const PORT_GROUP: &str = "workload-network";
/// A port group whose `NSX-` prefix makes the simulator create an NSX segment.
const SEGMENT: &str = "NSX-workload";

/// The validity of the certificate and its CA. Both are created again at every start.
const CERTIFICATE_DAYS: i64 = 3650;

/// The paths to the simulator's input files.
#[derive(Debug)]
pub struct Files {
    /// The `--credentials` file.
    pub credentials: PathBuf,
    /// The `--tlscert` file.
    pub certificate: PathBuf,
    /// The `--tlskey` file.
    pub key: PathBuf,
    /// The `--spec` file.
    pub spec: PathBuf,
    username: String,
    password: PathBuf,
    ca: PathBuf,
    control_token: PathBuf,
}

impl Files {
    /// Writes the files below `folder`. Only the owner can read secrets. The certificate is valid for the loopback
    /// names and `name`.
    pub fn written(folder: &Path, nodes: &NodeRuntime, name: Option<Ipv4Addr>) -> Result<Self, Error> {
        fs::create_dir_all(folder)?;
        let in_folder = |name: &str| folder.join(name);
        let files = Self {
            credentials: in_folder("credentials.json"),
            certificate: in_folder("tls.crt"),
            key: in_folder("tls.key"),
            spec: in_folder("inventory.json"),
            username: "administrator@vsphere.local".to_owned(),
            password: in_folder("password"),
            ca: in_folder("ca.crt"),
            control_token: in_folder("control-token"),
        };
        let (password, token) = (random_text(), random_text());
        let credentials = json!({"username": files.username, "password": password, "controlToken": token});
        secret_written(&files.credentials, &credentials.to_string())?;
        secret_written(&files.password, &password)?;
        secret_written(&files.control_token, &token)?;
        files.certificate_written(name)?;
        let items = match nodes {
            NodeRuntime::Simulated(further) => {
                let further = further.iter().map(FurtherRelease::image);
                let images: Vec<_> = NODE_IMAGES.iter().copied().chain(further).collect();
                library::written(&folder.join("library"), &images)?
            }
            NodeRuntime::Qemu(images) => library::of_real(&folder.join("library"), images)?,
        };
        let plain = library::plain(&folder.join("library"))?;
        let shared = library::written(&folder.join("library"), &[SHARED_IMAGE])?;
        let spec = json!({
            "datacenter": "dc0", "cluster": "cluster0", "hosts": 4,
            "hostCpuMhz": 96_000, "hostMemoryMiB": 1_048_576,
            "datastores": [DATASTORE, "sharedVmfs-1"],
            "resourcePool": OWN, "folder": OWN,
            "portGroups": ["VM Network", PORT_GROUP, SEGMENT],
            "apiRelease": "8.0.3.0",
            "libraries": [
                {"name": OWN, "items": items},
                {"name": PUBLIC, "items": [plain]},
                {"name": SUBSCRIBED, "subscribes": PUBLIC},
                {"name": SHARED, "items": shared},
                {"name": PUBLISHED},
            ],
        });
        fs::write(&files.spec, spec.to_string())?;
        Ok(files)
    }

    fn certificate_written(&self, name: Option<Ipv4Addr>) -> Result<(), Error> {
        let validity = Validity::days_from_now(CERTIFICATE_DAYS);
        let authority = Authority::generate("CA of the simulated vCenter", validity)?;
        let mut hosts = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
        hosts.extend(name.map(|name| name.to_string()));
        let pair = authority.issue(&Subject::server("simulated vCenter", &hosts), validity)?;
        fs::write(&self.ca, authority.certificate())?;
        fs::write(&self.certificate, &pair.certificate)?;
        secret_written(&self.key, &pair.key)?;
        Ok(())
    }

    /// Parses `ready`, the single line that the simulator prints, and returns the endpoint.
    pub fn vcenter(&self, ready: &str) -> Result<VcenterEndpoint, Error> {
        let ready: Ready = serde_json::from_str(ready).map_err(|error| Error::Ready(error.to_string()))?;
        let authority = ready.url.strip_prefix("https://").and_then(|rest| rest.strip_suffix("/sdk"));
        let authority =
            authority.ok_or_else(|| Error::Ready(format!("unexpected url {}", ready.url)))?.to_owned();
        let library = |name: &str| ready.libraries.get(name).cloned();
        let missing = || Error::Ready("a content library is missing".to_owned());
        Ok(VcenterEndpoint {
            authority,
            username: self.username.clone(),
            password_file: self.password.clone(),
            ca_file: self.ca.clone(),
            control: ready.control,
            control_token_file: self.control_token.clone(),
            datacenter: ready.datacenter,
            resource_pool: ready.resource_pool,
            folder: ready.folder,
            datastore: DATASTORE.to_owned(),
            network: PORT_GROUP.to_owned(),
            networks: ready.networks,
            segments: ready.segments,
            library: library(OWN).ok_or_else(missing)?,
            subscribed_library: library(SUBSCRIBED).ok_or_else(missing)?,
            shared_library: library(SHARED).ok_or_else(missing)?,
            published_library: library(PUBLISHED).ok_or_else(missing)?,
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Ready {
    url: String,
    control: String,
    datacenter: String,
    resource_pool: String,
    folder: String,
    #[serde(default)]
    networks: BTreeMap<String, String>,
    #[serde(default)]
    segments: BTreeMap<String, String>,
    #[serde(default)]
    libraries: BTreeMap<String, String>,
}

fn secret_written(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}

/// Returns 32 random hexadecimal digits, for use as a secret.
fn random_text() -> String {
    format!("{:032x}", rand::random::<u128>())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn secrets_are_readable_by_their_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::written(folder.path(), &NodeRuntime::default(), None).unwrap();
        for secret in [&files.credentials, &files.key, &files.password, &files.control_token] {
            let mode = fs::metadata(secret).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{}", secret.display());
        }
    }

    #[test]
    fn the_ready_line_tells_where_everything_is() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::written(folder.path(), &NodeRuntime::default(), None).unwrap();
        let ready = r#"{"url":"https://127.0.0.1:1234/sdk","control":"http://127.0.0.1:4321","datacenter":"datacenter-2",
            "resourcePool":"resgroup-9","folder":"group-v4","libraries":{"layercake":"id","subscribed":"other","shared":"third","published":"fourth"}}"#;
        let vcenter = files.vcenter(ready).unwrap();
        assert_eq!(vcenter.url(), "https://127.0.0.1:1234/sdk");
        assert_eq!(vcenter.library, "id");
        assert!(files.vcenter("not json").is_err());
    }
}
