//! What the parts that talk to vCenter begin with, in tests against a real simulator process and without Kubernetes.

use std::sync::Arc;

use support::vcsim::Sim;
use support::wait::within;

use crate::provider::config::{CredentialsSecret, PromoteDisks, Settings, Trust};
use crate::provider::golden::{Goldens, Progress, Recipe, Template};
use crate::provider::{Place, Site};
use crate::testing::fixtures;
use crate::virtualmachine::clone::{Intent, Parts, intent};
use crate::virtualmachine::nic::nic::Card;
use crate::virtualmachine::plan::Facts;
use crate::virtualmachine::storage::class::Storage;
use crate::virtualmachine::storage::disks;

mod tests;

pub fn settings(sim: &Sim) -> Settings {
    Settings {
        host: sim.address(),
        port: 443,
        datacenter: sim.datacenter().id().to_owned(),
        datastore: Some("ds1".into()),
        network: Some("workload".into()),
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
        trust: Trust::Nobody,
        secret: CredentialsSecret::default(),
        username: String::new(),
        password: String::new(),
    }
}

pub async fn site(sim: &Sim) -> Arc<Site> {
    let inventory = sim.inventory().await;
    Site::new(settings(sim), inventory.client().clone(), inventory, Arc::new(|_: &str| {}))
}

pub fn place(sim: &Sim) -> Place {
    Place { folder: sim.folder(), pool: sim.pool() }
}

pub async fn recipe(sim: &Sim, site: &Site) -> Recipe {
    recipe_of(sim.library(), sim, site).await
}

async fn recipe_of(library: &str, sim: &Sim, site: &Site) -> Recipe {
    let ids = site.client.library_items(library).await.unwrap();
    let item = site.client.library_item(&ids[0]).await.unwrap();
    let datastore = site.datastore().await.unwrap();
    Recipe {
        image: item.name,
        item: item.id,
        content: item.content_version,
        place: place(sim),
        datastore,
        policy: None,
    }
}

pub async fn template(site: &Arc<Site>, recipe: &Recipe) -> Arc<Template> {
    let ready = async {
        loop {
            match Goldens::ask(site, recipe) {
                Progress::Ready(template) => return template,
                // Whoever loses the race to deploy looks again.
                Progress::Failing(_) | Progress::Making => tokio::task::yield_now().await,
            }
        }
    };
    within("the template is ready", ready).await
}

/// The VM of [`fixtures::virtual_machine`], to be cloned from `template`.
pub async fn wanted(sim: &Sim, site: &Site, template: &Arc<Template>, facts: &Facts) -> Intent {
    let network = site.network("workload").await.unwrap();
    let needs = fixtures::needs();
    let datastore = site.datastore().await.unwrap();
    let storage = Storage { policy: None, datastore };
    let cards = needs.network.unwrap().into_iter();
    let cards: Vec<_> = cards.map(|card| Card { backing: network.backing.clone(), ..card }).collect();
    let parts = Parts {
        identity: facts.identity,
        mark: &facts.mark,
        size: &needs.class.unwrap(),
        template,
        cards: &cards,
        bootstrap: &needs.bootstrap.unwrap(),
        place: &place(sim),
        storage: &storage,
        disks: disks::layout(&fixtures::virtual_machine(), &template.devices, &storage, false).unwrap(),
    };
    intent(&fixtures::virtual_machine(), &parts)
}
