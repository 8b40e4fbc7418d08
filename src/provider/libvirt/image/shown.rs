//! A URL as it may be shown.

use std::fmt;

use url::Url;

/// Shows scheme, host and port of a URL and nothing else: userinfo, path and query may all hold
/// secrets (L34). The image's key tells people which image is meant.
#[derive(Clone, Copy)]
pub struct ShownUrl<'a>(pub &'a Url);

impl fmt::Display for ShownUrl<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.0.scheme(), self.0.host_str().unwrap_or_default())?;
        if let Some(port) = self.0.port() {
            write!(f, ":{port}")?;
        }
        f.write_str("/…")
    }
}

impl fmt::Debug for ShownUrl<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l34_userinfo_path_and_query_are_never_shown() {
        for (url, shown) in [
            ("https://user:CANARY@host.test/CANARY/x.qcow2?sig=CANARY#CANARY", "https://host.test/…"),
            ("http://[::1]:8080/x", "http://[::1]:8080/…"),
        ] {
            let url = Url::parse(url).unwrap();
            assert_eq!(format!("{}", ShownUrl(&url)), shown);
            assert_eq!(format!("{:?}", ShownUrl(&url)), shown);
        }
    }
}
