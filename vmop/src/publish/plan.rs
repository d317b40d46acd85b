//! Computes the next step and the status of a publish request. The functions use neither a client nor a clock.

use api::conditions::{Condition, ERROR, INFO, READY, vmop::publish as known};
use api::vmop::{
    PublishSource, PublishTarget, VirtualMachinePublishRequest, VirtualMachinePublishRequestStatus,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use vsphere::MoRef;
use vsphere::automation::Capture;

use crate::publish::unfit::Unfit;
use crate::vcenter::mark::{PUBLISHED_BY, publish_request};

const VMOP: &str = "vmoperator.vmware.com/v1alpha1";
const REGISTRY: &str = "imageregistry.vmware.com/v1alpha1";

/// The facts that `gather` read for one reconcile.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// The VM to publish.
    pub source: Result<MoRef, Unfit>,
    /// The target library's id.
    pub target: Result<String, Unfit>,
    /// The library item with the target name, if it exists.
    pub item: Option<PublishedItem>,
    /// The name of the item's VirtualMachineImage, if it exists.
    pub image: Option<String>,
}

/// A library item with the target name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedItem {
    pub id: String,
    /// True if this request created the item.
    pub ours: bool,
    /// True if the item's files are complete.
    pub complete: bool,
}

/// The next step for a request.
#[derive(Clone, Debug, PartialEq)]
pub enum PublishStep {
    /// The source, the target or another item prevents publishing.
    Blocked,
    /// Start the upload.
    Upload(Capture),
    /// Wait for the namespace's turn to upload.
    Queued,
    /// vCenter is creating the item.
    Uploading,
    /// The item is complete, but its image doesn't exist yet.
    AwaitImage,
    /// Publishing is complete.
    Done,
}

/// The error of an upload, if it failed.
pub type Uploaded<'a> = Option<&'a vsphere::Error>;

/// Returns the source with defaults filled in.
pub fn source(request: &VirtualMachinePublishRequest) -> PublishSource {
    let given = &request.spec.source;
    let name = given.name.clone().filter(|name| !name.is_empty());
    PublishSource {
        name: Some(name.unwrap_or_else(|| request.name_any())),
        api_version: Some(given.api_version.clone().unwrap_or_else(|| VMOP.to_owned())),
        kind: Some(given.kind.clone().unwrap_or_else(|| "VirtualMachine".to_owned())),
    }
}

/// Returns the target with defaults filled in.
pub fn target(request: &VirtualMachinePublishRequest) -> PublishTarget {
    let mut target = request.spec.target.clone();
    let name = target.item.name.filter(|name| !name.is_empty());
    let made_up = || format!("{}-image", source(request).name.unwrap_or_default());
    target.item.name = Some(name.unwrap_or_else(made_up));
    let location = &mut target.location;
    location.kind.get_or_insert_with(|| "ContentLibrary".to_owned());
    let group = if location.kind.as_deref() == Some("ContentLibrary") { REGISTRY } else { VMOP };
    location.api_version.get_or_insert_with(|| group.to_owned());
    target
}

/// Returns the target item's name.
pub fn item_name(request: &VirtualMachinePublishRequest) -> String {
    target(request).item.name.unwrap_or_default()
}

/// Returns true if the request created the item with this description.
pub fn made_by(request: &VirtualMachinePublishRequest, description: &str) -> bool {
    publish_request(description).is_some_and(|uid| Some(uid) == request.uid().as_deref())
}

/// Returns the next step that the facts allow.
pub fn step(request: &VirtualMachinePublishRequest, facts: &Facts) -> PublishStep {
    let Facts { source, target, item, image } = facts;
    match (source, target, item) {
        // A complete item counts, whatever has happened to the VM since then.
        (_, _, Some(PublishedItem { ours: true, complete: true, .. })) => {
            if image.is_some() {
                PublishStep::Done
            } else {
                PublishStep::AwaitImage
            }
        }
        (_, _, Some(PublishedItem { ours: true, complete: false, .. })) => PublishStep::Uploading,
        (Ok(vsphere_vm), Ok(library), None) => PublishStep::Upload(Capture {
            vm: vsphere_vm.clone(),
            library_id: library.clone(),
            name: item_name(request),
            description: description(request),
            token: request.uid().unwrap_or_default(),
        }),
        _ => PublishStep::Blocked,
    }
}

fn description(request: &VirtualMachinePublishRequest) -> String {
    let given = request.spec.target.item.description.as_deref().unwrap_or_default();
    format!("{PUBLISHED_BY}{}\n{given}", request.uid().unwrap_or_default())
}

/// Returns the time to delete the request, if it is complete and has a TTL.
pub fn expiry(request: &VirtualMachinePublishRequest) -> Option<Timestamp> {
    let done = request.status.as_ref()?.completion_time.as_ref()?;
    let ttl = request.spec.ttl_seconds_after_finished?;
    done.0.checked_add(jiff::SignedDuration::from_secs(ttl)).ok()
}

/// Returns the request's status. The conditions don't have transition times yet.
pub fn status(
    request: &VirtualMachinePublishRequest,
    facts: &Facts,
    step: &PublishStep,
    failed: Uploaded<'_>,
    now: Timestamp,
) -> VirtualMachinePublishRequestStatus {
    let old = request.status.clone().unwrap_or_default();
    let now = Time(Timestamp::from_second(now.as_second()).unwrap_or(now));
    let done = *step == PublishStep::Done;
    let begins = matches!(step, PublishStep::Upload(_)) && failed.is_none();
    VirtualMachinePublishRequestStatus {
        source_ref: Some(source(request)),
        target_ref: Some(target(request)),
        start_time: old.start_time.or_else(|| Some(now.clone())),
        completion_time: old.completion_time.or_else(|| done.then(|| now.clone())),
        attempts: if begins { Some(old.attempts.unwrap_or(0) + 1) } else { old.attempts },
        last_attempt_time: if begins { Some(now) } else { old.last_attempt_time },
        image_name: facts.image.clone().filter(|_| done).or(old.image_name),
        ready: Some(done),
        conditions: conditions(request, facts, step, failed),
        observed_generation: request.metadata.generation,
    }
}

fn conditions(
    request: &VirtualMachinePublishRequest,
    facts: &Facts,
    step: &PublishStep,
    failed: Uploaded<'_>,
) -> Vec<Condition> {
    let name = item_name(request);
    let uploaded = matches!(step, PublishStep::AwaitImage | PublishStep::Done);
    let source = source_condition(facts, uploaded);
    let target = target_condition(facts, uploaded, &name);
    let upload = upload_condition(step, failed, &name);
    let image = image_condition(step, &name);
    let first = [&source, &target, &upload, &image]
        .into_iter()
        .find(|condition| condition.status != api::conditions::TRUE);
    let complete = first.map_or_else(
        || Condition::is_true(known::COMPLETE),
        |first| Condition { type_: known::COMPLETE.into(), ..first.clone() },
    );
    let ready = Condition { type_: READY.into(), ..complete.clone() };
    vec![ready, source, target, upload, image, complete]
}

fn source_condition(facts: &Facts, uploaded: bool) -> Condition {
    match &facts.source {
        Err(why) if !uploaded => unfit_condition(known::SOURCE_VALID, why),
        _ => Condition::is_true(known::SOURCE_VALID),
    }
}

fn target_condition(facts: &Facts, uploaded: bool, name: &str) -> Condition {
    match (&facts.target, &facts.item) {
        (Err(why), _) if !uploaded => unfit_condition(known::TARGET_VALID, why),
        (_, Some(PublishedItem { ours: false, .. })) => {
            let message = format!(
                "The library already has an item {name} that this request did not create. Use another name, or remove that item"
            );
            Condition::is_false(known::TARGET_VALID, ERROR, known::TARGET_ITEM_ALREADY_EXISTS, message)
        }
        _ => Condition::is_true(known::TARGET_VALID),
    }
}

fn unfit_condition(type_: &str, unfit: &Unfit) -> Condition {
    Condition::is_false(type_, ERROR, unfit.reason, unfit.message.clone())
}

fn upload_condition(step: &PublishStep, failed: Uploaded<'_>, name: &str) -> Condition {
    match (step, failed) {
        (PublishStep::AwaitImage | PublishStep::Done, _) => Condition::is_true(known::UPLOADED),
        (_, Some(error)) => {
            let message = format!("{error}. {} VM Operator tries again", error.advice());
            Condition::is_false(known::UPLOADED, ERROR, known::UPLOAD_FAILURE, message)
        }
        (PublishStep::Upload(_) | PublishStep::Uploading, None) => {
            let message = format!("vCenter is creating the item {name}");
            Condition::is_false(known::UPLOADED, INFO, known::UPLOADING, message)
        }
        (PublishStep::Queued, None) => {
            let message = "The request is queued: only a few VMs of one namespace are copied at a time";
            Condition::is_false(known::UPLOADED, INFO, known::QUEUED, message)
        }
        (PublishStep::Blocked, None) => {
            let message = "Source and target must be valid first";
            Condition::is_false(known::UPLOADED, INFO, known::NOT_STARTED, message)
        }
    }
}

fn image_condition(step: &PublishStep, name: &str) -> Condition {
    match step {
        PublishStep::Done => Condition::is_true(known::IMAGE_AVAILABLE),
        PublishStep::AwaitImage => {
            let message = format!("The item {name} has not become a VirtualMachineImage yet");
            Condition::is_false(known::IMAGE_AVAILABLE, INFO, known::IMAGE_UNAVAILABLE, message)
        }
        _ => Condition::is_false(
            known::IMAGE_AVAILABLE,
            INFO,
            known::HAS_NOT_BEEN_UPLOADED,
            "The item is not in the library yet",
        ),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request() -> VirtualMachinePublishRequest {
        serde_json::from_value(json!({
            "metadata": {"name": "pub", "namespace": "ns", "uid": "u-1", "generation": 1},
            "spec": {
                "source": {"name": "vm"}, "target": {"item": {"description": "nightly"}, "location": {"name": "lib"}},
                "ttlSecondsAfterFinished": 60,
            },
        }))
        .unwrap()
    }

    fn facts() -> Facts {
        Facts { source: Ok(MoRef::vm("vm-7")), target: Ok("lib-1".into()), item: None, image: None }
    }

    fn unfit(reason: &'static str) -> Unfit {
        Unfit { reason, message: "as given".into() }
    }

    #[allow(clippy::unnecessary_wraps)]
    fn item(ours: bool, complete: bool) -> Option<PublishedItem> {
        Some(PublishedItem { id: "item-1".into(), ours, complete })
    }

    /// Returns the type and reason of each condition.
    fn status_lines(facts: &Facts, failed: Uploaded<'_>) -> Vec<String> {
        let (request, now) = (request(), Timestamp::UNIX_EPOCH);
        let status = status(&request, facts, &step(&request, facts), failed, now);
        let word = |condition: &Condition| {
            let reason = condition.reason.clone().unwrap_or_else(|| condition.status.clone().into_owned());
            format!("{}={reason}", condition.type_)
        };
        status.conditions.iter().map(word).collect()
    }

    #[test]
    fn every_state_says_what_it_is() {
        let failure = vsphere::Error::new("capture", vsphere::Kind::InsufficientResources);
        let source = Err(unfit(known::SOURCE_VIRTUAL_MACHINE_NOT_EXIST));
        let target = Err(unfit(known::TARGET_CONTENT_LIBRARY_NOT_WRITABLE));
        let states = [
            ("nothing is there", Facts { source, ..facts() }, None),
            ("no library", Facts { target, ..facts() }, None),
            ("the name is taken", Facts { item: item(false, true), ..facts() }, None),
            ("begins", facts(), None),
            ("failed", facts(), Some(&failure)),
            ("underway", Facts { item: item(true, false), ..facts() }, None),
            ("no image yet", Facts { item: item(true, true), ..facts() }, None),
            ("done", Facts { item: item(true, true), image: Some("i".into()), ..facts() }, None),
        ];
        let states = states.map(|(name, facts, failed)| (name, status_lines(&facts, failed)));
        insta::assert_yaml_snapshot!(states);
    }

    #[test]
    fn the_item_says_whose_request_made_it() {
        let request = request();
        let PublishStep::Upload(capture) = step(&request, &facts()) else { panic!() };
        assert_eq!((capture.name.as_str(), capture.token.as_str()), ("vm-image", "u-1"));
        assert!(capture.description.ends_with("\nnightly"));
        assert!(made_by(&request, &capture.description));
        assert!(!made_by(&request, "nightly") && !made_by(&request, &format!("{PUBLISHED_BY}u-2")));
        // A complete item counts, whatever happens to the VM.
        let gone = Facts { source: Err(unfit("x")), item: item(true, true), ..facts() };
        assert_eq!(step(&request, &gone), PublishStep::AwaitImage);
    }

    #[test]
    fn attempts_are_counted_and_the_end_is_recorded_once() {
        let mut request = request();
        let at = |second| Timestamp::from_second(second).unwrap();
        let failure = vsphere::Error::new("capture", vsphere::Kind::Fault);
        let begun = status(&request, &facts(), &step(&request, &facts()), None, at(10));
        assert_eq!((begun.attempts, begun.ready), (Some(1), Some(false)));
        request.status = Some(begun);
        let failed = status(&request, &facts(), &step(&request, &facts()), Some(&failure), at(20));
        assert_eq!((failed.attempts, failed.start_time.clone()), (Some(1), Some(Time(at(10)))));
        request.status = Some(failed);
        assert_eq!(expiry(&request), None);
        let facts = Facts { item: item(true, true), image: Some("i".into()), ..facts() };
        for now in [30, 40] {
            request.status = Some(status(&request, &facts, &PublishStep::Done, None, at(now)));
        }
        let done = request.status.as_ref().unwrap();
        assert_eq!(done.completion_time, Some(Time(at(30))));
        assert_eq!(done.image_name.as_deref(), Some("i"));
        assert_eq!(expiry(&request), Some(at(90)));
    }

    #[test]
    fn what_is_left_out_is_filled_in() {
        let mut request = request();
        request.spec.source = PublishSource::default();
        request.spec.target.location.kind = Some("ContentLibraryProvider".into());
        insta::assert_yaml_snapshot!((source(&request), target(&request)));
    }
}
