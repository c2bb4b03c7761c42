//! How long a caller waits: the `grpc-timeout` of its call.

use std::time::Duration;
use tonic::metadata::MetadataMap;

/// How long the caller waits, if it says so: `20m` is 20 ms.
pub(super) fn of(metadata: &MetadataMap) -> Option<Duration> {
    read(metadata.get("grpc-timeout")?.to_str().ok()?)
}

/// At most eight digits and a unit.
fn read(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_digits_and_a_unit() {
        for (text, wait) in [
            ("20m", Some(Duration::from_millis(20))),
            ("1S", Some(Duration::from_secs(1))),
            ("99999999H", Some(Duration::from_secs(99_999_999 * 3600))),
            ("5u", Some(Duration::from_micros(5))),
            ("7n", Some(Duration::from_nanos(7))),
            ("2M", Some(Duration::from_secs(120))),
            ("123456789m", None),
            ("m", None),
            ("", None),
            ("1.5S", None),
            ("-1S", None),
            ("20ms", None),
            ("20µ", None),
        ] {
            assert_eq!(read(text), wait, "{text}");
        }
    }
}
