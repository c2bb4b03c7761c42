//! The command line: serve, check, explain; each a thin call into the library.
