//! A hash that is the same with every toolchain and release, for choices that must last.

use sha2::{Digest, Sha256};

/// The first eight bytes of SHA-256 of the parts, each ended so that no two lists of parts run together.
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

    /// Fixed values: VMs that are not placed yet would be placed otherwise if one changed.
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
