//! The client's key: a quoted string of RFC 9651, or the same characters without quotes.

/// Longest key, in characters.
const MAX_LENGTH: usize = 255;

/// Why a text is no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum InvalidKey {
    /// There is nothing in it.
    #[error("the key is empty")]
    Empty,
    /// It is too short for its scope.
    #[error("the key is shorter than {0} characters")]
    TooShort(usize),
    /// It is too long.
    #[error("the key is longer than 255 characters")]
    TooLong,
    /// It holds something else than visible ASCII.
    #[error("the key holds a character that is not visible ASCII")]
    Character,
    /// It begins with a quotation mark and does not end as a quoted string does.
    #[error("the key begins like a quoted string and is none")]
    Quotes,
    /// There are several.
    #[error("there is more than one key")]
    Several,
}

/// Reads a key as it came. Letter case counts, and nothing is trimmed.
pub(super) fn read(text: &[u8], min_length: usize) -> Result<Vec<u8>, InvalidKey> {
    let key = match text {
        [] => return Err(InvalidKey::Empty),
        [b'"', rest @ ..] => unquoted(rest)?,
        plain if plain.iter().all(u8::is_ascii_graphic) => plain.to_vec(),
        _ => return Err(InvalidKey::Character),
    };
    match key.len() {
        0 => Err(InvalidKey::Empty),
        length if length > MAX_LENGTH => Err(InvalidKey::TooLong),
        length if length < min_length => Err(InvalidKey::TooShort(min_length)),
        _ => Ok(key),
    }
}

/// What stands before the closing quotation mark. Parameters may follow it, and mean nothing.
fn unquoted(text: &[u8]) -> Result<Vec<u8>, InvalidKey> {
    let mut key = Vec::with_capacity(text.len());
    let mut rest = text;
    loop {
        rest = match rest {
            [b'"', parameters @ ..] if are_parameters(parameters) => return Ok(key),
            [b'\\', escaped @ (b'"' | b'\\'), rest @ ..] => {
                key.push(*escaped);
                rest
            }
            [b'"' | b'\\', ..] | [] => return Err(InvalidKey::Quotes),
            [byte, rest @ ..] if *byte == b' ' || byte.is_ascii_graphic() => {
                key.push(*byte);
                rest
            }
            _ => return Err(InvalidKey::Character),
        };
    }
}

fn are_parameters(text: &[u8]) -> bool {
    let is_visible = |byte: &u8| *byte == b' ' || byte.is_ascii_graphic();
    text.is_empty() || (text.starts_with(b";") && text.iter().all(is_visible))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &[u8], expected: Result<&str, InvalidKey>) {
        let found = read(text, 1).map(|key| String::from_utf8(key).unwrap());
        assert_eq!(found, expected.map(ToOwned::to_owned), "{}", text.escape_ascii());
    }

    #[test]
    fn quotes_do_not_belong_to_the_key() {
        check(b"abc", Ok("abc"));
        check(br#""abc""#, Ok("abc"));
        check(br#""a b""#, Ok("a b"));
        check(br#""a\"b\\c""#, Ok(r#"a"b\c"#));
        check(br#""abc";v=1;w="x y""#, Ok("abc"));
        check(br#"a"b"#, Ok(r#"a"b"#));
        check(b"ABC", Ok("ABC"));
    }

    #[test]
    fn what_is_no_key_is_told_apart() {
        check(b"", Err(InvalidKey::Empty));
        check(br#""""#, Err(InvalidKey::Empty));
        check(b" ", Err(InvalidKey::Character));
        check(b"a b", Err(InvalidKey::Character));
        check(b"a\x00", Err(InvalidKey::Character));
        check(b"\"a\x1f\"", Err(InvalidKey::Character));
        check(b"\xc3\x28", Err(InvalidKey::Character));
        check("schlüssel".as_bytes(), Err(InvalidKey::Character));
        check(br#""abc"#, Err(InvalidKey::Quotes));
        check(br#""abc"x"#, Err(InvalidKey::Quotes));
        check(br#""a\bc""#, Err(InvalidKey::Quotes));
        check(br#"""#, Err(InvalidKey::Quotes));
    }

    #[test]
    fn a_key_has_255_characters_at_most() {
        let longest = "k".repeat(255);
        check(longest.as_bytes(), Ok(&longest));
        check(format!("\"{longest}\"").as_bytes(), Ok(&longest));
        check("k".repeat(256).as_bytes(), Err(InvalidKey::TooLong));
        assert_eq!(read(b"short", 16), Err(InvalidKey::TooShort(16)));
        assert!(read(b"0123456789abcdef", 16).is_ok());
    }
}
