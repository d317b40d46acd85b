//! A guest cluster, as far as it is believed: its kubeconfig, and the texts of its API server.
//!
//! The kubeconfig lies in the tenant's namespace, whose users may write Secrets. So only certificates, a key and a token
//! are taken from it, as data: no command, no path, no proxy, no server of its own.

use std::time::Duration;

use kube::Config;
use kube::config::{
    AuthInfo, Cluster, Context, KubeConfigOptions, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext,
};

/// The key of the Secret that Cluster API writes.
pub const KEY: &str = "value";
const NAME: &str = "guest";
/// The most characters of a text that the guest has a part in.
const MAX_TEXT: usize = 400;

/// A text that others had a part in, as messages may hold it: one line, and not long.
pub fn bounded(text: &str) -> String {
    let mut line: String =
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_TEXT).collect();
    if text.chars().nth(MAX_TEXT).is_some() {
        line.push('…');
    }
    line
}

/// Why a request came to nothing, as messages may hold it: the API server's own words, else the first cause.
pub fn describe(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        return bounded(&status.message);
    }
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = cause.to_string();
        source = cause.source();
    }
    bounded(&text)
}

/// The URL of the API server at this host; an IPv6 address stands in brackets where a port follows.
pub fn server(host: &str, port: u16) -> String {
    if host.contains(':') { format!("https://[{host}]:{port}") } else { format!("https://{host}:{port}") }
}

/// How to reach the API server at `server`, with what the kubeconfig's text holds.
///
/// # Errors
/// What it lacks. Its text is in no message.
pub async fn config(text: &str, server: &str) -> Result<Config, String> {
    let read = Kubeconfig::from_yaml(text).map_err(|_| "it is no kubeconfig".to_owned())?;
    let authority = read.clusters.into_iter().find_map(|named| named.cluster?.certificate_authority_data);
    let authority = authority.ok_or("it has no certificate-authority-data")?;
    let user = read.auth_infos.into_iter().find_map(|named| named.auth_info);
    let AuthInfo { client_certificate_data, client_key_data, token, .. } = user.ok_or("it has no user")?;
    if token.is_none() && (client_certificate_data.is_none() || client_key_data.is_none()) {
        return Err("its user has neither client-certificate-data and client-key-data nor a token".to_owned());
    }
    let cluster = Cluster {
        server: Some(server.to_owned()),
        certificate_authority_data: Some(authority),
        ..Cluster::default()
    };
    let user = AuthInfo { client_certificate_data, client_key_data, token, ..AuthInfo::default() };
    let context = Context { cluster: NAME.to_owned(), user: Some(NAME.to_owned()), ..Context::default() };
    let believed = Kubeconfig {
        clusters: vec![NamedCluster {
            name: NAME.to_owned(),
            cluster: Some(cluster),
            ..NamedCluster::default()
        }],
        auth_infos: vec![NamedAuthInfo {
            name: NAME.to_owned(),
            auth_info: Some(user),
            ..NamedAuthInfo::default()
        }],
        contexts: vec![NamedContext {
            name: NAME.to_owned(),
            context: Some(context),
            ..NamedContext::default()
        }],
        current_context: Some(NAME.to_owned()),
        ..Kubeconfig::default()
    };
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(believed, &options).await;
    let mut config = config.map_err(|_| "its certificates can't be read".to_owned())?;
    // The environment's proxy is for this program's own API server.
    config.proxy_url = None;
    config.connect_timeout = Some(Duration::from_secs(5));
    config.write_timeout = Some(Duration::from_secs(15));
    config.read_timeout = None;
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = r#"{"apiVersion": "v1", "kind": "Config", "current-context": "x",
        "clusters": [{"name": "x", "cluster": {"server": "https://169.254.169.254", "proxy-url": "http://evil",
            "insecure-skip-tls-verify": true, "certificate-authority": "/etc/passwd", "certificate-authority-data": "CA"}}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "users": [{"name": "x", "user": {"exec": {"command": "/bin/touch", "args": ["/tmp/run-by-gcm"], "apiVersion": "client.authentication.k8s.io/v1"},
            "tokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token", "client-key": "/etc/shadow", TOKEN}}]}"#;

    #[tokio::test]
    async fn a_kubeconfig_of_a_tenant_runs_nothing_reads_no_file_and_leads_nowhere_else() {
        let pem = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUJBRENCcXdJQkFEQU5CZ2txaGtpRzl3MEJBUXNGQURBQU1CNFgKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=";
        let text = HOSTILE.replace("\"CA\"", &format!("{pem:?}")).replace("TOKEN", "\"token\": \"t\"");
        let config = config(&text, "https://10.0.0.1:6443").await.unwrap();
        assert_eq!(config.cluster_url.host(), Some("10.0.0.1"));
        assert!(config.proxy_url.is_none() && !config.accept_invalid_certs);
        let auth = &config.auth_info;
        assert!(auth.exec.is_none() && auth.token_file.is_none() && auth.client_key.is_none());
    }

    #[tokio::test]
    async fn what_it_lacks_is_named_and_its_text_is_not() {
        let text = HOSTILE.replace("TOKEN", "\"password\": \"canary\"");
        let error = config(&text, "https://10.0.0.1:6443").await.unwrap_err();
        assert!(error.contains("client-certificate-data") && !error.contains("canary"), "{error}");
        let error = config("canary: [", "https://10.0.0.1:6443").await.unwrap_err();
        assert!(!error.contains("canary"), "{error}");
    }

    #[test]
    fn a_guests_words_are_short_and_on_one_line() {
        let text = format!("a\nb\u{1b}[31m{}", "é".repeat(10_000));
        let bounded = bounded(&text);
        assert!(bounded.starts_with("a b ") && bounded.ends_with('…'));
        assert_eq!(bounded.chars().count(), MAX_TEXT + 1);
        assert!(!bounded.contains(char::is_control));
    }
}
