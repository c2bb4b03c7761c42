//! Where Envoy's protobuf types stop: the rate-limit service, conversions, headers.
