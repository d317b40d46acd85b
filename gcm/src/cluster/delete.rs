//! Taking a cluster down: Cluster first, what it stood on when it is gone, and the finalizer when nothing is left.

use std::sync::Arc;

use api::gcm::TanzuKubernetesCluster;
use api::names::finalizer;
use kit::Next;
use kit::events::named;
use kit::watch::Watchable;

use super::Error;
use super::gather::{Context, Facts};

/// The next step of taking a cluster down. Cluster API itself deletes workers before the control plane.
pub async fn carry_out(tkc: &TanzuKubernetesCluster, facts: &Facts, ctx: &Context) -> Result<Next, Error> {
    if let Some(cluster) = &facts.cluster {
        ctx.api.delete(&**cluster).await?;
        return Err(Error::Waiting(remaining(facts)));
    }
    delete_all(&facts.deployments, ctx).await?;
    delete_all(facts.control_plane.as_slice(), ctx).await?;
    delete_all(facts.wcp_cluster.as_slice(), ctx).await?;
    delete_all(&facts.checks, ctx).await?;
    delete_all(&facts.accounts, ctx).await?;
    if facts.machines.is_empty() && facts.sets.is_empty() {
        delete_all(&facts.config_templates, ctx).await?;
        delete_all(&facts.machine_templates, ctx).await?;
    }
    if !is_empty(facts) {
        return Err(Error::Waiting(remaining(facts)));
    }
    ctx.api.remove_finalizer(tkc, finalizer::TKC).await?;
    Ok(Next::OnChange)
}

async fn delete_all<K: Watchable>(objects: &[Arc<K>], ctx: &Context) -> Result<(), Error> {
    for object in objects {
        ctx.api.delete(&**object).await?;
    }
    Ok(())
}

fn names<K: Watchable>(objects: &[Arc<K>]) -> impl Iterator<Item = String> {
    objects.iter().map(|object| named(&**object))
}

/// Everything of the cluster that is still there, what others wait for first.
fn left(facts: &Facts) -> Vec<String> {
    let Facts {
        offers: _,
        library: _,
        cluster,
        wcp_cluster,
        control_plane,
        machine_templates,
        config_templates,
        deployments,
        checks,
        accounts,
        sets,
        machines,
        wcp_machines,
    } = facts;
    names(machines)
        .chain(names(wcp_machines))
        .chain(names(sets))
        .chain(names(deployments))
        .chain(names(control_plane.as_slice()))
        .chain(names(wcp_cluster.as_slice()))
        .chain(names(cluster.as_slice()))
        .chain(names(config_templates))
        .chain(names(machine_templates))
        .chain(names(checks))
        .chain(names(accounts))
        .collect()
}

fn is_empty(facts: &Facts) -> bool {
    left(facts).is_empty()
}

/// What is still there, for people: the first few by name, the rest by number.
pub fn remaining(facts: &Facts) -> String {
    const SHOWN: usize = 3;
    let left = left(facts);
    let shown = left.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    match left.len().saturating_sub(SHOWN) {
        0 => format!("{shown} to go"),
        more => format!("{shown} and {more} more to go"),
    }
}
