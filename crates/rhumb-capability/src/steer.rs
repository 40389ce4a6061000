//! Which core a packet belongs to: a function of what its binding covers,
//! so that a repetition comes to the same filter.

use std::net::IpAddr;

/// The core, of `cores`, of packets from `source` to `destination` (those of the Platypus header).
///
/// All packets between two hosts go to one core, in order. Simple enough for a BPF
/// program: with every address folded into 32 bits by XOR of its words,
/// `((source + destination) * 0x9E3779B1 >> 16) % cores`.
#[inline]
pub fn steer(source: IpAddr, destination: IpAddr, cores: u16) -> u16 {
    let sum = fold(source).wrapping_add(fold(destination));
    ((sum.wrapping_mul(0x9E37_79B1) >> 16) % u32::from(cores.max(1))) as u16
}

fn fold(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(v4) => v4.to_bits(),
        IpAddr::V6(v6) => {
            let bits = v6.to_bits();
            (bits ^ bits >> 32 ^ bits >> 64 ^ bits >> 96) as u32
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_used_alike_and_both_ways_meet() {
        for base in [0x0A00_0000_u128, 0x2001_0db8 << 96] {
            let address = |n: u32| -> IpAddr {
                if base >> 32 == 0 {
                    std::net::Ipv4Addr::from_bits(base as u32 + n).into()
                } else {
                    std::net::Ipv6Addr::from_bits(base + u128::from(n)).into()
                }
            };
            let mut load = [0_u32; 4];
            for n in 0..4000 {
                let core = steer(address(n), address(9999), 4);
                assert_eq!(steer(address(9999), address(n), 4), core);
                load[usize::from(core)] += 1;
            }
            assert!(load.iter().all(|n| (500..2000).contains(n)), "{load:?}");
        }
        assert_eq!(steer([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 1), 0);
    }
}
