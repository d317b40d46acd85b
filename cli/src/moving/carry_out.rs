//! Carries out a move's steps.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use api::names::annotation;
use k8s_openapi::api::core::v1::Namespace;
use kit::api_error::is_gone;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use kube::config::Kubeconfig;
use kube::{Api, Client};
use plane::process::{Command, tail};
use plane::stack::write_private;
use plane::tools::{self, CLUSTERCTL};
use plane::{Guard, StackIdentity};
use serde_json::{Value, json};

use super::facts::MovedKey;
use super::gather::{MovedKind, ORIGIN};
use crate::kube::connection::{CLUSTER, dynamic_api_in};

/// The management cluster from which or to which clusters move.
pub struct MoveSide {
    pub client: Client,
    pub kubeconfig: Kubeconfig,
}

/// clusterctl, with both kubeconfigs. If this process is killed, the guard ends clusterctl and removes the kubeconfigs.
pub struct Clusterctl {
    program: PathBuf,
    stack: StackIdentity,
    guard: Guard,
}

impl Clusterctl {
    /// Finds or builds clusterctl, and writes the kubeconfigs.
    pub async fn prepare(from: &MoveSide, to: &MoveSide) -> Result<Self> {
        let find = || tools::ensure_one(&CLUSTERCTL, &tools::Options::default(), &*tools::progress());
        let program = tokio::task::spawn_blocking(find).await.context("cannot find clusterctl")??;
        let stack = StackIdentity::ephemeral()?;
        let exe = std::env::current_exe().context("cannot find the path of this program")?;
        let guard = Guard::start(&exe, &stack)?;
        for (name, side) in [("from", from), ("to", to)] {
            let text = serde_saphyr::to_string(&side.kubeconfig).context("cannot write YAML")?;
            write_private(&stack.folder().join(name), text.as_bytes())?;
        }
        Ok(Self { program, stack, guard })
    }

    /// Moves a namespace's clusters. The error contains clusterctl's last message.
    pub async fn run(&self, namespace: &str) -> Result<()> {
        let folder = self.stack.folder();
        let path = |name: &str| folder.join(name).into_os_string();
        let command = Command::new(&self.stack, "clusterctl", &self.program)?
            .args(["move", "--namespace", namespace, "--kubeconfig"])
            .arg(path("from"))
            .arg("--to-kubeconfig")
            .arg(path("to"))
            .env("CLUSTERCTL_DISABLE_VERSIONCHECK", "true")
            .env("HOME", folder)
            .env("XDG_CONFIG_HOME", folder);
        let process = command.spawn()?;
        if process.wait().await.success() {
            return Ok(());
        }
        let text = tail(process.log(), process.log_from(), 5);
        let error = text.lines().rev().find(|line| line.starts_with("Error")).unwrap_or(text.trim());
        bail!("clusterctl move of namespace {namespace}: {}", error.trim_start_matches("Error: "))
    }

    /// Removes the kubeconfigs.
    pub async fn close(self) -> Result<()> {
        tokio::task::spawn_blocking(move || self.guard.finish()).await.context("cannot clean up")??;
        Ok(())
    }
}

/// Removes objects without any effect on vCenter, like clusterctl: marks all of them first, so that
/// the controllers leave them alone, then deletes them and drops their finalizers.
pub async fn remove(
    client: &Client,
    kinds: &BTreeMap<String, MovedKind>,
    namespace: &str,
    objects: &BTreeSet<MovedKey>,
) -> Result<()> {
    let of_crds: Vec<_> = objects.iter().filter_map(|key| Some((key, kinds.get(&key.kind)?))).collect();
    let api = |kind: &MovedKind| -> Api<DynamicObject> {
        Api::namespaced_with(client.clone(), namespace, &kind.resource)
    };
    let mark = json!({"metadata": {"annotations": {annotation::DELETE_FOR_MOVE: ""}}});
    for (key, kind) in &of_crds {
        merge(&api(kind), key, &mark).await?;
    }
    for (key, kind) in &of_crds {
        match api(kind).delete(&key.name, &DeleteParams::background()).await {
            Err(error) if is_gone(&error) => {}
            deleted => drop(deleted.with_context(|| format!("cannot delete {key} in {namespace}"))?),
        }
    }
    for (key, kind) in &of_crds {
        merge(&api(kind), key, &json!({"metadata": {"finalizers": null}})).await?;
    }
    Ok(())
}

/// Patches an object. Ignores an object that doesn't exist.
async fn merge(api: &Api<DynamicObject>, key: &MovedKey, patch: &Value) -> Result<()> {
    match api.patch(&key.name, &PatchParams::default(), &Patch::Merge(patch)).await {
        Err(error) if is_gone(&error) => Ok(()),
        patched => patched.map(drop).with_context(|| format!("cannot change {key}")),
    }
}

/// Records in the target's namespace from which management cluster its copies come.
pub async fn note_origin(client: &Client, namespace: &str, source: &str) -> Result<()> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let patch = json!({"metadata": {"annotations": {ORIGIN: source}}});
    let patched = namespaces.patch_metadata(namespace, &PatchParams::default(), &Patch::Merge(patch)).await;
    patched.map(drop).with_context(|| format!("cannot change namespace {namespace} of the target"))
}

/// Lets Cluster API reconcile these Clusters again.
pub async fn resume<'a>(
    client: &Client,
    namespace: &str,
    clusters: impl IntoIterator<Item = &'a String>,
) -> Result<()> {
    let api = dynamic_api_in(client, CLUSTER, Some(namespace));
    for name in clusters {
        let key = MovedKey { kind: CLUSTER.2.to_owned(), name: name.clone() };
        merge(&api, &key, &json!({"spec": {"paused": false}})).await?;
    }
    Ok(())
}
