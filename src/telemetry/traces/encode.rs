//! Spans as OTLP's protobuf. Written by hand: it is one message with a dozen fields, and the crates
//! that write it add 1.1 MB to a program, HTTP and TLS not counted.

use super::{Outcome, Span};
use crate::clock::Micros;

/// `SPAN_KIND_SERVER`
const SERVER: u64 = 2;

/// `STATUS_CODE_ERROR`
const ERROR: u64 = 2;

/// A protobuf message in the making.
#[derive(Debug, Default)]
struct Message(Vec<u8>);

/// A value of an attribute.
#[derive(Clone, Copy, Debug)]
enum Value<'a> {
    Text(&'a str),
    Integer(u64),
    Texts(&'a [String]),
    Words(&'a [&'static str]),
}

/// An `ExportTraceServiceRequest` of these spans; `service` says whose they are.
pub(super) fn request(service: &[(&str, String)], spans: &[Span]) -> Vec<u8> {
    let mut resource = Message::default();
    for (name, value) in service {
        resource.attribute(1, name, Value::Text(value));
    }
    let mut scope = Message::default();
    scope.text(1, "tidegate");
    scope.text(2, env!("CARGO_PKG_VERSION"));
    let mut of_scope = Message::default();
    of_scope.message(1, &scope);
    for one in spans {
        of_scope.message(2, &span(one));
    }
    let mut of_resource = Message::default();
    of_resource.message(1, &resource);
    of_resource.message(2, &of_scope);
    let mut request = Message::default();
    request.message(1, &of_resource);
    request.0
}

fn span(span: &Span) -> Message {
    let Span { begun, id, ended, outcome } = span;
    let mut message = Message::default();
    message.bytes(1, &begun.trace.0);
    message.bytes(2, &id.0);
    message.text(3, &begun.state);
    if let Some(parent) = begun.parent {
        message.bytes(4, &parent.0);
    }
    message.text(5, "ShouldRateLimit");
    message.integer(6, SERVER);
    message.fixed(7, nanos(begun.at));
    message.fixed(8, nanos(*ended));
    attributes(&mut message, outcome);
    if let Some(error) = &outcome.error {
        let mut status = Message::default();
        status.text(2, error);
        status.integer(3, ERROR);
        message.message(15, &status);
    }
    message
}

fn attributes(span: &mut Message, outcome: &Outcome) {
    let mut add = |name, value| span.attribute(9, name, value);
    add("rpc.system", Value::Text("grpc"));
    add("rpc.service", Value::Text("envoy.service.ratelimit.v3.RateLimitService"));
    add("rpc.method", Value::Text("ShouldRateLimit"));
    let status = u64::try_from(outcome.grpc_status).unwrap_or_default();
    add("rpc.grpc.status_code", Value::Integer(status));
    if let Some(domain) = &outcome.domain {
        add("tidegate.domain", Value::Text(domain));
    }
    if let Some(code) = outcome.code {
        add("tidegate.code", Value::Text(code));
        add("tidegate.rules", Value::Texts(&outcome.rules));
        add("tidegate.statuses", Value::Words(&outcome.statuses));
        add("tidegate.decided_by", Value::Words(&outcome.decided_by));
    }
}

fn nanos(at: Micros) -> u64 {
    at.0.saturating_mul(1000)
}

impl Message {
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number.to_le_bytes()[0] | 0x80);
            number >>= 7;
        }
        self.0.push(number.to_le_bytes()[0]);
    }

    fn tag(&mut self, field: u64, wire_type: u64) {
        self.varint(field << 3 | wire_type);
    }

    fn integer(&mut self, field: u64, number: u64) {
        self.tag(field, 0);
        self.varint(number);
    }

    fn fixed(&mut self, field: u64, number: u64) {
        self.tag(field, 1);
        self.0.extend(number.to_le_bytes());
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.tag(field, 2);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
    }

    /// Nothing if it is empty, as protobuf has it.
    fn text(&mut self, field: u64, text: &str) {
        if !text.is_empty() {
            self.bytes(field, text.as_bytes());
        }
    }

    fn message(&mut self, field: u64, message: &Self) {
        self.bytes(field, &message.0);
    }

    fn attribute(&mut self, field: u64, name: &str, value: Value<'_>) {
        let mut pair = Self::default();
        pair.text(1, name);
        pair.message(2, &Self::any(value));
        self.message(field, &pair);
    }

    fn any(value: Value<'_>) -> Self {
        let mut any = Self::default();
        match value {
            // Also if it is empty: nothing would be no value at all.
            Value::Text(text) => any.bytes(1, text.as_bytes()),
            Value::Integer(number) => any.integer(3, number),
            Value::Texts(texts) => any.list(texts.iter().map(String::as_str)),
            Value::Words(words) => any.list(words.iter().copied()),
        }
        any
    }

    fn list<'a>(&mut self, texts: impl Iterator<Item = &'a str>) {
        let mut list = Self::default();
        for text in texts {
            list.message(1, &Self::any(Value::Text(text)));
        }
        self.message(5, &list);
    }
}
