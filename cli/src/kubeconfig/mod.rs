//! `layercake kubeconfig`: the kubeconfig of a cluster, printed or added to the user's own.

mod entries;
mod file;

use std::path::Path;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Secret;
use kit::api_error::{is_gone, message, missing_right};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};

use crate::args::Kubeconfig;
use crate::exit::{ExitStatus, failed};
use crate::output::{say, write_out};
use crate::session::owner_only;
use crate::target::Target;
use entries::{Access, Owner};

/// Prints the kubeconfig, writes it to a file, or adds it to the user's own.
pub async fn run(args: Kubeconfig) -> ExitStatus {
    match provide(&args).await {
        Ok(()) => ExitStatus::Done,
        Err(error) => failed(&error),
    }
}

async fn provide(args: &Kubeconfig) -> Result<()> {
    let Target { client, namespace, .. } = args.target.open().await?;
    let owner = Owner { namespace, name: args.name.clone() };
    let access = read(&client, &owner).await?;
    if args.merge {
        let variable = std::env::var_os("KUBECONFIG");
        let flag = args.target.cluster.kubeconfig.as_deref();
        let path = file::writable(flag, variable.as_deref(), std::env::home_dir());
        let path = path.context("there is no home folder: pass --kubeconfig")?;
        return merge(&owner, &access, &path).await;
    }
    let text = serde_saphyr::to_string(&owner.alone(&access)).context("cannot write YAML")?;
    if let Some(path) = &args.output_file {
        return owner_only(path, text.as_bytes());
    }
    write_out(&text);
    Ok(())
}

async fn merge(owner: &Owner, access: &Access, path: &Path) -> Result<()> {
    file::change(path, |config| {
        owner.merge(access, config).map_err(|taken| {
            ExitStatus::Refused.error(format!(
                "{}: {taken}. Nothing was changed. Write the kubeconfig to a file of its own with --output-file",
                path.display()
            ))
        })
    })
    .await?;
    let context = owner.context();
    say!("Context {context} is in {}. Use it with: kubectl --context {context}", path.display());
    Ok(())
}

async fn read(client: &Client, owner: &Owner) -> Result<Access> {
    let Owner { namespace, name } = owner;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let secret_name = api::names::kubeconfig_secret(name);
    let secret = match secrets.get(&secret_name).await {
        Ok(secret) => secret,
        Err(error) if is_gone(&error) => return Err(missing(client, owner).await?),
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

/// Why there is no kubeconfig: there is no such cluster, or it is not far enough.
async fn missing(client: &Client, Owner { namespace, name }: &Owner) -> Result<anyhow::Error> {
    let kind = GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", "Cluster");
    let resource = ApiResource::from_gvk_with_plural(&kind, "clusters");
    let clusters: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    Ok(match clusters.get_metadata_opt(name).await {
        Ok(None) => anyhow::anyhow!(
            "cluster {namespace}/{name} does not exist: list them with `kubectl get clusters.cluster.x-k8s.io -A`"
        ),
        // The user may read Secrets, but no clusters.
        Err(error) if missing_right(&message(&error)).is_none() => return Err(error.into()),
        Ok(Some(_)) | Err(_) => ExitStatus::NotYet.error(format!(
            "cluster {namespace}/{name} has no kubeconfig yet. To see why: layercake describe cluster {name} -n {namespace}"
        )),
    })
}
