//! A VM's OVF properties: the definitions from its appliance and their values.

use std::fmt;

use crate::{Object, Value};

/// The transport through which a guest reads its OVF environment from VMware Tools.
pub const OVF_TRANSPORT_GUEST_INFO: &str = "com.vmware.guestInfo";

/// A change to a VM's OVF properties.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VAppChange {
    /// Properties with new values. Each must already exist on the VM.
    pub properties: Vec<VAppProperty>,
    /// The transports through which the guest reads the properties. An empty list keeps the current transports.
    pub transports: Vec<String>,
}

/// An OVF property. `Debug` hides the value.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct VAppProperty {
    /// The property's key, unique in the VM.
    pub key: i32,
    /// The first part of the qualified name `class_id.id.instance_id`.
    pub class_id: Option<String>,
    /// The last part of the qualified name `class_id.id.instance_id`.
    pub instance_id: Option<String>,
    /// The property's name.
    pub id: String,
    /// The heading under which a UI groups the property.
    pub category: Option<String>,
    /// The name that a UI shows.
    pub label: Option<String>,
    /// The property type, such as `string` or `ip`.
    pub kind: Option<String>,
    /// True if users may set the property when they deploy the appliance.
    pub user_configurable: bool,
    /// The value that applies while `value` is unset.
    pub default_value: Option<String>,
    /// The value that is set on the VM.
    pub value: Option<String>,
    /// The description for users.
    pub description: Option<String>,
}

impl fmt::Debug for VAppProperty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.value.as_deref().unwrap_or_default().len();
        write!(f, "VAppProperty({} {}, <{bytes} bytes>)", self.key, self.id)
    }
}

impl VAppProperty {
    /// Reads an element of `config.vAppConfig.property`. Returns `None` if its key or ID is missing.
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

impl From<VAppChange> for Value {
    fn from(spec: VAppChange) -> Self {
        let edited = |property: VAppProperty| {
            Object::new("VAppPropertySpec").with("operation", "edit").with("info", property)
        };
        Object::new("VmConfigSpec")
            .with_list("property", spec.properties.into_iter().map(edited).collect())
            .with_list("ovfEnvironmentTransport", spec.transports)
            .into()
    }
}
