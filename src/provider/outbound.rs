//! The HTTP proxy between this program and the servers that it asks, by one rule for all of them: image
//! servers and a cluster's API server alike.
//!
//! `HTTPS_PROXY`, `HTTP_PROXY` and `ALL_PROXY` name it, `NO_PROXY` exempts: names with all below them,
//! addresses, networks in CIDR form, or `*` for everything. Each may be in lower case.

use base64::Engine as _;
use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use percent_encoding::{NON_ALPHANUMERIC, percent_encode};

/// What is said of a failure on a way through a proxy, whose URL is never shown.
pub const THROUGH: &str = "through the proxy that HTTPS_PROXY, HTTP_PROXY or ALL_PROXY names";

/// The proxy for a URL, with the user that its variable names; none where it is asked directly.
#[must_use]
pub fn proxy_for(url: &Uri) -> Option<Uri> {
    if exempts_all() {
        return None;
    }
    let intercept = Matcher::from_env().intercept(url)?;
    let uri = intercept.uri().clone();
    let Some(user) = intercept.basic_auth().and_then(|value| value.to_str().ok()) else { return Some(uri) };
    // The matcher keeps the user as a header's value; clients want it in the URL.
    // One that cannot be told is left away, and the proxy says so: there is no way around it.
    Some(with_user(&uri, user).unwrap_or(uri))
}

fn with_user(uri: &Uri, basic: &str) -> Option<Uri> {
    let user = base64::engine::general_purpose::STANDARD.decode(basic.strip_prefix("Basic ")?).ok()?;
    let mut parts = user.splitn(2, |byte| *byte == b':');
    let mut part = || percent_encode(parts.next().unwrap_or_default(), NON_ALPHANUMERIC);
    let authority = format!("{}:{}@{}", part(), part(), uri.authority()?);
    Uri::builder().scheme(uri.scheme_str()?).authority(authority).path_and_query("/").build().ok()
}

/// `NO_PROXY=*`, which the matcher takes for the name of a host.
fn exempts_all() -> bool {
    ["NO_PROXY", "no_proxy"].iter().any(|name| std::env::var(name).is_ok_and(|value| value.trim() == "*"))
}
