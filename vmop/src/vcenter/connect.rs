//! Keeps the provider connected: reads the configuration, connects, waits out failures, starts anew.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kit::events::Events;
use kit::retry::Failures;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use tokio::sync::watch;
use vsphere::{Config, Credentials, Inventory, Metrics, MoRef};

use super::guest_network::{GuestNetwork, NETWORK_CONFIG_MAP};
use super::settings::{CONFIG_MAP, ConfigProblem, CredentialsSecret, Map, Settings, Trust};
use super::{ConnectionState, Problem, Provider, VCenter};

/// vCenter locks an account after a few wrong passwords, so refused logins are repeated slowly.
const REFUSED: (Duration, Duration) = (Duration::from_secs(30), Duration::from_mins(5));
const UNREACHABLE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));

/// The folders whose machines are sure to be asked about; the stream tells of them from the beginning.
pub type Folders = Arc<dyn Fn() -> Vec<MoRef> + Send + Sync>;

type Known = Option<Result<Settings, ConfigProblem>>;

/// Reason of the event of a Secret whose credentials vCenter refuses.
const CREDENTIALS_REFUSED: &str = "CredentialsRefused";

/// The program that a connection is kept for.
pub struct Program {
    /// The API server, where the configuration is.
    pub client: Client,
    /// The program's own namespace, with the configuration.
    pub namespace: String,
    /// Where vCenter's calls are counted.
    pub metrics: Metrics,
    /// What is to be told of the configuration.
    pub events: Events,
    /// The folders to follow from the beginning.
    pub folders: Folders,
}

impl Program {
    /// The Secret with the credentials says that vCenter refuses them.
    fn refused(&self, settings: &Settings, problem: &Problem, and: &str) {
        let CredentialsSecret { name, uid } = settings.secret.clone();
        let (name, uid, namespace) = (Some(name), Some(uid), Some(self.namespace.clone()));
        let metadata = ObjectMeta { name, namespace, uid, ..ObjectMeta::default() };
        let secret = Secret { metadata, ..Secret::default() };
        self.events.warning(&secret, CREDENTIALS_REFUSED, format!("{problem} {and}"));
    }
}

/// Keeps `provider` connected to the vCenter that the program's configuration names, until dropped.
///
/// A change of the configuration ends the old connection and makes a new one; other credentials only log in anew.
pub async fn keep_connected(provider: Arc<Provider>, program: Program) {
    let (sender, mut settings) = watch::channel(None);
    let (client, namespace) = (program.client.clone(), program.namespace.clone());
    let networking = follow_network(client.clone(), namespace.clone(), &provider);
    let reading = read(client, namespace, sender);
    let connecting = async {
        // No guest is told of a network that is not known yet.
        let mut known = provider.guest_network.subscribe();
        let _ = known.wait_for(Option::is_some).await;
        while settings.changed().await.is_ok() {
            let known = settings.borrow_and_update().clone();
            match known {
                None => {}
                Some(Err(problem)) => provider.broken(Problem::new(problem.to_string())),
                Some(Ok(wanted)) => serve(&provider, &wanted, &program, &mut settings).await,
            }
        }
    };
    tokio::join!(networking, reading, connecting);
}

/// Keeps `provider` knowing what all guests are told of the network.
async fn follow_network(client: Client, namespace: String, provider: &Provider) {
    let mut maps = followed::<ConfigMap>(&client, &namespace, NETWORK_CONFIG_MAP);
    while let Some(map) = maps.next().await {
        let network = GuestNetwork::of(map.as_ref().and_then(|map| map.data.as_ref()));
        provider.guest_network.send_replace(Some(Arc::new(network)));
    }
}

/// Connects and stays connected until the settings change.
async fn serve(
    provider: &Provider,
    wanted: &Settings,
    program: &Program,
    settings: &mut watch::Receiver<Known>,
) {
    let vcenter = tokio::select! {
        vcenter = connected(provider, wanted, program) => vcenter,
        changed = differs(settings, wanted) => return changed,
    };
    tracing::info!(vcenter = %wanted.address(), version = vcenter.client.about().version, "connected");
    provider.state.send_replace(ConnectionState::Connected(Arc::clone(&vcenter)));
    let mut used = wanted.clone();
    loop {
        differs(settings, &used).await;
        let known = settings.borrow().clone();
        match known {
            Some(Ok(other)) if used.differ_in_credentials_only(&other) => {
                if taken_over(&vcenter, &other, program, settings).await {
                    used = other;
                }
            }
            _ => break,
        }
    }
    provider.state.send_replace(ConnectionState::Starting);
    vcenter.leave().await;
}

/// Whether the session is the new user's; the old one's stays in use until then, and if the settings change again.
async fn taken_over(
    vcenter: &VCenter,
    other: &Settings,
    program: &Program,
    settings: &mut watch::Receiver<Known>,
) -> bool {
    let unreachable = Failures::new(UNREACHABLE.0, UNREACHABLE.1);
    let refused = Failures::new(REFUSED.0, REFUSED.1);
    let address = other.address();
    let mut told = false;
    loop {
        let Err(error) = vcenter.client.set_credentials(credentials_of(other)).await else {
            tracing::info!(vcenter = address, "other credentials are in use");
            return true;
        };
        let slow = is_refused(&error);
        let problem = Problem::of(&address, &error);
        tracing::warn!(%problem, "other credentials are not accepted; the ones before stay in use");
        if slow && !std::mem::replace(&mut told, true) {
            program.refused(other, &problem, "The ones before stay in use.");
        }
        let delay = if slow { refused.next(()) } else { unreachable.next(()) };
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            () = differs(settings, other) => return false,
        }
    }
}

/// Whether vCenter knows better than to let these credentials in.
fn is_refused(error: &vsphere::Error) -> bool {
    matches!(error.kind(), vsphere::Kind::InvalidLogin)
}

fn credentials_of(settings: &Settings) -> Credentials {
    Credentials { username: settings.username.clone(), password: settings.password.clone().into() }
}

/// Resolves when the settings are other ones; leaves them marked as changed.
async fn differs(settings: &mut watch::Receiver<Known>, wanted: &Settings) {
    // The sender lives as long as this does.
    let _ = settings.wait_for(|now| !matches!(now, Some(Ok(now)) if now == wanted)).await;
    settings.mark_changed();
}

async fn connected(provider: &Provider, settings: &Settings, program: &Program) -> Arc<VCenter> {
    let unreachable = Failures::new(UNREACHABLE.0, UNREACHABLE.1);
    let refused = Failures::new(REFUSED.0, REFUSED.1);
    let mut told = false;
    loop {
        let (problem, slow) = match config(settings, &program.metrics) {
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
        if slow && !std::mem::replace(&mut told, true) {
            program.refused(settings, &problem, "Nothing can be done in vCenter until then.");
        }
        provider.broken(problem);
        let delay = if slow { refused.next(()) } else { unreachable.next(()) };
        tokio::time::sleep(delay).await;
    }
}

fn config(settings: &Settings, metrics: &Metrics) -> Result<Config, Problem> {
    let trust = match &settings.trust {
        Trust::CaFile(path) => {
            let pem = std::fs::read_to_string(path).map_err(|error| {
                Problem::new(format!("ConfigMap {CONFIG_MAP}: CAFilePath {path}: {error}"))
            })?;
            vsphere::Trust::CaBundle(pem)
        }
        Trust::Thumbprint(text) => vsphere::Trust::Thumbprint(
            text.parse()
                .map_err(|error| Problem::new(format!("ConfigMap {CONFIG_MAP}: Thumbprint: {error}")))?,
        ),
        Trust::Nobody => vsphere::Trust::Insecure,
        Trust::Public => vsphere::Trust::System,
    };
    let credentials = credentials_of(settings);
    let base = Config::new(settings.host.clone(), "", "");
    let (port, wire) = (settings.port, settings.wire);
    Ok(Config { port, credentials, trust, wire, metrics: metrics.clone(), ..base })
}

/// Follows the ConfigMap and the Secret that it names, and publishes what they come to.
async fn read(client: Client, namespace: String, known: watch::Sender<Known>) {
    let mut maps = followed::<ConfigMap>(&client, &namespace, CONFIG_MAP);
    let mut secrets: Option<(String, BoxStream<'static, Option<Secret>>)> = None;
    let (mut map, mut secret): (Option<Option<ConfigMap>>, Option<Option<Secret>>) = (None, None);
    loop {
        tokio::select! {
            Some(seen) = maps.next() => map = Some(seen),
            Some(seen) = next(secrets.as_mut()) => secret = Some(seen),
            else => return,
        }
        let Some(map) = &map else { continue };
        let parsed = Map::new(&namespace, map.as_ref().and_then(|map| map.data.as_ref()));
        let name = parsed.as_ref().ok().and_then(|map| map.credentials_secret().ok());
        if secrets.as_ref().map(|(name, _)| name.as_str()) != name {
            secret = None;
            secrets = name.map(|name| (name.to_owned(), followed(&client, &namespace, name)));
        }
        let settings = match (parsed, name, &secret) {
            (Ok(_), Some(_), None) => continue,
            (Ok(map), _, secret) => settings(&map, secret.as_ref().and_then(Option::as_ref)),
            (Err(problem), ..) => Err(problem),
        };
        known.send_if_modified(|old| {
            let new = Some(settings);
            let changed = *old != new;
            *old = new;
            changed
        });
    }
}

fn settings(map: &Map<'_>, secret: Option<&Secret>) -> Result<Settings, ConfigProblem> {
    let mut settings = map.settings(credentials(secret).as_ref())?;
    settings.secret.uid = secret.and_then(|secret| secret.metadata.uid.clone()).unwrap_or_default();
    Ok(settings)
}

fn credentials(secret: Option<&Secret>) -> Option<BTreeMap<String, Vec<u8>>> {
    let data = secret?.data.clone().unwrap_or_default();
    Some(data.into_iter().map(|(key, value)| (key, value.0)).collect())
}

async fn next<T>(stream: Option<&mut (String, BoxStream<'static, T>)>) -> Option<T> {
    match stream {
        Some((_, stream)) => stream.next().await,
        None => std::future::pending().await,
    }
}

/// One object as it comes, changes and goes. Only this one is watched and kept: it may be a Secret.
fn followed<K>(client: &Client, namespace: &str, name: &str) -> BoxStream<'static, Option<K>>
where
    K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + serde::de::DeserializeOwned
        + std::fmt::Debug
        + Send
        + 'static,
{
    let api = Api::<K>::namespaced(client.clone(), namespace);
    let named = name.to_owned();
    quiet(watcher::watch_object(api, name).default_backoff(), named).boxed()
}

fn quiet<K>(
    stream: impl Stream<Item = watcher::Result<Option<K>>> + Send + 'static,
    name: String,
) -> impl Stream<Item = Option<K>> + Send + 'static
where
    K: Send + 'static,
{
    stream.filter_map(move |item| {
        let seen =
            item.inspect_err(|error| tracing::warn!(name, %error, "watch interrupted; trying again")).ok();
        async move { seen }
    })
}
