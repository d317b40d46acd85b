//! The kube-apiserver command. The API server uses RBAC, and listens only on loopback.

use std::path::Path;

use serde_json::{Value, json};

use crate::certs::{signing_key, write_pair};
use crate::cluster::Authorities;
use crate::error::Result;
use crate::process::Command;
use crate::stack::{StackIdentity, write_private};

const ADMISSION: &str = "admission.json";
const WEBHOOK_CLIENTS: &str = "webhook-clients.json";

/// Returns the kube-apiserver command for port `port`. It stores its data in the etcd on port `etcd`. If `services` is
/// given, the API server reaches Services through the HTTP proxy on this Unix socket.
pub(crate) fn command(
    stack: &StackIdentity,
    exe: &Path,
    authorities: &Authorities,
    port: u16,
    etcd: u16,
    services: Option<&Path>,
) -> Result<Command> {
    let pki = stack.subfolder("pki")?;
    write_pair(&pki, "apiserver", &authorities.serving.server("kube-apiserver")?)?;
    write_pair(&pki, "apiserver-etcd", &authorities.etcd.client("kube-apiserver", None)?)?;
    write_pair(&pki, "apiserver-webhooks", &authorities.webhooks.client("kube-apiserver", None)?)?;
    write_private(&pki.join(WEBHOOK_CLIENTS), webhook_clients(&pki).to_string().as_bytes())?;
    write_private(&pki.join(ADMISSION), admission(&pki).to_string().as_bytes())?;
    signing_key(&pki, "accounts")?;
    let mut args = args(&pki, port, etcd);
    if let Some(socket) = services {
        let file = pki.join("egress.json");
        let way = json!({ "proxyProtocol": "HTTPConnect", "transport": { "uds": { "udsName": socket } } });
        let configuration = json!({
            "apiVersion": "apiserver.k8s.io/v1beta1", "kind": "EgressSelectorConfiguration",
            "egressSelections": [{ "name": "cluster", "connection": way }],
        });
        write_private(&file, configuration.to_string().as_bytes())?;
        args.push(format!("--egress-selector-config-file={}", file.display()));
    }
    // kube-apiserver uses half of a stack's CPU time, so it collects garbage less often than the other Go programs. With 100, a
    // start needs a quarter less CPU time, and the API server 100 MiB more.
    Ok(Command::new(stack, "kube-apiserver", exe)?.gogc(50).args(args))
}

/// Returns the kubeconfig for webhook calls. It contains the client certificate that the API server presents to all
/// webhook servers.
fn webhook_clients(pki: &Path) -> Value {
    let user = json!({
        "client-certificate": pki.join("apiserver-webhooks.crt"),
        "client-key": pki.join("apiserver-webhooks.key"),
    });
    json!({ "apiVersion": "v1", "kind": "Config", "users": [{ "name": "*", "user": user }] })
}

/// Returns the admission configuration that refers to the webhook kubeconfig.
fn admission(pki: &Path) -> Value {
    let plugin = |name: &str| {
        let configuration = json!({
            "apiVersion": "apiserver.config.k8s.io/v1", "kind": "WebhookAdmissionConfiguration",
            "kubeConfigFile": pki.join(WEBHOOK_CLIENTS),
        });
        json!({ "name": name, "configuration": configuration })
    };
    json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration",
        "plugins": [plugin("MutatingAdmissionWebhook"), plugin("ValidatingAdmissionWebhook")],
    })
}

fn args(pki: &Path, port: u16, etcd: u16) -> Vec<String> {
    let file = |name: &str| pki.join(name).display().to_string();
    vec![
        format!("--etcd-servers=https://127.0.0.1:{etcd}"),
        format!("--etcd-cafile={}", file("etcd-ca.crt")),
        format!("--etcd-certfile={}", file("apiserver-etcd.crt")),
        format!("--etcd-keyfile={}", file("apiserver-etcd.key")),
        "--bind-address=127.0.0.1".to_owned(),
        "--advertise-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        format!("--tls-cert-file={}", file("apiserver.crt")),
        format!("--tls-private-key-file={}", file("apiserver.key")),
        format!("--client-ca-file={}", file("client-ca.crt")),
        "--anonymous-auth=false".to_owned(),
        format!("--admission-control-config-file={}", file(ADMISSION)),
        "--authorization-mode=RBAC".to_owned(),
        // The issuer doesn't include the port, so that a resumed stack's tokens stay valid if the port changes.
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local".to_owned(),
        format!("--service-account-key-file={}", file("accounts.pub")),
        format!("--service-account-signing-key-file={}", file("accounts.key")),
        "--service-cluster-ip-range=10.96.0.0/12".to_owned(),
        // Kubernetes refuses a loopback address in the endpoints of its own Service.
        "--endpoint-reconciler-type=none".to_owned(),
        "--allow-privileged=true".to_owned(),
        // CustomResourceDefinitions are large, and each is written three times when a stack starts. The watch cache
        // would keep every version.
        "--watch-cache-sizes=customresourcedefinitions.apiextensions.k8s.io#0".to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_is_private_and_strict() {
        insta::assert_debug_snapshot!(args(Path::new("/d/pki"), 1, 2));
        insta::assert_json_snapshot!([admission(Path::new("/d/pki")), webhook_clients(Path::new("/d/pki"))]);
    }
}
