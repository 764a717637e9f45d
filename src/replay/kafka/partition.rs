//! Which partition a record with a key goes to: as the Java client's default partitioner decides it, or a record that is
//! sent home would leave the records of its key.

/// `None` for a record without a key: any partition does.
pub(super) fn choose(key: Option<&[u8]>, wanted: Option<i32>, partitions: i32) -> Option<i32> {
    match (wanted.filter(|wanted| (0..partitions).contains(wanted)), key) {
        (Some(wanted), _) => Some(wanted),
        (None, Some(key)) if partitions > 0 => Some((murmur2(key) & 0x7fff_ffff) % partitions),
        (None, _) => None,
    }
}

/// 32 bits, as `org.apache.kafka.common.utils.Utils.murmur2`; the algorithm is Austin Appleby's, in the public domain.
fn murmur2(data: &[u8]) -> i32 {
    const M: u32 = 0x5bd1_e995;
    let mut h = 0x9747_b28c ^ u32::try_from(data.len()).unwrap_or(u32::MAX);
    let mut words = data.chunks_exact(4);
    for word in &mut words {
        let mut k = word.iter().rev().fold(0, |k, byte| k << 8 | u32::from(*byte)).wrapping_mul(M);
        k = (k ^ (k >> 24)).wrapping_mul(M);
        h = h.wrapping_mul(M) ^ k;
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        let k = rest.iter().rev().fold(0, |k, byte| k << 8 | u32::from(*byte));
        h = (h ^ k).wrapping_mul(M);
    }
    h = (h ^ (h >> 13)).wrapping_mul(M);
    i32::from_ne_bytes((h ^ (h >> 15)).to_ne_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From `Utils.murmur2` of Kafka's Java client, 4.4.0.
    #[test]
    fn the_hash_is_that_of_the_java_client() {
        for (key, hash) in JAVA {
            assert_eq!(murmur2(key), *hash, "{key:?}");
        }
    }

    #[test]
    fn a_partition_is_kept_while_it_exists_and_else_the_key_decides() {
        assert_eq!(choose(Some(b"k"), Some(2), 3), Some(2));
        assert_eq!(choose(Some(b"21"), Some(7), 3), Some((murmur2(b"21") & 0x7fff_ffff) % 3));
        assert_eq!(choose(None, Some(7), 3), None);
        assert_eq!(choose(None, None, 3), None);
        assert_eq!(choose(Some(b""), None, 1), Some(0));
    }

    const JAVA: &[(&[u8], i32)] = &[
        (&[], 275646681),
        (&[50, 49], -973932308),
        (&[102, 111, 111, 98, 97, 114], -790332482),
        (&[97], -1563381124),
        (&[97, 98, 99], 479470107),
        (&[111, 114, 100, 101, 114, 45, 52, 55, 49, 49], 1584983611),
        (&[195, 164, 195, 182], -1518971941),
        (&[255, 0, 128, 1, 2], -770465701),
        (
            &[
                97, 45, 108, 105, 116, 116, 108, 101, 45, 98, 105, 116, 45, 108, 111, 110, 103, 45, 115, 116, 114, 105,
                110, 103,
            ],
            -985981536,
        ),
    ];
}
