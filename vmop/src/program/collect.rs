//! Destroys unused golden templates, some time after an event that may make one unused.

use std::sync::Arc;
use std::time::Duration;

use api::vmop::VirtualMachineImage;
use kube::ResourceExt;
use tokio::sync::Notify;

use crate::image::plan::LIBRARY_LABEL;
use crate::program::parts::ProgramParts;
use crate::templates;
use crate::vcenter::LibraryProblem;

/// Watches for events that may make templates unused, and destroys unused templates some time after them, until dropped.
pub async fn collect(parts: ProgramParts) {
    let due = Arc::clone(&parts.collect_templates);
    let notified = Arc::clone(&due);
    let images = &parts.caches.images;
    images.listen(move |change| {
        if change.old.as_deref().and_then(content) != change.new.as_deref().and_then(content) {
            notified.notify_one();
        }
    });
    images.complete().await;
    loop {
        wait_until_quiet(&due, templates::COLLECT_DELAY).await;
        let Ok(vcenter) = parts.provider.vcenter() else { continue };
        if vcenter.inventory_problem().is_some() {
            // Without a complete inventory, used and unused templates can't be distinguished.
            due.notify_one();
            continue;
        }
        let images = images.all();
        let problems = vcenter.library_problems();
        let needed = |item: &str, content: &str| {
            images.iter().any(|image| needs(image, item, content)) || may_need(&problems, &images, item)
        };
        if let Err(error) = templates::collect(&parts.templates, &vcenter, needed).await {
            tracing::warn!(%error, "cannot destroy unused templates; trying again");
            due.notify_one();
        }
    }
}

/// Waits for an event, and then until events have stopped for the time `quiet`.
async fn wait_until_quiet(events: &Notify, quiet: Duration) {
    events.notified().await;
    while tokio::time::timeout(quiet, events.notified()).await.is_ok() {}
}

/// Returns the item id and content version of an image, if the version is known.
fn content(image: &VirtualMachineImage) -> Option<(String, String)> {
    let status = image.status.as_ref()?;
    Some((image.spec.image_id.clone(), status.content_version.clone()?))
}

/// Returns true if the image has this content version, or may have it because its version isn't known.
fn needs(image: &VirtualMachineImage, item: &str, content: &str) -> bool {
    let version = image.status.as_ref().and_then(|status| status.content_version.as_deref());
    image.spec.image_id == item && version.is_none_or(|version| version == content)
}

/// Returns true if an item's content may be needed, because the item or its library can't be read. Problems with other
/// libraries don't count. If the item doesn't have an image, its library isn't known, and all libraries' problems count.
fn may_need(problems: &[LibraryProblem], images: &[Arc<VirtualMachineImage>], item: &str) -> bool {
    let image = images.iter().find(|image| image.spec.image_id == item);
    let library = image.and_then(|image| image.labels().get(LIBRARY_LABEL));
    problems.iter().any(|problem| match (&problem.item, &problem.library) {
        (Some(unread), _) => unread == item,
        (None, Some(unread)) => library.is_none_or(|library| library == unread),
        (None, None) => image.is_none(),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use futures::FutureExt;

    use super::*;

    #[test]
    fn a_bad_item_keeps_its_own_templates_only() {
        let image = |item: &str, library: &str| {
            let mut image = VirtualMachineImage::default();
            image.spec.image_id = item.into();
            image.metadata.labels = Some([(LIBRARY_LABEL.to_owned(), library.to_owned())].into());
            Arc::new(image)
        };
        let images = [image("item-a", "lib-a"), image("item-b", "lib-b")];
        let problem = |library: Option<&str>, item: Option<&str>| LibraryProblem {
            library: library.map(str::to_owned),
            item: item.map(str::to_owned),
            ..LibraryProblem::default()
        };
        let of = |problem: LibraryProblem| {
            ["item-a", "item-b", "item-gone"]
                .map(|item| may_need(std::slice::from_ref(&problem), &images, item))
        };
        assert_eq!(of(problem(Some("lib-a"), Some("item-a"))), [true, false, false]);
        assert_eq!(of(problem(Some("lib-a"), Some("item-new"))), [false, false, false]);
        assert_eq!(of(problem(Some("lib-a"), None)), [true, false, true]);
        assert_eq!(of(problem(None, None)), [false, false, true]);
        assert!(!may_need(&[], &images, "item-gone"));
    }

    #[tokio::test]
    async fn the_last_event_counts() {
        let (events, quiet) = (Notify::new(), Duration::from_millis(40));
        let mut waiting = Box::pin(wait_until_quiet(&events, quiet));
        let (began, mut last) = (Instant::now(), Instant::now());
        while began.elapsed() < quiet * 3 {
            events.notify_one();
            last = Instant::now();
            assert!((&mut waiting).now_or_never().is_none(), "an event came just now");
            tokio::task::yield_now().await;
        }
        waiting.await;
        assert!(last.elapsed() >= quiet, "the last one is {:?} ago", last.elapsed());
    }
}
