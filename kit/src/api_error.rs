//! Classifies errors from the API server.

/// Returns true if the API server reports that the object doesn't exist.
pub fn is_gone(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_not_found())
}

/// Returns true if the response to a list or get has status 404. For a list, this means that the kind isn't served. The body
/// isn't checked, because the API server sends plain text if the whole API group isn't served.
pub fn is_not_served(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// Returns true if the API server reports that the object has changed since the caller read it.
pub fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_conflict())
}

/// Returns true if the API server reports that the name is already taken.
pub fn is_already_exists(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_already_exists())
}

/// Returns the API server's message, or the error's own message if the API server didn't send one.
pub fn message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        // The variant's own message would only add the variant's name.
        kube::Error::Service(error) => error.to_string(),
        error => error.to_string(),
    }
}

/// A note that the API server adds to other validation errors. It doesn't help the author.
const UNCHECKED: &str = ", <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";

/// Returns the API server's message without the webhook's name or the note about unchecked rules, which don't help the author.
pub fn words_of_refusal(message: &str) -> String {
    let message = message.replace(UNCHECKED, "");
    let own = message.split_once(" denied the request: ").map(|(_, own)| own.to_owned());
    own.unwrap_or(message)
}

/// Returns the missing right, such as `User "ann" cannot list resource "leases" …`, if the API server refused a request because
/// the user lacks this right. Otherwise returns `None`.
///
/// `message` is the API server's message. Admission and quotas refuse requests with the same status, but with other messages.
pub fn missing_right(message: &str) -> Option<&str> {
    const REFUSED: &str = " is forbidden: ";
    let (_, why) = message.split_once(REFUSED)?;
    why.starts_with("User \"").then_some(why)
}

#[cfg(test)]
mod tests {
    use kube::api::ListParams;
    use kube::{Api, Client};

    use super::*;

    #[tokio::test]
    async fn a_kind_that_is_not_served_is_no_object_that_is_gone() {
        let service = tower::service_fn(|_: hyper::Request<kube::client::Body>| async {
            let body = kube::client::Body::from(b"404 page not found\n".to_vec());
            hyper::Response::builder().status(404).header("content-type", "text/plain").body(body)
        });
        let nodes = Api::<k8s_openapi::api::core::v1::Node>::all(Client::new(service, "default"));
        let error = nodes.list(&ListParams::default()).await.unwrap_err();
        assert!(is_not_served(&error) && !is_gone(&error), "{error:?}");
    }

    #[test]
    fn a_missing_right_differs_from_other_refusals() {
        let right = r#"User "ann" cannot list resource "leases" in API group "coordination.k8s.io" in the namespace "dev""#;
        assert_eq!(missing_right(&format!("leases.coordination.k8s.io is forbidden: {right}")), Some(right));
        for other in [
            r#"virtualmachines "web" is forbidden: exceeded quota: team, requested: 1, used: 5, limited: 5"#,
            r#"admission webhook "default.tkc" denied the request: User "ann" cannot do that"#,
        ] {
            assert_eq!(missing_right(other), None);
        }
    }
}
