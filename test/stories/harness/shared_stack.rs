//! The stacks of stories: one for most stories, one for stories that break something, and the stacks of single stories.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::LazyLock;

use clap::ValueEnum as _;
use kube::Client;
use layercake::args::{RegistryAccess, SiteNetwork, Wire};
use layercake::stack::{Options, Stack};
use tokio::runtime::Runtime;
use tokio::sync::{MappedMutexGuard, Mutex, MutexGuard, OnceCell};

/// Everything that outlives one story runs here; each story only waits in its own thread.
pub static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("a runtime"));
static SHARED: OnceCell<Result<SharedStack, String>> = OnceCell::const_new();
static DISTURBED: OnceCell<Result<SharedStack, String>> = OnceCell::const_new();

/// What the shared stack's administrator reserved for management.
pub const MANAGEMENT: &str = "203.0.113.0/24";

/// A stack of stories: the one that they share, or one story's own.
pub struct SharedStack {
    /// None once it is stopped.
    stack: Mutex<Option<Stack>>,
    pub client: Client,
    pub session: layercake::session::Session,
    pub guests: sim::guest::Guests,
    pub tools: plane::tools::Tools,
}

impl SharedStack {
    async fn start(registry: RegistryAccess) -> Result<Self, String> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let exe = programs();
        // A guest that says nothing shall not keep a story waiting for long. Programs of another build may not know this.
        let own = std::env::var_os("LAYERCAKE_PROGRAMS").is_none();
        let vmop = own.then(|| "--bootstrap-report-timeout=90s".to_owned()).into_iter().collect();
        let options = Options {
            exe,
            tools: BTreeMap::new(),
            wire: wire()?,
            network: network(),
            registry,
            nodes: sim::Nodes::default(),
            vmop,
            gcm: vec![format!("--management-cidrs={MANAGEMENT}")],
        };
        let stack = Stack::start(&options).await.map_err(|error| format!("{error:#}"))?;
        let session = stack.session();
        let client = session.client().await.map_err(|error| format!("{error:#}"))?;
        let guests = stack.site().guests();
        let tools = stack.tools().clone();
        Ok(Self { stack: Mutex::new(Some(stack)), client, session, guests, tools })
    }

    /// The stack that most stories share; the first call starts it.
    pub async fn get() -> &'static Self {
        let shared = SHARED.get_or_init(|| Self::start(RegistryAccess::Reachable)).await;
        shared.as_ref().unwrap_or_else(|error| panic!("the stack does not start: {error}"))
    }

    /// The stack of disruptive stories, which run on it one at a time; the first call starts it.
    pub async fn get_disturbed() -> &'static Self {
        let disturbed = DISTURBED.get_or_init(|| Self::start(RegistryAccess::Reachable)).await;
        disturbed.as_ref().unwrap_or_else(|error| panic!("the stack does not start: {error}"))
    }

    /// Starts a stack for one story, which stops it.
    pub async fn start_own(registry: RegistryAccess) -> &'static Self {
        let own =
            Self::start(registry).await.unwrap_or_else(|error| panic!("the stack does not start: {error}"));
        // A story is known by a reference to its stack that never ends; what the stack runs ends with `stop`.
        Box::leak(Box::new(own))
    }

    /// Stops everything that the stack runs.
    pub async fn stop(&self) {
        if let Some(stack) = self.stack.lock().await.take() {
            stack.stop().await;
        }
    }

    /// The stack, for one story at a time.
    pub async fn stack(&self) -> MappedMutexGuard<'_, Stack> {
        MutexGuard::map(self.stack.lock().await, |stack| stack.as_mut().expect("a stack that runs"))
    }

    /// The control API of the simulated vCenter.
    pub fn control(&self) -> sim::control::ControlApi {
        self.session.control().expect("the simulator's control API")
    }
}

/// The `layercake` whose programs the shared stack runs: this build's, or that of another, as `LAYERCAKE_PROGRAMS` says. The
/// story of a defence fails with those of a build that lacks it.
pub fn programs() -> PathBuf {
    std::env::var_os("LAYERCAKE_PROGRAMS")
        .map_or_else(|| env!("CARGO_BIN_EXE_layercake").into(), PathBuf::from)
}

/// What the site of the shared stack has for networks: as `LAYERCAKE_NETWORK` says, as `up --network` does.
pub fn network() -> SiteNetwork {
    match std::env::var("LAYERCAKE_NETWORK") {
        Ok(named) => SiteNetwork::from_str(&named, true).expect("LAYERCAKE_NETWORK"),
        Err(_) => SiteNetwork::default(),
    }
}

/// What the site of the shared stack does not have: stories with a stack of their own take it, so that one run has both.
pub fn other_network() -> SiteNetwork {
    match network() {
        SiteNetwork::Nsx => SiteNetwork::PortGroups,
        SiteNetwork::PortGroups => SiteNetwork::Nsx,
    }
}

/// How the VM operator speaks with vCenter in the shared stack: as `LAYERCAKE_WIRE` says, as `up --wire` does.
fn wire() -> Result<Wire, String> {
    match std::env::var("LAYERCAKE_WIRE") {
        Ok(named) => Wire::from_str(&named, true).map_err(|error| format!("LAYERCAKE_WIRE: {error}")),
        Err(_) => Ok(Wire::default()),
    }
}

/// The wire that the shared stack does not speak: stories with a stack of their own take it, so that one run has both.
pub fn other_wire() -> Wire {
    match wire().expect("a wire") {
        Wire::Soap => Wire::ViJson,
        Wire::Auto | Wire::ViJson => Wire::Soap,
    }
}

/// A program that is built when it is first used.
pub fn build_tool(tool: &'static plane::tools::Tool) -> std::path::PathBuf {
    let (options, progress) = (plane::tools::Options::default(), plane::tools::progress());
    let built = || plane::tools::ensure_one(tool, &options, &*progress);
    tokio::task::block_in_place(built).expect("the program is found or built")
}
