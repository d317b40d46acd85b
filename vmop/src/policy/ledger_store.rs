//! Stores a policy's ledger in an annotation on the policy.

use std::collections::BTreeSet;

use api::vmop::VirtualMachineSetResourcePolicy;
use kube::ResourceExt;
use serde_json::json;

use crate::policy::context::Context;
use crate::policy::ledger::{ANNOTATION, Ledger};

/// The store for the ledger of one policy. Tests implement it in memory.
pub trait LedgerStore {
    async fn write(&mut self, ledger: &Ledger) -> kube::Result<()>;

    /// Returns the object ids in all other policies' ledgers.
    fn others(&self) -> BTreeSet<String>;
}

/// Stores the ledger in the policy's annotation.
pub struct Annotation<'a> {
    policy: VirtualMachineSetResourcePolicy,
    ctx: &'a Context,
}

impl<'a> Annotation<'a> {
    /// Creates the store for the ledger of this cached `policy`.
    pub fn new(policy: &VirtualMachineSetResourcePolicy, ctx: &'a Context) -> Self {
        Self { policy: policy.clone(), ctx }
    }
}

impl LedgerStore for Annotation<'_> {
    async fn write(&mut self, ledger: &Ledger) -> kube::Result<()> {
        let patch = json!({ "metadata": { "annotations": { ANNOTATION: ledger.text() } } });
        self.policy = self.ctx.api.patch(&self.policy, patch).await?;
        Ok(())
    }

    fn others(&self) -> BTreeSet<String> {
        let all = self.ctx.caches.shared.policies.all();
        let others = all.iter().filter(|other| other.uid() != self.policy.uid());
        others.flat_map(|other| Ledger::read(other).ids().cloned().collect::<Vec<_>>()).collect()
    }
}
