//! What the guest of a machine is told, read from its Secret or ConfigMap.

use api::conditions::vmop as reason;
use api::vmop::VirtualMachine;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kit::apply;
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;

use crate::appearance::Kind;
use crate::machine::needs::{self, Bootstrap, Need, Source, Unmet};
use crate::machine::{Context, Error};

/// The guest's data, read now; while it is not there or not right, its change wakes the machine.
pub(super) async fn bootstrap(vm: &VirtualMachine, ctx: &Context) -> Result<Need<Bootstrap>, Error> {
    let namespace = vm.namespace().unwrap_or_default();
    let (kind, name, read) = match needs::source(vm) {
        Err(unmet) => return Ok(Err(unmet)),
        Ok(Source::None) => return Ok(Ok(Bootstrap::default())),
        Ok(Source::Secret(name)) => {
            let secret: Option<Secret> = apply::get(ctx.api.client(), Some(&namespace), name).await?;
            let read = secret.map(|secret| {
                let data = secret.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0));
                (secret.metadata.resource_version, data.collect::<Vec<_>>())
            });
            (Kind::Secret, name, read)
        }
        Ok(Source::ConfigMap(name)) => {
            let map: Option<ConfigMap> = apply::get(ctx.api.client(), Some(&namespace), name).await?;
            let read = map.map(|map| {
                let data =
                    map.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.into_bytes()));
                (map.metadata.resource_version, data.collect())
            });
            (Kind::ConfigMap, name, read)
        }
    };
    let source = format!("{kind:?} {namespace}/{name}");
    let (seen, need) = if let Some((version, data)) = read {
        (version, needs::bootstrap(&source, data))
    } else {
        let message = format!("{source} (spec.vmMetadata) does not exist. Create it with the guest's data");
        (None, Err(Unmet::wrong(reason::BOOTSTRAP_NOT_READY, message)))
    };
    let vm_ref = ObjectRef::from_obj(vm);
    match need {
        Ok(_) => ctx.appearances.forget(&vm_ref),
        Err(_) => ctx.appearances.await_change(&vm_ref, kind, name, seen),
    }
    Ok(need)
}
