//! The valid word that a misspelt one was probably meant to be.

/// The nearest of the valid words, if one is near. Case, `_` and `-` do not count, so that
/// `rateLimit` finds `rate_limit`.
pub(super) fn nearest<'a>(word: &str, valid: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let word = bare(word);
    valid
        .map(|valid| (distance(&word, &bare(valid)), valid))
        .filter(|(distance, valid)| *distance <= (valid.len() / 4).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, valid)| valid)
}

/// The hint for a message: `, did you mean …?`, or nothing.
pub(super) fn hint(nearest: Option<&str>) -> String {
    nearest.map(|nearest| format!("; did you mean `{nearest}`?")).unwrap_or_default()
}

fn bare(word: &str) -> String {
    word.chars().filter(char::is_ascii_alphanumeric).map(|char| char.to_ascii_lowercase()).collect()
}

/// Changed letters; an abbreviation such as `min` counts as one.
fn distance(word: &str, valid: &str) -> usize {
    if word.len() >= 3 && valid.starts_with(word) {
        return usize::from(word != valid);
    }
    strsim::damerau_levenshtein(word, valid)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(word: &str, expected: Option<&str>) {
        let valid = ["rate_limit", "requests_per_unit", "value", "version", "minute", "day"];
        assert_eq!(nearest(word, valid.into_iter()), expected, "{word}");
    }

    #[test]
    fn letter_case_and_underscores_do_not_count() {
        check("rateLimit", Some("rate_limit"));
        check("requestsperunit", Some("requests_per_unit"));
        check("Value", Some("value"));
    }

    #[test]
    fn slips_plurals_and_abbreviations_are_near() {
        check("rate_limits", Some("rate_limit"));
        check("request_per_unit", Some("requests_per_unit"));
        check("minutes", Some("minute"));
        check("min", Some("minute"));
        check("vlaue", Some("value"));
    }

    #[test]
    fn other_words_are_not() {
        for word in ["apiVersion", "seconds", "", "fortnight", "burstFactor"] {
            check(word, None);
        }
    }
}
