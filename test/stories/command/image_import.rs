//! A user imports an OVA. It becomes exactly one image, even if an import is killed, interrupted or repeated.

use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use kube::Api;
use kube::api::{DynamicObject, ListParams};
use rustix::process::{Pid, Signal, kill_process};
use sim::control::{FaultKind, FaultRule};
use tempfile::TempDir;
use vsphere::{Client, Config, ServerTrust};

use crate::harness::command::{layercake, texts};
use crate::harness::ova;
use crate::harness::plain_vm::PlainVm;
use crate::harness::story::{SOON, Story, assert_contains, disruptive_story};

const NAME: &str = "imported-v1.98.3";
const OTHER: &str = "interrupted-v1.98.3";
const UNREADABLE: &str = "unreadable";
const PLAIN: &str = "plain";
const RELEASE: &str = "v1.98.3---layercake.20261121";
const PUT: &str = "PUT /cls/data";

#[test]
fn an_imported_ova_becomes_an_image_once() {
    disruptive_story("imported", |story| async move {
        story.prepare_namespace("best-effort-xsmall").await;
        let folder = TempDir::new().unwrap();
        let ova = ova::pack(folder.path(), |ovf| ovf.replace("v1.36.3", "v1.98.3"));

        // A run that is killed during the upload leaves an incomplete item, which doesn't become an image.
        let mut killed = held_import(&story, &ova, NAME).await;
        killed.kill().unwrap();
        killed.wait().unwrap();
        release(&story).await;

        // The next run continues with this item, although the connection breaks once.
        let control = story.shared.control();
        control.plant(&FaultRule::once(PUT, FaultKind::Abort).after(1)).await.unwrap();
        let imported = import(&story, &ova, NAME).arg("--wait").output().unwrap();
        let (text, errors) = texts(&imported);
        assert!(imported.status.success(), "{errors}");
        assert!(errors.contains("continuing with item") && errors.contains("starting again"), "{errors}");
        let release_of = format!("TanzuKubernetesRelease {RELEASE}");
        assert_contains(&text, &[&format!("layercake/{NAME}: imported"), &release_of]);
        release(&story).await;

        let again = import(&story, &ova, NAME).output().unwrap();
        let (text, errors) = texts(&again);
        assert!(again.status.success(), "{errors}");
        assert!(text.contains("already imported"), "{text}");

        apply_vm(&story, NAME).await;
        wait_for_image_and_release(&story).await;
        story.wait_until_made(NAME).await;
        story.delete("VirtualMachine", NAME, SOON).await;
        an_image_without_a_release_is_a_failure(&story);
        an_unreadable_image_says_why(&story).await;
        interrupted_leaves_nothing(&story, &ova).await;
    });
}

/// The user presses Ctrl-C, which removes the incomplete item.
async fn interrupted_leaves_nothing(story: &Story, ova: &Path) {
    let mut child = held_import(story, ova, OTHER).await;
    // An item that is being filled isn't an image, and doesn't block the VM operator.
    apply_vm(story, OTHER).await;
    story.wait_for_complaint("VirtualMachine", OTHER, &["VirtualMachineImageNotFound", OTHER]).await;
    remove(story, &[NAME, UNREADABLE, PLAIN]).await;
    story.delete("VirtualMachine", OTHER, SOON).await;
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let status: ExitStatus = tokio::task::spawn_blocking(move || child.wait()).await.unwrap().unwrap();
    assert_eq!(status.code(), Some(130));
    release(story).await;
    let vcenter = vcenter(story).await;
    let library = &story.shared.session.vcenter.library;
    assert!(vcenter.find_library_items(library, OTHER).await.unwrap().is_empty());
    vcenter.logout().await;
}

/// The VM operator can use the image, but `--wait` fails because it also waits for a release.
fn an_image_without_a_release_is_a_failure(story: &Story) {
    let folder = TempDir::new().unwrap();
    let is_plain =
        |line: &&str| !line.contains("distribution.image.version") && !line.contains("KUBERNETES_SEMVER");
    let ova = ova::pack(folder.path(), |ovf| ovf.lines().filter(is_plain).collect::<Vec<_>>().join("\n"));
    let imported = import(story, &ova, PLAIN).arg("--wait").output().unwrap();
    let (text, errors) = texts(&imported);
    assert_eq!(imported.status.code(), Some(1), "{errors}");
    assert_contains(&text, &["VirtualMachineImage plain"]);
    assert_contains(&errors, &["provides no TanzuKubernetesRelease", "The item stays"]);
}

/// A node image with unreadable properties doesn't become a release. An event and the doctor name the property.
async fn an_unreadable_image_says_why(story: &Story) {
    let folder = TempDir::new().unwrap();
    let ova = ova::pack(folder.path(), |ovf| ovf.replace("ovf:value=\"{&quot;", "ovf:value=\"{broken"));
    let imported = import(story, &ova, UNREADABLE).arg("--wait").output().unwrap();
    assert_eq!(imported.status.code(), Some(1));
    assert_contains(texts(&imported).1, &["distribution.image.version", "under another name"]);
    story.wait_for_events_in("default", "VirtualMachineImage", UNREADABLE, &["InvalidNodeImage"]).await;
    let mut doctor = layercake(&["doctor", "--only", "LC0603", "--kubeconfig"]);
    let (text, _) = texts(&doctor.arg(&story.shared.session.kubeconfig).output().unwrap());
    assert_contains(
        text,
        &[UNREADABLE, "distribution.image.version", "it is not JSON", "import the OVA again"],
    );
}

/// Creates a powered-off VM with the same name as its image.
async fn apply_vm(story: &Story, image: &str) {
    let mut vm = PlainVm { image: image.to_owned(), ..PlainVm::named(image) }.object(&story.namespace);
    vm["spec"]["powerState"] = "poweredOff".into();
    story.apply_object(&vm).await;
}

/// Waits for the release, and checks that the item has only one image.
async fn wait_for_image_and_release(story: &Story) {
    let images: Api<DynamicObject> = story.cluster_api("VirtualMachineImage");
    let releases: Api<DynamicObject> = story.cluster_api("TanzuKubernetesRelease");
    let there = async || releases.get_opt(RELEASE).await.unwrap().is_some();
    story.wait_until("the release of the imported image", SOON, there).await;
    let all = images.list(&ListParams::default()).await.unwrap();
    let named =
        all.iter().filter(|image| image.metadata.name.as_deref().unwrap_or_default().contains("v1.98.3"));
    let of_release: Vec<_> = named.filter_map(|image| image.metadata.name.clone()).collect();
    assert_eq!(of_release, [NAME]);
}

/// Removes the items, and waits until their images are gone.
async fn remove(story: &Story, names: &[&str]) {
    let vcenter = vcenter(story).await;
    for name in names {
        let items = vcenter.find_library_items(&story.shared.session.vcenter.library, name).await.unwrap();
        assert_eq!(items.len(), 1, "items called {name}");
        vcenter.delete_library_item(&items[0]).await.unwrap();
    }
    vcenter.logout().await;
    let images: Api<DynamicObject> = story.cluster_api("VirtualMachineImage");
    for name in names {
        story.wait_until_deleted(&images, name).await;
    }
}

/// Starts an import and waits until it is held during the upload.
async fn held_import(story: &Story, ova: &Path, name: &str) -> Child {
    let control = story.shared.control();
    control.plant(&FaultRule::once(PUT, FaultKind::ParkCall).after(1)).await.unwrap();
    let child = import(story, ova, name).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    story
        .wait_until("the disk is being sent", SOON, async || {
            let faults = control.faults().await.unwrap();
            faults["faults"].as_array().is_some_and(|all| all.iter().any(|fault| fault["held"] == 1))
        })
        .await;
    child
}

async fn release(story: &Story) {
    story.shared.control().remove_faults(None).await.unwrap();
}

fn import(story: &Story, ova: &Path, name: &str) -> Command {
    let mut command =
        layercake(&["image", "import", "--library", "layercake", "--name", name, "--kubeconfig"]);
    command.arg(&story.shared.session.kubeconfig).arg(ova);
    command
}

async fn vcenter(story: &Story) -> Client {
    let endpoint = &story.shared.session.vcenter;
    let url = endpoint.url();
    let address = url.trim_start_matches("https://").split('/').next().unwrap().to_owned();
    let (host, port) = address.rsplit_once(':').unwrap();
    let password = std::fs::read_to_string(&endpoint.password_file).unwrap();
    let config = Config::new(host, endpoint.username.clone(), password.trim_end().to_owned());
    let ca = std::fs::read_to_string(&endpoint.ca_file).unwrap();
    Client::connect(Config { port: port.parse().unwrap(), trust: ServerTrust::CaBundle(ca), ..config })
        .await
        .unwrap()
}
