//! Puts it together: gRPC, HTTP, admin, health, start, drain, stop.
