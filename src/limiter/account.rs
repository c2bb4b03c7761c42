//! What a decision adds to the metrics of its rule.
