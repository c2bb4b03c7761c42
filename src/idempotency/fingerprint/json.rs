//! JSON as RFC 8785 writes it. What has no one meaning has no canonical form: members of one name,
//! lone surrogates, numbers that a double does not hold to the last digit.

use super::number;

/// Deeper values are not looked into.
const MAX_DEPTH: usize = 128;

/// The canonical form of a text, if it has one.
pub(super) fn canonical(text: &[u8]) -> Option<Vec<u8>> {
    let mut reader = Reader { rest: std::str::from_utf8(text).ok()? };
    let mut out = Vec::with_capacity(text.len());
    reader.value(&mut out, 0)?;
    reader.skip_blank();
    reader.rest.is_empty().then_some(out)
}

struct Reader<'t> {
    rest: &'t str,
}

/// A member of an object: its name in UTF-16, by which members are sorted, and what is written.
type Member = (Vec<u16>, Vec<u8>);

impl<'t> Reader<'t> {
    fn value(&mut self, out: &mut Vec<u8>, depth: usize) -> Option<()> {
        self.skip_blank();
        match self.rest.as_bytes().first()? {
            _ if depth >= MAX_DEPTH => None,
            b'{' => self.object(out, depth + 1),
            b'[' => self.array(out, depth + 1),
            b'"' => self.string().map(|text| write_string(&text, out)),
            b't' => self.word("true", out),
            b'f' => self.word("false", out),
            b'n' => self.word("null", out),
            _ => self.number(out),
        }
    }

    fn object(&mut self, out: &mut Vec<u8>, depth: usize) -> Option<()> {
        self.take('{')?;
        let mut members: Vec<Member> = Vec::new();
        if self.take('}').is_none() {
            loop {
                members.push(self.member(depth)?);
                if self.take(',').is_none() {
                    break;
                }
            }
            self.take('}')?;
        }
        members.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        if members.windows(2).any(|two| matches!(two, [(one, _), (other, _)] if one == other)) {
            return None;
        }
        write_list(b'{', members.into_iter().map(|(_, member)| member), b'}', out);
        Some(())
    }

    fn member(&mut self, depth: usize) -> Option<Member> {
        self.skip_blank();
        let name = self.string()?;
        let mut out = Vec::new();
        write_string(&name, &mut out);
        self.take(':')?;
        out.push(b':');
        self.value(&mut out, depth)?;
        Some((name.encode_utf16().collect(), out))
    }

    fn array(&mut self, out: &mut Vec<u8>, depth: usize) -> Option<()> {
        self.take('[')?;
        out.push(b'[');
        if self.take(']').is_none() {
            loop {
                self.value(out, depth)?;
                if self.take(',').is_none() {
                    break;
                }
                out.push(b',');
            }
            self.take(']')?;
        }
        out.push(b']');
        Some(())
    }

    fn word(&mut self, word: &str, out: &mut Vec<u8>) -> Option<()> {
        self.rest = self.rest.strip_prefix(word)?;
        out.extend(word.as_bytes());
        Some(())
    }

    fn number(&mut self, out: &mut Vec<u8>) -> Option<()> {
        let is_part = |c: char| c.is_ascii_digit() || "+-.eE".contains(c);
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest;
        out.extend(number::canonical(text)?.as_bytes());
        Some(())
    }

    fn string(&mut self) -> Option<String> {
        self.rest = self.rest.strip_prefix('"')?;
        let mut text = String::new();
        loop {
            let end = self.rest.find(|c: char| c == '"' || c == '\\' || c < ' ')?;
            let (plain, rest) = self.rest.split_at(end);
            text.push_str(plain);
            self.rest = rest;
            if let Some(rest) = rest.strip_prefix('"') {
                self.rest = rest;
                return Some(text);
            }
            text.push(self.escaped()?);
        }
    }

    fn escaped(&mut self) -> Option<char> {
        self.rest = self.rest.strip_prefix('\\')?;
        let mut chars = self.rest.chars();
        let escape = chars.next()?;
        self.rest = chars.as_str();
        Some(match escape {
            '"' | '\\' | '/' => escape,
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => return self.unicode(),
            _ => return None,
        })
    }

    /// One unit of UTF-16, or two that belong together.
    fn unicode(&mut self) -> Option<char> {
        let first = self.unit()?;
        if !(0xD800..0xE000).contains(&first) {
            return char::from_u32(first.into());
        }
        self.rest = self.rest.strip_prefix("\\u")?;
        let units = [first, self.unit()?];
        let mut decoded = char::decode_utf16(units);
        let char = decoded.next()?.ok()?;
        decoded.next().is_none().then_some(char)
    }

    fn unit(&mut self) -> Option<u16> {
        let (digits, rest) = self.rest.split_at_checked(4)?;
        self.rest = rest;
        let all_digits = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        if all_digits { u16::from_str_radix(digits, 16).ok() } else { None }
    }

    /// Takes a character if it comes next, blanks aside.
    fn take(&mut self, expected: char) -> Option<()> {
        self.skip_blank();
        self.rest = self.rest.strip_prefix(expected)?;
        Some(())
    }

    fn skip_blank(&mut self) {
        let rest: &'t str = self.rest;
        self.rest = rest.trim_start_matches([' ', '\t', '\n', '\r']);
    }
}

fn write_list(open: u8, items: impl Iterator<Item = Vec<u8>>, close: u8, out: &mut Vec<u8>) {
    out.push(open);
    for (n, item) in items.enumerate() {
        if n > 0 {
            out.push(b',');
        }
        out.extend(item);
    }
    out.push(close);
}

fn write_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for char in text.chars() {
        match char {
            '"' => out.extend(b"\\\""),
            '\\' => out.extend(b"\\\\"),
            '\u{8}' => out.extend(b"\\b"),
            '\t' => out.extend(b"\\t"),
            '\n' => out.extend(b"\\n"),
            '\u{c}' => out.extend(b"\\f"),
            '\r' => out.extend(b"\\r"),
            '\0'..' ' => out.extend(format!("\\u{:04x}", u32::from(char)).as_bytes()),
            _ => out.extend(char.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    out.push(b'"');
}
