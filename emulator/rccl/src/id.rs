//! A communicator's id: where its hub is.

use std::collections::hash_map::{DefaultHasher, RandomState};
use std::hash::{BuildHasher, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use api::rccl::ncclUniqueId;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;

const MAGIC: [u8; 8] = *b"emurccl1";

/// Where a hub is, and which one is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Id {
    /// Its address.
    pub address: SocketAddr,
    /// A random number, so that nobody comes to another hub at the same address.
    pub nonce: u64,
}

impl Id {
    /// The id of a hub at an address.
    pub fn new(address: SocketAddr) -> Self {
        Self { address, nonce: RandomState::new().build_hasher().finish() }
    }

    /// What the program hands from rank to rank.
    pub fn bytes(&self) -> [u8; 128] {
        let mut bytes = [0; 128];
        let ip = match self.address.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&self.nonce.to_le_bytes());
        bytes[16..32].copy_from_slice(&ip.octets());
        bytes[32..34].copy_from_slice(&self.address.port().to_le_bytes());
        let sum = checksum(&bytes[..120]);
        bytes[120..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads it again; none if it is garbled, or no id of ours.
    pub fn from_bytes(bytes: &[u8; 128]) -> Option<Self> {
        let number = |at: usize| bytes[at..at + 8].try_into().map(u64::from_le_bytes).expect("eight bytes");
        if bytes[..8] != MAGIC || number(120) != checksum(&bytes[..120]) {
            return None;
        }
        let octets: [u8; 16] = bytes[16..32].try_into().expect("sixteen bytes");
        let ip = Ipv6Addr::from(octets).to_canonical();
        Some(Self { address: SocketAddr::new(ip, u16::from_le_bytes([bytes[32], bytes[33]])), nonce: number(8) })
    }

    /// As the program has it.
    pub fn to_c(self) -> ncclUniqueId {
        ncclUniqueId { internal: self.bytes().map(|byte| byte as i8) }
    }

    /// From what the program has; none if it is garbled.
    pub fn from_c(id: &ncclUniqueId) -> Option<Self> {
        Self::from_bytes(&id.internal.map(|byte| byte as u8))
    }
}

fn checksum(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// The address at which ranks on other machines reach this one, as RCCL chooses it: of the first interface that is up and
/// that `NCCL_SOCKET_IFNAME` allows, the loopback's only if there is no other one.
pub fn own_address() -> IpAddr {
    let allowed = Allowed::parse(&std::env::var("NCCL_SOCKET_IFNAME").unwrap_or_default());
    let mut found: Vec<(bool, Ipv4Addr)> = Vec::new();
    for interface in getifaddrs().into_iter().flatten() {
        let address = interface.address.as_ref().and_then(|address| address.as_sockaddr_in().map(|v4| v4.ip()));
        let is_up = interface.flags.contains(InterfaceFlags::IFF_UP);
        if let Some(address) = address.filter(|_| is_up && allowed.permits(&interface.interface_name)) {
            found.push((address.is_loopback(), address));
        }
    }
    // False comes first; the order of interfaces stays otherwise.
    found.sort_by_key(|(is_loopback, _)| *is_loopback);
    found.first().map_or(Ipv4Addr::LOCALHOST, |(_, address)| *address).into()
}

/// What `NCCL_SOCKET_IFNAME` says: beginnings of names, or whole names after `=`; after `^` those that are not meant.
#[derive(Debug)]
struct Allowed {
    names: Vec<String>,
    whole: bool,
    excludes: bool,
}

impl Allowed {
    fn parse(text: &str) -> Self {
        let (excludes, rest) = text.strip_prefix('^').map_or((false, text), |rest| (true, rest));
        let (whole, rest) = rest.strip_prefix('=').map_or((false, rest), |rest| (true, rest));
        let names = rest.split(',').filter(|name| !name.is_empty()).map(String::from).collect();
        Self { names, whole, excludes }
    }

    fn permits(&self, interface: &str) -> bool {
        let named = |name: &String| if self.whole { interface == name } else { interface.starts_with(name.as_str()) };
        self.names.is_empty() || self.names.iter().any(named) != self.excludes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_survives_and_a_garbled_one_is_none() {
        for address in ["10.1.2.3:4567", "[fe80::1]:80"] {
            let id = Id::new(address.parse().unwrap());
            assert_eq!(Id::from_c(&id.to_c()), Some(id));
            for at in 0..128 {
                let mut bytes = id.bytes();
                bytes[at] ^= 1;
                assert_eq!(Id::from_bytes(&bytes), None, "{at}");
            }
        }
        assert_eq!(Id::from_bytes(&[0; 128]), None);
        let address = "127.0.0.1:1".parse().unwrap();
        assert_ne!(Id::new(address), Id::new(address));
    }

    #[test]
    fn interfaces_are_chosen_as_rccl_does() {
        let permits = |text, name| Allowed::parse(text).permits(name);
        assert!(permits("", "lo") && permits("eth", "eth0") && permits("ib,eth1", "eth1"));
        assert!(!permits("eth1", "eth0") && !permits("=eth", "eth0") && permits("=eth0", "eth0"));
        assert!(!permits("^lo", "lo") && permits("^lo,docker", "eth0") && permits("^=eth", "eth0"));
    }
}
