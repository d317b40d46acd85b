//! `layercake new cluster`: writes the manifest of a cluster that its namespace can create.
//!
//! The command chooses a VM class and a storage class that the namespace can use, and the newest release with which the
//! API server accepts the manifest.

use std::fmt::Write as _;

use anyhow::{Context, Result};
use api::gcm::{TanzuKubernetesCluster, TanzuKubernetesRelease};
use api::vmop::{VirtualMachineClass, VirtualMachineClassBinding};
use gcm::release::version::Version;
use gcm::sync::namespace::assigned_classes;
use k8s_openapi::api::core::v1::ResourceQuota;
use kit::api_error::{is_gone, message, missing_right};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::Value;

use crate::args::NewCluster;
use crate::kube::apply::words_of_refusal;
use crate::local::target::Target;
use crate::terminal::exit::{ExitStatus, failed};
use crate::terminal::output::{write_err, write_out};

/// The minimum CPUs and memory (MiB) that kubeadm accepts for a control plane, rounded up.
const LEAST: (i64, i64) = (2, 2048);

/// Prints the manifest, and the reason for each choice on standard error.
pub async fn run(args: NewCluster) -> ExitStatus {
    let written = async |target: &Target| {
        let (manifest, reasons) = compose(target, &args).await?;
        write_err(&reasons);
        write_out(&manifest);
        Ok(ExitStatus::Done)
    };
    let written = match check_names(&args) {
        Ok(()) => args.target.with(written).await,
        Err(error) => Err(error),
    };
    written.unwrap_or_else(|error| failed(&error))
}

fn refuse<T>(why: String) -> Result<T> {
    Err(ExitStatus::Refused.error(why))
}

fn check_names(args: &NewCluster) -> Result<()> {
    let given = [Some(&args.name), args.target.namespace.as_ref(), args.release.as_ref()];
    for name in given.into_iter().chain([args.vm_class.as_ref(), args.storage_class.as_ref()]).flatten() {
        check_name(name)?;
    }
    Ok(())
}

async fn compose(target: &Target, args: &NewCluster) -> Result<(String, String)> {
    let Target { client, namespace, .. } = target;
    let clusters = Api::<TanzuKubernetesCluster>::namespaced(client.clone(), namespace);
    if clusters.get_metadata_opt(&args.name).await.context("cannot read TanzuKubernetesClusters")?.is_some() {
        return refuse(format!(
            "TanzuKubernetesCluster {namespace}/{} exists. Choose another name",
            args.name
        ));
    }
    let class = choose_class(&list_classes(client, namespace).await?, args.vm_class.as_deref(), namespace)?;
    let storage = list_storage_classes(client, namespace).await?;
    let storage = choose_storage(&storage, args.storage_class.as_deref(), namespace)?;
    let of_release = |release: &str| {
        Manifest { args, namespace, class: &class.name, storage: &storage.name, release }.text()
    };
    let release = choose_release(&clusters, args, of_release).await?;
    let mut reasons = String::new();
    for (what, Choice { name, reason }) in
        [("VM class", &class), ("storage class", &storage), ("release", &release)]
    {
        let _ = writeln!(reasons, "{what:<24} {name}: {reason}");
    }
    reasons.push_str("Nothing was created. Next: layercake apply -f\n");
    Ok((of_release(&release.name), reasons))
}

/// Rejects an empty name, and names with characters other than letters, digits and `-.+`. The manifest contains names
/// without escaping.
fn check_name(name: &str) -> Result<()> {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "-.+".contains(letter);
    if !name.is_empty() && name.chars().all(fits) {
        return Ok(());
    }
    Err(ExitStatus::Usage
        .error(format!("{name:?} is not a name: names have letters, digits, hyphens and periods")))
}

/// A chosen object, and the reason for the choice.
#[derive(Debug, PartialEq, Eq)]
struct Choice {
    name: String,
    reason: String,
}

/// The values in a manifest.
struct Manifest<'a> {
    args: &'a NewCluster,
    namespace: &'a str,
    class: &'a str,
    storage: &'a str,
    release: &'a str,
}

impl Manifest<'_> {
    fn text(&self) -> String {
        let NewCluster { control_plane, workers, .. } = self.args;
        let name = scalar(&self.args.name);
        let [namespace, class, storage, release] =
            [self.namespace, self.class, self.storage, self.release].map(scalar);
        format!(
            "\
apiVersion: run.tanzu.vmware.com/v1alpha3
kind: TanzuKubernetesCluster
metadata:
  name: {name}
  namespace: {namespace}
spec:
  topology:
    controlPlane:
      replicas: {control_plane}
      vmClass: {class}
      storageClass: {storage}
      tkr:
        reference:
          name: {release}
    nodePools:
    - name: workers
      replicas: {workers}
      vmClass: {class}
      storageClass: {storage}
"
        )
    }
}

/// Returns a string as a YAML scalar. Quotes strings that would have another type, such as `1.36` or `true`.
fn scalar(text: &str) -> String {
    match serde_saphyr::from_str::<Value>(text) {
        Ok(Value::String(plain)) if plain == text => plain,
        _ => format!("{text:?}"),
    }
}

/// A VM class that the namespace may use.
#[derive(Clone, Debug)]
struct Class {
    name: String,
    /// CPUs and memory in MiB. `None` if the class doesn't set them or doesn't exist, or if the user isn't allowed to
    /// read it.
    size: Option<(i64, i64)>,
}

async fn list_classes(client: &Client, namespace: &str) -> Result<Vec<Class>> {
    let bindings = Api::<VirtualMachineClassBinding>::namespaced(client.clone(), namespace);
    let bindings =
        bindings.list(&ListParams::default()).await.context("cannot read VirtualMachineClassBindings")?;
    let classes = Api::<VirtualMachineClass>::all(client.clone());
    let mut found = Vec::new();
    for binding in bindings {
        let name = binding.spec.class_ref.name;
        let hardware = match classes.get(&name).await {
            Ok(class) => class.spec.hardware,
            Err(error) if is_gone(&error) || missing_right(&message(&error)).is_some() => None,
            Err(error) => return Err(error).context(format!("cannot read VirtualMachineClass {name}")),
        };
        let size = hardware.and_then(|hardware| Some((hardware.cpus?, hardware.memory?.mib().ok()?)));
        found.push(Class { name, size });
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}

fn choose_class(classes: &[Class], wanted: Option<&str>, namespace: &str) -> Result<Choice> {
    let names: Vec<_> = classes.iter().map(|class| class.name.as_str()).collect();
    let is_small =
        |class: &Class| class.size.is_some_and(|(cpus, memory)| cpus < LEAST.0 || memory < LEAST.1);
    let only_a_small_one = wanted.is_none() && matches!(classes, [one] if is_small(one));
    if !only_a_small_one
        && let Some(chosen) = choose_named("VM class", "--vm-class", &names, wanted, namespace)?
    {
        return Ok(chosen);
    }
    let large = classes.iter().filter_map(|class| Some((class.size?, &class.name)));
    let large: Vec<_> = large.filter(|((cpus, memory), _)| *cpus >= LEAST.0 && *memory >= LEAST.1).collect();
    match large.iter().min_by_key(|((cpus, memory), name)| (*memory, *cpus, *name)) {
        Some((_, name)) => {
            let reason = format!(
                "the smallest of {} with {} CPUs and {} GiB or more",
                names.len(),
                LEAST.0,
                LEAST.1 / 1024
            );
            Ok(Choice { name: (*name).clone(), reason })
        }
        None if names.is_empty() => refuse(format!(
            "namespace {namespace} cannot use any VM class. An administrator allows one with a VirtualMachineClassBinding (docs/install.md)"
        )),
        None => refuse(format!(
            "no VM class of namespace {namespace} is known to have {} CPUs and {} GiB, which a control plane needs. Pass one with --vm-class: {}",
            LEAST.0,
            LEAST.1 / 1024,
            names.join(", ")
        )),
    }
}

async fn list_storage_classes(client: &Client, namespace: &str) -> Result<Vec<String>> {
    let quotas = Api::<ResourceQuota>::namespaced(client.clone(), namespace);
    let quotas = quotas.list(&ListParams::default()).await.context("cannot read ResourceQuotas")?;
    let hard = quotas.into_iter().filter_map(|quota| quota.spec?.hard);
    let mut names: Vec<_> = hard.flat_map(|hard| assigned_classes(&hard)).collect();
    names.sort();
    names.dedup();
    Ok(names)
}

fn choose_storage(classes: &[String], wanted: Option<&str>, namespace: &str) -> Result<Choice> {
    let names: Vec<_> = classes.iter().map(String::as_str).collect();
    if let Some(chosen) = choose_named("StorageClass", "--storage-class", &names, wanted, namespace)? {
        return Ok(chosen);
    }
    if names.is_empty() {
        return refuse(format!(
            "namespace {namespace} cannot use any StorageClass. An administrator assigns one with a ResourceQuota (docs/install.md)"
        ));
    }
    refuse(format!("several StorageClasses can be used. Pass one with --storage-class: {}", names.join(", ")))
}

/// Chooses the wanted name, or the only name in `names`. Refuses a wanted name that isn't in `names`. Returns `None` if
/// there isn't a wanted name and `names` doesn't contain exactly one name.
fn choose_named(
    what: &str,
    flag: &str,
    names: &[&str],
    wanted: Option<&str>,
    namespace: &str,
) -> Result<Option<Choice>> {
    let chosen = |name: &str, reason: String| Ok(Some(Choice { name: name.to_owned(), reason }));
    match (wanted, names) {
        (Some(wanted), names) if names.contains(&wanted) => chosen(wanted, format!("by {flag}")),
        (Some(wanted), []) => refuse(format!("{flag} {wanted}: namespace {namespace} cannot use any {what}")),
        (Some(wanted), names) => {
            refuse(format!("{flag} {wanted}: namespace {namespace} can use only {}", names.join(", ")))
        }
        (None, [one]) => chosen(one, "the only one".to_owned()),
        (None, _) => Ok(None),
    }
}

/// Returns the newest release with which the API server accepts the manifest, or checks the release that the user has
/// set.
async fn choose_release(
    clusters: &Api<TanzuKubernetesCluster>,
    args: &NewCluster,
    manifest_of: impl Fn(&str) -> String,
) -> Result<Choice> {
    let names = match &args.release {
        Some(wanted) => vec![wanted.clone()],
        None => list_releases(&clusters.clone().into_client()).await?,
    };
    let origin = || match args.release {
        Some(_) => "by --release".to_owned(),
        None => format!("the newest of {}", names.len()),
    };
    let mut refused: Vec<(&str, String)> = Vec::new();
    for name in &names {
        let reason = match judge(clusters, &args.name, &manifest_of(name)).await? {
            Answer::Accepted if refused.is_empty() => origin(),
            Answer::Accepted => format!(
                "the newest that the namespace can use; {} newer: {}",
                refused.len(),
                refused.iter().map(|(name, why)| format!("{name}: {why}")).collect::<Vec<_>>().join("; ")
            ),
            Answer::Unknown(right) => format!("{}, not checked: {right}", origin()),
            Answer::Refused(why) => {
                refused.push((name, why));
                continue;
            }
        };
        return Ok(Choice { name: name.clone(), reason });
    }
    refuse(explain_refusals(&refused))
}

fn explain_refusals(refused: &[(&str, String)]) -> String {
    match refused {
        [] => {
            "there is no TanzuKubernetesRelease. Import a node image with layercake image import".to_owned()
        }
        [(_, first), rest @ ..] if rest.iter().all(|(_, why)| why == first) => {
            format!("the API server refuses the cluster: {first}")
        }
        refused => {
            let each: Vec<_> = refused.iter().map(|(name, why)| format!("{name}: {why}")).collect();
            format!("the API server refuses the cluster with each release:\n{}", each.join("\n"))
        }
    }
}

/// The API server's response to a manifest.
enum Answer {
    Accepted,
    Refused(String),
    /// The check failed because the user lacks this right.
    Unknown(String),
}

async fn judge(clusters: &Api<TanzuKubernetesCluster>, name: &str, manifest: &str) -> Result<Answer> {
    let document: Value = serde_saphyr::from_str(manifest)?;
    let params = PatchParams::apply("layercake").dry_run().validation_strict();
    match clusters.patch(name, &params, &Patch::Apply(&document)).await {
        Ok(_) => Ok(Answer::Accepted),
        Err(kube::Error::Api(status)) if matches!(status.code, 400 | 403 | 422) => {
            let right = missing_right(&status.message).map(str::to_owned);
            Ok(right.map_or_else(|| Answer::Refused(words_of_refusal(&status.message)), Answer::Unknown))
        }
        // The API server or a webhook has failed, which doesn't depend on the release.
        Err(error) => Err(error).context("the API server cannot check the manifest"),
    }
}

/// Returns the names of all releases, newest first.
async fn list_releases(client: &Client) -> Result<Vec<String>> {
    let releases = Api::<TanzuKubernetesRelease>::all(client.clone()).list(&ListParams::default()).await;
    let releases = match releases {
        Err(error) if missing_right(&message(&error)).is_some() => {
            let message = message(&error);
            return refuse(format!(
                "releases cannot be listed: {}. Pass one with --release, or ask for ClusterRole tanzukubernetesrelease-view",
                missing_right(&message).unwrap_or(&message)
            ));
        }
        releases => releases.context("cannot read TanzuKubernetesReleases")?,
    };
    let mut found: Vec<_> = releases
        .iter()
        .filter_map(|release| Some((Version::parse(&release.spec.version).ok()?, release.name_any())))
        .collect();
    found.sort_by(|one, other| other.cmp(one));
    Ok(found.into_iter().map(|(_, name)| name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(name: &str, size: Option<(i64, i64)>) -> Class {
        Class { name: name.to_owned(), size }
    }

    fn chosen(choice: Result<Choice>) -> String {
        match choice {
            Ok(Choice { name, reason }) => format!("{name}: {reason}"),
            Err(error) => format!("{error:#}"),
        }
    }

    #[test]
    fn a_class_is_large_enough_for_a_control_plane() {
        let tiny = class("tiny", Some((1, 1024)));
        let small = class("small", Some((2, 4096)));
        let large = class("large", Some((4, 16_384)));
        let unknown = class("unknown", None);
        let all = [large.clone(), small.clone(), tiny.clone(), unknown.clone()];
        let choose = |classes: &[Class], wanted: Option<&str>| chosen(choose_class(classes, wanted, "dev"));
        assert_eq!(choose(&all, None), "small: the smallest of 4 with 2 CPUs and 2 GiB or more");
        assert_eq!(choose(&all, Some("tiny")), "tiny: by --vm-class");
        assert_eq!(choose(&all[1..2], None), "small: the only one");
        assert_eq!(choose(&all[3..], None), "unknown: the only one");
        assert!(choose(&all[2..3], None).contains("Pass one with --vm-class: tiny"));
        assert_eq!(
            choose(&all, Some("x")),
            "--vm-class x: namespace dev can use only large, small, tiny, unknown"
        );
        let none = choose(&[tiny, unknown], None);
        assert!(none.contains("Pass one with --vm-class: tiny, unknown"), "{none}");
        let none = choose(&[], None);
        assert!(none.contains("VirtualMachineClassBinding"), "{none}");
    }

    #[test]
    fn names_cannot_change_the_manifest() {
        for name in ["", "a: b", "a\nkind: Secret", "{}", "#"] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
        for name in ["first", "v1.36.3---layercake.1", "v1.33.1+vmware.1"] {
            assert!(check_name(name).is_ok(), "{name:?}");
        }
    }

    #[test]
    fn texts_stay_texts() {
        for plain in ["first", "v1.36", "best-effort-small"] {
            assert_eq!(scalar(plain), plain);
        }
        for (text, quoted) in
            [("1.36", "\"1.36\""), ("123", "\"123\""), ("true", "\"true\""), ("null", "\"null\"")]
        {
            assert_eq!(scalar(text), quoted);
        }
    }

    #[test]
    fn a_cause_that_all_releases_share_is_named_once() {
        let same = [("v2", "exceeded quota".to_owned()), ("v1", "exceeded quota".to_owned())];
        assert_eq!(explain_refusals(&same), "the API server refuses the cluster: exceeded quota");
        let each = [("v2", "too new".to_owned()), ("v1", "too old".to_owned())];
        assert!(explain_refusals(&each).ends_with("v2: too new\nv1: too old"));
        assert!(explain_refusals(&[]).contains("layercake image import"));
    }

    #[test]
    fn one_of_several_storage_classes_must_be_named() {
        let choose = |names: &[&str], wanted: Option<&str>| {
            let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
            chosen(choose_storage(&names, wanted, "dev"))
        };
        assert_eq!(choose(&["gold"], None), "gold: the only one");
        assert_eq!(choose(&["gold", "silver"], Some("silver")), "silver: by --storage-class");
        assert!(choose(&["gold", "silver"], None).ends_with("Pass one with --storage-class: gold, silver"));
        assert!(choose(&[], None).contains("ResourceQuota"));
        assert_eq!(
            choose(&[], Some("gold")),
            "--storage-class gold: namespace dev cannot use any StorageClass"
        );
    }
}
