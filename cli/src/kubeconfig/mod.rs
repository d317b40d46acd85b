//! `layercake kubeconfig`: prints a cluster's kubeconfig, or adds it to the user's kubeconfig file.

mod entries;
mod file;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Secret;
use kit::api_error::{is_gone, message, missing_right};
use kube::{Api, Client};

use crate::args::Kubeconfig;
use crate::files::owner_only;
use crate::kube::connection::{CLUSTER, dynamic_api_in};
use crate::terminal::exit::{ExitStatus, failed};
use crate::terminal::output::{say, write_out};
use entries::{Access, Owner};

/// Prints the kubeconfig, writes it to a file, or adds it to the user's kubeconfig file.
pub async fn run(args: Kubeconfig) -> ExitStatus {
    provide(&args).await.unwrap_or_else(|error| failed(&error))
}

async fn provide(args: &Kubeconfig) -> Result<ExitStatus> {
    args.target
        .with(async |target| {
            let (namespace, name) = (&target.namespace, &args.name);
            if args.merge {
                let path = users_file(args.target.cluster.kubeconfig.as_deref())?;
                let context = add_cluster(&target.client, namespace, name, &path).await?;
                say!("Context {context} is in {}. Use it with: kubectl --context {context}", path.display());
                return Ok(ExitStatus::Done);
            }
            let text = of_cluster(&target.client, namespace, name).await?;
            match &args.output_file {
                Some(path) => owner_only(path, text.as_bytes())?,
                None => write_out(&text),
            }
            Ok(ExitStatus::Done)
        })
        .await
}

/// Returns a kubeconfig that only contains this workload cluster.
///
/// # Errors
/// Returns an error if the cluster doesn't have a kubeconfig.
pub async fn of_cluster(client: &Client, namespace: &str, name: &str) -> Result<String> {
    let access = read(client, namespace, name).await?;
    serde_saphyr::to_string(&Owner::cluster(namespace, name).alone(&access)).context("cannot write YAML")
}

/// Returns the user's kubeconfig file, to which kubectl would add entries.
///
/// # Errors
/// Returns an error if there is no home folder, or if the file is read-only.
pub fn users_file(flag: Option<&Path>) -> Result<PathBuf> {
    let variable = std::env::var_os("KUBECONFIG");
    let path = file::writable(flag, variable.as_deref(), std::env::home_dir());
    let path = path.context("there is no home folder: pass --kubeconfig")?;
    if std::fs::metadata(&path).is_ok_and(|found| found.permissions().readonly()) {
        return Err(ExitStatus::Refused.error(format!(
            "{} is read-only. Nothing was changed. Make it writable, or pass another file with --kubeconfig",
            path.display()
        )));
    }
    Ok(path)
}

/// Adds a workload cluster to the user's file, and returns the context name.
///
/// # Errors
/// Returns an error if the cluster doesn't have a kubeconfig, or if the file has another cluster's entries under these
/// names.
pub async fn add_cluster(client: &Client, namespace: &str, name: &str, path: &Path) -> Result<String> {
    let access = read(client, namespace, name).await?;
    merge(&Owner::cluster(namespace, name), &access, path, false).await
}

/// Adds a bootstrap cluster to the user's file as the current context, and returns the context name.
///
/// # Errors
/// Returns an error if the file has another cluster's entries under these names.
pub async fn add_bootstrap(name: &str, kubeconfig: &str, path: &Path) -> Result<String> {
    merge(&Owner::bootstrap(name), &Access::read(kubeconfig)?, path, true).await
}

/// Removes a workload cluster from the user's file. Returns true if the file contained it.
///
/// # Errors
/// Returns an error if the file can't be changed.
pub async fn remove_cluster(namespace: &str, name: &str, path: &Path) -> Result<bool> {
    remove(&Owner::cluster(namespace, name), path).await
}

/// Removes a bootstrap cluster from the user's file. Returns true if the file contained it.
///
/// # Errors
/// Returns an error if the file can't be changed.
pub async fn remove_bootstrap(name: &str, path: &Path) -> Result<bool> {
    remove(&Owner::bootstrap(name), path).await
}

/// Restores the context that was current before a bootstrap cluster's context, and returns its name. Returns `None` if
/// the bootstrap cluster's context isn't current, or if the former context no longer exists.
///
/// # Errors
/// Returns an error if the file can't be changed.
pub async fn leave_bootstrap(name: &str, path: &Path) -> Result<Option<String>> {
    let owner = Owner::bootstrap(name);
    if !std::fs::read_to_string(path).is_ok_and(|text| text.contains(owner.context())) {
        return Ok(None);
    }
    let mut former = None;
    file::change(path, |config| {
        former = owner.restore_former(config);
        Ok(())
    })
    .await?;
    Ok(former)
}

async fn remove(owner: &Owner, path: &Path) -> Result<bool> {
    // Don't write a file that doesn't contain the entries.
    if !std::fs::read_to_string(path).is_ok_and(|text| text.contains(owner.context())) {
        return Ok(false);
    }
    let mut removed = false;
    file::change(path, |config| {
        removed = owner.remove(config);
        Ok(())
    })
    .await?;
    Ok(removed)
}

/// Adds entries to the user's file, and returns their context name.
async fn merge(owner: &Owner, access: &Access, path: &Path, current: bool) -> Result<String> {
    file::change(path, |config| {
        owner.merge(access, config).map_err(|taken| {
            ExitStatus::Refused.error(format!(
                "{}: {taken}. Nothing was changed. Write the kubeconfig to a file of its own with --output-file",
                path.display()
            ))
        })?;
        if current {
            owner.make_current(config);
        }
        Ok(())
    })
    .await?;
    Ok(owner.context().to_owned())
}

async fn read(client: &Client, namespace: &str, name: &str) -> Result<Access> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let secret_name = api::names::kubeconfig_secret(name);
    let secret = match secrets.get(&secret_name).await {
        Ok(secret) => secret,
        Err(error) if is_gone(&error) => return Err(missing(client, namespace, name).await?),
        Err(error) => anyhow::bail!("cannot read Secret {namespace}/{secret_name}: {}", message(&error)),
    };
    let value = secret.data.and_then(|mut data| data.remove("value"));
    let text = value.and_then(|value| String::from_utf8(value.0).ok());
    let text = text.with_context(|| format!("Secret {namespace}/{secret_name} has no text in key value"))?;
    Access::read(&text).map_err(|error| {
        ExitStatus::Refused
            .error(format!("Secret {namespace}/{secret_name} is no kubeconfig of Cluster API: {error}"))
    })
}

/// Returns the error for a missing kubeconfig: the cluster doesn't exist, or doesn't have a kubeconfig yet.
async fn missing(client: &Client, namespace: &str, name: &str) -> Result<anyhow::Error> {
    let clusters = dynamic_api_in(client, CLUSTER, Some(namespace));
    Ok(match clusters.get_metadata_opt(name).await {
        Ok(None) => anyhow::anyhow!(
            "cluster {namespace}/{name} does not exist: list them with `kubectl get clusters.cluster.x-k8s.io -A`"
        ),
        // If the user may not read clusters, assume that the cluster exists.
        Err(error) if missing_right(&message(&error)).is_none() => return Err(error.into()),
        Ok(Some(_)) | Err(_) => ExitStatus::NotYet.error(format!(
            "cluster {namespace}/{name} has no kubeconfig yet. To see why: layercake describe cluster {name} -n {namespace}"
        )),
    })
}
