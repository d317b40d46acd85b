//! Handles long poll responses that are too large to read. Guests can cause them, because responses contain
//! guest-written text.
//!
//! vCenter may keep an unacknowledged response and send the same response again. Therefore, the poll restarts from the
//! empty version with fewer objects per response. If a response about a single VM is still too large, only the
//! beginning of the response is read, to identify the VM. Until a response about that VM is small enough, the VM is
//! treated as if vCenter couldn't read its files.

use std::collections::HashSet;

use bytes::Bytes;

use super::shared::Shared;
use super::update::{ObjectUpdate, UpdateKind, UpdateSet};
use super::vm::paths;
use crate::{Error, Kind, MoRef, ObjectContent, Result, Value};

/// The maximum page size in objects. vCenter sends the remaining objects in further responses, without a delay.
const PAGE: u32 = 250;
/// The number of leading bytes of a response that are searched for the first object.
const HEAD: usize = 64 << 10;

/// The current page size, and the VMs about which a response was too large.
pub(super) struct Oversize {
    page: u32,
    unread: HashSet<MoRef>,
}

impl Oversize {
    pub fn new() -> Self {
        Self { page: PAGE, unread: HashSet::new() }
    }

    /// Returns the current page size in objects.
    pub fn page(&self) -> u32 {
        self.page
    }

    /// Forgets the VMs about which a response was too large. Called when vCenter resends everything.
    pub fn begin(&mut self) {
        self.unread.clear();
    }

    /// Doubles the page size, up to `PAGE`, and forgets the VMs about which a response was too large. Called when the views are
    /// rebuilt.
    pub fn relax(&mut self) {
        self.page = self.page.saturating_mul(2).min(PAGE);
        self.unread.clear();
    }

    /// Halves the page size. Returns false if the page size was 1 already.
    pub fn shrink(&mut self) -> bool {
        let shrinks = self.page > 1;
        self.page = (self.page / 2).max(1);
        shrinks
    }

    /// Returns the updates from a poll. If the response about a single VM is too large, returns an update that marks
    /// that VM as unavailable. Fails if the beginning of such a response doesn't identify a VM.
    pub async fn read(
        &mut self,
        shared: &Shared,
        polled: Result<Option<UpdateSet>, Bytes>,
    ) -> Result<Option<UpdateSet>> {
        match polled {
            Ok(Some(mut set)) => self.complete(shared, &mut set).await.map(|()| Some(set)),
            Ok(None) => Ok(None),
            Err(beginning) => self.skip(shared, &beginning).map(Some).ok_or_else(|| {
                let limit = shared.client.config().longest_answer;
                Error::new("WaitForUpdatesEx", Kind::TooLarge { limit })
            }),
        }
    }

    /// Returns an update that marks a response's VM as unavailable, or `None` if the beginning of the response doesn't
    /// identify a VM.
    fn skip(&mut self, shared: &Shared, beginning: &[u8]) -> Option<UpdateSet> {
        let head = beginning.get(..HEAD).unwrap_or(beginning);
        let (version, obj) = read_head(&String::from_utf8_lossy(head))?;
        if obj.kind() != "VirtualMachine" {
            return None;
        }
        tracing::warn!(vm = %obj, "vCenter's answer about the VM is too large; treating the VM as unreachable");
        self.unread.insert(obj.clone());
        let known = shared.state.read().cache.get(&obj).is_some();
        let kind = if known { UpdateKind::Modify } else { UpdateKind::Enter };
        let objects = vec![ObjectUpdate { obj, kind, changes: vec![("config".to_owned(), Value::Null)] }];
        Some(UpdateSet { version, truncated: true, objects })
    }

    /// For each updated VM about which an earlier response was too large, reads all properties and uses them in place of the
    /// partial update.
    async fn complete(&mut self, shared: &Shared, set: &mut UpdateSet) -> Result<()> {
        if self.unread.is_empty() {
            return Ok(());
        }
        for update in &mut set.objects {
            if update.kind != UpdateKind::Modify {
                self.unread.remove(&update.obj);
            } else if self.unread.contains(&update.obj) {
                let paths = paths(&shared.client.about().api_version);
                match shared.client.retrieve(std::slice::from_ref(&update.obj), paths).await {
                    Ok(found) => {
                        self.unread.remove(&update.obj);
                        update.kind = UpdateKind::Enter;
                        update.changes = found.into_iter().flat_map(ObjectContent::into_properties).collect();
                    }
                    Err(error) if matches!(error.kind(), Kind::TooLarge { .. }) => update.changes.clear(),
                    // The stream reports next that the VM is gone.
                    Err(error) if error.is_not_found() => update.changes.clear(),
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }
}

/// Reads the version and the first object from the beginning of a response, in either wire format. Both precede any
/// guest-written text. Such text can't contain the quotes and brackets that this function searches for, because they
/// would be escaped.
pub(super) fn read_head(head: &str) -> Option<(String, MoRef)> {
    if head.trim_start().starts_with('<') {
        let version = between(head, "<version>", "</version>")?;
        let object = between(head, "<obj ", "</obj>")?;
        let (attributes, id) = object.split_once('>')?;
        let kind = between(&format!(" {attributes}"), " type=\"", "\"")?.to_owned();
        return Some((version.to_owned(), MoRef::new(&kind, id)));
    }
    let version = field(head, "version")?.to_owned();
    let object = head.get(head.find("\"obj\"")?..)?;
    let object = object.get(..object.find('}')?)?;
    Some((version, MoRef::new(field(object, "type")?, field(object, "value")?)))
}

/// Returns the string value of the first JSON member with that name, or `None` if the value isn't a string or contains
/// an escape.
fn field<'a>(json: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = json.split_once(&format!("\"{name}\""))?;
    let text = rest.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
    text.split_once('"').map(|(text, _)| text).filter(|text| !text.contains('\\'))
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    text.split_once(before)?.1.split_once(after).map(|(inner, _)| inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_an_answer_tells_which_vm_it_is_about() {
        let json = r#"{"_typeName":"UpdateSet", "version" : "12","filterSet":[{"_typeName":"PropertyFilterUpdate",
            "filter":{"_typeName":"ManagedObjectReference","type":"PropertyFilter","value":"session[1]2"},"objectSet":[
            {"_typeName":"ObjectUpdate","kind":"enter","obj":{"_typeName":"ManagedObjectReference","type":"VirtualMachine","value":"vm-7"},
            "changeSet":[{"name":"config.extraConfig","val":"\"obj\":{\"type\":\"Task\",\"value\":\"task-1\"}"#;
        let xml = r#"<?xml version="1.0"?><soapenv:Envelope><soapenv:Body><WaitForUpdatesExResponse xmlns="urn:vim25"><returnval>
            <version>12</version><filterSet><filter type="PropertyFilter">session[1]2</filter><objectSet><kind>enter</kind>
            <obj xsi:type="ManagedObjectReference" type="VirtualMachine">vm-7</obj><changeSet>&lt;obj type="Task">task-1"#;
        for head in [json, xml] {
            assert_eq!(read_head(head), Some(("12".to_owned(), MoRef::vm("vm-7"))), "{head}");
            for end in 0..head.len() {
                let known = read_head(&head[..end]).map(|(_, obj)| obj);
                assert!(known.is_none_or(|obj| obj == MoRef::vm("vm-7")), "{end}");
            }
        }
    }

    #[test]
    fn pages_shrink_to_one_object_and_grow_with_the_next_session() {
        let mut oversize = Oversize::new();
        let pages: Vec<u32> = std::iter::from_fn(|| oversize.shrink().then_some(oversize.page())).collect();
        assert_eq!(pages, [125, 62, 31, 15, 7, 3, 1]);
        oversize.relax();
        assert_eq!(oversize.page(), 2);
    }
}
