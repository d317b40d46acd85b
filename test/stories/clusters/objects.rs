//! A user runs the commands in docs/objects.md, and sees each object of a cluster.

use crate::harness::documented_commands::Page;
use crate::harness::story::story;

/// The page's sections with commands.
const SECTIONS: [&str; 8] = [
    "Start",
    "The tree",
    "Bootstrap data",
    "Cluster and Machine",
    "Network and placement",
    "Node and VM",
    "Cloud-init of a node",
    "Images, classes and volumes",
];

/// One node of each kind shows as much as three.
#[test]
fn a_cluster_is_read_object_by_object_as_the_page_says() {
    story("ben-test", |story| async move {
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/test-cluster.yaml");
        let manifest = std::fs::read_to_string(manifest).unwrap();
        story.apply(&manifest.replace("count: 3", "count: 1")).await;
        story.wait_until_running("test-cluster").await;
        let mut page = Page::open("objects.md", story.shared);
        for section in SECTIONS {
            page.run_section(section).await;
        }
        page.close();
    });
}
