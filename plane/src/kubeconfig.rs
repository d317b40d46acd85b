//! Renders kubeconfigs. They hold credentials, so callers write them to files that only the owner can read.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pki::Pair;

/// The API server that a kubeconfig refers to.
#[derive(Debug, Clone)]
pub struct KubeconfigServer {
    pub url: String,
    /// The CA that signed the server's certificate, in PEM.
    pub authority: String,
}

impl KubeconfigServer {
    /// Returns a kubeconfig for a user with a client certificate.
    pub fn for_certificate(&self, user: &str, pair: &Pair) -> String {
        let certificate = STANDARD.encode(&pair.certificate);
        let key = STANDARD.encode(&*pair.key);
        self.render(user, &format!("client-certificate-data: {certificate}\n    client-key-data: {key}"))
    }

    /// Returns a kubeconfig for a user with a token.
    pub fn for_token(&self, user: &str, token: &str) -> String {
        self.render(user, &format!("token: {token}"))
    }

    fn render(&self, user: &str, credentials: &str) -> String {
        let Self { url, authority } = self;
        let authority = STANDARD.encode(authority);
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: layercake\n\
             clusters:\n- name: layercake\n  cluster:\n    server: {url}\n    certificate-authority-data: {authority}\n\
             users:\n- name: {user}\n  user:\n    {credentials}\n\
             contexts:\n- name: layercake\n  context:\n    cluster: layercake\n    user: {user}\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubeconfig_reads_as_one() {
        let server =
            KubeconfigServer { url: "https://127.0.0.1:6443".to_owned(), authority: "PEM".to_owned() };
        insta::assert_snapshot!(server.for_token("gcm", "secret"));
        let kubeconfig: kube::config::Kubeconfig =
            kube::config::Kubeconfig::from_yaml(&server.for_token("gcm", "secret")).unwrap();
        assert_eq!(kubeconfig.current_context.as_deref(), Some("layercake"));
    }
}
