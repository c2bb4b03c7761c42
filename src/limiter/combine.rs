//! From decisions to statuses and the overall code.
