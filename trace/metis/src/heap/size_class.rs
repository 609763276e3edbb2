//! Sizes that allocators treat alike.

/// Largest size of the class: steps of 16 bytes up to 128, then four a doubling.
pub fn size_class(size: u64) -> u64 {
    if size <= 128 {
        return size.max(1).next_multiple_of(16);
    }
    let step = 1_u64 << (62 - size.leading_zeros()).saturating_sub(1);
    // A power of two is the last of its doubling.
    let step = if size.is_power_of_two() { 1 } else { step };
    size.checked_next_multiple_of(step).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_classes_waste_at_most_a_quarter() {
        for (size, class) in [
            (0, 16),
            (1, 16),
            (16, 16),
            (17, 32),
            (128, 128),
            (129, 160),
            (160, 160),
            (161, 192),
            (255, 256),
            (256, 256),
            (257, 320),
            (1000, 1024),
            (1024, 1024),
            (1025, 1280),
            (u64::MAX, u64::MAX),
        ] {
            assert_eq!(size_class(size), class, "{size}");
        }
        for size in 129..100_000 {
            let class = size_class(size);
            assert!(class >= size && class * 4 <= size * 5, "{size} {class}");
            assert_eq!(size_class(class), class, "{size}");
        }
    }
}
