//! Objects that a guest is to have, and what of them can't be had.

use serde_json::Value;

use crate::addons::manifest;
use crate::addons::own_objects::Generated;

/// What can't be had before somebody acts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The object at fault.
    pub object: String,
    /// What is wrong with it, and what to do.
    pub message: String,
}

impl Problem {
    /// A problem of an object.
    pub fn new(object: impl Into<String>, message: impl Into<String>) -> Self {
        Self { object: object.into(), message: message.into() }
    }
}

/// Objects of one kind that a guest is to have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WantedObjects {
    /// Those that can be had.
    pub objects: Generated,
    /// What is asked for and can't be had.
    pub problems: Vec<Problem>,
}

impl WantedObjects {
    /// The objects of these documents; one that no object can be is a problem.
    pub fn of(documents: Vec<Value>, mut problems: Vec<Problem>) -> Self {
        let mut manifests = Vec::with_capacity(documents.len());
        for document in documents {
            let name = document["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            match manifest::read(document) {
                Ok(manifest) => manifests.push(manifest),
                Err(reason) => problems.push(Problem::new(name, reason)),
            }
        }
        Self { objects: Generated::new(manifests), problems }
    }
}
