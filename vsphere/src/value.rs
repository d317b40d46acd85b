//! The value tree that both wire formats represent.
//!
//! SOAP and VI/JSON use the same type and field names, so one tree serves both: a codec converts it to
//! bytes and back, and the code above doesn't depend on the format. XML can't distinguish `42` from `"42"`,
//! or one element from a list with one element: the accessors decide, never the parser.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// A managed object reference, such as `VirtualMachine:vm-12`.
///
/// References are valid in one vCenter only. A VM's reference changes when the VM is registered again.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MoRef {
    kind: Cow<'static, str>,
    id: Arc<str>,
}

/// Common object types, whose names are not allocated.
const KNOWN: &[&str] = &[
    "VirtualMachine",
    "Folder",
    "ResourcePool",
    "Task",
    "HostSystem",
    "Datastore",
    "Datacenter",
    "Network",
    "DistributedVirtualPortgroup",
    "OpaqueNetwork",
    "ClusterComputeResource",
    "VirtualMachineSnapshot",
    "ContainerView",
    "ListView",
    "PropertyFilter",
];

/// The most frequent names in vCenter's responses, which are not allocated.
const COMMON: &[&str] = &[
    "val",
    "key",
    "op",
    "obj",
    "name",
    "type",
    "kind",
    "value",
    "filter",
    "propSet",
    "objects",
    "version",
    "changeSet",
    "filterSet",
    "objectSet",
    "truncated",
    "_value",
    "_typeName",
    "returnval",
    "OptionValue",
    "ObjectUpdate",
    "ObjectContent",
    "PropertyChange",
    "DynamicProperty",
    "PropertyFilterUpdate",
];

/// Returns a field or type name, without an allocation if the name is common.
pub(crate) fn known_name(name: &str) -> Cow<'static, str> {
    match COMMON.iter().find(|common| **common == name) {
        Some(common) => Cow::Borrowed(common),
        None => Cow::Owned(name.to_owned()),
    }
}

macro_rules! of_kind {
    ($($(#[$doc:meta])* $name:ident => $kind:literal;)*) => {
        $($(#[$doc])* pub fn $name(id: impl Into<Arc<str>>) -> Self {
            Self { kind: Cow::Borrowed($kind), id: id.into() }
        })*
    };
}

impl MoRef {
    /// Creates a reference to an object of any type.
    pub fn new(kind: &str, id: impl Into<Arc<str>>) -> Self {
        let kind = match KNOWN.iter().find(|known| **known == kind) {
            Some(known) => Cow::Borrowed(*known),
            None => Cow::Owned(kind.to_owned()),
        };
        Self { kind, id: id.into() }
    }

    of_kind! {
        /// Creates a reference to a VM, such as `vm-12`.
        vm => "VirtualMachine";
        /// Creates a reference to an inventory folder, such as `group-v3`.
        folder => "Folder";
        /// Creates a reference to a resource pool, such as `resgroup-8`.
        pool => "ResourcePool";
        /// Creates a reference to a datastore, such as `datastore-15`.
        datastore => "Datastore";
        /// Creates a reference to a datacenter, such as `datacenter-2`.
        datacenter => "Datacenter";
        /// Creates a reference to a host, such as `host-20`.
        host => "HostSystem";
        /// Creates a reference to a task, such as `task-99`.
        task => "Task";
    }

    /// Returns the type name, such as `VirtualMachine`.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Returns the MoID, such as `vm-12`.
    pub fn id(&self) -> &str {
        &self.id
    }
}

impl fmt::Display for MoRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind, self.id)
    }
}

impl fmt::Debug for MoRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A data object: its type and its fields in WSDL order.
#[derive(Clone, PartialEq)]
pub struct Object {
    type_name: Cow<'static, str>,
    fields: Vec<(Cow<'static, str>, Value)>,
}

impl Object {
    /// Creates an object without fields.
    pub fn new(type_name: impl Into<Cow<'static, str>>) -> Self {
        Self { type_name: type_name.into(), fields: Vec::new() }
    }

    /// Appends a field.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.fields.push((Cow::Borrowed(name), value.into()));
        self
    }

    /// Appends a field if there is a value.
    #[must_use]
    pub fn with_some(self, name: &'static str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// Appends a list unless it is empty: an empty list is the same as an absent one.
    #[must_use]
    pub fn with_list(self, name: &'static str, items: Vec<impl Into<Value>>) -> Self {
        if items.is_empty() { self } else { self.with(name, items) }
    }

    pub(crate) fn push(&mut self, name: impl Into<Cow<'static, str>>, value: Value) {
        self.fields.push((name.into(), value));
    }

    /// Returns the type name; empty if the response didn't contain it.
    pub fn type_name(&self) -> &str {
        &self.type_name
    }

    /// Returns the fields in order.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.fields.iter().map(|(name, value)| (name.as_ref(), value))
    }

    /// Returns a field, or [`Value::Null`] if it doesn't exist.
    pub fn get(&self, name: &str) -> &Value {
        self.fields.iter().find(|(field, _)| field == name).map_or(&Value::Null, |(_, value)| value)
    }

    pub(crate) fn of(type_name: Cow<'static, str>, fields: Vec<(Cow<'static, str>, Value)>) -> Self {
        Self { type_name, fields }
    }

    pub(crate) fn renamed(self, type_name: Cow<'static, str>) -> Self {
        Self { type_name, ..self }
    }

    pub(crate) fn into_first(self) -> Option<(Cow<'static, str>, Value)> {
        self.fields.into_iter().next()
    }

    pub(crate) fn take(self, name: &str) -> Value {
        self.fields.into_iter().find(|(field, _)| field == name).map_or(Value::Null, |(_, value)| value)
    }
}

/// A method argument, a method result or a property value.
#[derive(Clone, PartialEq, Default)]
pub enum Value {
    /// An unset value, or the result of a method that doesn't return a value.
    #[default]
    Null,
    Bool(bool),
    /// An integer. The int64 range is exact.
    Int(i64),
    Float(f64),
    /// A string, an enumeration member, a date or base64.
    Str(String),
    Ref(MoRef),
    List(Vec<Value>),
    Object(Object),
    /// A plain value in a field of type `Any`, with the type name that must be sent (`string`).
    Any(&'static str, Box<Value>),
}

impl Value {
    /// Creates a string for a field of type `Any`.
    pub fn any_string(text: impl Into<String>) -> Self {
        Self::Any("string", Box::new(Self::Str(text.into())))
    }

    /// Returns true if the value is unset.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Returns the string if the value is a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Str(text) => Some(text),
            Self::Any(_, inner) => inner.as_str(),
            _ => None,
        }
    }

    /// Returns the integer if the value is an integer, or a string that contains one, because the XML decoder doesn't convert
    /// untyped numbers.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(*number),
            Self::Str(text) => text.trim().parse().ok(),
            Self::Any(_, inner) => inner.as_i64(),
            _ => None,
        }
    }

    /// Returns the boolean if the value is a boolean, or one of the strings `true`, `1`, `false` and `0`, because the XML decoder
    /// doesn't convert untyped booleans.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(truth) => Some(*truth),
            Self::Str(text) => match text.trim() {
                "true" | "1" => Some(true),
                "false" | "0" => Some(false),
                _ => None,
            },
            Self::Any(_, inner) => inner.as_bool(),
            _ => None,
        }
    }

    /// Returns the reference if the value is a reference.
    pub fn as_moref(&self) -> Option<&MoRef> {
        match self {
            Self::Ref(moref) => Some(moref),
            Self::Any(_, inner) => inner.as_moref(),
            _ => None,
        }
    }

    /// Returns the data object if the value is a data object.
    pub fn as_object(&self) -> Option<&Object> {
        match self {
            Self::Object(object) => Some(object),
            _ => None,
        }
    }

    /// Returns the list items. A single value is a list with one item, and null is an empty list.
    pub fn items(&self) -> &[Value] {
        match self {
            Self::Null => &[],
            Self::List(items) => items,
            one => std::slice::from_ref(one),
        }
    }

    /// Returns a data object's field, or [`Value::Null`] if it doesn't exist.
    pub fn get(&self, name: &str) -> &Value {
        self.as_object().map_or(&Value::Null, |object| object.get(name))
    }

    /// Returns a data object's type name; empty for other values.
    pub fn type_name(&self) -> &str {
        self.as_object().map_or("", Object::type_name)
    }

    pub(crate) fn into_items(self) -> Vec<Value> {
        match self {
            Self::Null => Vec::new(),
            Self::List(items) => items,
            one => vec![one],
        }
    }

    pub(crate) fn take(self, name: &str) -> Value {
        match self {
            Self::Object(object) => object.take(name),
            _ => Value::Null,
        }
    }
}

macro_rules! from {
    ($($from:ty => |$value:ident| $into:expr;)*) => {
        $(impl From<$from> for Value { fn from($value: $from) -> Self { $into } })*
    };
}

from! {
    bool => |value| Self::Bool(value);
    i32 => |value| Self::Int(value.into());
    u32 => |value| Self::Int(value.into());
    i64 => |value| Self::Int(value);
    &str => |value| Self::Str(value.to_owned());
    String => |value| Self::Str(value);
    &String => |value| Self::Str(value.clone());
    MoRef => |value| Self::Ref(value);
    &MoRef => |value| Self::Ref(value.clone());
    Object => |value| Self::Object(value);
}

impl<T: Into<Value>> From<Vec<T>> for Value {
    fn from(items: Vec<T>) -> Self {
        Self::List(items.into_iter().map(Into::into).collect())
    }
}

/// Returns true if a field must not be printed: passwords, tickets, and guest data in guestinfo, OVF properties and
/// guest customizations.
fn secret(object: &Object, field: &str) -> bool {
    match (object.type_name(), field) {
        (_, "password")
        | ("VirtualMachineTicket", "ticket" | "url")
        | ("VAppPropertyInfo" | "CustomizationSysprepText", "value")
        | ("CustomizationCloudinitPrep", "userdata") => true,
        (_, "value") => object.get("key").as_str().is_some_and(|key| key.starts_with("guestinfo.")),
        _ => false,
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { type_name, fields } = self;
        let mut out = f.debug_struct(type_name);
        for (name, value) in fields {
            if secret(self, name) {
                out.field(name, &format_args!("<redacted>"));
            } else {
                out.field(name, value);
            }
        }
        out.finish()
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => fmt::Debug::fmt(value, f),
            Self::Int(value) => fmt::Debug::fmt(value, f),
            Self::Float(value) => fmt::Debug::fmt(value, f),
            Self::Str(value) => fmt::Debug::fmt(value, f),
            Self::Ref(value) => fmt::Debug::fmt(value, f),
            Self::List(value) => fmt::Debug::fmt(value, f),
            Self::Object(value) => fmt::Debug::fmt(value, f),
            Self::Any(_, value) => fmt::Debug::fmt(value, f),
        }
    }
}

#[cfg(test)]
mod tests;
