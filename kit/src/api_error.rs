//! What an API server's refusal means.

/// Whether the API server says that there is no such object (any more).
pub fn is_gone(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_not_found())
}

/// Returns true if the answer to a list or get has status 404. The answer to a list has it only if the kind is not served. If no
/// kind of the group is served, the answer is plain text.
pub fn is_not_served(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// Whether the API server says that the object is not what the caller saw.
pub fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_conflict())
}

/// Whether the API server says that there is an object of that name already.
pub fn is_already_exists(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_already_exists())
}

/// The API server's own words for an error; for other errors, what this program has to say.
pub fn message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        // The name of the variant says nothing.
        kube::Error::Service(error) => error.to_string(),
        error => error.to_string(),
    }
}

/// The right that a user lacks, if that is why the API server refused a request: `User "ann" cannot list resource "leases" …`.
///
/// `message` is the API server's. Admission and quotas refuse with the same status, but in other words.
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
