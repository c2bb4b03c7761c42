//! What an unquoted YAML scalar means. As yaml.v2 reads it, so that files keep their meaning:
//! `yes` is true and `010` is 8.

use super::raw::RawValue;

/// The meaning of an unquoted scalar.
pub(super) fn resolve(text: &str) -> RawValue {
    let literal = || Box::from(text);
    match text.as_bytes().first() {
        None => RawValue::Null,
        Some(b'0'..=b'9' | b'+' | b'-' | b'.') => number(text),
        Some(_) => match text {
            "~" | "null" | "Null" | "NULL" => RawValue::Null,
            "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
                RawValue::Bool(true, literal())
            }
            "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off"
            | "OFF" => RawValue::Bool(false, literal()),
            _ => RawValue::Text(literal()),
        },
    }
}

/// A number; or a text that looks like one at first, such as an address or a date.
fn number(text: &str) -> RawValue {
    let digits: String = text.chars().filter(|char| *char != '_').collect();
    let starts_with_dot = text.starts_with('.');
    match integer(&digits) {
        Some(value) if !starts_with_dot => RawValue::Integer(value, text.into()),
        _ if is_float(if starts_with_dot { text } else { &digits }) => RawValue::Float(text.into()),
        _ => RawValue::Text(text.into()),
    }
}

/// A whole number that fits 64 bits; a leading 0 means octal, as `0o` does.
fn integer(digits: &str) -> Option<i64> {
    let (negative, digits) = match digits.as_bytes().first()? {
        b'-' => (true, digits.get(1..)?),
        b'+' => (false, digits.get(1..)?),
        _ => (false, digits),
    };
    let (radix, digits) = radix(digits);
    if !digits.starts_with(|first: char| first.is_digit(radix)) {
        return None;
    }
    let magnitude = i128::from_str_radix(digits, radix).ok()?;
    i64::try_from(if negative { -magnitude } else { magnitude }).ok()
}

fn radix(digits: &str) -> (u32, &str) {
    let lower = |prefix: &str| digits.get(..2).is_some_and(|it| it.eq_ignore_ascii_case(prefix));
    let rest = digits.get(2..).unwrap_or_default();
    match digits {
        _ if lower("0x") => (16, rest),
        _ if lower("0o") => (8, rest),
        _ if lower("0b") => (2, rest),
        _ if digits.len() > 1 && digits.starts_with('0') => {
            (8, digits.get(1..).unwrap_or_default())
        }
        _ => (10, digits),
    }
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`, or infinity, or not a number.
fn is_float(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return true;
    }
    let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
    let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
    all_digits(whole)
        && all_digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && (!whole.is_empty() || mantissa.starts_with('.'))
        && !exponent.is_empty()
        && all_digits(exponent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_read_as_yaml_1_1_does() {
        let cases = [("0", 0), ("10", 10), ("010", 8), ("0o10", 8), ("0x1F", 31), ("0b101", 5)];
        let cases = cases.into_iter().chain([("1_000", 1000), ("-5", -5), ("+5", 5), ("00", 0)]);
        for (text, value) in cases {
            assert_eq!(resolve(text), RawValue::Integer(value, text.into()), "{text}");
        }
    }

    #[test]
    fn what_is_no_whole_number_of_64_bits_is_a_float() {
        for text in ["1.10", "1.", ".5", "1e3", "-1.5E-2", "08", "9223372036854775808", ".inf"] {
            assert_eq!(resolve(text), RawValue::Float(text.into()), "{text}");
        }
    }

    #[test]
    fn addresses_dates_and_signs_are_texts() {
        for text in [
            "192.0.2.5",
            "2026-01-01",
            "-",
            "+",
            ".",
            "-x",
            "1.2.3",
            "0x",
            "1e",
            "..",
            "12h",
            "-.",
            "e5",
        ] {
            assert_eq!(resolve(text), RawValue::Text(text.into()), "{text}");
        }
    }

    #[test]
    fn the_words_for_true_false_and_nothing_are_those_of_yaml_1_1() {
        assert_eq!(resolve("Yes"), RawValue::Bool(true, "Yes".into()));
        assert_eq!(resolve("y"), RawValue::Bool(true, "y".into()));
        assert_eq!(resolve("off"), RawValue::Bool(false, "off".into()));
        assert_eq!(resolve("yEs"), RawValue::Text("yEs".into()));
        assert_eq!(resolve(""), RawValue::Null);
        assert_eq!(resolve("~"), RawValue::Null);
    }
}
