//! Cluster modules and pool reservations on a simulated vCenter, with crashes at every write.

use std::collections::BTreeSet;

use support::on_both_wires;
use support::vcsim::Sim;
use support::wait::within;
use vsphere::{Allocation, MoRef};

use crate::policy::ledger::{Ledger, ModuleSlot};
use crate::policy::ledger_store::LedgerStore;
use crate::policy::modules::{create_missing, remove};
use crate::policy::pool::keep_allocations;
use crate::testing::vcsim::{clone_bare, place, planned_clone, vcenter};
use crate::vcenter::VCenter;

/// A ledger store whose writes can fail.
#[derive(Default)]
pub(super) struct Notes {
    pub written: Ledger,
    pub others: BTreeSet<String>,
    pub writes: usize,
    pub fails_at: Option<(usize, u16)>,
}

impl LedgerStore for Notes {
    async fn write(&mut self, ledger: &Ledger) -> kube::Result<()> {
        self.writes += 1;
        match self.fails_at {
            Some((at, code)) if at == self.writes => {
                let reason = if code == 409 { "Conflict" } else { "InternalError" };
                let status = kube::core::Status::failure(reason, reason).with_code(code);
                Err(kube::Error::Api(status.boxed()))
            }
            _ => {
                self.written = ledger.clone();
                Ok(())
            }
        }
    }

    fn others(&self) -> BTreeSet<String> {
        self.others.clone()
    }
}

async fn slots(sim: &Sim, vcenter: &VCenter, groups: &[&str]) -> BTreeSet<ModuleSlot> {
    let cluster = vcenter.cluster(&sim.pool()).await.unwrap().id().to_owned();
    groups.iter().map(|group| ModuleSlot { cluster: cluster.clone(), group: (*group).to_owned() }).collect()
}

async fn count(vcenter: &VCenter) -> usize {
    vcenter.client.list_cluster_modules().await.unwrap().len()
}

async fn a_module_is_made_once_whatever_write_is_lost(sim: Sim) {
    let vcenter = vcenter(&sim).await;
    let wanted = slots(&sim, &vcenter, &["control-plane", "workers"]).await;
    for fails_at in [None, Some((1, 500)), Some((2, 500))] {
        let mut store = Notes { fails_at, ..Notes::default() };
        let first = create_missing(&wanted, store.written.clone(), &mut store, &vcenter).await;
        assert_eq!(first.is_err(), fails_at.is_some());
        store.fails_at = None;
        let modules = create_missing(&wanted, store.written.clone(), &mut store, &vcenter).await.unwrap();
        assert_eq!(modules.values().map(std::collections::BTreeMap::len).sum::<usize>(), 2);
        assert_eq!(count(&vcenter).await, 2, "{fails_at:?}");
        // An unchanged ledger isn't written again.
        let writes = store.writes;
        let again = create_missing(&wanted, store.written.clone(), &mut store, &vcenter).await.unwrap();
        assert_eq!(again, modules);
        assert_eq!((store.writes, store.written.known.is_none()), (writes, true));
        remove(&wanted, store.written.clone(), &store, &vcenter).await.unwrap();
        assert_eq!(count(&vcenter).await, 0);
    }
}

async fn a_module_whose_answer_was_lost_is_found_again(sim: Sim) {
    let vcenter = vcenter(&sim).await;
    let wanted = slots(&sim, &vcenter, &["workers"]).await;
    let fault = serde_json::json!({ "method": "POST /vcenter/cluster/modules", "kind": "lostAnswer" });
    sim.post("/v1/faults", fault).await;
    let mut store = Notes::default();
    create_missing(&wanted, Ledger::default(), &mut store, &vcenter).await.unwrap_err();
    assert_eq!((count(&vcenter).await, store.written.modules.len()), (1, 0));
    create_missing(&wanted, store.written.clone(), &mut store, &vcenter).await.unwrap();
    assert_eq!((count(&vcenter).await, store.written.modules.len()), (1, 1));
}

async fn a_second_leader_takes_back_what_it_made(sim: Sim) {
    let vcenter = vcenter(&sim).await;
    let wanted = slots(&sim, &vcenter, &["workers"]).await;
    let mut store = Notes { fails_at: Some((2, 409)), ..Notes::default() };
    create_missing(&wanted, Ledger::default(), &mut store, &vcenter).await.unwrap_err();
    assert_eq!(count(&vcenter).await, 0);
}

async fn modules_of_others_are_left_alone(sim: Sim) {
    let vcenter = vcenter(&sim).await;
    let wanted = slots(&sim, &vcenter, &["workers"]).await;
    let cluster = vcenter.cluster(&sim.pool()).await.unwrap();
    let mut store = Notes { fails_at: Some((2, 500)), ..Notes::default() };
    create_missing(&wanted, Ledger::default(), &mut store, &vcenter).await.unwrap_err();
    let claimed = vcenter.client.create_cluster_module(&cluster).await.unwrap();
    store.others.insert(claimed.clone());
    create_missing(&wanted, store.written.clone(), &mut store, &vcenter).await.unwrap();
    assert!(store.written.module_ids().all(|id| *id != claimed));
    remove(&wanted, store.written.clone(), &store, &vcenter).await.unwrap();
    assert_eq!(vcenter.client.list_cluster_modules().await.unwrap()[0].id, claimed);
}

async fn a_module_in_two_ledgers_is_deleted_by_neither(sim: Sim) {
    let vcenter = vcenter(&sim).await;
    let cluster = vcenter.cluster(&sim.pool()).await.unwrap();
    let module = vcenter.client.create_cluster_module(&cluster).await.unwrap();
    let mut store = Notes::default();
    let slot = slots(&sim, &vcenter, &["x"]).await.pop_first().unwrap();
    store.written.enter(slot, module.clone());
    store.others.insert(module);
    remove(&BTreeSet::new(), store.written.clone(), &store, &vcenter).await.unwrap();
    assert_eq!(count(&vcenter).await, 1);
}

async fn vms_share_the_call_that_makes_them_members(sim: Sim) {
    let (vcenter, _, _facts, intent) = planned_clone(&sim).await;
    let clone = async |name: &str| clone_bare(&intent, &intent.folder, name, &vcenter).await;
    let mut vms = Vec::new();
    for name in 0..12 {
        vms.push(clone(&format!("m-{name}")).await);
    }
    let cluster = vcenter.cluster(&sim.pool()).await.unwrap();
    let module = vcenter.client.create_cluster_module(&cluster).await.unwrap();
    sim.forget_requests().await;
    let join = |vsphere_vm: &MoRef| {
        let (vcenter, module, vsphere_vm) = (vcenter.clone(), module.clone(), vsphere_vm.clone());
        async move { vcenter.memberships.join(&vcenter.client, &module, &vsphere_vm).await }
    };
    let all = futures::future::join_all(vms.iter().map(join));
    assert!(within("membership", all).await.iter().all(Result::is_ok));
    let calls = sim.total().await;
    assert!(calls <= 2, "{calls} calls for twelve VMs");
    assert_eq!(vcenter.client.list_cluster_module_members(&module).await.unwrap().len(), 12);

    // In another process, joining succeeds for a member and fails for an unknown VM.
    let other = crate::testing::vcsim::vcenter(&sim).await;
    let stranger = MoRef::vm("vm-0");
    let again = tokio::join!(
        other.memberships.join(&other.client, &module, &vms[0]),
        other.memberships.join(&other.client, &module, &stranger),
    );
    assert!(again.0.is_ok() && again.1.is_err(), "{again:?}");
    assert!(other.memberships.holds(&other.client, &module, &vms[1]).await.unwrap());
    // A member that the first process adds later is found by the next call.
    let late = clone("m-12").await;
    join(&late).await.unwrap();
    assert!(other.memberships.holds(&other.client, &module, &late).await.unwrap());
    assert!(!other.memberships.holds(&other.client, &module, &stranger).await.unwrap());
    other.client.delete_cluster_module(&module).await.unwrap();
    let gone = other.memberships.join(&other.client, &module, &stranger).await.unwrap_err();
    assert!(gone.is_not_found() && gone.method() == crate::vcenter::MEMBERSHIP, "{gone:?}");
}

async fn a_pool_is_brought_back_to_what_its_policy_says(sim: Sim) {
    let vcenter = vcenter(&sim).await;
    let given = |reservation, limit| Allocation { reservation, limit, expandable: None };
    let (cpu, memory) = (given(Some(1000), None), given(Some(512), Some(4096)));
    let pool = vcenter.client.create_resource_pool(&place(&sim).pool, "p", cpu, memory).await.unwrap();
    sim.forget_requests().await;
    keep_allocations(&pool, cpu, memory, &vcenter).await.unwrap();
    assert_eq!(sim.calls("UpdateConfig").await, 0);
    vcenter.client.update_resource_pool(&pool, given(Some(0), Some(700)), memory).await.unwrap();
    keep_allocations(&pool, cpu, memory, &vcenter).await.unwrap();
    let read = vcenter.client.retrieve(std::slice::from_ref(&pool), &["config.cpuAllocation"]).await.unwrap();
    let cpu = read[0].get("config.cpuAllocation");
    // Values that the policy omits stay as the administrator set them.
    assert_eq!((cpu.get("reservation").as_i64(), cpu.get("limit").as_i64()), (Some(1000), Some(700)));
}

on_both_wires!(
    a_module_is_made_once_whatever_write_is_lost,
    a_module_whose_answer_was_lost_is_found_again,
    a_second_leader_takes_back_what_it_made,
    modules_of_others_are_left_alone,
    a_module_in_two_ledgers_is_deleted_by_neither,
    vms_share_the_call_that_makes_them_members,
    a_pool_is_brought_back_to_what_its_policy_says,
);
