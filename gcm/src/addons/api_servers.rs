//! Checks if a workload cluster's API servers use the desired authentication configuration.
//!
//! An API server reloads its configuration file when the file changes. It keeps the previous configuration if it refuses the
//! new one, or if an issuer doesn't respond. The API server's metrics identify the configuration in use: by hash since v1.34,
//! and only by load time before v1.34.

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kit::guest::{Few, GuestError, Keys, Marks, PodPort};
use kube::Resource;
use kube::api::{GetParams, ListParams};
use kube::core::Request;
use serde::Deserialize;

use super::guest::WorkloadClusterClient;

/// The namespace and name of both the ConfigMap that contains the configuration and the DaemonSet that copies it to the nodes.
pub const GUEST_OBJECT: (&str, &str) = ("kube-system", "api-server-authentication");
/// The maximum size, in bytes, of a Pod list or ConfigMap.
const MAX_OBJECT: usize = 3 << 20;
/// The maximum size, in bytes, of an API server's metrics.
const MAX_METRICS: usize = 8 << 20;
/// The maximum numbers of API servers and field managers that are read.
const MAX_SERVERS: usize = 8;
/// The maximum number of field managers that are read from the ConfigMap.
const MAX_MANAGERS: usize = 16;

const NAMESPACE: &str = GUEST_OBJECT.0;
const API_PORT: u16 = 6443;

/// kubeadm's annotation that contains an API server's address and port.
const ENDPOINT: &str = "kubeadm.kubernetes.io/kube-apiserver.advertise-address.endpoint";
/// A server name that kubeadm writes into each API server's certificate.
const SERVER_NAME: &str = "kubernetes";

const HASH: &str = "apiserver_authentication_config_controller_last_config_info{";
const RELOAD: &str = "apiserver_authentication_config_controller_automatic_reload_last_timestamp_seconds{";
const START: &str = "process_start_time_seconds ";

/// The state of a configuration across a workload cluster's API servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthenticationState {
    /// All API servers use the configuration.
    InUse,
    /// The API servers in these Pods haven't loaded the configuration yet.
    Pending(Vec<String>),
    /// The API servers in these Pods refused the configuration.
    Rejected(Vec<String>),
    /// An API server couldn't be queried. Contains the reason.
    Unanswered(String),
}

/// A configuration and its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthenticationUse {
    /// The configuration hash.
    pub hash: String,
    pub state: AuthenticationState,
}

/// The configuration that an API server reports in its metrics. Times are in seconds since 1970, or 0 if the event didn't
/// happen.
#[derive(Clone, Debug, Default, PartialEq)]
struct LoadedConfig {
    hash: Option<String>,
    loaded_at: f64,
    rejected_at: f64,
}

impl LoadedConfig {
    fn read(lines: &[String]) -> Self {
        let mut config = Self::default();
        for line in lines {
            let value = || line.rsplit_once(' ').and_then(|(_, value)| value.parse::<f64>().ok());
            if line.starts_with(HASH) {
                config.hash = label(line, "hash").map(str::to_owned);
            } else if line.starts_with(START) || label(line, "status") == Some("success") {
                config.loaded_at = config.loaded_at.max(value().unwrap_or_default());
            } else if label(line, "status") == Some("failure") {
                config.rejected_at = config.rejected_at.max(value().unwrap_or_default());
            }
        }
        config
    }

    /// Returns the state of the configuration with this hash. `changed_at` is the time of the configuration's last change in
    /// the workload cluster, in seconds since 1970.
    fn judge(&self, hash: &str, changed_at: f64) -> ServerState {
        let is_rejected = self.rejected_at > changed_at.max(self.loaded_at);
        match &self.hash {
            Some(found) if found == hash => ServerState::InUse,
            _ if is_rejected => ServerState::Rejected,
            None if changed_at > 0.0 && self.loaded_at > changed_at => ServerState::InUse,
            _ => ServerState::Pending,
        }
    }
}

/// A configuration's state on one API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServerState {
    InUse,
    Pending,
    Rejected,
}

/// Combines the states of all API servers, given as pairs of Pod name and state. One rejection outweighs all pending states.
fn judge_all(servers: &[(String, ServerState)]) -> AuthenticationState {
    let with = |state: ServerState| -> Vec<String> {
        let found = servers.iter().filter(|(_, found)| *found == state);
        found.map(|(pod, _)| pod.clone()).collect()
    };
    let (rejected, pending) = (with(ServerState::Rejected), with(ServerState::Pending));
    if !rejected.is_empty() {
        AuthenticationState::Rejected(rejected)
    } else if !pending.is_empty() || servers.is_empty() {
        AuthenticationState::Pending(pending)
    } else {
        AuthenticationState::InUse
    }
}

/// Returns the value of the label `name` in a line of metrics.
fn label<'l>(line: &'l str, name: &str) -> Option<&'l str> {
    let labels = line.split_once('{')?.1.split_once('}')?.0;
    let found = labels.split(',').find_map(|label| label.strip_prefix(name)?.strip_prefix("=\""));
    found?.strip_suffix('"')
}

#[derive(Deserialize)]
struct Servers {
    items: Few<Server, MAX_SERVERS>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Server {
    metadata: ServerMetadata,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ServerMetadata {
    name: String,
    annotations: Marks<ServerAnnotations>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServerAnnotations {}

impl Keys for ServerAnnotations {
    const KEYS: &'static [&'static str] = &[ENDPOINT];
}

impl Server {
    fn port(&self) -> u16 {
        let endpoint = self.metadata.annotations.get(ENDPOINT);
        let port = endpoint.and_then(|endpoint| endpoint.rsplit_once(':')?.1.parse().ok());
        port.unwrap_or(API_PORT)
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Changed {
    metadata: ChangedMetadata,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ChangedMetadata {
    managed_fields: Few<Manager, MAX_MANAGERS>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Manager {
    time: Option<String>,
}

impl WorkloadClusterClient {
    /// Checks if all API servers use the configuration with this hash. Returns an error only if the workload cluster doesn't
    /// respond.
    pub async fn survey_authentication(&self, hash: &str) -> Result<AuthenticationUse, GuestError> {
        let state = match self.find_authentication(hash).await {
            Err(GuestError::Refused(refusal)) => AuthenticationState::Unanswered(refusal.to_string()),
            found => found?,
        };
        Ok(AuthenticationUse { hash: hash.to_owned(), state })
    }

    async fn find_authentication(&self, hash: &str) -> Result<AuthenticationState, GuestError> {
        let pods = Request::new(Pod::url_path(&(), Some(NAMESPACE)));
        let servers = ListParams::default().labels("component=kube-apiserver,tier=control-plane");
        let servers: Servers = self.server.read(pods.list(&servers), MAX_OBJECT).await?;
        let maps = Request::new(ConfigMap::url_path(&(), Some(NAMESPACE)));
        let map =
            self.server.read_if_there::<Changed>(maps.get(GUEST_OBJECT.1, &GetParams::default()), MAX_OBJECT);
        let Some(map) = map.await? else { return Ok(AuthenticationState::Pending(Vec::new())) };
        let times = map.metadata.managed_fields.0.iter().filter_map(|manager| manager.time.as_deref());
        let times = times.filter_map(|time| time.parse::<jiff::Timestamp>().ok());
        // Object timestamps have a resolution of one second.
        let changed_at = times.max().map_or(0.0, |time| time.as_duration().as_secs_f64());
        let mut states = Vec::with_capacity(servers.items.0.len());
        for server in &servers.items.0 {
            let at = PodPort {
                namespace: NAMESPACE,
                pod: &server.metadata.name,
                port: server.port(),
                server_name: SERVER_NAME,
            };
            let begins = [HASH, RELOAD, START];
            // The connected API server forwards the request to this one, so a failure doesn't mean that the connection is
            // broken.
            let lines = match self.server.read_lines_of_pod(&at, "/metrics", MAX_METRICS, &begins).await {
                Ok(lines) => lines,
                Err(error) => {
                    let why = format!("{}: {error}", server.metadata.name);
                    return Ok(AuthenticationState::Unanswered(why));
                }
            };
            states.push((server.metadata.name.clone(), LoadedConfig::read(&lines).judge(hash, changed_at)));
        }
        Ok(judge_all(&states))
    }
}

#[cfg(test)]
mod tests {
    use super::ServerState::{InUse, Pending, Rejected};
    use super::*;

    fn config(lines: &[&str]) -> LoadedConfig {
        LoadedConfig::read(&lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn an_api_server_is_believed_only_what_it_says_of_this_content() {
        let hash = |hash: &str| format!("{HASH}apiserver_id_hash=\"sha256:aa\",hash=\"{hash}\"}} 1");
        let reload = |status: &str, at: &str| {
            format!("{RELOAD}apiserver_id_hash=\"sha256:aa\",status=\"{status}\"}} {at}")
        };
        let (wanted, other) = (hash("sha256:bb"), hash("sha256:cc"));
        let start = "process_start_time_seconds 1.7e+09";
        let late = |status| reload(status, "1.70000002e+09");
        let later = |status| reload(status, "1.70000003e+09");
        let early = |status| reload(status, "1.69e+09");
        for (lines, expected) in [
            (vec![wanted.clone(), start.to_owned()], InUse),
            (vec![other.clone(), start.to_owned()], Pending),
            (vec![other.clone(), late("failure")], Rejected),
            (vec![other.clone(), early("failure")], Pending),
            (vec![other, late("success"), later("failure")], Rejected),
            (vec![wanted, late("success"), later("failure")], InUse),
            // Releases before v1.34 don't report a hash.
            (vec![start.to_owned()], Pending),
            (vec![start.to_owned(), early("success")], Pending),
            (vec![start.to_owned(), late("success")], InUse),
            (vec![start.to_owned(), late("success"), later("failure")], Rejected),
            (vec![start.to_owned(), late("failure"), later("success")], InUse),
            (vec![], Pending),
        ] {
            let lines: Vec<_> = lines.iter().map(String::as_str).collect();
            assert_eq!(config(&lines).judge("sha256:bb", 1_700_000_010.0), expected, "{lines:?}");
        }
        assert_eq!(
            config(&[start, &late("success")]).judge("sha256:bb", 0.0),
            Pending,
            "no time of a change"
        );
    }

    #[test]
    fn each_api_server_counts() {
        let all = |states: &[ServerState]| {
            let servers = states.iter().enumerate().map(|(at, state)| (format!("s{at}"), *state));
            judge_all(&servers.collect::<Vec<_>>())
        };
        assert_eq!(all(&[InUse, InUse, InUse]), AuthenticationState::InUse);
        assert_eq!(all(&[InUse, Pending, InUse]), AuthenticationState::Pending(vec!["s1".to_owned()]));
        assert_eq!(all(&[InUse, Pending, Rejected]), AuthenticationState::Rejected(vec!["s2".to_owned()]));
        assert_eq!(all(&[]), AuthenticationState::Pending(Vec::new()), "none was seen");
    }
}
