//! Which addresses a request may be sent to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Which hosts may have a private address.
///
/// Private is every address that is not one of the public internet's: this machine (loopback), the
/// networks of RFC 1918, link-local with the clouds' metadata services, unique local IPv6, carrier
/// NAT (100.64.0.0/10), what is reserved for documentation and tests, multicast, and IPv6 addresses
/// that carry such an IPv4 address.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Private {
    /// None: for addresses that strangers have given, such as a customer's webhook.
    Never,
    /// The target's own host; a redirect leads to public addresses only.
    #[default]
    Target,
    /// Every host, redirects' included.
    Always,
}

/// Whether an address is not one of the public internet's.
pub(super) fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_private_v4(address),
        IpAddr::V6(address) => is_private_v6(address),
    }
}

fn is_private_v4(address: Ipv4Addr) -> bool {
    match address.octets() {
        // "This network", private, carrier NAT, loopback, link-local with metadata services.
        [0 | 10 | 127, ..] | [100, 64..=127, ..] | [169, 254, ..] => true,
        [172, 16..=31, ..] | [192, 168, ..] => true,
        // Protocol assignments, documentation, the old 6to4 relay, benchmarks.
        [192, 0, 0 | 2, _] | [192, 88, 99, _] | [198, 18 | 19, ..] => true,
        [198, 51, 100, _] | [203, 0, 113, _] => true,
        // A public address in name only: the platform service of one cloud's machines.
        [168, 63, 129, 16] => true,
        // Multicast, reserved, broadcast.
        [224..=255, ..] => true,
        _ => false,
    }
}

fn is_private_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    let v4 = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_private_v4(Ipv4Addr::new(a, b, c, d))
    };
    match segments {
        // Mapped and translated IPv4, NAT64, 6to4: as the IPv4 address that they carry.
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0, 0, 0, 0, 0xffff, 0, high, low] => v4(high, low),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => v4(high, low),
        [0x2002, high, low, ..] => v4(high, low),
        // Of the rest, the public internet is 2000::/3, without Teredo, benchmarks, ORCHID and
        // documentation.
        [0x2001, 0..=0x1ff, ..] | [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => true,
        [first, ..] => first & 0xe000 != 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::is_private;

    #[test]
    fn private_addresses_are_told_from_public_ones() {
        for address in [
            "127.0.0.1",
            "127.255.255.254",
            "0.0.0.0",
            "10.1.2.3",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "100.100.100.200",
            "100.127.255.255",
            "192.0.0.192",
            "168.63.129.16",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:0:10.0.0.1",
            "64:ff9b::a00:1",
            "64:ff9b:1::1",
            "2002:a00:1::1",
            "2001:0:1::1",
            "2001:db8::1",
            "fe80::1",
            "fec0::1",
            "fc00::1",
            "fd00:ec2::254",
            "ff02::1",
            "100::1",
        ] {
            assert!(is_private(address.parse().unwrap()), "{address}");
        }
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "172.15.0.1",
            "172.32.0.1",
            "100.63.255.255",
            "100.128.0.1",
            "192.167.0.1",
            "193.0.0.1",
            "223.255.255.255",
            "2606:4700:4700::1111",
            "2a00:1450:4001::1",
            "2001:4860:4860::8888",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
            "2002:808:808::1",
        ] {
            assert!(!is_private(address.parse().unwrap()), "{address}");
        }
    }
}
