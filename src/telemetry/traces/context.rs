//! Who a request is part of: the W3C trace context of its caller.

/// Names a trace; never all zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TraceId(pub(super) [u8; 16]);

/// Names a span of a trace; never all zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SpanId(pub(super) [u8; 8]);

/// The span that a request comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub(super) trace: TraceId,
    pub(super) span: SpanId,
    pub(super) sampled: bool,
    pub(super) state: Box<str>,
}

/// Longest `tracestate` that is handed on, in bytes.
const MAX_STATE: usize = 512;

impl Caller {
    /// Reads `traceparent` and `tracestate`; what is not as it must be is nothing.
    pub fn read(parent: &str, state: Option<&str>) -> Option<Self> {
        let mut parts = parent.trim().split('-');
        let version = hex::<1>(parts.next()?)?;
        let (trace, span) = (hex(parts.next()?)?, hex(parts.next()?)?);
        let [flags] = hex::<1>(parts.next()?)?;
        // A later version may say more.
        let is_whole = version == [0] && parts.next().is_none() || (1..255).contains(&version[0]);
        let known = is_whole && trace != [0; 16] && span != [0; 8];
        let state = state.filter(|state| state.len() <= MAX_STATE).unwrap_or_default();
        known.then(|| Self {
            trace: TraceId(trace),
            span: SpanId(span),
            sampled: flags & 1 == 1,
            state: state.into(),
        })
    }
}

impl TraceId {
    /// Its second half.
    pub(super) fn low(self) -> u64 {
        let [_, low] = self.0.as_chunks().0 else { return 0 };
        u64::from_be_bytes(*low)
    }
}

/// A name that nobody else has.
pub(super) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    while bytes == [0; N] {
        fastrand::fill(&mut bytes);
    }
    bytes
}

fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let lower = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if text.len() != 2 * N || !text.bytes().all(lower) {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    #[test]
    fn a_context_is_read_as_w3c_writes_it() {
        let caller = Caller::read(&format!("00-{TRACE}-{SPAN}-01"), Some("a=b")).unwrap();
        assert_eq!(caller.trace.low(), 0xa3ce_929d_0e0e_4736);
        assert_eq!(caller.span.0[..2], [0x00, 0xf0]);
        assert!(caller.sampled && &*caller.state == "a=b");
        assert!(!Caller::read(&format!("00-{TRACE}-{SPAN}-02"), None).unwrap().sampled);
        assert!(Caller::read(&format!("42-{TRACE}-{SPAN}-01-more"), None).is_some());
    }

    #[test]
    fn what_is_no_context_is_none() {
        let zeros = ["0".repeat(32), "0".repeat(16)];
        for text in [
            String::new(),
            format!("00-{TRACE}-{SPAN}"),
            format!("00-{TRACE}-{SPAN}-01-more"),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("00-{}-{SPAN}-01", zeros[0]),
            format!("00-{TRACE}-{}-01", zeros[1]),
            format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            format!("00-{TRACE}x-{SPAN}-01"),
            format!("00-{}é-{SPAN}-01", &TRACE[..30]),
        ] {
            assert_eq!(Caller::read(&text, None), None, "{text}");
        }
    }

    #[test]
    fn a_long_state_is_not_handed_on() {
        let parent = format!("00-{TRACE}-{SPAN}-01");
        assert_eq!(&*Caller::read(&parent, Some(&"x".repeat(513))).unwrap().state, "");
    }
}
