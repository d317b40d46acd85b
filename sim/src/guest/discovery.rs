//! Finds and verifies the cluster that a node joins, with the bootstrap token, the signed `cluster-info` and the pinned CA.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::Api;
use kube::config::Kubeconfig;

use super::certs::pin;
use super::deadline::{Deadline, retry_until};
use super::failure::{Failure, Reason, api_error};
use super::kubeadm::{BootstrapTokenDiscovery, Discovery, token_parts};
use super::kubeconfig::{Credential, client, kubeconfig, untrusting_client};

/// A cluster that was found with a bootstrap token.
pub(super) struct DiscoveredCluster {
    /// The URL of the cluster's endpoint.
    pub(super) server: String,
    /// The cluster CA in PEM format.
    pub(super) ca: String,
    /// A client that authenticates with the token.
    pub(super) client: Client,
}

/// Finds the cluster for a join configuration.
pub(super) async fn discover(
    discovery: &Discovery,
    deadline: Deadline,
) -> Result<DiscoveredCluster, Failure> {
    let Some(by_token) = &discovery.bootstrap_token else {
        return Err(Failure::new(
            Reason::KubeadmConfig,
            "JoinConfiguration: no discovery by bootstrap token",
        ));
    };
    check(by_token)?;
    let endpoint = format!("https://{}", by_token.api_server_endpoint);
    let published = cluster_info(&untrusting_client(&endpoint)?, by_token, deadline).await?;
    let (server, ca) = cluster_of(&published)?;
    if !by_token.unsafe_skip_ca_verification {
        let found = pin(&ca)?;
        if !by_token.ca_cert_hashes.contains(&found) {
            let message = format!("the cluster's CA has the hash {found}, which is not among caCertHashes");
            return Err(Failure::new(Reason::CaHash, message));
        }
    }
    // Read `cluster-info` again over TLS, verified with this CA. This proves that the publisher of the CA also controls
    // the endpoint.
    let anonymous =
        client(&kubeconfig("discovery", &endpoint, &ca, "nobody", &Credential::Anonymous)).await?;
    if cluster_info(&anonymous, by_token, deadline).await? != published {
        return Err(Failure::new(Reason::Discovery, "cluster-info differs once TLS is verified"));
    }
    let token = if discovery.tls_bootstrap_token.is_empty() {
        &by_token.token
    } else {
        &discovery.tls_bootstrap_token
    };
    let user = Credential::Token(token);
    let client = client(&kubeconfig("discovery", &server, &ca, "tls-bootstrap-token-user", &user)).await?;
    Ok(DiscoveredCluster { server, ca, client })
}

/// Checks the values that kubeadm validates before it sends a request.
fn check(by_token: &BootstrapTokenDiscovery) -> Result<(), Failure> {
    let refused = |what: &str| Err(Failure::new(Reason::KubeadmConfig, format!("JoinConfiguration: {what}")));
    token_parts(&by_token.token)?;
    if by_token.ca_cert_hashes.is_empty() && !by_token.unsafe_skip_ca_verification {
        return refused("caCertHashes is empty");
    }
    let is_hash = |hash: &String| {
        hash.strip_prefix("sha256:")
            .is_some_and(|hex| hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    if !by_token.ca_cert_hashes.iter().all(is_hash) {
        return refused("caCertHashes has what is no sha256 hash");
    }
    match by_token.api_server_endpoint.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(()),
        _ => refused("apiServerEndpoint is not host:port"),
    }
}

/// Returns the kubeconfig in `cluster-info`. Waits until the kubeconfig is signed for the token, and verifies the signature.
async fn cluster_info(
    client: &Client,
    by_token: &BootstrapTokenDiscovery,
    deadline: Deadline,
) -> Result<String, Failure> {
    let (id, secret) = token_parts(&by_token.token)?;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "kube-public");
    let ask = || async {
        let map = maps.get("cluster-info").await;
        let map = map.map_err(|error| {
            Failure::new(Reason::Discovery, format!("read cluster-info: {}", api_error(&error)))
        })?;
        let data = map.data.unwrap_or_default();
        match (data.get("kubeconfig"), data.get(&format!("jws-kubeconfig-{id}"))) {
            (Some(kubeconfig), Some(signature)) => Ok((kubeconfig.clone(), signature.clone())),
            _ => Err(Failure::new(
                Reason::Discovery,
                format!("cluster-info is not signed for the bootstrap token {id}"),
            )),
        }
    };
    let (published, signature) = retry_until(deadline, ask).await?;
    if is_signed(&published, &signature, id, secret) {
        Ok(published)
    } else {
        Err(Failure::new(
            Reason::BootstrapToken,
            "the signature of cluster-info is not the bootstrap token's",
        ))
    }
}

/// Returns true if `signature` is a detached HS256 JWS for `payload`, with the token ID in its header and the token
/// secret as the key.
fn is_signed(payload: &str, signature: &str, id: &str, secret: &str) -> bool {
    let mut parts = signature.split('.');
    let (Some(header), Some(""), Some(mac), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    let expected = format!(r#"{{"alg":"HS256","kid":"{id}"}}"#);
    let Ok(mac) = URL_SAFE_NO_PAD.decode(mac) else { return false };
    let signed = format!("{header}.{}", URL_SAFE_NO_PAD.encode(payload));
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret.as_bytes());
    URL_SAFE_NO_PAD.decode(header).is_ok_and(|header| header == expected.as_bytes())
        && ring::hmac::verify(&key, signed.as_bytes(), &mac).is_ok()
}

fn cluster_of(published: &str) -> Result<(String, String), Failure> {
    let wrong = || Failure::new(Reason::Discovery, "cluster-info holds no cluster with a CA");
    let config = Kubeconfig::from_yaml(published).map_err(|_| wrong())?;
    let cluster = config.clusters.into_iter().next().and_then(|named| named.cluster).ok_or_else(wrong)?;
    let ca = STANDARD.decode(cluster.certificate_authority_data.ok_or_else(wrong)?).map_err(|_| wrong())?;
    Ok((cluster.server.ok_or_else(wrong)?, String::from_utf8(ca).map_err(|_| wrong())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_holds_for_one_text_and_one_token() {
        let header = URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256","kid":"abcdef"}"#);
        let signed = format!("{header}.{}", URL_SAFE_NO_PAD.encode("text"));
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, b"0123456789abcdef");
        let mac = URL_SAFE_NO_PAD.encode(ring::hmac::sign(&key, signed.as_bytes()));
        let jws = format!("{header}..{mac}");
        assert!(is_signed("text", &jws, "abcdef", "0123456789abcdef"));
        assert!(!is_signed("other", &jws, "abcdef", "0123456789abcdef"));
        assert!(!is_signed("text", &jws, "abcdef", "0123456789abcdeg"));
        assert!(!is_signed("text", &jws, "abcdeg", "0123456789abcdef"));
        assert!(!is_signed("text", &format!("{header}.x.{mac}"), "abcdef", "0123456789abcdef"));
    }

    #[test]
    fn a_discovery_without_a_pin_is_refused() {
        let ok = BootstrapTokenDiscovery {
            api_server_endpoint: "127.9.255.1:6443".into(),
            ca_cert_hashes: vec![format!("sha256:{}", "0".repeat(64))],
            token: "abcdef.0123456789abcdef".into(),
            unsafe_skip_ca_verification: false,
        };
        assert_eq!(check(&ok), Ok(()));
        for wrong in [
            BootstrapTokenDiscovery { ca_cert_hashes: vec![], ..ok.clone() },
            BootstrapTokenDiscovery { ca_cert_hashes: vec!["sha256:0".into()], ..ok.clone() },
            BootstrapTokenDiscovery { token: "abcdef".into(), ..ok.clone() },
            BootstrapTokenDiscovery { api_server_endpoint: "127.9.255.1".into(), ..ok.clone() },
        ] {
            assert_eq!(check(&wrong).unwrap_err().reason, Reason::KubeadmConfig);
        }
    }
}
