//! The contents of a guest besides its nodes: add-ons, objects of the namespace, issuers, and accounts for programs.

pub mod accounts;
pub mod addons;
pub mod authentication;
pub mod left_in_image;
pub mod synced;
pub mod usable;

use api::conditions::Condition;
use api::conditions::cause::Cause;

/// A condition, with the cause that its message names.
pub type Verdict = (Condition, Option<Cause>);
