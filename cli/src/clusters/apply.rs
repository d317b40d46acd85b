//! `layercake apply`: applies manifests and shows the progress of their clusters.

use std::collections::BTreeSet;

use anyhow::Result;
use api::gcm::TanzuKubernetesCluster;
use serde_json::{Value, json};

use super::spelling::adopt_spelling;
use super::{clusters_in, follow, print_document, refuse_if_deleting, root_of, until_interrupted};
use crate::args::{Apply, ApplyFlags, DryRun};
use crate::describe::Root;
use crate::follow::cluster_report::ClusterReport;
use crate::follow::report_before_change;
use crate::init::given::GivenSite;
use crate::kube::apply::{ApplyOptions, apply_as_user};
use crate::kube::connection::{CLUSTER, api_in, dynamic_api_in};
use crate::kube::manifest::{self, ManifestFile, is_cluster};
use crate::kubeconfig;
use crate::lint;
use crate::local::bootstrap;
use crate::local::target::Target;
use crate::terminal::exit::{ExitStatus, failed, with_causes};
use crate::terminal::output::{say, write_err};

/// Runs `layercake apply`.
pub async fn apply(args: Apply) -> ExitStatus {
    let Apply { filename, release, flags } = args;
    if flags.dry_run == Some(DryRun::Client) {
        return match manifest::expand(&filename) {
            Ok(files) => lint::main(&files),
            Err(error) => failed(&ExitStatus::Usage.error(with_causes(&error))),
        };
    }
    let read = || manifest::read_files(&filename).map_err(|error| usage(&error));
    apply_files(read, release.as_deref(), &flags).await
}

/// Applies a manifest that doesn't come from a file, with the flags of `layercake apply`.
pub async fn apply_manifest(manifest: ManifestFile, flags: &ApplyFlags) -> ExitStatus {
    apply_files(|| Ok(vec![manifest]), None, flags).await
}

async fn apply_files(
    read: impl FnOnce() -> Result<Vec<ManifestFile>>,
    release: Option<&str>,
    flags: &ApplyFlags,
) -> ExitStatus {
    until_interrupted(
        &flags.target,
        "Interrupted. The clusters that were applied continue. Run the same command again to see their progress.",
        async { prepare(&read()?, release, flags).await },
    )
    .await
}

async fn prepare(files: &[ManifestFile], release: Option<&str>, flags: &ApplyFlags) -> Result<ExitStatus> {
    let mut documents = read(files)?;
    if let Some(release) = release {
        documents
            .iter_mut()
            .filter(|document| is_cluster(document))
            .for_each(|cluster| set_release(cluster, release));
    }
    check_namespaces(&documents, flags.target.namespace.as_deref())?;
    let site = GivenSite::read(&flags.site, &flags.credentials)?;
    let work = async |target: &Target| run(target, files, &documents, flags).await;
    let status = flags.target.with_change(site.as_ref(), work).await?;
    if let Some(name) = flags.target.bootstrap.as_ref().filter(|_| flags.dry_run.is_some()) {
        bootstrap::delete_if_empty(name).await?;
    }
    Ok(status)
}

async fn run(
    target: &Target,
    files: &[ManifestFile],
    documents: &[Value],
    args: &ApplyFlags,
) -> Result<ExitStatus> {
    let documents = &adopt_spellings(target, documents).await;
    if let Some(status) = check(target, files, documents, args).await? {
        return Ok(status);
    }
    let mut reports = Vec::new();
    for (count, document) in documents.iter().enumerate() {
        let namespace = namespace_of(document, target);
        let name = document["metadata"]["name"].as_str().unwrap_or_default();
        if let Some(root) = root_of(document) {
            reports.push(report_before_change(&target.client, root, namespace, name).await?);
        }
        let options = ApplyOptions { force: args.change.force_conflicts, dry_run: false };
        let applied = apply_as_user(&target.client, document, &target.namespace, options).await;
        let named = named(document, target);
        if let Err(error) = applied {
            write_err(&lint::list_refused(files, &with_causes(&error)));
            return Err(after(count, error));
        }
        say!("applied {named}");
    }
    let is_new: Vec<_> = reports.iter().map(ClusterReport::is_new).collect();
    let names: Vec<_> =
        reports.iter().map(|report| (report.namespace.clone(), report.name.clone())).collect();
    let status = follow(target, reports, &args.change).await?;
    if status == ExitStatus::Done && args.change.wait.wait {
        for ((namespace, name), is_new) in names.iter().zip(is_new) {
            if target.transient().is_some() {
                // Later, you can only read the kubeconfig by starting the bootstrap cluster again. Also add it for
                // existing clusters, because an earlier, interrupted command might not have added it.
                let file = kubeconfig::users_file(None)?;
                let context = kubeconfig::add_cluster(&target.client, namespace, name, &file).await?;
                say!("Context {context} is in {}. Use it with: kubectl --context {context}", file.display());
            } else if is_new && args.change.output.is_none() {
                say!("Next: layercake kubeconfig {name} -n {namespace} --merge");
            }
        }
    }
    Ok(status)
}

/// Returns the documents with each release spelled as in the live cluster.
async fn adopt_spellings(target: &Target, documents: &[Value]) -> Vec<Value> {
    let mut documents = documents.to_vec();
    for document in documents.iter_mut().filter(|document| is_cluster(document)) {
        let name = document["metadata"]["name"].as_str().unwrap_or_default();
        // If the cluster can't be read, the apply fails with the reason.
        if let Ok(Some(live)) = clusters_in(target, namespace_of(document, target)).get_opt(name).await {
            adopt_spelling(document, &live);
        }
    }
    documents
}

/// Reads the documents. Each must have a name. With only `generateName`, every apply would create another object.
pub(super) fn read(files: &[ManifestFile]) -> Result<Vec<Value>> {
    let documents = manifest::documents_of(files).map_err(|error| usage(&error))?;
    let has_name =
        |document: &&Value| document["metadata"]["name"].as_str().is_some_and(|name| !name.is_empty());
    if let Some(nameless) = documents.iter().find(|document| !has_name(document)) {
        let kind = nameless["kind"].as_str().unwrap_or_default();
        return Err(ExitStatus::Usage
            .error(format!("an object of kind {kind} has no metadata.name. Add one to the manifest")));
    }
    if documents.is_empty() {
        return Err(ExitStatus::Usage.error("the manifests have no objects".to_owned()));
    }
    Ok(documents)
}

/// Converts the error for an unreadable or malformed manifest to [`ExitStatus::Usage`].
pub(super) fn usage(error: &anyhow::Error) -> anyhow::Error {
    ExitStatus::Usage.error(with_causes(error))
}

/// Lets the API server check all documents before the first is applied. Returns an exit status if the command must end.
/// Prints refusals with their locations in the files, if `lint` finds the same errors.
///
/// A document that depends on another, such as an object in a new namespace, can only be checked by applying it. So the
/// API server's refusals only count in a dry run, or if all documents are clusters.
async fn check(
    target: &Target,
    files: &[ManifestFile],
    documents: &[Value],
    args: &ApplyFlags,
) -> Result<Option<ExitStatus>> {
    let options = ApplyOptions { force: args.change.force_conflicts, dry_run: true };
    let is_alone = documents.iter().all(|document| root_of(document).is_some());
    let (mut refused, mut refusals) = (false, String::new());
    for document in documents {
        let checked = match check_deletion(target, document).await {
            Ok(()) => apply_as_user(&target.client, document, &target.namespace, options).await.map(drop),
            Err(error) => {
                failed(&error);
                refused = true;
                continue;
            }
        };
        let named = named(document, target);
        match checked {
            Ok(()) if args.dry_run.is_some() => say!("{named}: accepted (dry run: nothing was changed)"),
            Err(error) if is_alone || args.dry_run.is_some() => {
                if failed(&error) != ExitStatus::Refused {
                    return Ok(Some(ExitStatus::Failed));
                }
                refused = true;
                refusals += &with_causes(&error);
            }
            Ok(()) | Err(_) => {}
        }
    }
    if refused {
        write_err(&lint::list_refused(files, &refusals));
        say!("Nothing was changed.");
        return Ok(Some(ExitStatus::Refused));
    }
    if args.dry_run.is_none() {
        return Ok(None);
    }
    print_document(target, &args.change, Vec::new())?;
    Ok(Some(ExitStatus::Done))
}

/// Refuses a cluster if another with the same name is still being deleted.
async fn check_deletion(target: &Target, document: &Value) -> Result<()> {
    let (Some(name), Some(root)) = (document["metadata"]["name"].as_str(), root_of(document)) else {
        return Ok(());
    };
    let namespace = Some(namespace_of(document, target));
    let found = if root == Root::Cluster {
        let clusters = dynamic_api_in(&target.client, CLUSTER, namespace);
        clusters.get_metadata_opt(name).await.map(|found| found.map(|found| found.metadata))
    } else {
        let clusters = api_in::<TanzuKubernetesCluster>(&target.client, namespace);
        clusters.get_metadata_opt(name).await.map(|found| found.map(|found| found.metadata))
    };
    match found {
        Ok(Some(metadata)) => refuse_if_deleting(root, &metadata),
        // If the read fails, the apply fails with the reason.
        Ok(None) | Err(_) => Ok(()),
    }
}

/// Converts an error that occurred after `count` documents had been applied. Unless `count` is 0, the new error isn't a
/// refusal, because objects were changed.
fn after(count: usize, error: anyhow::Error) -> anyhow::Error {
    match count {
        0 => error,
        1 => anyhow::anyhow!("{}. The object before it was applied", with_causes(&error)),
        count => anyhow::anyhow!("{}. The {count} objects before it were applied", with_causes(&error)),
    }
}

pub(super) fn namespace_of<'a>(document: &'a Value, target: &'a Target) -> &'a str {
    document["metadata"]["namespace"].as_str().unwrap_or(&target.namespace)
}

fn named(document: &Value, target: &Target) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (kind, name) = (text(&document["kind"]), text(&document["metadata"]["name"]));
    if root_of(document).is_some() || document["metadata"]["namespace"].is_string() {
        format!("{kind} {}/{name}", namespace_of(document, target))
    } else {
        format!("{kind} {name}")
    }
}

/// Refuses documents for a namespace other than `wanted`, which the `--namespace` flag names. kubectl does the same.
fn check_namespaces(documents: &[Value], wanted: Option<&str>) -> Result<()> {
    let Some(wanted) = wanted else { return Ok(()) };
    let named = documents.iter().filter_map(|document| document["metadata"]["namespace"].as_str());
    let others: BTreeSet<_> = named.filter(|namespace| *namespace != wanted).collect();
    if others.is_empty() {
        return Ok(());
    }
    let others = others.into_iter().collect::<Vec<_>>().join(", ");
    Err(ExitStatus::Refused.error(format!(
        "a manifest is for namespace {others}, not for {wanted}. Nothing was changed. Leave out --namespace, or correct the manifest"
    )))
}

/// Sets the release of a cluster in any API version. Leaves a malformed spec to the API server, which refuses it.
fn set_release(cluster: &mut Value, release: &str) {
    let is_v1alpha1 = cluster["apiVersion"].as_str().is_some_and(|version| version.ends_with("/v1alpha1"));
    let Some(spec) = cluster.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if is_v1alpha1 {
        spec.insert("distribution".to_owned(), json!({ "version": release }));
        return;
    }
    spec.remove("distribution");
    let Some(topology) = spec.get_mut("topology") else { return };
    if let Some(control_plane) = topology.get_mut("controlPlane").and_then(Value::as_object_mut) {
        control_plane.insert("tkr".to_owned(), json!({"reference": {"name": release}}));
    }
    let pools = topology.get_mut("nodePools").and_then(Value::as_array_mut);
    for pool in pools.into_iter().flatten().filter_map(Value::as_object_mut) {
        pool.remove("tkr");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kube::manifest::documents;
    use crate::terminal::exit::status_of_error;

    #[test]
    fn a_release_replaces_those_of_the_manifest() {
        let of = |version: &str, spec: &str| {
            let text = format!(
                "apiVersion: run.tanzu.vmware.com/{version}\nkind: TanzuKubernetesCluster\nspec: {spec}"
            );
            let mut cluster = documents(&text).unwrap().remove(0);
            set_release(&mut cluster, "new");
            cluster["spec"].clone()
        };
        assert_eq!(
            of(
                "v1alpha1",
                "{distribution: {fullVersion: old}, topology: {controlPlane: {count: 1}, workers: {count: 1}}}"
            ),
            json!({
                "distribution": {"version": "new"},
                "topology": {"controlPlane": {"count": 1}, "workers": {"count": 1}},
            })
        );
        let old = "{reference: {name: old}}";
        assert_eq!(
            of(
                "v1alpha3",
                &format!(
                    "{{distribution: {{version: old}}, topology: {{controlPlane: {{tkr: {old}}}, nodePools: [{{name: a, tkr: {old}}}]}}}}"
                )
            ),
            json!({"topology": {
                "controlPlane": {"tkr": {"reference": {"name": "new"}}},
                "nodePools": [{"name": "a"}],
            }})
        );
        for malformed in
            ["text", "[1]", "{topology: text}", "{topology: {controlPlane: [1], nodePools: [1, {a: b}]}}"]
        {
            for version in ["v1alpha1", "v1alpha3"] {
                of(version, malformed);
            }
        }
    }

    #[test]
    fn objects_without_a_name_and_files_without_objects_are_usage_errors() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.yaml");
        for (text, words) in [
            ("# nothing\n", "the manifests have no objects"),
            (
                "{apiVersion: v1, kind: ConfigMap, metadata: {generateName: a-}}",
                "kind ConfigMap has no metadata.name",
            ),
        ] {
            std::fs::write(&file, text).unwrap();
            let files = manifest::read_files(std::slice::from_ref(&file)).unwrap();
            let error = read(&files).unwrap_err();
            assert!(error.to_string().contains(words), "{error}");
            assert_eq!(status_of_error(&error), ExitStatus::Usage);
        }
    }

    #[test]
    fn a_manifest_of_another_namespace_is_refused() {
        let text = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: prod}}";
        let documents = documents(text).unwrap();
        assert!(check_namespaces(&documents, None).is_ok());
        assert!(check_namespaces(&documents, Some("prod")).is_ok());
        let error = check_namespaces(&documents, Some("dev")).unwrap_err();
        assert!(error.to_string().starts_with("a manifest is for namespace prod, not for dev."), "{error}");
        assert_eq!(status_of_error(&error), ExitStatus::Refused);
    }
}
