//! One GET to an image server, redirects included. Nothing but GET is ever sent: what a HEAD says
//! about a length is no promise (L26).

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use reqwest::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, HeaderMap, HeaderName, IF_RANGE, LOCATION, RANGE, RETRY_AFTER,
};
use reqwest::{Proxy, Response, StatusCode, redirect};
use tokio::time::timeout;
use url::Url;

use super::address::{ForbiddenAddress, Rules};
use super::attempts::Failure;
use super::{ImageSource, Limits, ShownUrl};
use crate::provider::outbound::{THROUGH, proxy_for};

const REDIRECTS: usize = 10;

/// Asks for the files of one image.
pub(super) struct Client {
    http: reqwest::Client,
    rules: Rules,
    key: String,
    limits: Limits,
}

/// The part of a file that is still missing.
pub(super) struct Rest<'a> {
    /// Where it begins.
    pub(super) from: u64,
    /// What the file's former answer was known by.
    pub(super) validator: &'a str,
}

impl Client {
    pub(super) fn new(source: &ImageSource, limits: Limits) -> Result<Self, Failure> {
        let rules = Rules::of(source);
        let http = reqwest::Client::builder()
            .user_agent(concat!("egress-plan/", env!("CARGO_PKG_VERSION")))
            // Each step is checked here.
            .redirect(redirect::Policy::none())
            .referer(false)
            // The client's own would repeat a request that this module counts as one.
            .retry(reqwest::retry::never())
            .connect_timeout(limits.connect)
            .dns_resolver(Arc::new(rules.clone()))
            .proxy(Proxy::custom(|url| proxy_for(&url.as_str().parse().ok()?)?.to_string().parse::<Url>().ok()))
            .build()
            .map_err(|error| Failure::transient(&source.key, describe(error)))?;
        Ok(Self { http, rules, key: source.key.clone(), limits })
    }

    /// Asks for `url`, or the rest of it, and follows redirects. The answer is one with a body: 200,
    /// or 206 when a rest was asked for. Any other, or an encoded one, is a failure.
    pub(super) async fn get(&self, url: &Url, rest: Option<Rest<'_>>) -> Result<Response, Failure> {
        let mut url = url.clone();
        for _ in 0..=REDIRECTS {
            self.rules.check(&url).map_err(|error| {
                Failure::permanent(&self.key, error.to_string())
                    .hint("name the host in the config if it is meant; see imageHosts and images")
            })?;
            let mut request = self.http.get(url.clone()).header(ACCEPT_ENCODING, "identity");
            if let Some(rest) = &rest {
                request = request.header(RANGE, format!("bytes={}-", rest.from)).header(IF_RANGE, rest.validator);
            }
            let answer = timeout(self.limits.stall, request.send()).await;
            let response = answer.map_err(|_| self.stalled(&url))?.map_err(|error| self.broken(&url, error))?;
            match self.redirect(&url, &response)? {
                Some(next) => url = next,
                None => return self.accept(&url, response, rest.is_some()),
            }
        }
        Err(Failure::permanent(&self.key, format!("{} redirects without end", ShownUrl(&url))))
    }

    fn redirect(&self, from: &Url, response: &Response) -> Result<Option<Url>, Failure> {
        if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
            return Ok(None);
        }
        let bad = || Failure::permanent(&self.key, format!("{} redirects to nowhere", ShownUrl(from)));
        let to = header(response.headers(), &LOCATION).and_then(|to| from.join(to).ok()).ok_or_else(bad)?;
        if from.scheme() == "https" && to.scheme() != "https" {
            let message = format!("{} redirects to {}, which is not https", ShownUrl(from), ShownUrl(&to));
            return Err(Failure::permanent(&self.key, message));
        }
        Ok(Some(to))
    }

    fn accept(&self, url: &Url, response: Response, part: bool) -> Result<Response, Failure> {
        let status = response.status();
        if status != StatusCode::OK && !(part && status == StatusCode::PARTIAL_CONTENT) {
            return Err(self.refused(url, status, response.headers()));
        }
        match header(response.headers(), &CONTENT_ENCODING) {
            None | Some("" | "identity") => Ok(response),
            Some(_) => Err(Failure::permanent(
                &self.key,
                format!("{} sent the file encoded although identity was asked for", ShownUrl(url)),
            )),
        }
    }

    fn refused(&self, url: &Url, status: StatusCode, headers: &HeaderMap) -> Failure {
        let message = format!("{} answered {status}", ShownUrl(url));
        match status.as_u16() {
            408 => Failure::transient(&self.key, message),
            // A rest that is not there: the file changed.
            416 => Failure::transient(&self.key, message).restart(),
            429 | 503 => Failure { after: retry_after(headers), ..Failure::transient(&self.key, message) },
            204 | 205 => Failure::permanent(&self.key, message),
            400..=499 => {
                Failure::permanent(&self.key, message).hint("look at the image's url or checksumUrl in the config")
            }
            _ => Failure::transient(&self.key, message),
        }
    }

    pub(super) fn stalled(&self, url: &Url) -> Failure {
        Failure::timeout(
            &self.key,
            format!("{} sent nothing for {} seconds", ShownUrl(url), self.limits.stall.as_secs_f64()),
        )
    }

    pub(super) fn broken(&self, url: &Url, error: reqwest::Error) -> Failure {
        if let Some(forbidden) = cause::<ForbiddenAddress>(&error) {
            return Failure::permanent(&self.key, forbidden.to_string())
                .hint("name the host in the config if it is meant");
        }
        let proxy = url.as_str().parse().ok().and_then(|url| proxy_for(&url));
        let way = proxy.map_or_else(String::new, |_| format!(" ({THROUGH})"));
        Failure::transient(&self.key, format!("{}: {}{way}", ShownUrl(url), describe(error)))
    }
}

/// A header's value, when it is text.
pub(super) fn header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// `Retry-After`, in seconds or as a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = header(headers, &RETRY_AFTER)?;
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = jiff::fmt::rfc2822::parse(value).ok()?.timestamp();
    Duration::try_from(at.duration_since(Timestamp::now())).ok()
}

/// What the client says of a failure, causes included. Its own text would hold the URL.
fn describe(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        text = [&text, ": ", &cause.to_string()].concat();
        source = cause.source();
    }
    text
}

fn cause<T: std::error::Error + 'static>(error: &reqwest::Error) -> Option<&T> {
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        if let Some(found) = cause.downcast_ref() {
            return Some(found);
        }
        source = cause.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::{AllowedHosts, Format};
    use super::*;
    use crate::provider::error::Class;

    #[test]
    fn l35_a_redirect_never_leaves_https() {
        let source = ImageSource {
            id: String::new(),
            key: "img".to_owned(),
            url: Url::parse("https://a.test/x").unwrap(),
            digest: None,
            digest_url: None,
            format: Format::Raw,
            allowed_hosts: AllowedHosts::Any { named: BTreeSet::new() },
            max_bytes: 1,
        };
        let client = Client::new(&source, Limits::default()).unwrap();
        let redirect = |from: &str, to: &str| {
            let answer = http::Response::builder().status(302).header("location", to).body("").unwrap();
            client.redirect(&Url::parse(from).unwrap(), &Response::from(answer))
        };
        let down = redirect("https://a.test/x?CANARY", "http://a.test/y?CANARY").unwrap_err().error;
        assert_eq!(down.class, Class::Permanent);
        assert!(!down.to_string().contains("CANARY"), "{down}");
        for (from, to, next) in [
            ("https://a.test/x/y", "../z", "https://a.test/z"),
            ("http://a.test/x", "https://b.test/y", "https://b.test/y"),
            ("http://a.test/x", "http://a.test/y", "http://a.test/y"),
        ] {
            assert_eq!(redirect(from, to).unwrap().map(String::from).as_deref(), Some(next));
        }
    }

    #[test]
    fn retry_after_is_read_as_seconds_and_as_a_date() {
        let after = |value: &str| retry_after(&HeaderMap::from_iter([(RETRY_AFTER, value.parse().unwrap())]));
        assert_eq!(after("7"), Some(Duration::from_secs(7)));
        assert!(after("Tue, 31 Dec 2999 23:59:59 GMT").is_some_and(|after| after > Duration::from_hours(1)));
        assert_eq!(after("Sun, 06 Nov 1994 08:49:37 GMT"), None);
        assert_eq!(after("soon"), None);
    }
}
