//! A workload cluster's desired objects, and problems that prevent other objects.

use serde_json::Value;

use crate::addons::manifest;
use crate::addons::own_objects::Generated;

/// A problem that prevents an object from being created until a user fixes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectProblem {
    /// The faulty object.
    pub object: String,
    /// The problem and the remedy.
    pub message: String,
}

impl ObjectProblem {
    /// Returns a problem with an object.
    pub fn new(object: impl Into<String>, message: impl Into<String>) -> Self {
        Self { object: object.into(), message: message.into() }
    }
}

/// A set of objects that a workload cluster should have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WantedObjects {
    /// The objects that can be created.
    pub objects: Generated,
    /// The problems that prevent requested objects from being created.
    pub problems: Vec<ObjectProblem>,
}

impl WantedObjects {
    /// Parses the documents into objects. Reports each invalid document as a problem.
    pub fn of(documents: Vec<Value>, mut problems: Vec<ObjectProblem>) -> Self {
        let mut manifests = Vec::with_capacity(documents.len());
        for document in documents {
            let name = document["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            match manifest::read(document) {
                Ok(manifest) => manifests.push(manifest),
                Err(reason) => problems.push(ObjectProblem::new(name, reason)),
            }
        }
        Self { objects: Generated::new(manifests), problems }
    }
}
