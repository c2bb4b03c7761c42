//! Every process setting, from flags and environment, read once.
