//! Networks that connections come from, as far as clients cannot choose them.
use std::net::IpAddr;

/// An IPv4 address, or the upper 64 bits of an IPv6 address: the owner can choose the lower 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Network(u128);

impl From<IpAddr> for Network {
    fn from(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
            IpAddr::V6(address) => address.to_bits() >> 64 << 64,
        })
    }
}
