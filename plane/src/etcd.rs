//! The etcd command, with one member that only accepts clients with a certificate from the stack's own CA.
//!
//! Otherwise, every user of the machine could read the clusters' keys from a loopback port.

use std::path::Path;

use kube::Client;

use crate::certs::write_pair;
use crate::cluster::{self, Authorities};
use crate::error::Result;
use crate::kubeconfig::KubeconfigServer;
use crate::process::Command;
use crate::stack::StackIdentity;

/// Returns the etcd command, with its data in the stack's folder. `client` and `peer` are its ports for clients and peers.
pub(crate) fn command(
    stack: &StackIdentity,
    exe: &Path,
    authorities: &Authorities,
    client: u16,
    peer: u16,
) -> Result<Command> {
    let pki = stack.subfolder("pki")?;
    write_pair(&pki, "etcd", &authorities.etcd.peer("etcd")?)?;
    // etcd's heap is small, so more garbage costs little memory.
    let command = Command::new(stack, "etcd", exe)?.gogc(100).args(args(
        stack.folder(),
        &pki,
        stack.is_ephemeral(),
        client,
        peer,
    ));
    Ok(command)
}

/// Returns an HTTP client for the gateway on `port`, which serves etcd's API as JSON.
pub(crate) async fn client(authorities: &Authorities, port: u16) -> Result<Client> {
    let server = KubeconfigServer {
        url: format!("https://127.0.0.1:{port}"),
        authority: authorities.etcd.certificate().to_owned(),
    };
    let pair = authorities.etcd.client("layercake-admin", None)?;
    cluster::client(&server.for_certificate("layercake-admin", &pair)).await
}

fn args(folder: &Path, pki: &Path, is_ephemeral: bool, client: u16, peer: u16) -> Vec<String> {
    let file = |name: &str| pki.join(name).display().to_string();
    let mut args = vec![
        "--name=default".to_owned(),
        format!("--data-dir={}", folder.join("etcd").display()),
        format!("--listen-client-urls=https://127.0.0.1:{client}"),
        format!("--advertise-client-urls=https://127.0.0.1:{client}"),
        format!("--listen-peer-urls=https://127.0.0.1:{peer}"),
        format!("--initial-advertise-peer-urls=https://127.0.0.1:{peer}"),
        format!("--initial-cluster=default=https://127.0.0.1:{peer}"),
        "--client-cert-auth=true".to_owned(),
        format!("--trusted-ca-file={}", file("etcd-ca.crt")),
        format!("--cert-file={}", file("etcd.crt")),
        format!("--key-file={}", file("etcd.key")),
        "--peer-client-cert-auth=true".to_owned(),
        format!("--peer-trusted-ca-file={}", file("etcd-ca.crt")),
        format!("--peer-cert-file={}", file("etcd.crt")),
        format!("--peer-key-file={}", file("etcd.key")),
        // By default, etcd keeps the last 5000 writes in memory for members that fall behind. This etcd has one member.
        "--snapshot-catchup-entries=100".to_owned(),
        "--log-level=warn".to_owned(),
    ];
    if is_ephemeral {
        // Ephemeral data needn't survive a power failure.
        args.push("--unsafe-no-fsync".to_owned());
    }
    args
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_ephemeral_stack_goes_without_fsync() {
        let args = |is_ephemeral| args(Path::new("/d"), Path::new("/d/pki"), is_ephemeral, 1, 2);
        insta::assert_debug_snapshot!(args(false));
        assert_eq!(args(true).last().map(String::as_str), Some("--unsafe-no-fsync"));
    }
}
