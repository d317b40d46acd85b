//! `layercake render`: shows the objects that gcm creates for a cluster, before they exist.

use anyhow::{Context as _, Result};
use api::gcm::{HUB, TanzuKubernetesCluster, convert};
use gcm::cluster::error::Error;
use kit::api_error::{is_gone, message};
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::apply::{namespace_of, read, usage};
use crate::args::{Output, Render};
use crate::kube::apply::{ApplyOptions, apply_as_user};
use crate::kube::manifest::{self, is_cluster};
use crate::lint;
use crate::local::cluster;
use crate::local::target::Target;
use crate::terminal::exit::{ExitStatus, failed, refuse, with_causes};
use crate::terminal::output::{say, write_err, write_json, write_out};

/// The gcm argument to assume if gcm isn't deployed, or if the user can't read its arguments. The argument determines
/// the program that announces the control plane's address.
const ASSUMED: &str = "--nodes-pull-images";

/// Runs `layercake render`.
pub async fn render(args: Render) -> ExitStatus {
    run(&args).await.unwrap_or_else(|error| failed(&error))
}

async fn run(args: &Render) -> Result<ExitStatus> {
    let files = manifest::read_files(&args.filename).map_err(|error| usage(&error))?;
    let mut documents = read(&files)?;
    documents.retain(is_cluster);
    if documents.is_empty() {
        return Err(ExitStatus::Usage.error("the manifests have no TanzuKubernetesCluster".to_owned()));
    }
    args.target
        .with(async |target| {
            let arguments = read_arguments(target).await?;
            let mut objects = Vec::new();
            for document in &documents {
                let rendered = render_cluster(target, document, &arguments).await;
                objects.extend(rendered.inspect_err(|error| {
                    write_err(&lint::list_refused(&files, &with_causes(error)));
                })?);
            }
            match args.output {
                None => write_out(&manifest::yaml(&objects)?),
                Some(Output::Json) => {
                    write_json(&json!({"apiVersion": "v1", "kind": "List", "items": objects}))?;
                }
            }
            Ok(ExitStatus::Done)
        })
        .await
}

/// Reads gcm's arguments, on which some objects depend.
async fn read_arguments(target: &Target) -> Result<Vec<String>> {
    let settings = target.bootstrap.as_ref().map(|opened| opened.folder().settings()).transpose()?.flatten();
    if let Some(settings) = settings {
        return Ok(cluster::arguments("gcm", &settings));
    }
    match gcm::render::deployed_arguments(&target.client).await {
        Ok(Some(arguments)) => Ok(arguments),
        Ok(None) => Ok(vec![ASSUMED.to_owned()]),
        Err(error) => {
            say!("The arguments of gcm cannot be read, so {ASSUMED} is assumed: {}", message(&error));
            Ok(vec![ASSUMED.to_owned()])
        }
    }
}

async fn render_cluster(target: &Target, document: &Value, arguments: &[String]) -> Result<Vec<Value>> {
    let name = document["metadata"]["name"].as_str().unwrap_or_default();
    let namespace = namespace_of(document, target);
    // Admission checks the cluster and adds defaults. Conflicts don't matter, because a dry run doesn't store anything.
    let options = ApplyOptions { force: true, dry_run: true };
    let accepted = apply_as_user(&target.client, document, &target.namespace, options).await?;
    let cluster = read_as_hub(&accepted)?;
    let existing =
        kube::Api::<TanzuKubernetesCluster>::namespaced(target.client.clone(), namespace).get(name).await;
    let uid = match existing {
        Ok(existing) => existing.metadata.uid,
        Err(error) if is_gone(&error) => Some(gcm::render::NO_UID.to_owned()),
        Err(error) => {
            return Err(error).context(format!("cannot read TanzuKubernetesCluster {namespace}/{name}"));
        }
    };
    let cluster =
        TanzuKubernetesCluster { metadata: kube::api::ObjectMeta { uid, ..cluster.metadata }, ..cluster };
    let rendered =
        gcm::render::render(&target.client, &cluster, arguments).await.map_err(|error| match error {
            Error::Api(error) => anyhow::Error::new(error).context("cannot read what the objects depend on"),
            error => refuse(&format!("TanzuKubernetesCluster {namespace}/{name}: {error}")),
        })?;
    if !rendered.secrets.is_empty() {
        say!(
            "{namespace}/{name}: Secrets {} are generated when the cluster is created, and not shown",
            rendered.secrets.join(", ")
        );
    }
    Ok(rendered.objects)
}

/// Converts an object from any served version to the hub version.
fn read_as_hub(object: &DynamicObject) -> Result<TanzuKubernetesCluster> {
    let object =
        convert(&serde_json::to_value(object)?, HUB).context("cannot convert the TanzuKubernetesCluster")?;
    serde_json::from_value(object).context("cannot read the TanzuKubernetesCluster")
}
