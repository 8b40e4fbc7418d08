//! One download: attempts, resuming, and the checks on the way. Memory stays flat: at most one
//! buffer of bytes waits to be written.

use std::io;
use std::path::{Path, PathBuf};

use reqwest::header::{CONTENT_RANGE, ETAG, HeaderMap, LAST_MODIFIED};
use reqwest::{Response, StatusCode};
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use url::Url;

use super::attempts::{Attempts, Failure};
use super::client::{Client, Rest, header};
use super::digest::Digest;
use super::spool::{self, Facts, Spool};
use super::{Fetched, ImageSource, Limits, ShownUrl, Watch, digest_file, inspect};
use crate::provider::error::ProviderError;

/// Bytes that are gathered before they are written.
const BUFFER: usize = 256 << 10;
/// The longest digest file that is read.
const DIGEST_FILE: usize = 1 << 20;

/// Where files are put.
#[derive(Debug, Clone)]
pub(super) struct Folder {
    pub(super) path: PathBuf,
    /// Whether verified files are kept there.
    pub(super) keep: bool,
}

/// Fetches an image whole, or finds it in the folder.
pub(super) async fn fetch(
    source: &ImageSource,
    folder: &Folder,
    limits: Limits,
    watch: &dyn Watch,
) -> Result<Fetched, ProviderError> {
    let local = |error: io::Error| Failure::local(&source.key, &error).error;
    // Making a client reads the system's certificates.
    let of = source.clone();
    let made =
        spawn_blocking(move || Client::new(&of, limits)).await.map_err(|error| local(io::Error::other(error)))?;
    let client = made.map_err(|failure| failure.error)?;
    let wanted = match (&source.digest, &source.digest_url) {
        (Some(digest), _) => Some(digest.clone()),
        (None, Some(url)) => Some(published_digest(&client, source, url, limits, watch).await?),
        (None, None) => None,
    };
    let kept = wanted.as_ref().filter(|_| folder.keep).map(|digest| spool::cached(&folder.path, digest, source.format));
    if let (Some(path), Some(wanted)) = (&kept, &wanted)
        && let Some(facts) = reuse(source, path, wanted).await.map_err(local)?
    {
        watch.progress(facts.bytes, Some(facts.bytes));
        return Ok(Fetched::in_cache(path, facts));
    }

    let spool = Spool::new(&folder.path, wanted.clone()).map_err(local)?;
    let mut transfer =
        Transfer { client, source, folder: &folder.path, limits, watch, wanted, spool: Some(spool), known: None };
    let mut attempts = Attempts::new(limits, watch);
    let facts = loop {
        match transfer.attempt().await {
            Ok(facts) => break facts,
            Err(failure) => {
                if failure.restart {
                    transfer.known = None;
                }
                attempts.after(failure).await?;
            }
        }
    };
    let spool = transfer.spool.take().ok_or_else(|| transfer.lost().error)?;
    match kept {
        Some(path) => spool.keep(&path).map(|()| Fetched::in_cache(&path, facts)).map_err(local),
        None => Ok(Fetched::temporary(spool.into_path(), facts)),
    }
}

/// The file of an earlier run, if it is whole and what is wanted.
async fn reuse(source: &ImageSource, path: &Path, wanted: &Digest) -> io::Result<Option<Facts>> {
    let (path, digest, format) = (path.to_owned(), wanted.clone(), source.format);
    let found =
        spawn_blocking(move || spool::inspect_cached(&path, &digest, format)).await.map_err(io::Error::other)??;
    Ok(found.filter(|facts| facts.are(wanted) && facts.bytes <= source.max_bytes))
}

/// Reads the digest file at `url` and finds the image in it.
async fn published_digest(
    client: &Client,
    source: &ImageSource,
    url: &Url,
    limits: Limits,
    watch: &dyn Watch,
) -> Result<Digest, ProviderError> {
    let mut attempts = Attempts::new(limits, watch);
    loop {
        match read_small(client, source, url, limits).await {
            Ok(text) => {
                return digest_file::find(&text, &source.url).map_err(|error| {
                    let failure = Failure::permanent(&source.key, format!("{}: {error}", ShownUrl(url)));
                    failure.hint("look at the image's checksumUrl in the config, or give a checksum").error
                });
            }
            Err(failure) => attempts.after(failure).await?,
        }
    }
}

async fn read_small(client: &Client, source: &ImageSource, url: &Url, limits: Limits) -> Result<String, Failure> {
    let mut response = client.get(url, None).await?;
    let mut text = Vec::new();
    loop {
        let chunk = timeout(limits.stall, response.chunk()).await.map_err(|_| client.stalled(url))?;
        let Some(chunk) = chunk.map_err(|error| client.broken(url, error))? else {
            return Ok(String::from_utf8_lossy(&text).into_owned());
        };
        text.extend_from_slice(&chunk);
        if text.len() > DIGEST_FILE {
            let message = format!("{} gave more than {DIGEST_FILE} bytes, which is no digest file", ShownUrl(url));
            return Err(Failure::permanent(&source.key, message));
        }
    }
}

/// What the server said of the file that is being downloaded.
struct Known {
    /// Its length, where it said.
    total: Option<u64>,
    /// What it is known by; without it nothing can be resumed.
    validator: Option<String>,
    /// Whether more than one answer went into the file.
    resumed: bool,
}

struct Transfer<'a> {
    client: Client,
    source: &'a ImageSource,
    folder: &'a Path,
    limits: Limits,
    watch: &'a dyn Watch,
    wanted: Option<Digest>,
    /// Away only while it is being written to on another thread.
    spool: Option<Spool>,
    known: Option<Known>,
}

impl Transfer<'_> {
    /// Asks for what is missing and takes it in. A failure leaves what arrived, for the next one.
    async fn attempt(&mut self) -> Result<Facts, Failure> {
        let from = self.bytes();
        let validator = self.known.as_ref().and_then(|known| known.validator.clone()).filter(|_| from > 0);
        let rest = validator.as_deref().map(|validator| Rest { from, validator });
        let mut response = self.client.get(&self.source.url, rest).await?;
        if response.status() == StatusCode::PARTIAL_CONTENT {
            self.continued(from, response.headers())?;
        } else {
            self.on_spool(Spool::reset).await?;
            self.known = Some(Known {
                total: response.content_length(),
                validator: strong_validator(response.headers()).map(str::to_owned),
                resumed: false,
            });
        }
        self.check_length()?;
        self.take_in(&mut response).await?;
        self.whole()
    }

    /// Checks that the answer goes on where the file ends, and is of the same file.
    fn continued(&mut self, from: u64, headers: &HeaderMap) -> Result<(), Failure> {
        let range = header(headers, &CONTENT_RANGE).and_then(content_range);
        let key = &self.source.key;
        let same = self.known.as_mut().is_some_and(|known| {
            known.resumed = true;
            let validator = [ETAG, LAST_MODIFIED].iter().filter_map(|name| header(headers, name)).collect::<Vec<_>>();
            range.is_some_and(|(start, total)| start == from && (total.is_none() || total == known.total))
                && (validator.is_empty() || validator.iter().any(|value| known.validator.as_deref() == Some(value)))
        });
        if same { Ok(()) } else { Err(Failure::transient(key, "the file changed while it was fetched").restart()) }
    }

    fn total(&self) -> Option<u64> {
        self.known.as_ref().and_then(|known| known.total)
    }

    fn bytes(&self) -> u64 {
        self.spool.as_ref().map_or(0, Spool::bytes)
    }

    /// Refuses what is too long for the config or for this machine, before more of it is read (L26).
    fn check_length(&self) -> Result<(), Failure> {
        let Some(total) = self.total() else { return Ok(()) };
        if total > self.source.max_bytes {
            return Err(self.too_long());
        }
        let room = spool::room(self.folder).map_err(|error| Failure::local(&self.source.key, &error))?;
        let missing = total.saturating_sub(self.bytes());
        if missing > room {
            let message = format!("{missing} bytes are missing and the spool folder has room for {room}");
            return Err(Failure::local(&self.source.key, &io::Error::new(io::ErrorKind::StorageFull, message)));
        }
        Ok(())
    }

    fn too_long(&self) -> Failure {
        let message = format!("the image is longer than the {} bytes that are allowed", self.source.max_bytes);
        Failure::permanent(&self.source.key, message).hint("raise maxImageGiB in the config if the image is meant")
    }

    async fn take_in(&mut self, response: &mut Response) -> Result<(), Failure> {
        let mut buffer = Vec::with_capacity(BUFFER);
        let mut head_is_fine = false;
        loop {
            let chunk = match timeout(self.limits.stall, response.chunk()).await {
                Err(_) => Err(self.client.stalled(&self.source.url)),
                Ok(Err(error)) => Err(self.client.broken(&self.source.url, error)),
                Ok(Ok(chunk)) => Ok(chunk),
            };
            let goes_on = matches!(chunk, Ok(Some(_)));
            if let Ok(Some(bytes)) = &chunk {
                buffer.extend_from_slice(bytes);
            }
            let held = u64::try_from(buffer.len()).unwrap_or(u64::MAX);
            if self.bytes().saturating_add(held) > self.source.max_bytes {
                return Err(self.too_long());
            }
            // The first bytes are written at once, so that a wrong file ends the download early.
            if !goes_on || buffer.len() >= BUFFER || (!head_is_fine && buffer.len() >= inspect::HEAD) {
                buffer = self.write(buffer).await?;
                self.watch.progress(self.bytes(), self.total());
                if !head_is_fine && self.spool.as_ref().is_some_and(|spool| spool.head().len() >= inspect::HEAD) {
                    self.check_head()?;
                    head_is_fine = true;
                }
            }
            if chunk?.is_none() {
                return Ok(());
            }
        }
    }

    async fn write(&mut self, mut buffer: Vec<u8>) -> Result<Vec<u8>, Failure> {
        self.on_spool(move |spool| {
            spool.write(&buffer)?;
            buffer.clear();
            Ok(buffer)
        })
        .await
    }

    fn check_head(&self) -> Result<(), Failure> {
        let head = self.spool.as_ref().map(Spool::head).unwrap_or_default();
        inspect::check(self.source.format, head).map_err(|what| {
            Failure::permanent(&self.source.key, ["the file does not fit its format: ", &what].concat())
                .hint("look at the image's url and format in the config")
        })
    }

    /// Checks a file whose body has ended.
    fn whole(&self) -> Result<Facts, Failure> {
        let key = &self.source.key;
        let (bytes, total) = (self.bytes(), self.total());
        if bytes == 0 {
            return Err(Failure::permanent(key, "the file is empty"));
        }
        if let Some(total) = total.filter(|total| *total != bytes) {
            return Err(Failure::transient(key, format!("{bytes} of {total} bytes arrived")));
        }
        self.check_head()?;
        let facts = self.spool.as_ref().map(|spool| spool.facts(self.source.format)).ok_or_else(|| self.lost())?;
        let Some(wanted) = self.wanted.as_ref().filter(|wanted| !facts.are(wanted)) else { return Ok(facts) };
        let message = format!(
            "the file's digest is {}:{}, and {wanted} is expected",
            wanted.algorithm(),
            facts.digest(wanted).unwrap_or_default()
        );
        // A file that came in pieces may have changed between them unseen.
        Err(if self.known.as_ref().is_some_and(|known| known.resumed) {
            Failure::transient(key, message).restart()
        } else {
            Failure::permanent(key, message).hint("the image changed, or the checksum in the config is of another one")
        })
    }

    /// Does file work on a thread that may block.
    async fn on_spool<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Spool) -> io::Result<T> + Send + 'static,
    ) -> Result<T, Failure> {
        let mut spool = self.spool.take().ok_or_else(|| self.lost())?;
        let done = spawn_blocking(move || {
            let result = work(&mut spool);
            (spool, result)
        });
        let (spool, result) = done.await.map_err(|_| self.lost())?;
        self.spool = Some(spool);
        result.map_err(|error| Failure::local(&self.source.key, &error))
    }

    fn lost(&self) -> Failure {
        Failure::transient(&self.source.key, "the spool file was lost while it was written")
    }
}

/// What proves that two answers are of one file: an `ETag` that is not weak, else the time of the
/// last change.
fn strong_validator(headers: &HeaderMap) -> Option<&str> {
    header(headers, &ETAG).filter(|tag| tag.starts_with('"')).or_else(|| header(headers, &LAST_MODIFIED))
}

/// Start and, where it is known, total of `bytes 5-9/10`.
fn content_range(value: &str) -> Option<(u64, Option<u64>)> {
    let (range, total) = value.strip_prefix("bytes")?.trim_start().split_once('/')?;
    let (start, _) = range.split_once('-')?;
    let total = if total == "*" { None } else { Some(total.parse().ok()?) };
    Some((start.parse().ok()?, total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_range_is_read() {
        assert_eq!(content_range("bytes 5-9/10"), Some((5, Some(10))));
        assert_eq!(content_range("bytes 5-9/*"), Some((5, None)));
        for bad in ["", "bytes */10", "bytes 5/10", "lines 5-9/10", "bytes 5-9/x"] {
            assert_eq!(content_range(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_weak_tag_is_no_validator() {
        let headers = |list: &[(reqwest::header::HeaderName, &str)]| -> HeaderMap {
            list.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect()
        };
        assert_eq!(strong_validator(&headers(&[(ETAG, "W/\"1\"")])), None);
        assert_eq!(strong_validator(&headers(&[(ETAG, "\"1\""), (LAST_MODIFIED, "x")])), Some("\"1\""));
        assert_eq!(strong_validator(&headers(&[(ETAG, "W/\"1\""), (LAST_MODIFIED, "x")])), Some("x"));
    }
}
