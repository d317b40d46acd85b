//! The kubeconfig entries for a cluster. This module doesn't perform I/O.

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

/// The name of the extension that records an entry's cluster.
const EXTENSION: &str = "layercake";

/// The server and the credentials for a cluster. Certificates and keys are base64, as in a kubeconfig.
#[derive(Clone, PartialEq, Eq)]
pub struct Access {
    server: String,
    authority: String,
    certificate: String,
    key: String,
}

/// The cluster that owns a set of entries: the entry names, and the mark that identifies the entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    mark: String,
    cluster: String,
    user: String,
    context: String,
}

impl Access {
    /// Parses a kubeconfig that Cluster API has written.
    ///
    /// # Errors
    /// Returns an error if the kubeconfig contains more than an HTTPS address, certificates and a key. Otherwise,
    /// anyone who can write Secrets could make the user's kubectl run a program, or send a file to a server.
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
    /// Returns the owner for a workload cluster.
    pub fn cluster(namespace: &str, name: &str) -> Self {
        Self {
            mark: format!("{namespace}/{name}"),
            cluster: name.to_owned(),
            user: format!("{name}-admin"),
            context: format!("{name}-admin@{name}"),
        }
    }

    /// Returns the owner for a bootstrap cluster.
    pub fn bootstrap(name: &str) -> Self {
        let entry = format!("layercake-{name}");
        // The mark can't equal a workload cluster's mark, because a namespace can't contain a space.
        Self {
            mark: format!("bootstrap cluster {name}"),
            cluster: entry.clone(),
            user: entry.clone(),
            context: entry,
        }
    }

    pub fn context(&self) -> &str {
        &self.context
    }

    /// Returns the kubeconfig list, the member with the content, and the name of each entry.
    fn names(&self) -> [(&'static str, &'static str, &str); 3] {
        [
            ("clusters", "cluster", &self.cluster),
            ("users", "user", &self.user),
            ("contexts", "context", &self.context),
        ]
    }

    /// Returns the entries, each with its list.
    fn entries(&self, access: &Access) -> Vec<(&'static str, Value)> {
        let extensions = json!([{ "name": EXTENSION, "extension": { "cluster": self.mark } }]);
        let cluster = json!({
            "server": access.server, "certificate-authority-data": access.authority, "extensions": extensions,
        });
        let certificates = json!({
            "client-certificate-data": access.certificate, "client-key-data": access.key, "extensions": extensions,
        });
        let context = json!({ "cluster": self.cluster, "user": self.user, "extensions": extensions });
        let contents = self.names().into_iter().zip([cluster, certificates, context]);
        let entries =
            contents.map(|((list, member, name), content)| (list, json!({ "name": name, member: content })));
        entries.collect()
    }

    /// Returns a kubeconfig that only contains this cluster.
    pub fn alone(&self, access: &Access) -> Value {
        let mut config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": self.context(),
            "clusters": [], "users": [], "contexts": [],
        });
        for (list, entry) in self.entries(access) {
            config[list] = json!([entry]);
        }
        config
    }

    /// Adds the entries to a kubeconfig. Other entries and the current context stay.
    ///
    /// # Errors
    /// Returns an error if an entry under one of the names belongs to another cluster. The error names the entry and
    /// that cluster.
    pub fn merge(&self, access: &Access, config: &mut Value) -> Result<(), String> {
        for (list, member, name) in self.names() {
            let found = config[list].as_array().into_iter().flatten().find(|entry| entry["name"] == *name);
            let Some(found) = found else { continue };
            let mark = mark_of(&found[member]);
            if mark != Some(&self.mark) {
                return Err(format!("{member} {name} exists, and is for {}", shown(mark)));
            }
        }
        for (list, entry) in self.entries(access) {
            if !config[list].is_array() {
                config[list] = json!([]);
            }
            let all = config[list].as_array_mut().into_iter().flatten();
            match all.into_iter().find(|old| old["name"] == entry["name"]) {
                Some(old) => {
                    let kept = Kept::of(old);
                    *old = entry;
                    kept.put(old);
                }
                None => config[list].as_array_mut().into_iter().for_each(|all| all.push(entry.clone())),
            }
        }
        Ok(())
    }

    /// Makes this cluster's context current, and records the former context.
    pub fn make_current(&self, config: &mut Value) {
        let former = config["current-context"].as_str().unwrap_or_default().to_owned();
        if former == self.context {
            return;
        }
        if let Some(own) = self.own_context(config) {
            Kept { former: Some(former), ..Kept::of(own) }.put(own);
        }
        config["current-context"] = self.context.clone().into();
    }

    /// Restores the context that was current before this cluster's context, and returns its name. Returns `None` if
    /// this cluster's context isn't current, or if the former context no longer exists.
    pub fn restore_former(&self, config: &mut Value) -> Option<String> {
        if config["current-context"] != *self.context {
            return None;
        }
        let former = Kept::of(self.own_context(config)?).former?;
        let exists = config["contexts"].as_array()?.iter().any(|context| context["name"] == *former);
        exists.then(|| {
            config["current-context"] = former.clone().into();
            former
        })
    }

    fn own_context<'a>(&self, config: &'a mut Value) -> Option<&'a mut Value> {
        let contexts = config["contexts"].as_array_mut()?;
        contexts
            .iter_mut()
            .find(|entry| entry["name"] == *self.context && mark_of(&entry["context"]) == Some(&self.mark))
    }

    /// Removes the entries from a kubeconfig, and restores the former context. Other clusters' entries stay, even under
    /// the same names.
    ///
    /// Returns true if an entry was removed.
    pub fn remove(&self, config: &mut Value) -> bool {
        self.restore_former(config);
        let mut removed = false;
        for (list, member, name) in self.names() {
            let Some(all) = config[list].as_array_mut() else { continue };
            let before = all.len();
            all.retain(|entry| entry["name"] != *name || mark_of(&entry[member]) != Some(&self.mark));
            removed |= all.len() < before;
        }
        if removed && config["current-context"] == *self.context {
            config["current-context"] = "".into();
        }
        removed
    }
}

/// The parts of a context that stay when its entry is replaced.
struct Kept {
    /// The namespace that the user has set.
    namespace: Option<String>,
    /// The context that was current before this context.
    former: Option<String>,
}

impl Kept {
    fn of(entry: &Value) -> Self {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        let context = &entry["context"];
        Self {
            namespace: text(context.get("namespace")),
            former: text(extension_of(context).and_then(|own| own.get("former"))),
        }
    }

    fn put(self, entry: &mut Value) {
        let Some(context) = entry.get_mut("context") else { return };
        if let Some(namespace) = self.namespace {
            context["namespace"] = namespace.into();
        }
        let mut all = context["extensions"].as_array_mut().into_iter().flatten();
        let own = all.find(|extension| extension["name"] == EXTENSION);
        if let (Some(own), Some(former)) = (own, self.former) {
            own["extension"]["former"] = former.into();
        }
    }
}

/// Returns the mark of an entry, or `None` if Layercake hasn't written the entry.
fn mark_of(content: &Value) -> Option<&str> {
    extension_of(content)?["cluster"].as_str()
}

fn extension_of(content: &Value) -> Option<&Value> {
    let mut all = content["extensions"].as_array().into_iter().flatten();
    all.find(|extension| extension["name"] == EXTENSION)?.get("extension")
}

fn shown(mark: Option<&str>) -> String {
    match mark {
        None => "another cluster".to_owned(),
        Some(mark) if mark.contains('/') => format!("cluster {mark}"),
        Some(mark) => mark.to_owned(),
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
        Owner::cluster(namespace, "team")
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
    fn the_context_before_a_bootstrap_cluster_is_current_again_after_it() {
        let access = Access::read(TEXT).unwrap();
        let mut config: Value = serde_saphyr::from_str(TEXT).unwrap();
        let lab = Owner::bootstrap("lab");
        let start = |config: &mut Value| {
            lab.merge(&access, config).unwrap();
            lab.make_current(config);
        };
        start(&mut config);
        config["contexts"][1]["context"]["namespace"] = "dev".into();
        assert_eq!(lab.restore_former(&mut config).as_deref(), Some("team-admin@team"));
        assert_eq!(lab.restore_former(&mut config), None, "the user chose another one");
        start(&mut config);
        start(&mut config);
        assert_eq!(config["current-context"], "layercake-lab");
        assert_eq!(config["contexts"][1]["context"]["namespace"], "dev", "it is the user's");
        assert!(lab.remove(&mut config));
        assert_eq!(config["current-context"], "team-admin@team");
        start(&mut config);
        config["contexts"][0]["name"] = "renamed".into();
        assert!(lab.remove(&mut config));
        assert_eq!(config["current-context"], "", "the former one does not exist any more");
    }

    #[test]
    fn a_secret_cannot_make_kubectl_run_or_send_anything() {
        const KEY: &str = "client-key-data: S0VZ";
        const AUTHORITY: &str = "certificate-authority-data: Q0E=";
        let cases = [
            (KEY, "exec: {command: sh}", "users has exec"),
            (KEY, "client-key: /home/ann/.ssh/id", "users has client-key"),
            (KEY, "client-key-data: S0VZ, auth-provider: {}", "users has auth-provider"),
            (AUTHORITY, "insecure-skip-tls-verify: true", "clusters has insecure-skip-tls-verify"),
            (AUTHORITY, "certificate-authority-data: Q0E=, proxy-url: 'http://x'", "clusters has proxy-url"),
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
    #[test]
    fn a_bootstrap_cluster_comes_and_goes() {
        let access = Access::read(TEXT).unwrap();
        let mut config = json!({});
        owner("dev").merge(&access, &mut config).unwrap();
        let before = config.clone();
        let lab = Owner::bootstrap("lab");
        lab.merge(&access, &mut config).unwrap();
        lab.make_current(&mut config);
        assert_eq!(config["current-context"], "layercake-lab");
        let taken = Owner::cluster("dev", "layercake-lab").merge(&access, &mut config).unwrap_err();
        assert_eq!(taken, "cluster layercake-lab exists, and is for bootstrap cluster lab");
        assert!(!Owner::bootstrap("other").remove(&mut config));
        assert!(lab.remove(&mut config));
        assert_eq!(config["current-context"], "");
        assert!(!owner("prod").remove(&mut config), "an entry of another cluster stays");
        for list in ["clusters", "users", "contexts"] {
            assert_eq!(config[list], before[list]);
        }
    }
}
