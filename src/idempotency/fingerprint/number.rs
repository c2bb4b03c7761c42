//! Numbers of JSON as ECMAScript writes doubles, where a double is exactly what the text says.

/// The canonical text of a number, if it has one.
pub(super) fn canonical(text: &str) -> Option<String> {
    let written = Decimal::read(text)?;
    let double: f64 = text.parse().ok().filter(|double: &f64| double.is_finite())?;
    let held = Decimal::read(&format!("{double:e}"))?;
    (written == held).then(|| held.text())
}

/// `digits` × 10^`exponent`, without zeros at either end.
#[derive(Debug, PartialEq, Eq)]
struct Decimal {
    is_negative: bool,
    digits: String,
    exponent: i64,
}

impl Decimal {
    /// Reads `-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?`.
    fn read(text: &str) -> Option<Self> {
        let (is_negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (number, exponent) = match text.find(['e', 'E']) {
            Some(at) => (text.get(..at)?, Some(text.get(at + 1..)?)),
            None => (text, None),
        };
        let (whole, fraction) = match number.split_once('.') {
            Some((whole, fraction)) => (whole, Some(fraction)),
            None => (number, None),
        };
        let all_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if !all_digits(whole) || (whole.starts_with('0') && whole != "0") {
            return None;
        }
        if !fraction.is_none_or(all_digits) {
            return None;
        }
        let exponent = exponent.map_or(Some(0), read_exponent)?;
        Self::without_zeros(is_negative, whole, fraction.unwrap_or_default(), exponent)
    }

    fn without_zeros(is_negative: bool, whole: &str, fraction: &str, at: i64) -> Option<Self> {
        let all = format!("{whole}{fraction}");
        let significant = all.trim_end_matches('0');
        let n_zeros = i64::try_from(all.len() - significant.len()).ok()?;
        let n_fraction = i64::try_from(fraction.len()).ok()?;
        let digits = significant.trim_start_matches('0').to_owned();
        // ECMAScript writes no negative zero.
        let is_zero = digits.is_empty();
        Some(Self {
            is_negative: is_negative && !is_zero,
            exponent: if is_zero { 0 } else { at.checked_sub(n_fraction)?.checked_add(n_zeros)? },
            digits,
        })
    }

    /// ECMAScript's `Number::toString`.
    fn text(&self) -> String {
        let sign = if self.is_negative { "-" } else { "" };
        format!("{sign}{}", self.magnitude())
    }

    fn magnitude(&self) -> String {
        let digits = self.digits.as_str();
        let n_digits = i64::try_from(digits.len()).unwrap_or(i64::MAX);
        // Where the point stands, counted from before the first digit.
        let point = n_digits + self.exponent;
        let zeros = |n: i64| "0".repeat(usize::try_from(n).unwrap_or_default());
        let split = |at: i64| digits.split_at(usize::try_from(at).unwrap_or_default());
        match point {
            _ if digits.is_empty() => "0".to_owned(),
            _ if self.exponent >= 0 && point <= 21 => format!("{digits}{}", zeros(self.exponent)),
            1..=21 => {
                let (whole, fraction) = split(point);
                format!("{whole}.{fraction}")
            }
            -5..=0 => format!("0.{}{digits}", zeros(-point)),
            _ => {
                let (first, rest) = split(1);
                let dot = if rest.is_empty() { "" } else { "." };
                format!("{first}{dot}{rest}e{:+}", point - 1)
            }
        }
    }
}

/// An exponent of more than six digits is of no double.
fn read_exponent(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || digits.len() > 6 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}
