//! Destroys golden templates that nothing needs, some time after something happened that may have made one needless.

use std::sync::Arc;
use std::time::Duration;

use api::vmop::VirtualMachineImage;
use tokio::sync::Notify;

use crate::program::parts::Parts;
use crate::templates;

/// Collects templates until dropped.
pub async fn collect(parts: Parts) {
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
        if vcenter.inventory_problem().is_some() || vcenter.library_problem().is_some() {
            // Who does not know what there is must not say what is needless.
            due.notify_one();
            continue;
        }
        let images = images.all();
        let needed = |item: &str, content: &str| images.iter().any(|image| needs(image, item, content));
        if let Err(error) = templates::collect(&parts.templates, &vcenter, needed).await {
            tracing::warn!(%error, "templates that nothing needs could not be destroyed; trying again");
            due.notify_one();
        }
    }
}

/// Waits for an event, and then until none has come for so long: what the last one made needless is left as long.
async fn wait_until_quiet(events: &Notify, quiet: Duration) {
    events.notified().await;
    while tokio::time::timeout(quiet, events.notified()).await.is_ok() {}
}

/// The content that an image stands for.
fn content(image: &VirtualMachineImage) -> Option<(String, String)> {
    let status = image.status.as_ref()?;
    Some((image.spec.image_id.clone(), status.content_version.clone()?))
}

/// Whether the image is of that content, or may be.
fn needs(image: &VirtualMachineImage, item: &str, content: &str) -> bool {
    let version = image.status.as_ref().and_then(|status| status.content_version.as_deref());
    image.spec.image_id == item && version.is_none_or(|version| version == content)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use futures::FutureExt;

    use super::*;

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
