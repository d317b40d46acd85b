//! Answers of the long poll that are too large to be read: what guests write is in them.
//!
//! vCenter may keep an answer until it knows that it was received, and then gives the same one again. So everything is asked
//! for from the beginning, with fewer objects in an answer. Of an object whose answer alone is too large only the
//! beginning is read: which one it is. It counts as one whose files vCenter can't read, until an answer about it can be read.

use std::collections::HashSet;

use bytes::Bytes;

use super::shared::Shared;
use super::update::{Kind as UpdateKind, ObjectUpdate, UpdateSet};
use super::vm::paths;
use crate::{Error, Kind, MoRef, ObjectContent, Result, Value};

/// Objects per answer; more come in the next one at once.
const PAGE: u32 = 250;
/// So much of an answer is looked at for which object it is about.
const HEAD: usize = 64 << 10;

/// How many objects an answer may have, and the VMs that could not be read.
pub(super) struct Oversize {
    page: u32,
    unread: HashSet<MoRef>,
}

impl Oversize {
    pub fn new() -> Self {
        Self { page: PAGE, unread: HashSet::new() }
    }

    /// Objects per answer.
    pub fn page(&self) -> u32 {
        self.page
    }

    /// Everything is sent anew.
    pub fn begin(&mut self) {
        self.unread.clear();
    }

    /// There is another session: larger answers are tried again.
    pub fn relax(&mut self) {
        self.page = self.page.saturating_mul(2).min(PAGE);
        self.unread.clear();
    }

    /// Has answers bring half as many objects, if they can.
    pub fn shrink(&mut self) -> bool {
        let shrinks = self.page > 1;
        self.page = (self.page / 2).max(1);
        shrinks
    }

    /// What an answer says: of one that is too large for a single VM, that nothing is certain of that VM.
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

    /// What is known by the beginning of an answer about one VM; `None` if that does not say which VM it is.
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

    /// Reads VMs whole that could not be read before, where an update has only a part of them.
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
                    // That it is gone comes next.
                    Err(error) if error.is_not_found() => update.changes.clear(),
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }
}

/// The version of an answer and the first object in it, from how either wire begins. Both come before any text of others, in which
/// the quotes and brackets that are looked for would be escaped.
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

/// The text of the first member of that name.
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
