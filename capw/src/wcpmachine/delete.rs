//! Deletes a WCPMachine: first the VirtualMachine, then the boot Secret and the claims, then the finalizer.
//!
//! Garbage collection isn't enough: if the finalizer were removed too early, the VM would be orphaned.

use api::capw::WCPMachine;
use api::names::finalizer;
use kit::events::describe_object;
use kube::ResourceExt;

use super::context::Context;
use super::gather::Facts;
use super::identity::whose;
use crate::error::{Error, Waiting};
use crate::upstream::{NameAvailability, is_controlled};

/// Carries out the next deletion step. Returns an error while the VirtualMachine still exists.
pub async fn carry_out(wcp_machine: &WCPMachine, facts: &Facts, ctx: &Context) -> Result<(), Error> {
    if !wcp_machine.finalizers().iter().any(|there| there == finalizer::WCP_MACHINE) {
        return Ok(());
    }
    // Another owner's VirtualMachine is kept.
    if let Some(vm) = facts.vm.as_deref()
        && whose(wcp_machine, Some(vm)) == NameAvailability::Free
    {
        ctx.api.delete(vm).await.map_err(Error::api(vm, "deleting"))?;
        return Err(Waiting::VirtualMachineGone(describe_object(vm)).into());
    }
    // Delete only objects that this WCPMachine controls, and only with the UID that was read.
    for secret in facts.cloud_init.iter().filter(|secret| is_controlled(wcp_machine, *secret)) {
        ctx.api.delete(secret).await.map_err(Error::api(secret, "deleting"))?;
    }
    for claim in facts.claims.iter().filter(|claim| is_controlled(wcp_machine, *claim)) {
        ctx.api.delete(claim).await.map_err(Error::api(claim, "deleting"))?;
    }
    let removed = ctx.api.remove_finalizer(wcp_machine, finalizer::WCP_MACHINE).await;
    removed.map_err(Error::api(wcp_machine, "removing the finalizer of")).map(drop)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Secret};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use kit::apply::build_controller_reference;
    use kube::api::ObjectMeta;

    use crate::fixtures::{facts, no_caches, recording_client, wcp_machine};

    use super::*;

    fn metadata(name: &str, owner: Option<&WCPMachine>) -> ObjectMeta {
        ObjectMeta {
            name: Some(name.into()),
            namespace: Some("ben-test".into()),
            uid: Some(format!("uid-of-{name}")),
            owner_references: owner.map(|owner| vec![build_controller_reference(owner)]),
            ..ObjectMeta::default()
        }
    }

    /// Returns the DELETE requests for a WCPMachine whose Secret and claim are controlled by `owner`.
    async fn deletions(owner: Option<&WCPMachine>) -> Vec<String> {
        let mut wcp_machine = wcp_machine();
        wcp_machine.metadata.finalizers = Some(vec![finalizer::WCP_MACHINE.into()]);
        wcp_machine.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
        let sent = Arc::<Mutex<Vec<String>>>::default();
        let ctx = Context::detached(no_caches(), recording_client(&sent));
        let facts = Facts {
            cloud_init: Some(Secret { metadata: metadata("machine-cloud-init", owner), ..Secret::default() }),
            claims: vec![PersistentVolumeClaim {
                metadata: metadata("m-data", owner),
                ..PersistentVolumeClaim::default()
            }],
            ..facts(true)
        };
        carry_out(&wcp_machine, &facts, &ctx).await.unwrap();
        let sent = sent.lock().unwrap();
        sent.iter().filter(|line| line.starts_with("DELETE")).cloned().collect()
    }

    #[tokio::test]
    async fn only_what_the_wcpmachine_controls_is_deleted_and_only_as_it_was_read() {
        let own = deletions(Some(&wcp_machine())).await;
        assert_eq!(own.len(), 2, "{own:?}");
        assert!(
            own[0].contains("secrets/machine-cloud-init") && own[0].contains("uid-of-machine-cloud-init")
        );
        assert!(own[1].contains("persistentvolumeclaims/m-data") && own[1].contains("uid-of-m-data"));
        let mut former = wcp_machine();
        former.metadata.uid = Some("former".into());
        let mut other = wcp_machine();
        other.metadata.name = Some("other".into());
        for owner in [None, Some(&former), Some(&other)] {
            assert_eq!(deletions(owner).await, Vec::<String>::new());
        }
    }
}
