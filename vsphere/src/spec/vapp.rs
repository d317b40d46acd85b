//! The OVF properties of a VM: what its appliance asks for, and what it is given.

use std::fmt;

use crate::{Object, Value};

/// The transport by which a guest reads its OVF environment from VMware Tools.
pub const OVF_TRANSPORT_GUEST_INFO: &str = "com.vmware.guestInfo";

/// A change of a VM's OVF properties.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VAppConfigSpec {
    /// Properties that get another value; each is one that the VM has.
    pub properties: Vec<VAppProperty>,
    /// How the guest reads them; empty leaves it.
    pub transports: Vec<String>,
}

/// One OVF property. `Debug` prints no value.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct VAppProperty {
    /// Its key in this VM.
    pub key: i32,
    /// What is put before its name, divided by a dot.
    pub class_id: Option<String>,
    /// What is put after its name, divided by a dot.
    pub instance_id: Option<String>,
    /// Its name.
    pub id: String,
    /// The heading people see it under.
    pub category: Option<String>,
    /// What people see instead of its name.
    pub label: Option<String>,
    /// Such as `string` or `ip`.
    pub kind: Option<String>,
    /// Whether whoever deploys the appliance may set it.
    pub user_configurable: bool,
    /// The value that holds where none is set.
    pub default_value: Option<String>,
    /// The value.
    pub value: Option<String>,
    /// What it is for.
    pub description: Option<String>,
}

impl fmt::Debug for VAppProperty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.value.as_deref().unwrap_or_default().len();
        write!(f, "VAppProperty({} {}, <{bytes} bytes>)", self.key, self.id)
    }
}

impl VAppProperty {
    /// Reads one out of `config.vAppConfig.property`.
    pub fn read(property: &Value) -> Option<Self> {
        let text = |name: &str| property.get(name).as_str().map(str::to_owned);
        Some(Self {
            key: i32::try_from(property.get("key").as_i64()?).ok()?,
            class_id: text("classId"),
            instance_id: text("instanceId"),
            id: text("id")?,
            category: text("category"),
            label: text("label"),
            kind: text("type"),
            user_configurable: property.get("userConfigurable").as_bool().unwrap_or(false),
            default_value: text("defaultValue"),
            value: text("value"),
            description: text("description"),
        })
    }
}

impl From<VAppProperty> for Value {
    fn from(property: VAppProperty) -> Self {
        Object::new("VAppPropertyInfo")
            .with("key", property.key)
            .with_some("classId", property.class_id)
            .with_some("instanceId", property.instance_id)
            .with("id", property.id)
            .with_some("category", property.category)
            .with_some("label", property.label)
            .with_some("type", property.kind)
            .with("userConfigurable", property.user_configurable)
            .with_some("defaultValue", property.default_value)
            .with_some("value", property.value)
            .with_some("description", property.description)
            .into()
    }
}

impl From<VAppConfigSpec> for Value {
    fn from(spec: VAppConfigSpec) -> Self {
        let edited = |property: VAppProperty| {
            Object::new("VAppPropertySpec").with("operation", "edit").with("info", property)
        };
        Object::new("VmConfigSpec")
            .with_list("property", spec.properties.into_iter().map(edited).collect())
            .with_list("ovfEnvironmentTransport", spec.transports)
            .into()
    }
}
