//! Shows the warnings in the API server's responses to a command's writes.
//!
//! client-go prints such warnings. [`kube::Client`] drops them, so a layer around the client reads the header.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http::header::WARNING;
use http::{HeaderMap, Method, Request, Response};
use tower::{Layer, Service};

use crate::terminal::output::say;

/// Prints each warning once to standard error, and collects all of them.
#[derive(Clone, Debug, Default)]
pub struct Warnings(Arc<Mutex<Vec<String>>>);

impl Warnings {
    /// Returns all warnings so far, in order.
    pub fn all(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn add(&self, headers: &HeaderMap) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for value in headers.get_all(WARNING) {
            let Some(text) = value.to_str().ok().and_then(text) else { continue };
            if !known.contains(&text) {
                say!("warning: {text}");
                known.push(text);
            }
        }
    }
}

/// Returns the message in an API server's `Warning` header, which has the form `299 - "text"`. Returns `None` for other
/// headers, such as those from proxies.
fn text(header: &str) -> Option<String> {
    let quoted = header.trim().strip_prefix("299 ")?.split_once(' ')?.1.trim_start().strip_prefix('"')?;
    let mut text = String::new();
    let mut letters = quoted.chars();
    loop {
        match letters.next()? {
            '"' => return Some(text),
            '\\' => text.push(letters.next()?),
            letter => text.push(letter),
        }
    }
}

impl<S> Layer<S> for Warnings {
    type Service = WithWarnings<S>;

    fn layer(&self, inner: S) -> Self::Service {
        WithWarnings { inner, warnings: self.clone() }
    }
}

/// A client service that reads the warnings in responses.
#[derive(Clone, Debug)]
pub struct WithWarnings<S> {
    inner: S,
    warnings: Warnings,
}

impl<S, A, B> Service<Request<A>> for WithWarnings<S>
where
    S: Service<Request<A>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        // Warnings on reads concern objects that others wrote. If the API server refuses a request, the response
        // contains the reason.
        let writes = request.method() != Method::GET;
        let warnings = self.warnings.clone();
        let answered = self.inner.call(request);
        Box::pin(async move {
            let response = answered.await?;
            if writes && response.status().is_success() {
                warnings.add(response.headers());
            }
            Ok(response)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_is_the_quoted_text() {
        for (header, expected) in [
            (r#"299 - "unknown field \"spec.x\"""#, Some(r#"unknown field "spec.x""#)),
            (r#"299 kubernetes "a \\ b" "Wed, 21 Oct 2026 07:28:00 GMT""#, Some(r"a \ b")),
            (r#"110 proxy "stale""#, None),
            (r#"299 - "open"#, None),
            ("299", None),
        ] {
            assert_eq!(text(header).as_deref(), expected, "{header}");
        }
    }

    #[tokio::test]
    async fn warnings_about_writes_are_kept_once() {
        let warnings = Warnings::default();
        let answer = |request: Request<()>| async move {
            let mut response = Response::new(());
            let text = format!("299 - \"about {}\"", request.uri());
            response.headers_mut().append(WARNING, text.parse().unwrap());
            if request.uri() == "/refused" {
                *response.status_mut() = http::StatusCode::FORBIDDEN;
            }
            Ok::<_, std::convert::Infallible>(response)
        };
        let mut service = warnings.layer(tower::service_fn(answer));
        for (method, path) in
            [(Method::GET, "/read"), (Method::PATCH, "/a"), (Method::PATCH, "/a"), (Method::POST, "/refused")]
        {
            service.call(Request::builder().method(method).uri(path).body(()).unwrap()).await.unwrap();
        }
        assert_eq!(warnings.all(), ["about /a"]);
    }
}
