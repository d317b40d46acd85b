//! A vcsim process with a content library, and a client for its control API.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value as Json, json};
use tempfile::TempDir;
use vsphere::{Client, Config, Inventory, MoRef, ServerTrust, WireChoice, WireKind, inventory};

use crate::process::KilledChild;
use crate::tls::issue_certificate;
use crate::wait::within;

/// Runs each test over both protocols, each time with a new simulator.
#[macro_export]
macro_rules! on_both_wires {
    ($($test:ident),* $(,)?) => { $(
        mod $test {
            #[tokio::test]
            async fn vijson() {
                let Some(sim) = $crate::vcsim::Sim::over_vijson(stringify!($test)) else { return };
                super::$test(sim).await;
            }

            #[tokio::test]
            async fn soap() {
                let Some(sim) = $crate::vcsim::Sim::over_soap(stringify!($test)) else { return };
                super::$test(sim).await;
            }
        }
    )* };
}

/// The OVF descriptor for a node image with one disk, `node-disk1.vmdk`, which contains [`empty_disk`].
pub const NODE_OVF: &str = include_str!("node.ovf");
const TOKEN: &str = "control-token";
const PASSWORD: &str = "not-a-secret-but-treated-as-one";

/// A running simulator. It stops on drop.
pub struct Sim {
    process: KilledChild,
    ready: Json,
    ca: String,
    control: reqwest::Client,
    folder: TempDir,
    binary: PathBuf,
    wire: WireKind,
    /// Additional command line arguments.
    more: &'static [&'static str],
}

/// Returns the simulator's path, from `LAYERCAKE_VCSIM` or from the tool cache.
fn binary() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("LAYERCAKE_VCSIM") {
        return std::fs::canonicalize(named).ok();
    }
    let cache = std::env::var_os("LAYERCAKE_CACHE").map(PathBuf::from).or_else(|| {
        let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
        let user = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home)?;
        Some(user.join("layercake"))
    })?;
    let built = std::fs::read_dir(cache.join("tools")).ok()?.flatten();
    let vcsim = built.filter(|entry| entry.file_name().to_string_lossy().starts_with("vcsim-"));
    let built = vcsim.filter(|entry| entry.path().join("vcsim").is_file());
    let made = |path: &Path| path.metadata().and_then(|meta| meta.modified()).ok();
    // Prefer a build from this source tree: builds from other trees may be newer.
    let best = built.max_by_key(|entry| {
        let (sources, binary) = (entry.path().join("src"), entry.path().join("vcsim"));
        (is_of_this_tree(&sources), made(&binary))
    })?;
    Some(best.path().join("vcsim"))
}

/// Returns true if a build has the same simulator sources as this source tree.
fn is_of_this_tree(sources: &Path) -> bool {
    has_same_sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sim/vcsim"), sources)
}

/// Returns true if a build contains the same Go sources as a folder and its subfolders.
fn has_same_sources(own: &Path, built: &Path) -> bool {
    let Ok(files) = std::fs::read_dir(own) else { return false };
    files.flatten().all(|file| {
        let (own, built) = (file.path(), built.join(file.file_name()));
        if own.is_dir() {
            return file.file_name() == "testdata" || has_same_sources(&own, &built);
        }
        !is_source(&own)
            || std::fs::read(&own).ok().is_some_and(|own| std::fs::read(&built).ok() == Some(own))
    })
}

fn is_source(file: &Path) -> bool {
    let test = file.file_stem().is_some_and(|name| name.to_string_lossy().ends_with("_test"));
    file.extension().is_some_and(|extension| extension == "go") && !test
}

impl Sim {
    /// Starts a simulator for the protocol in `LAYERCAKE_WIRE`: `soap`, or VI/JSON by default.
    pub fn start(test: &str) -> Option<Self> {
        let soap = std::env::var("LAYERCAKE_WIRE").is_ok_and(|wire| wire == "soap");
        Self::over(if soap { WireKind::Soap } else { WireKind::ViJson }, test)
    }

    /// Starts a simulator for VI/JSON.
    pub fn over_vijson(test: &str) -> Option<Self> {
        Self::over(WireKind::ViJson, test)
    }

    /// Starts a simulator for SOAP.
    pub fn over_soap(test: &str) -> Option<Self> {
        Self::over(WireKind::Soap, test)
    }

    /// Starts a simulator. Returns `None`, and prints a line to stderr, if the binary is missing.
    pub fn over(wire: WireKind, test: &str) -> Option<Self> {
        Self::offering(&[], &Json::Null, wire, test, &[])
    }

    /// Starts a simulator with a second library, `subscribed`, which fetches items from the first one on demand.
    pub fn with_subscription(test: &str) -> Option<Self> {
        let subscribed = json!({ "name": "subscribed", "subscribes": "layercake" });
        Self::offering(&[subscribed], &Json::Null, WireKind::ViJson, test, &[])
    }

    /// Starts a simulator with an inventory that `govc object.save` wrote into a folder.
    pub fn loading(folder: &Path, wire: WireKind, test: &str) -> Option<Self> {
        // Restarts need the arguments again, so they must be static.
        let folder: &'static str = Box::leak(folder.to_str()?.to_owned().into_boxed_str());
        // The default policy refers to a datastore that a loaded inventory doesn't have.
        let changes = json!({ "storagePolicies": [] });
        Self::offering(&[], &changes, wire, test, Box::leak(Box::new(["--load", folder])))
    }

    /// Starts a simulator that reads license agreement acceptance only from this deployment field, for VI/JSON.
    pub fn with_eula_member(member: &str, test: &str) -> Option<Self> {
        Self::offering(&[], &json!({ "eulaMember": member }), WireKind::ViJson, test, &[])
    }

    fn offering(
        libraries: &[Json],
        changes: &Json,
        wire: WireKind,
        test: &str,
        more: &'static [&'static str],
    ) -> Option<Self> {
        let Some(binary) = binary() else {
            let why = "no vcsim (set LAYERCAKE_VCSIM, or let `layercake up` build the tools)";
            // `println!` isn't shown for tests that pass.
            drop(writeln!(std::io::stderr(), "skipped: {test}: {why}"));
            return None;
        };
        // The HTTP client for the control API needs a default TLS provider.
        drop(rustls::crypto::ring::default_provider().install_default());
        let folder = tempfile::tempdir().unwrap();
        let ca = write_inputs(folder.path(), libraries, changes);
        let (process, ready) = spawn(&binary, folder.path(), "127.0.0.1:0", more);
        Some(Self { process, ready, ca, control: reqwest::Client::new(), folder, binary, wire, more })
    }

    /// Restarts the simulator at the same address, with its initial inventory.
    pub fn restart(&mut self) {
        let address = self.address();
        self.process.kill();
        (self.process, self.ready) = spawn(&self.binary, self.folder.path(), &address, self.more);
    }

    /// Returns the JSON that the simulator printed at startup: its addresses, and the managed object IDs in its inventory.
    pub fn ready(&self) -> &Json {
        &self.ready
    }

    /// Returns the CA certificate to trust (PEM).
    pub fn certificate(&self) -> &str {
        &self.ca
    }

    /// Returns host and port of the vCenter API.
    pub fn address(&self) -> String {
        let url = self.ready["url"].as_str().unwrap();
        url.trim_start_matches("https://").trim_end_matches("/sdk").to_owned()
    }

    /// Returns the configuration for a client.
    pub fn config(&self) -> Config {
        let address = self.address();
        let (host, port) = address.rsplit_once(':').unwrap();
        Config {
            port: port.parse().unwrap(),
            trust: ServerTrust::CaBundle(self.ca.clone()),
            wire: match self.wire {
                WireKind::ViJson => WireChoice::ViJson,
                WireKind::Soap => WireChoice::Soap,
            },
            ..Config::new(host, "user", PASSWORD)
        }
    }

    /// Returns a client that is logged in.
    pub async fn client(&self) -> Client {
        Client::connect(self.config()).await.unwrap()
    }

    /// Returns the VM folder for tests.
    pub fn folder(&self) -> MoRef {
        MoRef::folder(self.ready["folder"].as_str().unwrap())
    }

    /// Returns the resource pool for tests.
    pub fn pool(&self) -> MoRef {
        MoRef::pool(self.ready["resourcePool"].as_str().unwrap())
    }

    /// Returns the only datacenter.
    pub fn datacenter(&self) -> MoRef {
        MoRef::datacenter(self.ready["datacenter"].as_str().unwrap())
    }

    /// Returns the ID of the default content library.
    pub fn library(&self) -> &str {
        self.library_named("layercake")
    }

    /// Returns a content library's ID.
    pub fn library_named(&self, name: &str) -> &str {
        self.ready["libraries"][name].as_str().unwrap()
    }

    /// Returns a complete inventory of the test folder.
    pub async fn inventory(&self) -> Inventory {
        let client = self.client().await;
        let inventory = Inventory::start(client, vec![self.folder()], inventory::Options::default());
        within("the inventory is complete", inventory.wait_until_complete()).await;
        inventory
    }

    async fn ask(&self, method: reqwest::Method, path: &str, body: Option<Json>) -> Json {
        let control = self.ready["control"].as_str().unwrap();
        let request = self.control.request(method, format!("{control}{path}")).bearer_auth(TOKEN);
        let request = if let Some(body) = body { request.json(&body) } else { request };
        let response = request.send().await.unwrap();
        let status = response.status();
        let text = response.text().await.unwrap();
        assert!(status.is_success(), "control {path}: {status} {text}");
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Sends GET to the control API.
    pub async fn get(&self, path: &str) -> Json {
        self.ask(reqwest::Method::GET, path, None).await
    }

    /// Sends POST to the control API.
    pub async fn post(&self, path: &str, body: Json) -> Json {
        self.ask(reqwest::Method::POST, path, Some(body)).await
    }

    /// Sends PUT to the control API.
    pub async fn put(&self, path: &str, body: Json) {
        self.ask(reqwest::Method::PUT, path, Some(body)).await;
    }

    /// Sends DELETE to the control API.
    pub async fn delete(&self, path: &str) {
        self.ask(reqwest::Method::DELETE, path, None).await;
    }

    /// Removes all injected faults. Calls that a fault blocks continue.
    pub async fn release(&self) {
        self.ask(reqwest::Method::DELETE, "/v1/faults", None).await;
    }

    /// Sets the guest information of a VM.
    pub async fn guest(&self, vm: &MoRef, facts: Json) {
        self.ask(reqwest::Method::PUT, &format!("/v1/vms/{}/guest", vm.id()), Some(facts)).await;
    }

    /// Resets the request counters.
    pub async fn forget_requests(&self) {
        self.ask(reqwest::Method::DELETE, "/v1/requests", None).await;
    }

    /// Returns the number of calls to a method over the current protocol since [`Sim::forget_requests`].
    pub async fn calls(&self, method: &str) -> u64 {
        let requests = self.get("/v1/requests").await;
        let wire = match self.wire {
            WireKind::ViJson => "vijson",
            WireKind::Soap => "soap",
        };
        requests["byWire"][wire][method].as_u64().unwrap_or(0)
    }

    /// Returns the number of all requests since [`Sim::forget_requests`].
    pub async fn total(&self) -> u64 {
        self.get("/v1/requests").await["total"].as_u64().unwrap()
    }
}

/// Writes all input files of the process. `changes` overrides fields of the spec. Returns the CA certificate to trust.
fn write_inputs(folder: &Path, libraries: &[Json], changes: &Json) -> String {
    let path = |name: &str| folder.join(name);
    let ca = write_certificate(&path("cert.pem"), &path("key.pem"));
    std::fs::write(path("node.ovf"), NODE_OVF).unwrap();
    std::fs::write(path("node-disk1.vmdk"), empty_disk()).unwrap();
    let files = [path("node.ovf"), path("node-disk1.vmdk")];
    let own = json!({ "name": "layercake", "items": [{ "name": "node", "files": files }] });
    let libraries: Vec<_> = [&own].into_iter().chain(libraries).collect();
    let mut spec = json!({
        "datacenter": "dc0", "cluster": "cluster0", "hosts": 4, "datastores": ["ds0", "ds1"],
        "resourcePool": "layercake", "folder": "layercake", "portGroups": ["VM Network", "workload"],
        "storagePolicies": [{ "name": "Gold", "datastores": ["ds1"] }],
        "apiRelease": "8.0.3.0",
        "libraries": libraries,
    });
    for (name, value) in changes.as_object().into_iter().flatten() {
        spec[name] = value.clone();
    }
    std::fs::write(path("spec.json"), spec.to_string()).unwrap();
    let credentials = json!({ "username": "user", "password": PASSWORD, "controlToken": TOKEN });
    write_secret(&path("credentials.json"), &credentials.to_string());
    ca
}

/// Starts the process, and waits until it prints its JSON line.
fn spawn(binary: &Path, folder: &Path, listen: &str, more: &[&str]) -> (KilledChild, Json) {
    let mut process = Command::new(binary)
        .args(["--listen", listen, "--control", "127.0.0.1:0", "--stdin-exit"])
        .args(["--credentials", "credentials.json", "--tlscert", "cert.pem", "--tlskey", "key.pem"])
        .args(["--spec", "spec.json"])
        .args(more)
        .current_dir(folder)
        .env("TMPDIR", folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let ready = serde_json::from_str(&line).unwrap_or_else(|_| panic!("vcsim printed {line:?}"));
    (KilledChild(process), ready)
}

fn write_certificate(cert: &Path, key: &Path) -> String {
    let (authority, pair) = issue_certificate(&["127.0.0.1", "localhost"]);
    std::fs::write(cert, &pair.certificate).unwrap();
    write_secret(key, &pair.key);
    authority
}

fn write_secret(path: &Path, text: &str) {
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

/// Returns the smallest disk that the simulator can import: a sparse header and a descriptor.
pub fn empty_disk() -> Vec<u8> {
    let mut disk = b"KDMV".to_vec();
    let words =
        |disk: &mut Vec<u8>, words: &[u64]| words.iter().for_each(|word| disk.extend(word.to_le_bytes()));
    disk.extend(3u32.to_le_bytes());
    disk.extend((3u32 << 16).to_le_bytes());
    words(&mut disk, &[2048, 128, 1, 1]);
    disk.extend(512u32.to_le_bytes());
    words(&mut disk, &[0, 0, 128]);
    disk.push(0);
    disk.extend(b"\n \r\n");
    disk.extend(1u16.to_le_bytes());
    disk.resize(512, 0);
    disk.extend(b"# Disk DescriptorFile\nversion=1\ncreateType=\"streamOptimized\"\nRDONLY 2048 SPARSE \"disk.vmdk\"\n");
    disk.resize(1024, 0);
    disk
}
