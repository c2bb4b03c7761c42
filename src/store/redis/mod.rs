//! Buckets in Redis: single, sentinel or cluster; every decision one atomic script call.

mod call;
mod script;
