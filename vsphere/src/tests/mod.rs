//! The client against a vCenter of a few lines, which says what the test wants it to.

/// Runs every test of the list on each wire.
macro_rules! on_both_wires {
    ($($test:ident),* $(,)?) => { $(
        mod $test {
            #[tokio::test]
            async fn vijson() {
                super::$test(crate::WireKind::ViJson).await;
            }

            #[tokio::test]
            async fn soap() {
                super::$test(crate::WireKind::Soap).await;
            }
        }
    )* };
}

mod fake;
mod foreign;
mod requests;
mod session;
mod soap;
mod stream;
