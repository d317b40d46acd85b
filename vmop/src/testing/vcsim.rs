//! Helpers for tests with a simulated vCenter and without Kubernetes.

use std::sync::Arc;
use std::time::Duration;

use api::vmop::VirtualMachine;
use support::vcsim::Sim;
use support::wait::{poll, within};
use vsphere::{CloneSpec, ConfigSpec, Inventory, MoRef, Vm};

use crate::templates::{self, GoldenTemplate, TemplateCache, TemplateKey, TemplateState};
use crate::testing::fixtures;
use crate::vcenter::settings::{CertificateTrust, CredentialsSecret, PromoteDisks, ProviderSettings};
use crate::vcenter::{Placement, VCenter, mark};
use crate::virtualmachine::bootstrap::data::Bootstrap;
use crate::virtualmachine::carry_out::clone::clone_or_adopt;
use crate::virtualmachine::clone::{CloneParts, ClonePlan, compose_clone};
use crate::virtualmachine::error::Error;
use crate::virtualmachine::facts::Facts;
use crate::virtualmachine::identity::find::Found;
use crate::virtualmachine::needs::Needs;
use crate::virtualmachine::nic::adapter::Nic;
use crate::virtualmachine::storage::class::Storage;
use crate::virtualmachine::storage::disks;

mod tests;

pub fn settings(sim: &Sim) -> ProviderSettings {
    ProviderSettings {
        host: sim.address(),
        port: 443,
        datacenter: sim.datacenter().id().to_owned(),
        datastore: Some("ds1".into()),
        network: Some("workload".into()),
        guest_address_ranges: vec!["192.0.2.0/24".parse().unwrap()],
        network_provider: None,
        library: Some(sim.library().to_owned()),
        folder: None,
        resource_pool: None,
        storage_class_required: false,
        console_proxy: None,
        direct: false,
        promote_disks: PromoteDisks::Disabled,
        stack: "s1".into(),
        wire: sim.config().wire,
        trust: CertificateTrust::Insecure,
        secret: CredentialsSecret::default(),
        username: String::new(),
        password: String::new().into(),
    }
}

pub async fn vcenter(sim: &Sim) -> Arc<VCenter> {
    let inventory = sim.inventory().await;
    VCenter::new(settings(sim), inventory.client().clone(), inventory)
}

pub fn place(sim: &Sim) -> Placement {
    Placement { folder: sim.folder(), pool: sim.pool() }
}

pub async fn template_key(sim: &Sim, vcenter: &VCenter) -> TemplateKey {
    template_key_of(sim.library(), sim, vcenter).await
}

pub async fn template_key_of(library: &str, sim: &Sim, vcenter: &VCenter) -> TemplateKey {
    let ids = vcenter.client.list_library_items(library).await.unwrap();
    let item = vcenter.client.read_library_item(&ids[0]).await.unwrap();
    let datastore = vcenter.datastore().await.unwrap();
    TemplateKey {
        image: item.name,
        item: item.id,
        content: item.content_version,
        placement: place(sim),
        datastore,
        policy: None,
    }
}

/// Returns a template cache without a deployment loop.
pub fn templates() -> (Arc<TemplateCache>, templates::TemplateRequests) {
    TemplateCache::new(Arc::new(|_: &str| {}), Arc::new(|_: &str, _: &str| true))
}

pub async fn template(vcenter: &Arc<VCenter>, template_key: &TemplateKey) -> Arc<GoldenTemplate> {
    let (templates, requests) = templates();
    let ready = async {
        loop {
            templates.request(vcenter, template_key, "ns");
            match templates.get(vcenter, template_key) {
                TemplateState::Ready(template) => return template,
                // The loser of a deployment race tries again.
                TemplateState::Failed(_) | TemplateState::Deploying => tokio::task::yield_now().await,
            }
        }
    };
    let deploying = templates::deploy_requested(Arc::clone(&templates), requests, Arc::default());
    let deployed = async {
        tokio::select! {
            template = ready => template,
            () = deploying => panic!("the loop ended"),
        }
    };
    within("the template is ready", deployed).await
}

/// Plans [`fixtures::virtual_machine`]'s clone from `template`.
pub async fn wanted(sim: &Sim, vcenter: &VCenter, template: &GoldenTemplate, facts: &Facts) -> ClonePlan {
    wanted_of(&fixtures::virtual_machine(), sim, vcenter, template, facts).await
}

/// Plans a clone for `vm` from `template`, with the fixtures' NICs and bootstrap data.
pub async fn wanted_of(
    vm: &VirtualMachine,
    sim: &Sim,
    vcenter: &VCenter,
    template: &GoldenTemplate,
    facts: &Facts,
) -> ClonePlan {
    let network = vcenter.network("workload").await.unwrap();
    let Needs { nics, bootstrap, .. } = fixtures::needs();
    let nics = nics.unwrap().into_iter();
    let nics: Vec<_> = nics.map(|nic| Nic { backing: network.backing.clone(), ..nic }).collect();
    plan_clone(vm, &nics, &bootstrap.unwrap(), facts, template, sim, vcenter).await
}

/// Plans a clone for `vm` from `template`, with these NICs and bootstrap data.
pub async fn plan_clone(
    vm: &VirtualMachine,
    nics: &[Nic],
    bootstrap: &Bootstrap,
    facts: &Facts,
    template: &GoldenTemplate,
    sim: &Sim,
    vcenter: &VCenter,
) -> ClonePlan {
    let datastore = vcenter.datastore().await.unwrap();
    let storage = Storage { policy: None, datastore, ..Storage::default() };
    let parts = CloneParts {
        identity: facts.identity,
        mark: &facts.mark,
        size: &fixtures::needs().class.unwrap(),
        template,
        nics,
        bootstrap,
        placement: &place(sim),
        storage: &storage,
        disks: disks::plan_disks(vm, &template.devices, &storage, false).unwrap(),
    };
    compose_clone(vm, &parts)
}

/// Returns a vCenter, a deployed template, and the plan for [`fixtures::virtual_machine`]'s clone.
pub async fn planned_clone(sim: &Sim) -> (Arc<VCenter>, Arc<GoldenTemplate>, Facts, ClonePlan) {
    let vcenter = vcenter(sim).await;
    let template = template(&vcenter, &template_key(sim, &vcenter).await).await;
    let facts = fixtures::facts(Found::Absent);
    let plan = wanted(sim, &vcenter, &template, &facts).await;
    (vcenter, template, facts, plan)
}

/// Waits until the inventory shows the VM in a state where `so` holds.
pub async fn seen(vm: &MoRef, vcenter: &VCenter, so: impl Fn(&Vm) -> bool) -> Arc<Vm> {
    let shown = |inventory: &Inventory| inventory.vm(vm).present().filter(|vm| so(vm));
    vcenter.inventory.wait_until(Duration::from_mins(1), shown).await.expect("the inventory shows it")
}

/// Reconfigures a VM.
pub async fn reconfigure(vm: &MoRef, spec: ConfigSpec, vcenter: &VCenter) {
    let task = vcenter.client.reconfigure_vm(vm, spec).await.unwrap();
    within("the change", vcenter.inventory.wait_for_task(&task)).await.unwrap();
}

/// Removes a VM's record of the template that it was cloned from.
pub async fn forget_base(vm: &MoRef, vcenter: &VCenter) {
    let extra_config = vec![(mark::BASE.to_owned(), String::new())].into();
    reconfigure(vm, ConfigSpec { extra_config, ..ConfigSpec::default() }, vcenter).await;
    seen(vm, vcenter, |vm| mark::base(vm).is_none()).await;
}

/// Clones the plan's template into `folder`, powered off and without a configuration.
pub async fn clone_bare(plan: &ClonePlan, folder: &MoRef, name: &str, vcenter: &VCenter) -> MoRef {
    let spec = CloneSpec { power_on: false, config: None, ..plan.spec.clone() };
    let task = vcenter.client.clone_vm(&plan.template, folder, name, spec).await.unwrap();
    within("a clone", vcenter.inventory.wait_for_task(&task)).await.unwrap().moref().unwrap().clone()
}

/// Waits until vCenter holds a call, runs `meanwhile`, and then releases the call.
pub async fn while_held<T>(sim: &Sim, meanwhile: impl Future<Output = T>) -> T {
    let held = async || sim.get("/v1/faults").await["faults"][0]["held"].as_u64().filter(|held| *held > 0);
    poll("the call is held", Duration::from_mins(1), held).await.unwrap();
    let done = meanwhile.await;
    sim.release().await;
    done
}

/// Returns the sorted names of all VMs except templates.
pub async fn names(sim: &Sim) -> Vec<String> {
    let inventory = sim.get("/v1/inventory").await;
    let vms = inventory["vms"].as_array().unwrap().iter().filter(|vm| vm["template"] != true);
    let mut names: Vec<_> = vms.map(|vm| vm["name"].as_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

/// Carries out the clone plan and returns the VM.
pub async fn clone_vm(plan: &ClonePlan, facts: &Facts, vcenter: &VCenter) -> Result<Arc<Vm>, Error> {
    clone_or_adopt(Box::new(plan.clone()), None, facts, vcenter).await
}
