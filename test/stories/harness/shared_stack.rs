//! The stacks of stories: one for most stories, one for disruptive stories, and separate stacks for single stories.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::LazyLock;

use clap::ValueEnum as _;
use kube::Client;
use layercake::args::{RegistryAccess, SiteNetwork, VimProtocol};
use layercake::local::guarded::StackPrograms;
use layercake::local::stack::{Options, Stack};
use tokio::runtime::Runtime;
use tokio::sync::{MappedMutexGuard, Mutex, MutexGuard, OnceCell};

/// The runtime for everything that outlives one story. Each story only waits in its own thread.
pub static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("a runtime"));
static SHARED: OnceCell<Result<SharedStack, String>> = OnceCell::const_new();
static DISTURBED: OnceCell<Result<SharedStack, String>> = OnceCell::const_new();

/// The network that the shared stack's administrator reserved for management.
pub const MANAGEMENT: &str = "203.0.113.0/24";

/// A stack for stories, either shared or for a single story.
pub struct SharedStack {
    /// `None` after the stack was stopped.
    stack: Mutex<Option<Stack>>,
    pub client: Client,
    pub session: layercake::local::session::StackSession,
    pub guests: sim::guest::Guests,
    pub tools: plane::tools::Tools,
}

impl SharedStack {
    async fn start(registry: RegistryAccess) -> Result<Self, String> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let exe = programs();
        // A shorter timeout for guests that don't report. Programs of another build may not know the flag.
        let own = std::env::var_os("LAYERCAKE_PROGRAMS").is_none();
        let vmop = own.then(|| "--bootstrap-report-timeout=90s".to_owned()).into_iter().collect();
        let options = Options {
            needs: StackPrograms { exe, given: BTreeMap::new(), further: sim::tools::programs() },
            wire: wire()?,
            network: network(),
            registry,
            nodes: sim::NodeRuntime::default(),
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

    /// Returns the stack that most stories share. The first call starts it.
    pub async fn get() -> &'static Self {
        let shared = SHARED.get_or_init(|| Self::start(RegistryAccess::Reachable)).await;
        shared.as_ref().unwrap_or_else(|error| panic!("the stack does not start: {error}"))
    }

    /// Returns the stack for disruptive stories, which run one at a time. The first call starts it.
    pub async fn get_disturbed() -> &'static Self {
        let disturbed = DISTURBED.get_or_init(|| Self::start(RegistryAccess::Reachable)).await;
        disturbed.as_ref().unwrap_or_else(|error| panic!("the stack does not start: {error}"))
    }

    /// Starts a stack for one story, which must stop it.
    pub async fn start_own(registry: RegistryAccess) -> &'static Self {
        let own =
            Self::start(registry).await.unwrap_or_else(|error| panic!("the stack does not start: {error}"));
        // Stories need a static reference. `stop` ends the stack's processes.
        Box::leak(Box::new(own))
    }

    /// Stops all of the stack's programs.
    pub async fn stop(&self) {
        if let Some(stack) = self.stack.lock().await.take() {
            stack.stop().await;
        }
    }

    /// Locks the stack for one story at a time.
    pub async fn stack(&self) -> MappedMutexGuard<'_, Stack> {
        MutexGuard::map(self.stack.lock().await, |stack| stack.as_mut().expect("a stack that runs"))
    }

    /// Returns the control API of the simulated vCenter.
    pub fn control(&self) -> sim::control::ControlApi {
        self.session.control().expect("the simulator's control API")
    }
}

/// Returns the `layercake` binary for the shared stack: this build's, or the one in `LAYERCAKE_PROGRAMS`. With a build that lacks a
/// defense, the story for that defense fails.
pub fn programs() -> PathBuf {
    std::env::var_os("LAYERCAKE_PROGRAMS")
        .map_or_else(|| env!("CARGO_BIN_EXE_layercake").into(), PathBuf::from)
}

/// Returns the shared stack's network, from `LAYERCAKE_NETWORK`. The values are those that `up --network` takes.
pub fn network() -> SiteNetwork {
    match std::env::var("LAYERCAKE_NETWORK") {
        Ok(named) => SiteNetwork::from_str(&named, true).expect("LAYERCAKE_NETWORK"),
        Err(_) => SiteNetwork::default(),
    }
}

/// Returns the network that the shared stack doesn't have. Some stories with their own stack use it, so that one run tests both.
pub fn other_network() -> SiteNetwork {
    match network() {
        SiteNetwork::Nsx => SiteNetwork::PortGroups,
        SiteNetwork::PortGroups => SiteNetwork::Nsx,
    }
}

/// Returns the shared stack's vCenter protocol, from `LAYERCAKE_WIRE`. The values are those that `up --wire` takes.
fn wire() -> Result<VimProtocol, String> {
    match std::env::var("LAYERCAKE_WIRE") {
        Ok(named) => VimProtocol::from_str(&named, true).map_err(|error| format!("LAYERCAKE_WIRE: {error}")),
        Err(_) => Ok(VimProtocol::default()),
    }
}

/// Returns the vCenter protocol that the shared stack doesn't use. Some stories with their own stack use it, so that one run tests
/// both.
pub fn other_wire() -> VimProtocol {
    match wire().expect("a wire") {
        VimProtocol::Soap => VimProtocol::ViJson,
        VimProtocol::Auto | VimProtocol::ViJson => VimProtocol::Soap,
    }
}

/// Returns a program, which is built on first use.
pub fn build_tool(tool: &'static plane::tools::Tool) -> std::path::PathBuf {
    let (options, progress) = (plane::tools::Options::default(), plane::tools::progress());
    let built = || plane::tools::ensure_one(tool, &options, &*progress);
    tokio::task::block_in_place(built).expect("the program is found or built")
}
