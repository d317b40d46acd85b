//! Checks the recordings table in docs/vcenter.md.

use replay::page::with_table;

use super::{read, recordings};

#[test]
fn the_page_has_the_table_of_the_recordings() {
    let Some(folder) = recordings("the_page_has_the_table_of_the_recordings") else { return };
    let page = read("docs/vcenter.md");
    let made = with_table(&page, &folder).expect("docs/vcenter.md has no marks for the table");
    assert!(page == made, "docs/vcenter.md is stale: run hack/generate with LAYERCAKE_RECORDINGS");
}
