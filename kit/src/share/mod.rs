//! Shares limited resources fairly, so that one namespace, guest or client address can't take everything.
//!
//! | mechanism | divides | between | at the limit |
//! |---|---|---|---|
//! | [`bounds::Lane`] | concurrent work, such as computations, probes and calls | any names, mostly namespaces | callers wait; the share that holds the least is next |
//! | `slots` | a controller's reconciles | namespaces | objects wait without a task |
//! | [`responses`] | bytes of guests' responses | guests and namespaces | readers wait, and with them the guest |
//! | [`addresses`] | connections and request bytes | client addresses | the address that holds the most loses |
//!
//! The first three count with [`bounds::PermitQueue`]. The last one doesn't wait but evicts, because a stranger would never leave.

pub mod addresses;
pub mod responses;
pub(crate) mod slots;
