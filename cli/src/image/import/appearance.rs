//! Waits for an imported image and its release, after telling the VM operator to read the library.

use kit::api_error::is_not_served;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use api::conditions::{self, FALSE, vmop as words};
use api::gcm::TanzuKubernetesRelease;
use api::names::label;
use api::vmop::{PROVIDER_CONFIGURATION, VirtualMachineImage};
use gcm::release::image::{CarriedRelease, Unreadable, carried, explain_exclusion, is_node_image};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde::Serialize;
use serde_json::json;
use vmop::LIBRARIES_CHANGED;

use crate::terminal::exit::ExitStatus;

/// The interval between reads.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// The objects that the cluster has for a library item.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Appearance {
    pub image: String,
    /// The TanzuKubernetesRelease, if the image provides one.
    pub release: Option<String>,
    /// The reason why the image doesn't provide a release.
    pub without_release: Option<String>,
}

/// Makes the VM operator in this namespace read its libraries, by annotating its configuration.
pub async fn request_read(client: &Client, namespace: &str) -> Result<()> {
    let now = jiff::Timestamp::now().to_string();
    let patch = json!({ "metadata": { "annotations": { LIBRARIES_CHANGED: now } } });
    Api::<ConfigMap>::namespaced(client.clone(), namespace)
        .patch(PROVIDER_CONFIGURATION, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .with_context(|| {
            format!("cannot annotate ConfigMap {namespace}/{PROVIDER_CONFIGURATION} with {LIBRARIES_CHANGED}")
        })?;
    Ok(())
}

/// Waits until the item's image exists, and until gcm has checked the release that the image provides. `library` is the
/// library's name in error messages.
///
/// # Errors
/// Returns an error if the image can't provide a release because of an error, or if an object doesn't appear within
/// `limit`.
pub async fn wait(client: &Client, library: &str, item: &str, limit: Duration) -> Result<Appearance> {
    let mut waiting = "the API server does not answer".to_owned();
    let appeared = plane::wait::poll(limit, POLL_INTERVAL, async || {
        let step = match look(client, item).await {
            Err(error) if is_transient(&error) => Step::Waiting(format!("{error:#}")),
            step => step?,
        };
        Ok::<_, anyhow::Error>(match step {
            Step::Appeared(appearance) => Some(appearance),
            Step::Waiting(reason) => {
                waiting = reason;
                None
            }
        })
    });
    match appeared.await? {
        Some(appearance) => Ok(appearance),
        None => Err(ExitStatus::NotYet.error(format!(
            "{waiting} after {} s. Check that the VM operator runs and reads library {library}: layercake doctor",
            limit.as_secs()
        ))),
    }
}

/// Returns true if every item has its objects in the cluster, or has an image that can't become a release. Transient errors count
/// as missing objects.
///
/// # Errors
/// Returns an error if the API server refuses to list the objects.
pub async fn all_appeared(client: &Client, items: &[String]) -> Result<bool> {
    for item in items {
        match look(client, item).await {
            Ok(Step::Waiting(_)) => return Ok(false),
            Err(error) if is_transient(&error) => return Ok(false),
            Err(error) if error.is::<kube::Error>() => return Err(error),
            // The doctor checks report images with an error.
            Ok(Step::Appeared(_)) | Err(_) => {}
        }
    }
    Ok(true)
}

/// The progress of an item.
#[derive(Debug, PartialEq)]
enum Step {
    /// All objects exist.
    Appeared(Appearance),
    /// An object is missing or isn't complete. The string names the object.
    Waiting(String),
}

/// Returns true if a retry may succeed: the API server didn't respond, is overloaded, or failed.
fn is_transient(error: &anyhow::Error) -> bool {
    match error.downcast_ref::<kube::Error>() {
        Some(kube::Error::Api(refused)) => refused.code == 429 || refused.code >= 500,
        Some(_) => true,
        None => false,
    }
}

async fn look(client: &Client, item: &str) -> Result<Step> {
    let images = Api::<VirtualMachineImage>::all(client.clone());
    let images = images.list(&ListParams::default()).await.context("cannot list VirtualMachineImages")?;
    let Some(image) = images.items.into_iter().find(|image| image.spec.image_id == item) else {
        return Ok(Step::Waiting(format!("there is no VirtualMachineImage of item {item}")));
    };
    let name = image.name_any();
    let carried = match judge(&image)? {
        Judged::Waiting(what) => return Ok(Step::Waiting(what)),
        Judged::WithoutRelease(why) => {
            return Ok(Step::Appeared(Appearance { image: name, release: None, without_release: Some(why) }));
        }
        Judged::Node(carried) => carried,
    };
    let release = carried.version.object_name();
    let releases = Api::<TanzuKubernetesRelease>::all(client.clone());
    match releases.list(&ListParams::default().fields(&format!("metadata.name={release}"))).await {
        Ok(found) => compare(&name, &release, found.items.first()),
        // Only the VM operator is installed.
        Err(error) if is_not_served(&error) => {
            Ok(Step::Appeared(Appearance { image: name, release: None, without_release: None }))
        }
        Err(error) => Err(error).context("cannot list TanzuKubernetesReleases"),
    }
}

/// An image's state, before its release is looked up.
#[derive(Debug)]
enum Judged {
    /// The VM operator hasn't read the image yet.
    Waiting(String),
    /// The image doesn't provide a release, for this reason.
    WithoutRelease(String),
    /// The image provides this release.
    Node(Box<CarriedRelease>),
}

fn judge(image: &VirtualMachineImage) -> Result<Judged> {
    let name = image.name_any();
    let Some(status) = &image.status else {
        return Ok(Judged::Waiting(format!("VirtualMachineImage {name} has no status")));
    };
    let synced = conditions::find(&status.conditions, words::VIRTUAL_MACHINE_IMAGE_SYNCED);
    if let Some(failed) = synced.filter(|condition| condition.status == FALSE) {
        bail!("VirtualMachineImage {name}: {}", failed.message.as_deref().unwrap_or_default());
    }
    if !is_node_image(image) {
        return Ok(Judged::WithoutRelease("it describes no release of Kubernetes".to_owned()));
    }
    if let Some(why) = explain_exclusion(image) {
        return Ok(Judged::WithoutRelease(why));
    }
    match carried(image) {
        Some(Ok(carried)) => Ok(Judged::Node(Box::new(carried))),
        Some(Err(unreadable)) => bail!("{unreadable}. {}", Unreadable::REMEDY),
        None => Ok(Judged::WithoutRelease("it describes no release of Kubernetes".to_owned())),
    }
}

/// Checks that the release exists, lists this image, and was checked by gcm. `live` is the release in the cluster.
fn compare(image: &str, release: &str, live: Option<&TanzuKubernetesRelease>) -> Result<Step> {
    let Some(live) = live else {
        return Ok(Step::Waiting(format!(
            "VirtualMachineImage {image} is there, but TanzuKubernetesRelease {release} is not"
        )));
    };
    if live.spec.os_images.iter().any(|own| own.name == image) {
        // gcm's webhook rejects clusters that use a release before gcm has checked it.
        if !live.is_checked() {
            return Ok(Step::Waiting(format!("gcm has not checked TanzuKubernetesRelease {release} yet")));
        }
        let release = Some(release.to_owned());
        return Ok(Step::Appeared(Appearance { image: image.to_owned(), release, without_release: None }));
    }
    if live.labels().contains_key(label::CONFLICTING_OS_IMAGES) {
        bail!(
            "TanzuKubernetesRelease {release} is there without VirtualMachineImage {image}, because its images name other versions of the same programs. Build the image again from the same sources, or give it another version of the release"
        );
    }
    Ok(Step::Waiting(format!(
        "TanzuKubernetesRelease {release} is there without VirtualMachineImage {image}"
    )))
}

#[cfg(test)]
mod tests {
    use api::gcm::TanzuKubernetesReleaseSpec;
    use api::gcm::release::{LocalReference, TanzuKubernetesReleaseStatus};
    use api::vmop::VirtualMachineImageStatus;
    use gcm::release::image::DISTRIBUTION;

    use super::*;

    fn image(distribution: Option<&str>) -> VirtualMachineImage {
        let mut image = VirtualMachineImage::default();
        image.metadata.name = Some("node".to_owned());
        image.status = Some(VirtualMachineImageStatus::default());
        if let Some(text) = distribution {
            image.annotations_mut().insert(DISTRIBUTION.to_owned(), text.to_owned());
        }
        image
    }

    fn unchecked(images: &[&str]) -> TanzuKubernetesRelease {
        let os_images = images.iter().map(|name| LocalReference { name: (*name).to_owned() }).collect();
        TanzuKubernetesRelease::new("r", TanzuKubernetesReleaseSpec { os_images, ..Default::default() })
    }

    fn release(images: &[&str]) -> TanzuKubernetesRelease {
        let holds = [conditions::release::COMPATIBLE, conditions::release::VALID];
        let conditions = holds.map(conditions::Condition::is_true).to_vec();
        let status = TanzuKubernetesReleaseStatus { conditions, ..Default::default() };
        TanzuKubernetesRelease { status: Some(status), ..unchecked(images) }
    }

    #[test]
    fn an_image_is_waited_for_until_it_is_read() {
        let mut unread = image(None);
        unread.status = None;
        assert!(matches!(judge(&unread).unwrap(), Judged::Waiting(_)));
        assert!(matches!(judge(&image(None)).unwrap(), Judged::WithoutRelease(_)));
        let node = image(Some(r#"{"distribution": {"version": "v1.33.1+vmware.1"}}"#));
        assert!(matches!(judge(&node).unwrap(), Judged::Node(_)));
        let mut published = node;
        published.labels_mut().insert(label::PUBLISH_REQUEST.to_owned(), "request".to_owned());
        assert!(matches!(judge(&published).unwrap(), Judged::WithoutRelease(_)));
    }

    #[test]
    fn an_image_that_can_become_no_release_ends_the_wait() {
        let error = judge(&image(Some("{"))).unwrap_err().to_string();
        assert!(error.contains("it is not JSON") && error.contains("import the OVA again"), "{error}");
        let mut unread = image(None);
        let message = "the descriptor has 3 MB";
        let failed = conditions::Condition::is_false(
            words::VIRTUAL_MACHINE_IMAGE_SYNCED,
            conditions::ERROR,
            words::VIRTUAL_MACHINE_IMAGE_NOT_SYNCED,
            message,
        );
        unread.status.as_mut().unwrap().conditions = vec![failed];
        assert_eq!(judge(&unread).unwrap_err().to_string(), format!("VirtualMachineImage node: {message}"));
    }

    /// Returns the outcome of `all_appeared` if the API server responds with this status.
    async fn appeared(code: u16) -> Result<bool> {
        let service = tower::service_fn(move |_: http::Request<kube::client::Body>| async move {
            let status = kube::core::Status::failure("no", "No").with_code(code);
            let body = kube::client::Body::from(serde_json::to_vec(&status).unwrap());
            Ok::<_, std::convert::Infallible>(http::Response::builder().status(code).body(body).unwrap())
        });
        all_appeared(&Client::new(service, "default"), &["item".to_owned()]).await
    }

    #[tokio::test]
    async fn a_refused_list_is_an_error_and_an_overloaded_server_is_asked_again() {
        let refused = format!("{:#}", appeared(403).await.unwrap_err());
        assert!(refused.starts_with("cannot list VirtualMachineImages"), "{refused}");
        assert!(!appeared(503).await.unwrap());
    }

    #[test]
    fn only_what_may_succeed_later_is_asked_again() {
        let refused =
            |code| kube::Error::Api(Box::new(kube::core::Status::failure("no", "No").with_code(code)));
        for (error, expected) in [(refused(403), false), (refused(429), true), (refused(503), true)] {
            let error = anyhow::Error::from(error).context("cannot list VirtualMachineImages");
            assert_eq!(is_transient(&error), expected, "{error:#}");
        }
        assert!(!is_transient(&anyhow::anyhow!("VirtualMachineImage node: it is not JSON")));
    }

    #[test]
    fn a_release_has_the_image_or_says_why_not() {
        assert!(matches!(compare("node", "r", None).unwrap(), Step::Waiting(_)));
        assert!(matches!(compare("node", "r", Some(&release(&["other"]))).unwrap(), Step::Waiting(_)));
        assert!(matches!(compare("node", "r", Some(&unchecked(&["node"]))).unwrap(), Step::Waiting(_)));
        let mut unseen = release(&["node"]);
        unseen.status.as_mut().unwrap().conditions[1] = conditions::Condition::is_false(
            conditions::release::VALID,
            conditions::WARNING,
            conditions::release::MISSING_OS_IMAGE,
            "none of its OSImages exists: node",
        );
        assert!(matches!(compare("node", "r", Some(&unseen)).unwrap(), Step::Waiting(_)));
        let expected = Appearance { image: "node".into(), release: Some("r".into()), without_release: None };
        assert_eq!(
            compare("node", "r", Some(&release(&["other", "node"]))).unwrap(),
            Step::Appeared(expected)
        );
        let mut conflicting = release(&["other"]);
        conflicting.labels_mut().insert(label::CONFLICTING_OS_IMAGES.to_owned(), String::new());
        let error = compare("node", "r", Some(&conflicting)).unwrap_err().to_string();
        assert!(error.contains("TanzuKubernetesRelease r"), "{error}");
    }
}
