//! Deploys each requested golden template once.
//!
//! A template is created in four steps: deploy, mark, snapshot, mark as template. The process can crash between them,
//! and two leaders can overlap briefly. So the name identifies the content (vCenter keeps names unique per folder),
//! every step first checks whether it is done, and an incomplete template is completed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bounds::{Lane, Turn};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use kit::retry::Failures;
use tokio::sync::watch;
use tokio::task::JoinSet;
use vsphere::automation::Deploy;
use vsphere::inventory::Presence;
use vsphere::{ConfigSpec, Devices, Kind, MoRef, ObjectContent, VAppProperty, Value, Vm};

use super::cache::{GoldenTemplate, TemplateCache, TemplateRequest, TemplateRequests, TemplateState};
use super::key::TemplateKey;
use crate::extra_config::DEFER_CLOUD_INIT;
use crate::image::SyncRequests;
use crate::vcenter::{Problem, VCenter, describe_unavailable, mark};

/// The timeout for copying an image's disks in vCenter.
const DEPLOY: Duration = Duration::from_hours(2);
/// The poll interval for an item's files, because no event reports them.
const FETCHING: Duration = Duration::from_secs(2);
/// The timeout until the inventory shows a VM that vCenter created.
const ENTER: Duration = Duration::from_secs(30);
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(5));
const SNAPSHOT: &str = "golden";

/// Deploys requested templates, each in its own task, until dropped. Requests an image sync if a library item doesn't
/// match its image.
pub async fn deploy_requested(
    cache: Arc<TemplateCache>,
    mut requests: TemplateRequests,
    library_syncs: Arc<SyncRequests>,
) {
    let mut deployments = JoinSet::new();
    loop {
        tokio::select! {
            Some(request) = requests.0.recv() => {
                let (cache, library_syncs) = (Arc::clone(&cache), Arc::clone(&library_syncs));
                deployments.spawn(async move {
                    let gone = request.vcenter.gone.clone();
                    gone.run_until_cancelled(deploy_until_ready(&cache, &request, &library_syncs)).await;
                });
            }
            Some(_ended) = deployments.join_next() => {}
            else => return,
        }
    }
}

/// Deploys the template. Retries with backoff while a VM waits for it.
async fn deploy_until_ready(cache: &TemplateCache, request: &TemplateRequest, library_syncs: &SyncRequests) {
    let TemplateRequest { vcenter, key, .. } = request;
    let failures = Failures::new(RETRY.0, RETRY.1);
    loop {
        match find_or_deploy(request, library_syncs).await {
            Ok(template) => {
                tracing::info!(image = key.image, template = %template.moref, "template ready");
                return cache.record(vcenter, key, TemplateState::Ready(Arc::new(template)));
            }
            Err(problem) => {
                tracing::warn!(image = key.image, %problem, "template not ready; trying again");
                cache.record(vcenter, key, TemplateState::Failed(problem));
            }
        }
        tokio::time::sleep(failures.next(())).await;
        if cache.end_unless_wanted(vcenter, key) {
            tracing::info!(image = key.image, "no VM waits for the template any more; not deploying it");
            return;
        }
    }
}

async fn find_or_deploy(
    request: &TemplateRequest,
    library_syncs: &SyncRequests,
) -> Result<GoldenTemplate, Problem> {
    let TemplateRequest { vcenter, key, .. } = request;
    let fail = |error: vsphere::Error| vcenter.problem(&error);
    vcenter.watch_folder(&key.placement.folder).await.map_err(fail)?;
    let name = key.template_name(&vcenter.settings.stack);
    let vm = match vcenter.inventory.by_name(&key.placement.folder, &name) {
        Presence::Present(vm) => vm,
        Presence::Unavailable(vm) => {
            return Err(Problem::new(format!(
                "The template of image {} can't be cloned: {}",
                key.image,
                describe_unavailable(&vm)
            )));
        }
        Presence::Unknown => return Err(Problem::transient("The inventory of vCenter is being read")),
        Presence::Absent => {
            check_item(vcenter, key).await.inspect_err(|_| library_syncs.request())?;
            deploy(request, &name).await.map_err(fail)?
        }
    };
    match mark::template_mark(&vm, &key.item, &key.content) {
        mark::TemplateMark::Marked => {}
        mark::TemplateMark::Unmarked => put_mark(vcenter, key, &vm).await.map_err(fail)?,
        mark::TemplateMark::Foreign => {
            return Err(Problem::new(format!(
                "VM {} has the name that the template of image {} needs. Rename or remove that VM",
                mark::described(&vm),
                key.image
            )));
        }
    }
    finish_template(vcenter, &vm.moref, name).await.map_err(fail)
}

/// Checks that the library item has the content that its VirtualMachineImage shows.
async fn check_item(vcenter: &VCenter, key: &TemplateKey) -> Result<(), Problem> {
    let again = "The libraries are being read again";
    match vcenter.client.read_library_item(&key.item).await {
        Ok(item) if item.content_version == key.content => Ok(()),
        Ok(_) => Err(Problem::new(format!(
            "The content of image {} has changed in its content library. {again}",
            key.image
        ))),
        Err(error) if error.is_not_found() => Err(Problem::new(format!(
            "The item of image {} is no longer in its content library. {again}",
            key.image
        ))),
        Err(error) => Err(vcenter.problem(&error)),
    }
}

/// Deploys the image under that name. If another process is faster, returns the VM that the other process deployed.
async fn deploy(request: &TemplateRequest, name: &str) -> Result<Arc<Vm>, vsphere::Error> {
    let TemplateRequest { vcenter, key, requesters } = request;
    let deployment = Deploy {
        item_id: key.item.clone(),
        name: name.to_owned(),
        annotation: Some(format!("Template of the image {}. VMs are linked to its disks.", key.image)),
        pool: key.placement.pool.clone(),
        folder: key.placement.folder.clone(),
        host: None,
        datastore: key.datastore.clone(),
        profile: key.policy.clone(),
        provisioning: None,
        networks: Vec::new(),
    };
    // Existing templates don't wait for a turn, so that one namespace's deployments don't delay others' clones.
    let turn = enter_for_any(vcenter.client.deployments(), requesters.clone()).await;
    fetch_files(vcenter, key).await?;
    tracing::info!(image = key.image, name, "deploying");
    let moref = match vcenter.client.deploy_ovf(&turn, &deployment, DEPLOY).await {
        Ok(moref) => moref,
        // The fault for a taken name depends on the vSphere release, so look for the name.
        Err(error) => vcenter.client.find_child(&key.placement.folder, name).await?.ok_or(error)?,
    };
    vcenter.inventory.wait_for_vm(&moref, ENTER).await
}

/// Waits until any requester gets a turn. A requester with a full share doesn't delay the others.
async fn enter_for_any(lane: &Lane, mut requesters: watch::Receiver<BTreeSet<String>>) -> Turn {
    let mut entered = BTreeSet::new();
    let mut waiting = FuturesUnordered::new();
    loop {
        let now = requesters.borrow_and_update().clone();
        for namespace in now {
            if entered.insert(namespace.clone()) {
                waiting.push(async move { lane.enter(&namespace).await });
            }
        }
        tokio::select! {
            Some(turn) = waiting.next() => return turn,
            Ok(()) = requesters.changed() => {}
            // All senders are gone, and there wasn't a requester.
            else => std::future::pending().await,
        }
    }
}

/// Makes vCenter download the item's files, which a subscribed library may not have.
async fn fetch_files(vcenter: &VCenter, key: &TemplateKey) -> Result<(), vsphere::Error> {
    let cached = async || vcenter.client.read_library_item(&key.item).await.map(|item| item.cached);
    if cached().await? {
        return Ok(());
    }
    tracing::info!(image = key.image, "fetching the files of a subscribed library");
    vcenter.client.sync_subscribed_item(&key.item).await?;
    let all = async {
        while !cached().await? {
            tokio::time::sleep(FETCHING).await;
        }
        Ok(())
    };
    let late = || vsphere::Error::new("library item sync", Kind::TimedOut).on(&key.image);
    tokio::time::timeout(DEPLOY, all).await.unwrap_or_else(|_elapsed| Err(late()))
}

async fn put_mark(vcenter: &VCenter, key: &TemplateKey, vm: &Vm) -> Result<(), vsphere::Error> {
    let spec = ConfigSpec {
        managed_by: Some(mark::managed_by()),
        extra_config: mark::template_extra_config(&key.item, &key.content, &vcenter.settings.stack).into(),
        ..ConfigSpec::default()
    };
    let task = vcenter.client.reconfigure_vm(&vm.moref, spec).await?;
    vcenter.inventory.wait_for_task(&task).await.map(drop)
}

/// Takes the snapshot and converts the VM to a template, unless that is already done.
async fn finish_template(
    vcenter: &VCenter,
    moref: &MoRef,
    name: String,
) -> Result<GoldenTemplate, vsphere::Error> {
    const PATHS: [&str; 6] = [
        SNAPSHOTS,
        "config.hardware.device",
        "config.template",
        "config.changeVersion",
        "config.vAppConfig",
        "config.extraConfig",
    ];
    let read = vcenter.client.retrieve(std::slice::from_ref(moref), &PATHS).await?;
    let Some(vm) = read.first() else {
        return Err(
            vsphere::Error::new("retrieve", Kind::NotFound { missing: Some(moref.clone()) }).on(moref)
        );
    };
    let snapshot = match first_snapshot(vm) {
        Some(snapshot) => snapshot,
        None => take_snapshot(vcenter, moref).await?,
    };
    if vm.get("config.template").as_bool() != Some(true) {
        vcenter.client.mark_as_template(moref).await?;
    }
    let version = vm.get("config.changeVersion").as_str().unwrap_or_default();
    let devices = Devices::read(version, vm.get("config.hardware.device"));
    let properties = vm.get("config.vAppConfig").get("property").items();
    let properties = properties.iter().filter_map(VAppProperty::read).collect();
    let defers = vm.get("config.extraConfig").items().iter().any(|option| {
        option.get("key").as_str() == Some(DEFER_CLOUD_INIT) && option.get("value").as_str() == Some("ready")
    });
    Ok(GoldenTemplate { moref: moref.clone(), name, snapshot, devices, properties, defers })
}

const SNAPSHOTS: &str = "rootSnapshot";

/// Returns the oldest snapshot, so that two processes that each took a snapshot use the same one.
fn first_snapshot(vm: &ObjectContent) -> Option<MoRef> {
    vm.get(SNAPSHOTS).items().first().and_then(Value::as_moref).cloned()
}

async fn take_snapshot(vcenter: &VCenter, moref: &MoRef) -> Result<MoRef, vsphere::Error> {
    let task =
        vcenter.client.create_snapshot(moref, SNAPSHOT, "VMs are linked to it: do not remove.").await?;
    vcenter.inventory.wait_for_task(&task).await?;
    let read = vcenter.client.retrieve(std::slice::from_ref(moref), &[SNAPSHOTS]).await?;
    read.first().and_then(first_snapshot).ok_or_else(|| {
        let cause = "the VM has no snapshot after one was taken".to_owned();
        vsphere::Error::new("CreateSnapshot_Task", Kind::Unexpected { cause }).on(moref)
    })
}
