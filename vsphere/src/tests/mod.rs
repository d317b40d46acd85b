//! Client tests with a scripted fake vCenter.

/// Runs each listed test over both wire protocols.
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
