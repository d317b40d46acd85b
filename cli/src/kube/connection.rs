//! Connects to the cluster of a kubeconfig context.

use std::path::Path;

use anyhow::{Context, Result};
use k8s_openapi::NamespaceResourceScope;
use kit::api_error::is_not_served;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ObjectList};
use kube::client::ClientBuilder;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Resource};

use crate::args::ClusterFlags;
use crate::kube::reach::ReachedServer;
use crate::kube::warnings::Warnings;
use crate::terminal::exit::ExitStatus;

impl ClusterFlags {
    /// Connects to the cluster that the flags select.
    ///
    /// # Errors
    /// See [`client`].
    pub async fn client(&self) -> Result<Client> {
        client(self.kubeconfig.as_deref(), self.context.as_deref()).await
    }
}

/// Connects to the cluster of a kubeconfig file and context. Both default to kubectl's choice. Prints the API server's
/// warnings.
///
/// # Errors
/// Returns an error if the file can't be read or used. If the context doesn't exist, the error has
/// [`ExitStatus::Refused`].
pub async fn client(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<Client> {
    connect(kubeconfig, context, &Warnings::default()).await
}

/// Connects like [`client`], and also collects the warnings in `warnings`.
///
/// # Errors
/// See [`client`].
pub async fn connect(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
    warnings: &Warnings,
) -> Result<Client> {
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let file = read_kubeconfig(kubeconfig, context)?;
    let config = Config::from_custom_kubeconfig(file.clone(), &options).await.context(NO_CLUSTER)?;
    let server = ReachedServer::new(kubeconfig, &file, context, &config);
    Ok(ClientBuilder::try_from(config)?.with_layer(&server).with_layer(warnings).build())
}

const NO_CLUSTER: &str = "no cluster: set KUBECONFIG or pass --kubeconfig";

/// Reads a kubeconfig file, by default kubectl's choice. `context` becomes its current context.
///
/// # Errors
/// See [`client`].
pub fn read_kubeconfig(path: Option<&Path>, context: Option<&str>) -> Result<Kubeconfig> {
    let mut file = match path {
        Some(path) => {
            Kubeconfig::read_from(path).with_context(|| format!("cannot read {}", path.display()))?
        }
        None => Kubeconfig::read().context(NO_CLUSTER)?,
    };
    check_context(&file, context)?;
    if let Some(context) = context {
        file.current_context = Some(context.to_owned());
    }
    Ok(file)
}

/// The group, version, kind and plural of a kind that has no Rust type.
pub type KindName<'a> = (&'a str, &'a str, &'a str, &'a str);

/// The Cluster kind of Cluster API.
pub const CLUSTER: KindName = ("cluster.x-k8s.io", "v1beta2", "Cluster", "clusters");

/// Returns the API for a kind, in one namespace or in all.
pub fn api_in<K>(client: &Client, namespace: Option<&str>) -> Api<K>
where
    K: Resource<Scope = NamespaceResourceScope>,
    K::DynamicType: Default,
{
    match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}

/// Returns the API for a kind without a Rust type, in one namespace or in all. `namespace` must be `None` for a
/// cluster-scoped kind.
pub fn dynamic_api_in(client: &Client, kind: KindName<'_>, namespace: Option<&str>) -> Api<DynamicObject> {
    let (group, version, kind, plural) = kind;
    let kind = GroupVersionKind::gvk(group, version, kind);
    let resource = ApiResource::from_gvk_with_plural(&kind, plural);
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

/// Returns the items of a list. If the kind isn't served, the list is empty.
pub fn served<K: Clone>(list: kube::Result<ObjectList<K>>) -> kube::Result<Vec<K>> {
    match list {
        Err(error) if is_not_served(&error) => Ok(Vec::new()),
        list => list.map(|list| list.items),
    }
}

/// Returns the error for a command whose kinds the API server doesn't serve. `lack` completes the sentence "the API
/// server …", such as `does not serve Machine objects`.
pub fn not_served(lack: &str) -> anyhow::Error {
    anyhow::anyhow!(
        "the API server {lack}. Install the kinds with layercake init (docs/install.md), or use the kubeconfig of a management cluster"
    )
}

/// Checks that `context` exists, or the current context if `context` is `None`. The error lists the existing contexts.
fn check_context(file: &Kubeconfig, context: Option<&str>) -> Result<()> {
    let current = file.current_context.as_deref().filter(|name| !name.is_empty());
    let names: Vec<_> = file.contexts.iter().map(|known| known.name.as_str()).collect();
    let missing = match (context, current) {
        (None, None) => "the kubeconfig has no current context".to_owned(),
        (Some(wanted), _) | (None, Some(wanted)) if names.contains(&wanted) => return Ok(()),
        (Some(wanted), _) => format!("context {wanted} does not exist"),
        (None, Some(wanted)) => format!("the current context {wanted} does not exist"),
    };
    Err(ExitStatus::Refused.error(match names.as_slice() {
        [] => format!("{missing}, and the kubeconfig has no contexts. Set KUBECONFIG or pass --kubeconfig"),
        names => format!("{missing}. Pass one with --context: {}", names.join(", ")),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::exit::status_of_error;

    #[test]
    fn an_unknown_context_is_refused_with_those_that_exist() {
        let text = "contexts: [{name: lab, context: {cluster: lab}}, {name: prod, context: {cluster: prod}}]";
        let file = Kubeconfig::from_yaml(text).unwrap();
        assert!(check_context(&file, Some("prod")).is_ok());
        let error = check_context(&file, Some("dev")).unwrap_err();
        assert_eq!(error.to_string(), "context dev does not exist. Pass one with --context: lab, prod");
        assert_eq!(status_of_error(&error), ExitStatus::Refused);
        let error = check_context(&file, None).unwrap_err().to_string();
        assert_eq!(error, "the kubeconfig has no current context. Pass one with --context: lab, prod");
        let stale = Kubeconfig { current_context: Some("gone".to_owned()), ..file.clone() };
        let error = check_context(&stale, None).unwrap_err().to_string();
        assert!(error.starts_with("the current context gone does not exist. "), "{error}");
        assert!(check_context(&Kubeconfig { current_context: Some("lab".to_owned()), ..file }, None).is_ok());
        let error = check_context(&Kubeconfig::default(), None).unwrap_err().to_string();
        assert!(
            error.ends_with("the kubeconfig has no contexts. Set KUBECONFIG or pass --kubeconfig"),
            "{error}"
        );
    }
}
