//! Log lines: text for people, or JSON in the shape of envoyproxy/ratelimit.
