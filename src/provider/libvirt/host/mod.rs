//! One host: the way to it, the calls made on it, and the two kinds of host that answer them.

pub mod calls;
pub mod link;
