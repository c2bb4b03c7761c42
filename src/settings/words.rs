//! How the text of a setting is read: as Go does, because the variables are those of a Go program.

use std::path::PathBuf;
use std::time::Duration;

/// What was expected instead.
pub(super) type Read<T> = Result<T, &'static str>;

/// The words of Go's `strconv.ParseBool`.
pub(super) fn boolean(text: &str) -> Read<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(false),
        _ => Err("`true` or `false`"),
    }
}

/// A port; 0 lets the system choose.
pub(super) fn port(text: &str) -> Read<u16> {
    const EXPECTED: &str = "a port from 0 to 65535";
    integer(text).and_then(|port| port.try_into().ok()).ok_or(EXPECTED)
}

/// A number that is at least one.
pub(super) fn positive(text: &str) -> Read<usize> {
    const EXPECTED: &str = "a whole number of at least 1";
    let number = integer(text).and_then(|number| number.try_into().ok());
    number.filter(|number| *number > 0).ok_or(EXPECTED)
}

/// A number that may be zero.
pub(super) fn count(text: &str) -> Read<usize> {
    integer(text).and_then(|number| number.try_into().ok()).ok_or("a whole number of at least 0")
}

/// A share from 0 to 1.
pub(super) fn ratio(text: &str) -> Read<f32> {
    let ratio = text.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
    ratio.ok_or("a number from 0 to 1")
}

/// A share above 0 and at most 1, as `1/3` or `0.33`, exact to a millionth.
pub(super) fn share(text: &str) -> Read<(u32, u32)> {
    let ratio = match text.split_once('/') {
        Some((parts, of)) => parts.trim().parse().ok().zip(of.trim().parse().ok()),
        None => millionths(text).map(|parts| (parts, MILLION)),
    };
    let is_share = |(parts, of): &(u32, u32)| 0 < *parts && parts <= of;
    ratio.filter(is_share).ok_or("a share above 0 and at most 1, such as `1/3` or `0.33`")
}

const MILLION: u32 = 1_000_000;

fn millionths(text: &str) -> Option<u32> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = fraction.get(..fraction.len().min(6))?;
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let whole: u32 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let fraction: u32 = format!("{digits:0<6}").parse().ok()?;
    whole.checked_mul(MILLION)?.checked_add(fraction)
}

/// A length of time as Go writes it: `10s`, `1h30m`, `1.5h`, `150us`, or a bare `0`.
pub(super) fn duration(text: &str) -> Read<Duration> {
    const EXPECTED: &str = "a duration such as `10s`, `150ms` or `1h30m`";
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    let mut total = Duration::ZERO;
    if rest.is_empty() {
        return Err(EXPECTED);
    }
    while !rest.is_empty() {
        let (part, after) = duration_part(rest).ok_or(EXPECTED)?;
        total = total.checked_add(part).ok_or(EXPECTED)?;
        rest = after;
    }
    Ok(total)
}

/// The same, but longer than none.
pub(super) fn positive_duration(text: &str) -> Read<Duration> {
    let found = duration(text)?;
    if found.is_zero() { Err("a duration longer than 0") } else { Ok(found) }
}

/// A path, if there is one.
pub(super) fn path(text: &str) -> Option<PathBuf> {
    (!text.is_empty()).then(|| text.into())
}

/// The parts of a list with commas, without blanks around them; empty ones are none.
pub(super) fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty())
}

/// A whole number of seconds.
pub(super) fn seconds(text: &str) -> Read<Duration> {
    let seconds = integer(text).and_then(|seconds| u32::try_from(seconds).ok());
    seconds.map(|seconds| Duration::from_secs(seconds.into())).ok_or("a whole number of seconds")
}

/// A path as a Prometheus scrape asks for it.
pub(super) fn url_path(text: &str) -> Read<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/-_.~".contains(c);
    if text.starts_with('/') && text.chars().all(plain) {
        Ok(text.to_owned())
    } else {
        Err("a path such as `/metrics`")
    }
}

/// A name that an HTTP header can have.
pub(super) fn header_name(text: &str) -> Read<String> {
    match http::HeaderName::from_bytes(text.as_bytes()) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err("a header name (letters, digits and !#$%&'*+-.^_`|~)"),
    }
}

/// Decimal, or `0x`, `0o`, `0b`, or octal after a leading zero, with `_` between digits.
fn integer(text: &str) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    let (digits, radix) = if let Some(digits) = lower.strip_prefix("0x") {
        (digits, 16)
    } else if let Some(digits) = lower.strip_prefix("0b") {
        (digits, 2)
    } else if let Some(digits) = lower.strip_prefix("0o") {
        (digits, 8)
    } else if let Some(digits) = lower.strip_prefix('0').filter(|digits| !digits.is_empty()) {
        (digits, 8)
    } else {
        (lower.as_str(), 10)
    };
    let plain = digits.replace('_', "");
    u64::from_str_radix(&plain, radix).ok().filter(|_| !plain.starts_with('+'))
}

/// The first number with its unit, and what stands after it.
fn duration_part(text: &str) -> Option<(Duration, &str)> {
    let n_number = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, rest) = text.split_at(n_number);
    let n_unit = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(n_unit);
    let nanos = nanos_of(unit)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let whole = if whole.is_empty() { 0 } else { whole.parse::<u64>().ok()? };
    let total = whole.checked_mul(nanos)?.checked_add(fraction_of(fraction, nanos)?)?;
    Some((Duration::from_nanos(total), rest))
}

/// `.fraction` of `nanos`, rounded down.
fn fraction_of(fraction: &str, nanos: u64) -> Option<u64> {
    let mut part = u128::from(nanos);
    let mut sum = 0;
    for digit in fraction.chars() {
        part *= 1_000_000_000_000;
        part /= 10_000_000_000_000;
        sum += u128::from(digit.to_digit(10)?) * part;
    }
    sum.try_into().ok()
}

fn nanos_of(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_fractions_or_decimals() {
        assert_eq!(share("1"), Ok((1_000_000, 1_000_000)));
        assert_eq!(share("1/3"), Ok((1, 3)));
        assert_eq!(share("0.33"), Ok((330_000, 1_000_000)));
        assert_eq!(share(".5"), Ok((500_000, 1_000_000)));
        for wrong in ["", "0", "0/3", "3/2", "1.1", "-1", "a", "1/", "0.x", "1e-1", "0.0000001"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn durations_are_read_as_go_writes_them() {
        for (text, nanos) in [
            ("0", 0),
            ("0s", 0),
            ("10s", 10_000_000_000),
            ("150us", 150_000),
            ("150µs", 150_000),
            ("1h30m", 5_400_000_000_000),
            ("1.5h", 5_400_000_000_000),
            (".5s", 500_000_000),
            ("1.25ms", 1_250_000),
            ("+3ns", 3),
            ("24h0m0s", 86_400_000_000_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_nanos(nanos)), "{text}");
        }
    }

    #[test]
    fn what_go_would_not_take_as_a_duration_is_refused() {
        for text in [
            "",
            "10",
            "s",
            ".s",
            "1.s.",
            "-1s",
            "1 s",
            "1d",
            "1sm",
            "99999999999999h",
            "1..5s",
            "+",
        ] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn integers_may_have_a_base() {
        for (text, number) in [
            ("8080", 8080),
            ("0x1F90", 8080),
            ("0o20", 16),
            ("020", 16),
            ("0b11", 3),
            ("1_000", 1000),
        ] {
            assert_eq!(integer(text), Some(number), "{text}");
        }
        for text in ["", "abc", "-1", "+1", "1.5", "0x", "1e3", " 1", "99999999999999999999"] {
            assert_eq!(integer(text), None, "{text}");
        }
        assert_eq!(port("65536"), Err("a port from 0 to 65535"));
        assert_eq!(port("0"), Ok(0));
    }

    #[test]
    fn only_gos_words_are_booleans() {
        assert_eq!(boolean("T"), Ok(true));
        assert_eq!(boolean("False"), Ok(false));
        for text in ["", "yes", "on", "tRUE", " true", "2"] {
            assert!(boolean(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_ratio_is_from_0_to_1() {
        assert_eq!(ratio("0.8"), Ok(0.8));
        for text in ["", "1.1", "-0.1", "NaN", "inf", "80%"] {
            assert!(ratio(text).is_err(), "{text}");
        }
    }
}
