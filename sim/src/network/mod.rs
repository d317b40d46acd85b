//! The network providers: VirtualNetworks, network interfaces and load balancers.

pub mod balancer;
pub mod held_address;
mod interface;
mod networks;
mod virtual_network;

pub use interface::Interfaces;
pub(crate) use networks::Networks;
pub use virtual_network::RunningNetworkProvider;
