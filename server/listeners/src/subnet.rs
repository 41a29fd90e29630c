//! A subnet of IP addresses.
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// An address, or all addresses with a common prefix: `10.0.0.7`, `10.0.0.0/24`, `2001:db8::/32`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subnet {
    address: IpAddr,
    prefix: u8,
}

impl Subnet {
    /// Returns whether the address belongs to the subnet. An IPv4 address that is mapped to IPv6 counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(of), IpAddr::V4(address)) => {
                high_bits(of.to_bits().into(), 32, self.prefix)
                    == high_bits(address.to_bits().into(), 32, self.prefix)
            }
            (IpAddr::V6(of), IpAddr::V6(address)) => {
                high_bits(of.to_bits(), 128, self.prefix)
                    == high_bits(address.to_bits(), 128, self.prefix)
            }
            _ => false,
        }
    }
}

/// Returns the first `prefix` bits of a number with `width` bits.
fn high_bits(bits: u128, width: u32, prefix: u8) -> u128 {
    bits.checked_shr(width - u32::from(prefix)).unwrap_or(0)
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)?;
        if self.prefix < width(self.address) {
            write!(f, "/{}", self.prefix)?;
        }
        Ok(())
    }
}

impl FromStr for Subnet {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FORM: &str = "expected an address or a network, such as 10.0.0.7 or 10.0.0.0/24";
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| FORM)?;
        if address.to_canonical() != address {
            return Err("write an IPv4 address as such, not mapped to IPv6");
        }
        let most = width(address);
        let prefix = match prefix {
            Some(prefix) if prefix.bytes().all(|byte| byte.is_ascii_digit()) => {
                prefix.parse().map_err(|_| FORM)?
            }
            Some(_) => return Err(FORM),
            None => most,
        };
        if prefix > most {
            return Err("the prefix of a network is at most 32 bits of IPv4, 128 of IPv6");
        }
        Ok(Self { address, prefix })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subnet_contains_the_addresses_with_its_prefix() {
        for (subnet, inside, outside) in [
            ("10.0.0.7", "10.0.0.7", "10.0.0.8"),
            ("10.0.0.0/24", "10.0.0.255", "10.0.1.0"),
            ("10.0.0.9/24", "::ffff:10.0.0.1", "::ffff:10.0.1.1"),
            ("10.0.0.0/31", "10.0.0.1", "10.0.0.2"),
            ("0.0.0.0/0", "192.0.2.1", "2001:db8::1"),
            ("::/0", "2001:db8::1", "192.0.2.1"),
            ("2001:db8::/32", "2001:db8:ffff::1", "2001:db9::1"),
            ("::1", "::1", "::2"),
        ] {
            let parsed: Subnet = subnet.parse().unwrap();
            assert!(
                parsed.contains(inside.parse().unwrap()),
                "{subnet} {inside}"
            );
            assert!(
                !parsed.contains(outside.parse().unwrap()),
                "{subnet} {outside}"
            );
            assert_eq!(parsed.to_string(), subnet);
        }
    }

    #[test]
    fn invalid_subnets_are_refused() {
        for text in [
            "",
            "localhost",
            "10.0.0",
            "10.0.0.0/33",
            "::/129",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "::ffff:10.0.0.1",
            "10.0.0.1:80",
        ] {
            assert!(text.parse::<Subnet>().is_err(), "{text}");
        }
    }
}
