//! Golden templates: a library image deployed once, from which every machine is a linked clone.
//!
//! A template is made in four steps: deploy, mark, snapshot, mark as template. A crash may come
//! between any two, and two leaders may be at it for a moment. So the name says what it is made of
//! (vCenter keeps names in a folder apart), every step looks first whether it is done, and whoever
//! finds a half-made one finishes it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kit::retry::Failures;
use parking_lot::Mutex;
use vsphere::automation::Deploy;
use vsphere::inventory::Presence;
use vsphere::{ConfigSpec, Devices, Kind, MoRef, ObjectContent, VAppProperty, Value, Vm};

use super::{Place, Problem, Site, mark};
use crate::virtualmachine::bootstrap::DEFER;

/// How long vCenter may copy an image's disks.
const DEPLOY: Duration = Duration::from_hours(2);
/// How often it is asked whether the files of an item are here: nothing tells.
const FETCHING: Duration = Duration::from_secs(2);
/// How long the stream may take to tell of a machine that vCenter has made.
const ENTER: Duration = Duration::from_secs(30);
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(5));
/// vCenter takes no longer names.
const LONGEST_NAME: usize = 80;
const SNAPSHOT: &str = "golden";

/// Wakes whoever waits for the image of that name.
pub type Wake = Arc<dyn Fn(&str) + Send + Sync>;

/// What a template is made of, and where.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Recipe {
    /// Name of the VirtualMachineImage.
    pub image: String,
    /// The library item.
    pub item: String,
    /// The version of the item's files.
    pub content: String,
    /// Folder and pool.
    pub place: Place,
    /// The datastore; `None` leaves the choice to vCenter.
    pub datastore: Option<MoRef>,
    /// The storage policy of its disks, by id.
    pub policy: Option<String>,
}

/// A template that is ready to be cloned.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    /// The template.
    pub moref: MoRef,
    /// Its name.
    pub name: String,
    /// The snapshot that linked clones start from.
    pub snapshot: MoRef,
    /// Its disks, controllers and network cards.
    pub devices: Devices,
    /// Its OVF properties.
    pub properties: Vec<VAppProperty>,
    /// Its cloud-init waits for VMware Tools, if it is told to.
    pub defers: bool,
}

/// How far a template is.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress {
    /// It is being made.
    Making,
    /// It can't be made; it is tried again.
    Failing(Problem),
    /// It is ready.
    Ready(Arc<Template>),
}

/// All templates of one vCenter.
pub struct Goldens {
    known: Mutex<HashMap<Recipe, Progress>>,
    wake: Wake,
}

impl Goldens {
    /// No template is known yet.
    pub fn new(wake: Wake) -> Self {
        Self { known: Mutex::default(), wake }
    }

    /// How far the template is; the first who asks starts its making.
    pub fn ask(site: &Arc<Site>, recipe: &Recipe) -> Progress {
        let mut known = site.goldens.known.lock();
        match known.get(recipe) {
            Some(Progress::Ready(template)) if site.inventory.vm(&template.moref) == Presence::Absent => {}
            Some(progress) => return progress.clone(),
            None => {}
        }
        known.insert(recipe.clone(), Progress::Making);
        let (site, recipe) = (Arc::clone(site), recipe.clone());
        tokio::spawn(async move {
            let gone = site.gone.clone();
            gone.run_until_cancelled(keep_making(&site, &recipe)).await;
        });
        Progress::Making
    }

    /// The template can't be cloned from: it is looked at anew when it is asked for again.
    pub fn forget(&self, template: &MoRef) {
        let mut known = self.known.lock();
        known.retain(|_, progress| !matches!(progress, Progress::Ready(ready) if ready.moref == *template));
    }

    fn tell(&self, recipe: &Recipe, progress: Progress) {
        let old = self.known.lock().insert(recipe.clone(), progress.clone());
        // The same failure again is no news.
        if old != Some(progress) {
            (self.wake)(&recipe.image);
        }
    }
}

async fn keep_making(site: &Arc<Site>, recipe: &Recipe) {
    let failures = Failures::new(RETRY.0, RETRY.1);
    loop {
        match make(site, recipe).await {
            Ok(template) => {
                tracing::info!(image = recipe.image, template = %template.moref, "template ready");
                return site.goldens.tell(recipe, Progress::Ready(Arc::new(template)));
            }
            Err(problem) => {
                tracing::warn!(image = recipe.image, %problem, "template not ready; trying again");
                site.goldens.tell(recipe, Progress::Failing(problem));
            }
        }
        tokio::time::sleep(failures.next(())).await;
    }
}

/// Finds the template, or makes what is missing of it.
async fn make(site: &Site, recipe: &Recipe) -> Result<Template, Problem> {
    let fail = |error: vsphere::Error| site.problem(&error);
    site.covers(&recipe.place.folder).await.map_err(fail)?;
    let name = name(recipe, &site.settings.stack);
    let vm = match site.inventory.by_name(&recipe.place.folder, &name) {
        Presence::Present(vm) => vm,
        Presence::Unknown => return Err(Problem::passing("The inventory of vCenter is being read")),
        Presence::Absent => deploy(site, recipe, &name).await.map_err(fail)?,
    };
    match mark::golden_state(&vm, &recipe.item, &recipe.content) {
        mark::Golden::Marked => {}
        mark::Golden::Unmarked => put_mark(site, recipe, &vm).await.map_err(fail)?,
        mark::Golden::Anothers => {
            return Err(Problem::new(format!(
                "The name of the template of image {} is taken by the machine {}. Rename or remove that machine",
                recipe.image,
                mark::described(&vm)
            )));
        }
    }
    finish(site, &vm.moref, name).await.map_err(fail)
}

/// Deploys the image under that name; where somebody else is at it already, takes his.
async fn deploy(site: &Site, recipe: &Recipe, name: &str) -> Result<Arc<Vm>, vsphere::Error> {
    let deployment = Deploy {
        item_id: recipe.item.clone(),
        name: name.to_owned(),
        annotation: Some(format!(
            "Template of the image {}. Machines are linked to its disks.",
            recipe.image
        )),
        pool: recipe.place.pool.clone(),
        folder: recipe.place.folder.clone(),
        host: None,
        datastore: recipe.datastore.clone(),
        profile: recipe.policy.clone(),
        provisioning: None,
        networks: Vec::new(),
    };
    fetched(site, recipe).await?;
    tracing::info!(image = recipe.image, name, "deploying");
    let moref = match site.client.deploy_ovf(&deployment, DEPLOY).await {
        Ok(moref) => moref,
        // Which fault tells of a taken name depends on the release; one look settles it.
        Err(error) => site.client.find_child(&recipe.place.folder, name).await?.ok_or(error)?,
    };
    site.inventory.wait_for_vm(&moref, ENTER).await
}

/// The item's files are here; a subscribed library may have left them where they come from.
async fn fetched(site: &Site, recipe: &Recipe) -> Result<(), vsphere::Error> {
    let cached = async || site.client.library_item(&recipe.item).await.map(|item| item.cached);
    if cached().await? {
        return Ok(());
    }
    tracing::info!(image = recipe.image, "fetching the files of a subscribed library");
    site.client.sync_subscribed_item(&recipe.item).await?;
    let all = async {
        while !cached().await? {
            tokio::time::sleep(FETCHING).await;
        }
        Ok(())
    };
    let late = || vsphere::Error::new("library item sync", Kind::TimedOut).on(&recipe.image);
    tokio::time::timeout(DEPLOY, all).await.unwrap_or_else(|_elapsed| Err(late()))
}

async fn put_mark(site: &Site, recipe: &Recipe, vm: &Vm) -> Result<(), vsphere::Error> {
    let spec = ConfigSpec {
        managed_by: Some(mark::managed_by()),
        extra_config: mark::golden(&recipe.item, &recipe.content, &site.settings.stack).into(),
        ..ConfigSpec::default()
    };
    let task = site.client.reconfigure_vm(&vm.moref, spec).await?;
    site.inventory.wait_for_task(&task).await.map(drop)
}

/// Takes the snapshot and makes the machine a template, whichever is missing.
async fn finish(site: &Site, moref: &MoRef, name: String) -> Result<Template, vsphere::Error> {
    const PATHS: [&str; 6] = [
        SNAPSHOTS,
        "config.hardware.device",
        "config.template",
        "config.changeVersion",
        "config.vAppConfig",
        "config.extraConfig",
    ];
    let read = site.client.retrieve(std::slice::from_ref(moref), &PATHS).await?;
    let Some(vm) = read.first() else {
        return Err(
            vsphere::Error::new("retrieve", Kind::NotFound { missing: Some(moref.clone()) }).on(moref)
        );
    };
    let snapshot = match first_snapshot(vm) {
        Some(snapshot) => snapshot,
        None => snapshot(site, moref).await?,
    };
    if vm.get("config.template").as_bool() != Some(true) {
        site.client.mark_as_template(moref).await?;
    }
    let version = vm.get("config.changeVersion").as_str().unwrap_or_default();
    let devices = Devices::read(version, vm.get("config.hardware.device"));
    let properties = vm.get("config.vAppConfig").get("property").items();
    let properties = properties.iter().filter_map(VAppProperty::read).collect();
    let defers = vm.get("config.extraConfig").items().iter().any(|option| {
        option.get("key").as_str() == Some(DEFER) && option.get("value").as_str() == Some("ready")
    });
    Ok(Template { moref: moref.clone(), name, snapshot, devices, properties, defers })
}

const SNAPSHOTS: &str = "rootSnapshot";

/// The oldest snapshot: where two were at it, both take the same one.
fn first_snapshot(vm: &ObjectContent) -> Option<MoRef> {
    vm.get(SNAPSHOTS).items().first().and_then(Value::as_moref).cloned()
}

async fn snapshot(site: &Site, moref: &MoRef) -> Result<MoRef, vsphere::Error> {
    let task =
        site.client.create_snapshot(moref, SNAPSHOT, "Machines are linked to it: do not remove.").await?;
    site.inventory.wait_for_task(&task).await?;
    let read = site.client.retrieve(std::slice::from_ref(moref), &[SNAPSHOTS]).await?;
    read.first().and_then(first_snapshot).ok_or_else(|| {
        let cause = "the machine has no snapshot after one was taken".to_owned();
        vsphere::Error::new("CreateSnapshot_Task", Kind::Unexpected { cause }).on(moref)
    })
}

/// The template's name: the image's, and a suffix that stands for all it is made of.
pub fn name(recipe: &Recipe, stack: &str) -> String {
    let datastore = recipe.datastore.as_ref().map_or("", MoRef::id);
    let policy = recipe.policy.as_deref();
    let made_of = [recipe.item.as_str(), &recipe.content, datastore, stack];
    let suffix = api::names::hash(made_of.into_iter().chain(policy));
    let room = LONGEST_NAME - suffix.len() - 1;
    let mut image = recipe.image.as_str();
    while image.len() > room {
        image = &image[..image.floor_char_boundary(room)];
    }
    format!("{image}-{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recipe(image: &str, content: &str) -> Recipe {
        let place = Place { folder: MoRef::folder("group-v9"), pool: MoRef::pool("resgroup-9") };
        Recipe {
            image: image.into(),
            item: "item".into(),
            content: content.into(),
            place,
            datastore: None,
            policy: None,
        }
    }

    #[test]
    fn the_name_stands_for_the_recipe() {
        let short = name(&recipe("photon-3", "1"), "s");
        assert!(short.starts_with("photon-3-") && short.len() == "photon-3-".len() + 5);
        assert_eq!(short, name(&recipe("photon-3", "1"), "s"));
        assert_ne!(short, name(&recipe("photon-3", "2"), "s"));
        assert_ne!(short, name(&recipe("photon-3", "1"), "t"));
        let long = name(&recipe(&"x".repeat(200), "1"), "s");
        assert_eq!(long.len(), LONGEST_NAME);
    }
}
