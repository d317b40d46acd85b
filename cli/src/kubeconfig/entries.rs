//! The entries of a cluster in a kubeconfig. Pure.

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

/// The name of our extension, which says which cluster an entry is for.
const EXTENSION: &str = "layercake";

/// A user's way to a cluster: the certificates are base64, as in a kubeconfig.
#[derive(Clone, PartialEq, Eq)]
pub struct Access {
    server: String,
    authority: String,
    certificate: String,
    key: String,
}

/// The cluster of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The namespace of the cluster.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Access {
    /// Reads the kubeconfig that Cluster API writes.
    ///
    /// # Errors
    /// If it has more than the address and certificates: whoever can write Secrets could have the user's kubectl run a program, or
    /// send a file to a server.
    pub fn read(text: &str) -> Result<Self> {
        let config: Value = serde_saphyr::from_str(text).context("it is not YAML")?;
        let only = |list: &str, entry: &str, fields: [&str; 2]| -> Result<[String; 2]> {
            let [one] = config[list].as_array().map(Vec::as_slice).unwrap_or_default() else {
                bail!("{list} must have one entry");
            };
            let members = one[entry].as_object().with_context(|| format!("{list} has no {entry}"))?;
            if let Some(other) = members.keys().find(|name| !fields.contains(&name.as_str())) {
                bail!("{list} has {other}, which the kubeconfig of a new cluster does not have");
            }
            let text = |field: &str| {
                let value = members.get(field).and_then(Value::as_str).filter(|value| !value.is_empty());
                value.map(str::to_owned).with_context(|| format!("{list} has no {field}"))
            };
            Ok([text(fields[0])?, text(fields[1])?])
        };
        let [server, authority] = only("clusters", "cluster", ["server", "certificate-authority-data"])?;
        ensure!(server.starts_with("https://"), "server {server} is no https address");
        let [certificate, key] = only("users", "user", ["client-certificate-data", "client-key-data"])?;
        Ok(Self { server, authority, certificate, key })
    }
}

impl Owner {
    /// The name of the context.
    pub fn context(&self) -> String {
        format!("{name}-admin@{name}", name = self.name)
    }

    fn mark(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// The entries: list, member, name and content.
    fn entries(&self, access: &Access) -> [(&'static str, &'static str, String, Value); 3] {
        let user = format!("{}-admin", self.name);
        let extensions = json!([{ "name": EXTENSION, "extension": { "cluster": self.mark() } }]);
        let cluster = json!({
            "server": access.server, "certificate-authority-data": access.authority, "extensions": extensions,
        });
        let certificates = json!({
            "client-certificate-data": access.certificate, "client-key-data": access.key, "extensions": extensions,
        });
        let context = json!({ "cluster": self.name, "user": user, "extensions": extensions });
        [
            ("clusters", "cluster", self.name.clone(), cluster),
            ("users", "user", user, certificates),
            ("contexts", "context", self.context(), context),
        ]
    }

    /// A kubeconfig of this cluster alone.
    pub fn alone(&self, access: &Access) -> Value {
        let mut config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": self.context(),
            "clusters": [], "users": [], "contexts": [],
        });
        for (list, member, name, content) in self.entries(access) {
            config[list] = json!([{ "name": name, member: content }]);
        }
        config
    }

    /// Puts the entries into a kubeconfig. Everything else in it stays as it is, also the current context.
    ///
    /// # Errors
    /// If an entry of this name is for another cluster; the text names both.
    pub fn merge(&self, access: &Access, config: &mut Value) -> Result<(), String> {
        let entries = self.entries(access);
        for (list, member, name, _) in &entries {
            let found = config[*list].as_array().into_iter().flatten().find(|entry| entry["name"] == **name);
            let Some(found) = found else { continue };
            let mut ours = found[*member]["extensions"].as_array().into_iter().flatten();
            let mark = ours.find(|extension| extension["name"] == EXTENSION);
            let mark = mark.and_then(|mark| mark["extension"]["cluster"].as_str());
            if mark != Some(&self.mark()) {
                let other =
                    mark.map_or_else(|| "another cluster".to_owned(), |mark| format!("cluster {mark}"));
                return Err(format!("{member} {name} exists, and is for {other}"));
            }
        }
        for (list, member, name, content) in entries {
            let entry = json!({ "name": name, member: content });
            if !config[list].is_array() {
                config[list] = json!([]);
            }
            let all = config[list].as_array_mut().into_iter().flatten();
            match all.into_iter().find(|old| old["name"] == entry["name"]) {
                Some(old) => *old = entry,
                None => config[list].as_array_mut().into_iter().for_each(|all| all.push(entry.clone())),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "
apiVersion: v1
kind: Config
clusters: [{name: team, cluster: {server: 'https://10.20.0.10:6443', certificate-authority-data: Q0E=}}]
users: [{name: team-admin, user: {client-certificate-data: Q0VSVA==, client-key-data: S0VZ}}]
contexts: [{name: team-admin@team, context: {cluster: team, user: team-admin}}]
current-context: team-admin@team
";

    fn owner(namespace: &str) -> Owner {
        Owner { namespace: namespace.to_owned(), name: "team".to_owned() }
    }

    #[test]
    fn a_kubeconfig_has_the_cluster_and_its_context() {
        let alone = owner("dev").alone(&Access::read(TEXT).unwrap());
        assert_eq!(alone["current-context"], "team-admin@team");
        assert_eq!(alone["clusters"][0]["cluster"]["server"], "https://10.20.0.10:6443");
        assert_eq!(alone["users"][0]["user"]["client-key-data"], "S0VZ");
        assert_eq!(alone["contexts"][0]["context"]["user"], "team-admin");
    }

    #[test]
    fn a_secret_cannot_make_kubectl_run_or_send_anything() {
        let cases = [
            ("client-key-data: S0VZ", "exec: {command: sh}", "users has exec"),
            ("client-key-data: S0VZ", "client-key: /home/ann/.ssh/id", "users has client-key"),
            ("client-key-data: S0VZ", "client-key-data: S0VZ, auth-provider: {}", "users has auth-provider"),
            (
                "certificate-authority-data: Q0E=",
                "insecure-skip-tls-verify: true",
                "clusters has insecure-skip-tls-verify",
            ),
            (
                "certificate-authority-data: Q0E=",
                "certificate-authority-data: Q0E=, proxy-url: 'http://x'",
                "clusters has proxy-url",
            ),
            ("https://", "http://", "is no https address"),
            ("Q0VSVA==", "''", "users has no client-certificate-data"),
            ("users: [", "users: [{name: x, user: {}}, ", "users must have one entry"),
            ("users: [", "users: [[", "it is not YAML"),
        ];
        for (from, to, reason) in cases {
            let error = Access::read(&TEXT.replace(from, to)).err().map(|error| error.to_string());
            assert!(error.as_ref().is_some_and(|error| error.contains(reason)), "{to}: {error:?}");
        }
    }

    #[test]
    fn other_entries_stay_as_they_are() {
        let access = Access::read(TEXT).unwrap();
        let before: Value = serde_saphyr::from_str(
            "
current-context: home
preferences: {colors: true}
clusters: [{name: home, cluster: {server: 'https://h', tls-server-name: h}}]
users: [{name: ann, user: {exec: {command: login, apiVersion: client.authentication.k8s.io/v1}}}]
contexts: [{name: home, context: {cluster: home, user: ann, namespace: x}}]
",
        )
        .unwrap();
        let mut config = before.clone();
        owner("dev").merge(&access, &mut config).unwrap();
        let once = config.clone();
        for list in ["clusters", "users", "contexts"] {
            assert_eq!(config[list][0], before[list][0]);
            assert_eq!(config[list].as_array().unwrap().len(), 2);
        }
        assert_eq!(config["current-context"], "home");
        assert_eq!(config["preferences"], before["preferences"]);
        // The cluster was created again: its entries are replaced.
        let renewed = Access::read(&TEXT.replace("S0VZ", "TkVX")).unwrap();
        owner("dev").merge(&renewed, &mut config).unwrap();
        assert_eq!(config["users"].as_array().unwrap().len(), 2);
        assert_eq!(config["users"][1]["user"]["client-key-data"], "TkVX");
        owner("dev").merge(&access, &mut config).unwrap();
        assert_eq!(config, once);
    }

    #[test]
    fn an_entry_of_another_cluster_is_not_replaced() {
        let access = Access::read(TEXT).unwrap();
        let mut config = json!({});
        owner("dev").merge(&access, &mut config).unwrap();
        let before = config.clone();
        let refused = owner("prod").merge(&access, &mut config).unwrap_err();
        assert_eq!(refused, "cluster team exists, and is for cluster dev/team");
        assert_eq!(config, before);
        let mut config = json!({ "users": [{ "name": "team-admin", "user": { "token": "x" } }] });
        let refused = owner("dev").merge(&access, &mut config).unwrap_err();
        assert_eq!(refused, "user team-admin exists, and is for another cluster");
    }
}
