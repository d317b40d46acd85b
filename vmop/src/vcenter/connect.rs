//! Keeps the provider connected: follows the configuration, connects, retries, and reconnects after changes.

use std::sync::Arc;
use std::time::Duration;

use api::vmop::PROVIDER_CONFIGURATION;
use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kit::Tenure;
use kit::events::Events;
use kit::retry::Failures;
use kube::Client;
use tokio::sync::watch;
use vsphere::{CallMetrics, ChangeGuard, Config, Credentials, Inventory, MoRef};

use crate::vcenter::connection::VCenter;
use crate::vcenter::guest_network::{GuestNetwork, NETWORK_CONFIG_MAP};
use crate::vcenter::problem::Problem;
use crate::vcenter::provider::{ConnectionState, Provider};
use crate::vcenter::settings::{CertificateTrust, CredentialsSecret, ProviderSettings};
use crate::vcenter::settings_watch::{KnownSettings, follow_object, follow_settings};

/// The first and the longest delay after a rejected login. They are long because vCenter locks an account after a few wrong
/// passwords.
const REFUSED: (Duration, Duration) = (Duration::from_secs(30), Duration::from_mins(5));
const UNREACHABLE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));

/// The callback that returns the folders that the inventory covers from the start of a connection.
pub type Folders = Arc<dyn Fn() -> Vec<MoRef> + Send + Sync>;

/// The event reason on a Secret whose credentials vCenter rejects.
const CREDENTIALS_REFUSED: &str = "CredentialsRefused";

/// The event reason on a ConfigMap with invalid network settings.
const NETWORK_CONFIG_INVALID: &str = "NetworkConfigInvalid";

/// The parts of the program that the connection uses.
pub struct ConnectionParts {
    /// The client to read the configuration.
    pub client: Client,
    /// The program's own namespace, which contains the configuration.
    pub namespace: String,
    /// The metrics for vCenter calls.
    pub metrics: CallMetrics,
    /// The age of this replica's lease, which is checked right before each call that changes something.
    pub tenure: Tenure,
    /// The recorder for events about the configuration.
    pub events: Events,
    /// The folders that the inventory covers from the start.
    pub folders: Folders,
}

impl ConnectionParts {
    /// Emits a warning event on the Secret because vCenter rejects its credentials. `and` is a sentence that is appended to the
    /// problem.
    fn warn_refused(&self, settings: &ProviderSettings, problem: &Problem, and: &str) {
        let CredentialsSecret { name, uid } = settings.secret.clone();
        let (name, uid, namespace) = (Some(name), Some(uid), Some(self.namespace.clone()));
        let metadata = ObjectMeta { name, namespace, uid, ..ObjectMeta::default() };
        let secret = Secret { metadata, ..Secret::default() };
        self.events.warning(&secret, CREDENTIALS_REFUSED, format!("{problem} {and}"));
    }
}

/// Keeps `provider` connected to the configured vCenter, until dropped.
///
/// A configuration change replaces the connection. If only the credentials change, the client logs in again.
pub async fn keep_connected(provider: Arc<Provider>, program: ConnectionParts) {
    let (sender, mut settings) = watch::channel(None);
    let (client, namespace) = (program.client.clone(), program.namespace.clone());
    let networking = follow_network(&program, &provider);
    let reading = follow_settings(client, namespace, &provider, sender);
    let connecting = async {
        // Wait for the network settings first: guests must not be configured without them.
        let mut known = provider.guest_network.subscribe();
        let _ = known.wait_for(Option::is_some).await;
        while settings.changed().await.is_ok() {
            let known = settings.borrow_and_update().clone();
            match known {
                None => {}
                Some(Err(problem)) => provider.set_broken(Problem::new(problem.to_string())),
                Some(Ok(wanted)) => stay_connected(&provider, &wanted, &program, &mut settings).await,
            }
        }
    };
    tokio::join!(networking, reading, connecting);
}

/// Follows the network settings for all guests. Guests don't get invalid values; an event on the ConfigMap names these values.
async fn follow_network(program: &ConnectionParts, provider: &Provider) {
    let mut maps = follow_object::<ConfigMap>(&program.client, &program.namespace, NETWORK_CONFIG_MAP);
    while let Some(map) = maps.next().await {
        let (network, problems) = GuestNetwork::from_data(map.as_ref().and_then(|map| map.data.as_ref()));
        if let Some(map) = map.as_ref().filter(|_| !problems.is_empty()) {
            let note = format!("{}. Correct the values: guests do not get them", problems.join("; "));
            tracing::warn!(config_map = NETWORK_CONFIG_MAP, "{note}");
            program.events.warning(map, NETWORK_CONFIG_INVALID, note);
        }
        provider.guest_network.send_replace(Some(Arc::new(network)));
    }
}

/// Connects, and keeps the connection until the settings change.
async fn stay_connected(
    provider: &Provider,
    wanted: &ProviderSettings,
    program: &ConnectionParts,
    settings: &mut watch::Receiver<KnownSettings>,
) {
    let vcenter = tokio::select! {
        vcenter = connect(provider, wanted, program) => vcenter,
        changed = settings_change(settings, wanted) => return changed,
    };
    tracing::info!(vcenter = %wanted.address(), version = vcenter.client.about().version, "connected");
    provider.state.send_replace(ConnectionState::Connected(Arc::clone(&vcenter)));
    let mut used = wanted.clone();
    loop {
        settings_change(settings, &used).await;
        let known = settings.borrow().clone();
        match known {
            Some(Ok(other)) if used.differ_in_credentials_only(&other) => {
                if exchange_credentials(&vcenter, &other, program, settings).await {
                    used = other;
                }
            }
            _ => break,
        }
    }
    provider.state.send_replace(ConnectionState::Starting);
    vcenter.disconnect().await;
}

/// Logs in with the new credentials. Retries until vCenter accepts them, or returns false if the settings change again. The old
/// session stays in use meanwhile.
async fn exchange_credentials(
    vcenter: &VCenter,
    other: &ProviderSettings,
    program: &ConnectionParts,
    settings: &mut watch::Receiver<KnownSettings>,
) -> bool {
    let unreachable = Failures::new(UNREACHABLE.0, UNREACHABLE.1);
    let refused = Failures::new(REFUSED.0, REFUSED.1);
    let address = other.address();
    let mut warned = false;
    loop {
        let Err(error) = vcenter.client.set_credentials(to_credentials(other)).await else {
            tracing::info!(vcenter = address, "the new credentials are in use");
            return true;
        };
        let slow = is_refused(&error);
        let problem = Problem::of(&address, &error);
        tracing::warn!(%problem, "vCenter does not accept the new credentials; the previous ones stay in use");
        if slow && !std::mem::replace(&mut warned, true) {
            program.warn_refused(other, &problem, "The previous credentials stay in use.");
        }
        let delay = if slow { refused.next(()) } else { unreachable.next(()) };
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            () = settings_change(settings, other) => return false,
        }
    }
}

/// Returns true if vCenter rejected the credentials.
fn is_refused(error: &vsphere::Error) -> bool {
    matches!(error.kind(), vsphere::Kind::InvalidLogin)
}

fn to_credentials(settings: &ProviderSettings) -> Credentials {
    Credentials { username: settings.username.clone(), password: settings.password.clone() }
}

/// Waits until the settings differ from `wanted`, and leaves them marked as changed.
async fn settings_change(settings: &mut watch::Receiver<KnownSettings>, wanted: &ProviderSettings) {
    // The sender outlives this future.
    let _ = settings.wait_for(|now| !matches!(now, Some(Ok(now)) if now == wanted)).await;
    settings.mark_changed();
}

async fn connect(
    provider: &Provider,
    settings: &ProviderSettings,
    program: &ConnectionParts,
) -> Arc<VCenter> {
    let unreachable = Failures::new(UNREACHABLE.0, UNREACHABLE.1);
    let refused = Failures::new(REFUSED.0, REFUSED.1);
    let mut warned = false;
    loop {
        let (problem, slow) = match client_config(settings, program) {
            Ok(config) => match vsphere::Client::connect(config).await {
                Ok(client) => {
                    let options = vsphere::inventory::Options::default();
                    let inventory = Inventory::start(client.clone(), (program.folders)(), options);
                    return VCenter::new(settings.clone(), client, inventory);
                }
                Err(error) => (Problem::of(&settings.address(), &error), is_refused(&error)),
            },
            Err(problem) => (problem, false),
        };
        if slow && !std::mem::replace(&mut warned, true) {
            program.warn_refused(
                settings,
                &problem,
                "Until this is corrected, VM Operator can't work in vCenter.",
            );
        }
        provider.set_broken(problem);
        let delay = if slow { refused.next(()) } else { unreachable.next(()) };
        tokio::time::sleep(delay).await;
    }
}

fn client_config(settings: &ProviderSettings, program: &ConnectionParts) -> Result<Config, Problem> {
    let trust = match &settings.trust {
        CertificateTrust::CaFile(path) => {
            let pem = std::fs::read_to_string(path).map_err(|error| {
                Problem::new(format!("ConfigMap {PROVIDER_CONFIGURATION}: CAFilePath {path}: {error}"))
            })?;
            vsphere::ServerTrust::CaBundle(pem)
        }
        CertificateTrust::Thumbprint(text) => {
            vsphere::ServerTrust::Thumbprint(text.parse().map_err(|error| {
                Problem::new(format!("ConfigMap {PROVIDER_CONFIGURATION}: Thumbprint: {error}"))
            })?)
        }
        CertificateTrust::Insecure => vsphere::ServerTrust::Insecure,
        CertificateTrust::System => vsphere::ServerTrust::System,
    };
    let credentials = to_credentials(settings);
    let base = Config::new(settings.host.clone(), "", "");
    let (port, wire) = (settings.port, settings.wire);
    let tenure = program.tenure.clone();
    let guard = ChangeGuard::new(move || tenure.check().is_ok());
    Ok(Config { port, credentials, trust, wire, metrics: program.metrics.clone(), guard, ..base })
}

#[cfg(test)]
mod tests {
    use support::vcsim::Sim;

    use super::*;
    use crate::testing::context::empty_runtime;

    #[tokio::test]
    async fn vcenter_is_not_changed_by_a_program_whose_lease_is_too_old() {
        let Some(sim) = Sim::start("vcenter_is_not_changed_by_a_program_whose_lease_is_too_old") else {
            return;
        };
        let started = empty_runtime();
        let program = ConnectionParts {
            client: started.client.clone(),
            namespace: "ns".to_owned(),
            metrics: CallMetrics::default(),
            tenure: Tenure::expired(),
            events: Events::new(&started, "test"),
            folders: Arc::new(Vec::new),
        };
        let Config { host, port, credentials, .. } = sim.config();
        let Credentials { username, password } = credentials;
        let settings =
            ProviderSettings { host, port, username, password, ..crate::testing::vcsim::settings(&sim) };
        let config = client_config(&settings, &program).expect("a configuration");
        let client = vsphere::Client::connect(config).await.expect("a session");
        let refused = client.power_on(&MoRef::vm("vm-1")).await.expect_err("it is not sent");
        assert_eq!(*refused.kind(), vsphere::Kind::Canceled);
        assert_eq!(sim.calls("PowerOnVM_Task").await, 0);
        started.shutdown.cancel();
    }
}
