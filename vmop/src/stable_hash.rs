//! A hash that doesn't depend on the toolchain or release, for choices that must not change.

use sha2::{Digest, Sha256};

/// Hashes the parts: the first eight bytes of their SHA-256 digest, big-endian. Each part ends with a zero byte, so
/// that different lists can't produce the same input.
pub fn stable_hash<const N: usize>(parts: [&str; N]) -> u64 {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part);
        hasher.update([0]);
    }
    let digest = hasher.finalize();
    digest.iter().take(8).fold(0, |hash, byte| hash << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fixed values: if one changed, VMs that aren't placed yet would be placed differently.
    #[test]
    fn hashes_are_the_same_for_ever() {
        for (parts, hash) in [
            (["", ""], 10_854_403_881_223_488_966),
            (["ns/cp-0", "datastore-11"], 7_321_233_893_829_927_229),
            (["ns/cp-0d", "atastore-11"], 12_465_207_685_746_960_398),
        ] {
            assert_eq!(stable_hash(parts), hash, "{parts:?}");
        }
        assert_eq!(stable_hash(["ns", "cp-0", "zone-1"]), 2_628_222_299_683_988_865);
    }
}
