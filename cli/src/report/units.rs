//! Sizes, times and ratios for people. 1 MB is 1,000,000 bytes.

use std::time::Duration;

pub fn bytes(bytes: f64) -> String {
    const UNITS: &[&str] = &["bytes", "kB", "MB", "GB", "TB", "PB"];
    let mut value = bytes;
    let mut unit = 0;
    // 999.6 MB would be printed as 1000 MB.
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!("{} {}", three_digits(value), UNITS[unit])
}

/// 1,234,567
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// "1 site", "1,639 sites"
pub fn counted(number: u64, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {what}{plural}", count(number))
}

pub fn seconds(seconds: f64) -> String {
    if seconds < 0.0995 {
        return format!("{} ms", three_digits(seconds * 1000.0));
    }
    format!("{} s", three_digits(seconds))
}

pub fn duration(time: Duration) -> String {
    seconds(time.as_secs_f64())
}

/// .31, 1.02: as in the papers' tables.
pub fn ratio(ratio: f64) -> String {
    let text = if ratio < 0.1 {
        format!("{ratio:.3}")
    } else {
        format!("{ratio:.2}")
    };
    text.strip_prefix('0').map_or(text.clone(), str::to_owned)
}

fn three_digits(value: f64) -> String {
    if value == 0.0 {
        "0".into()
    } else if value < 9.995 {
        format!("{value:.2}")
    } else if value < 99.95 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_can_read_them() {
        assert_eq!(bytes(0.0), "0 bytes");
        assert_eq!(bytes(999.0), "999 bytes");
        assert_eq!(bytes(999_600.0), "1.00 MB");
        assert_eq!(bytes(3_900_000_000.0), "3.90 GB");
        assert_eq!(bytes(210_400_000.0), "210 MB");
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(seconds(1.234), "1.23 s");
        assert_eq!(seconds(0.0021), "2.10 ms");
        assert_eq!(ratio(0.314), ".31");
        assert_eq!(ratio(0.0523), ".052");
        assert_eq!(ratio(1.018), "1.02");
    }
}
