//! WCPMachineTemplate: reports the capacity of its machines, so that an autoscaler can scale from zero.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::capw::{NodeInfo, WCPMachineTemplate, WCPMachineTemplateStatus};
use api::vmop::{VirtualMachineClass, VirtualMachineImage};
use kit::apply::Api;
use kit::reconcile::Seen;
use kit::{Controller, Disposition, Reconcile, ReconcileError, Runtime};
use kube::ResourceExt;

use crate::caches::Caches;

/// The OVF property that contains a node image's architecture.
const OS_ARCH: &str = "vmware-system.tkr.os-arch";
/// The OVF property that contains a node image's operating system type.
const OS_TYPE: &str = "vmware-system.tkr.os-type";

struct Context {
    caches: Arc<Caches>,
    api: Api,
}

/// The class and the image that the template names, if they exist.
struct Facts {
    class: Option<Arc<VirtualMachineClass>>,
    image: Option<Arc<VirtualMachineImage>>,
}

/// The API server rejected the status.
#[derive(Debug, thiserror::Error)]
#[error("status of the WCPMachineTemplate: {}", kit::api_error::message(.0))]
struct Error(kube::Error);

impl ReconcileError for Error {
    fn disposition(&self) -> Disposition {
        Disposition::from_api_error(&self.0)
    }

    fn label(&self) -> &'static str {
        "Api"
    }
}

/// Runs the controller until the program ends.
pub async fn controller(started: &Runtime, caches: &Arc<Caches>) {
    let by_class = caches.templates.index(|template| vec![template.spec.template.spec.class_name.clone()]);
    let by_image = caches.templates.index(|template| vec![template.spec.template.spec.image_name.clone()]);
    let context = Context { caches: Arc::clone(caches), api: Api::new(started, "capw/template") };
    let scope = caches.scope.clone();
    Controller::new("wcpmachinetemplate", started, &caches.templates)
        .only(move |object| scope.has(object))
        .watches(&caches.classes, move |class: &VirtualMachineClass| by_class.refs(&class.name_any()))
        .watches(&caches.images, move |image: &VirtualMachineImage| by_image.refs(&image.name_any()))
        .concurrency(8)
        .drive(context)
        .await;
}

impl Reconcile for Context {
    type Kind = WCPMachineTemplate;
    type Facts = Facts;
    type Plan = ();
    type Done = ();
    type Error = Error;

    fn api(&self) -> &Api {
        &self.api
    }

    fn refused(_template: &WCPMachineTemplate, error: kube::Error) -> Error {
        Error(error)
    }

    async fn gather(&self, template: &Arc<WCPMachineTemplate>) -> Result<Facts, Error> {
        let spec = &template.spec.template.spec;
        Ok(Facts {
            class: self.caches.classes.get(None, &spec.class_name),
            image: self.caches.images.get(None, &spec.image_name),
        })
    }

    fn plan(_template: &WCPMachineTemplate, _facts: &Facts) -> Result<(), Error> {
        Ok(())
    }

    async fn carry_out(
        &self,
        _template: &mut Arc<WCPMachineTemplate>,
        (): (),
        _facts: &Facts,
    ) -> Result<(), Error> {
        Ok(())
    }

    fn status(seen: &Seen<'_, Self>) -> Option<WCPMachineTemplateStatus> {
        let Facts { class, image } = seen.facts?;
        Some(status(class.as_deref(), image.as_deref()))
    }
}

/// Returns the class's capacity and the image's node info. Unknown capacities are left out. Images without OVF properties count
/// as amd64 Linux.
fn status(
    class: Option<&VirtualMachineClass>,
    image: Option<&VirtualMachineImage>,
) -> WCPMachineTemplateStatus {
    let hardware = class.and_then(|class| class.spec.hardware.as_ref());
    let mut capacity = BTreeMap::new();
    if let Some(cpus) = hardware.and_then(|hardware| hardware.cpus) {
        capacity.insert("cpu".to_owned(), cpus.to_string().into());
    }
    if let Some(memory) = hardware.and_then(|hardware| hardware.memory.clone()) {
        capacity.insert("memory".to_owned(), memory);
    }
    let node_info = image.map(|image| {
        let property =
            |name: &str| image.spec.ovf_env.get(name).and_then(|property| property.default.clone());
        NodeInfo {
            architecture: property(OS_ARCH).or_else(|| Some("amd64".to_owned())),
            operating_system: property(OS_TYPE).or_else(|| Some("linux".to_owned())),
        }
    });
    WCPMachineTemplateStatus { capacity, node_info }
}

#[cfg(test)]
mod tests {
    use api::vmop::{OvfProperty, VirtualMachineClassHardware};

    use super::*;

    #[test]
    fn capacity_comes_from_the_class_and_node_info_from_the_image() {
        let mut class = VirtualMachineClass::default();
        class.spec.hardware = Some(VirtualMachineClassHardware {
            cpus: Some(2),
            memory: Some("4Gi".into()),
            ..VirtualMachineClassHardware::default()
        });
        let mut image = VirtualMachineImage::default();
        let arch = OvfProperty { default: Some("arm64".into()), ..OvfProperty::default() };
        image.spec.ovf_env.insert(OS_ARCH.into(), arch);
        let status = status(Some(&class), Some(&image));
        assert_eq!(status.capacity["cpu"], "2".into());
        assert_eq!(status.capacity["memory"], "4Gi".into());
        let node_info = status.node_info.unwrap();
        assert_eq!(node_info.architecture.as_deref(), Some("arm64"));
        assert_eq!(node_info.operating_system.as_deref(), Some("linux"));
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        assert_eq!(status(None, None), WCPMachineTemplateStatus::default());
    }
}
