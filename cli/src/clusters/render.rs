//! `layercake render`: the objects of a cluster before they exist.

use anyhow::{Context as _, Result};
use api::gcm::{HUB, TanzuKubernetesCluster, convert};
use gcm::cluster::error::Error;
use kit::api_error::is_gone;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::apply::{namespace_of, read};
use crate::apply::{ApplyOptions, apply_as_user};
use crate::args::{Output, Render};
use crate::exit::{ExitStatus, failed, refuse};
use crate::manifest::{self, is_cluster};
use crate::output::{say, write_out};
use crate::target::Target;

/// The uid of an owner that does not exist yet.
const NO_UID: &str = "00000000-0000-0000-0000-000000000000";

/// Renders manifests as the command line asks.
pub async fn render(args: Render) -> ExitStatus {
    run(&args).await.unwrap_or_else(|error| failed(&error))
}

async fn run(args: &Render) -> Result<ExitStatus> {
    let mut documents = read(&args.filename)?;
    documents.retain(is_cluster);
    if documents.is_empty() {
        return Err(ExitStatus::Usage.error("the manifests have no TanzuKubernetesCluster".to_owned()));
    }
    args.target
        .with(async |target| {
            let mut objects = Vec::new();
            for document in &documents {
                objects.extend(render_cluster(target, document).await?);
            }
            match args.output {
                None => write_out(&manifest::yaml(&objects)?),
                Some(Output::Json) => {
                    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
                    write_out(&format!("{}\n", serde_json::to_string_pretty(&list)?));
                }
            }
            Ok(ExitStatus::Done)
        })
        .await
}

async fn render_cluster(target: &Target, document: &Value) -> Result<Vec<Value>> {
    let name = document["metadata"]["name"].as_str().unwrap_or_default();
    let namespace = namespace_of(document, target);
    // Admission checks it and adds defaults. Nothing is stored, so it does not matter who has set a field.
    let options = ApplyOptions { force: true, dry_run: true };
    let accepted = apply_as_user(&target.client, document, &target.namespace, options).await?;
    let cluster = read_as_hub(&accepted)?;
    let existing =
        kube::Api::<TanzuKubernetesCluster>::namespaced(target.client.clone(), namespace).get(name).await;
    let uid = match existing {
        Ok(existing) => existing.metadata.uid,
        Err(error) if is_gone(&error) => Some(NO_UID.to_owned()),
        Err(error) => {
            return Err(error).context(format!("cannot read TanzuKubernetesCluster {namespace}/{name}"));
        }
    };
    let cluster =
        TanzuKubernetesCluster { metadata: kube::api::ObjectMeta { uid, ..cluster.metadata }, ..cluster };
    let rendered = gcm::render::render(&target.client, &cluster).await.map_err(|error| match error {
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

/// Reads an object of any served version.
fn read_as_hub(object: &DynamicObject) -> Result<TanzuKubernetesCluster> {
    let object =
        convert(&serde_json::to_value(object)?, HUB).context("cannot convert the TanzuKubernetesCluster")?;
    serde_json::from_value(object).context("cannot read the TanzuKubernetesCluster")
}
