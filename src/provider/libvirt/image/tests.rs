//! Downloads against a server that does what servers do on a bad day.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sha2::{Digest as _, Sha256, Sha512};
use tokio_util::sync::CancellationToken;
use url::Url;

use super::inspect::samples::qcow2;
use super::server::{Say, Server, head, whole};
use super::*;
use crate::plan::Reason;
use crate::provider::error::Class;

/// An image of two buffers and a bit.
fn image() -> Vec<u8> {
    let mut bytes = qcow2(3, 0, 2 << 30, 0);
    bytes.extend((0..600_000_u32).flat_map(u32::to_be_bytes).take(600_000));
    bytes
}

fn sha256(bytes: &[u8]) -> Digest {
    Digest::Sha256(hex::encode(Sha256::digest(bytes)))
}

pub(super) fn source(url: Url) -> ImageSource {
    ImageSource {
        id: "0".repeat(32),
        key: "img".to_owned(),
        url,
        digest: None,
        digest_url: None,
        format: Format::Qcow2,
        allowed_hosts: AllowedHosts::Any { named: BTreeSet::new() },
        max_bytes: 1 << 30,
    }
}

pub(super) fn limits() -> Limits {
    Limits {
        pause: Duration::from_millis(1),
        longest_pause: Duration::from_millis(2),
        attempts: 3,
        stall: Duration::from_secs(5),
        ..Limits::default()
    }
}

/// Keeps what it is told.
#[derive(Default)]
pub(super) struct Told {
    progress: Mutex<Vec<(u64, Option<u64>)>>,
    pub(super) failures: Mutex<Vec<String>>,
}

impl Watch for Told {
    fn progress(&self, received: u64, total: Option<u64>) {
        self.progress.lock().unwrap().push((received, total));
    }

    fn attempt_failed(&self, attempt: u32, error: &ProviderError) {
        self.failures.lock().unwrap().push(format!("{attempt}: {error}"));
    }
}

async fn fetch(source: &ImageSource) -> Result<Arc<Fetched>, ProviderError> {
    Downloads::new(None, 2, limits()).fetch(source, &Unwatched, &CancellationToken::new()).await
}

/// One server with these answers, asked for an image without a digest.
async fn answered(answers: Vec<Vec<Say>>) -> (Server, Result<Arc<Fetched>, ProviderError>) {
    let server = Server::answering(answers).await;
    let fetched = fetch(&source(server.url("/img.qcow2"))).await;
    (server, fetched)
}

/// An answer that ends after `sent` bytes of the body.
fn broken_off(body: &[u8], sent: usize, headers: &[(&str, &str)]) -> Vec<Say> {
    let length = body.len().to_string();
    let headers: Vec<_> = headers.iter().copied().chain([("content-length", length.as_str())]).collect();
    vec![head("200 OK", &headers), Say::Bytes(body[..sent].to_vec())]
}

/// The rest of the body.
fn rest(body: &[u8], from: usize, header: (&str, &str)) -> Vec<Say> {
    let range = format!("bytes {from}-{}/{}", body.len() - 1, body.len());
    let length = (body.len() - from).to_string();
    let headers = [("content-length", length.as_str()), ("content-range", range.as_str()), header];
    vec![head("206 Partial Content", &headers), Say::Bytes(body[from..].to_vec())]
}

#[tokio::test]
async fn an_image_arrives_whole_private_and_measured() {
    let body = image();
    let (server, fetched) = answered(vec![whole(&body)]).await;
    let fetched = fetched.unwrap();
    assert!(std::fs::read(&fetched.path).unwrap() == body);
    assert_eq!(fetched.path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fetched.bytes, 600_512);
    assert_eq!(Digest::Sha256(fetched.sha256.clone()), sha256(&body));
    assert_eq!(fetched.virtual_bytes, Some(2 << 30));
    let asked = server.asked();
    assert_eq!(asked.len(), 1);
    assert!(asked[0].starts_with("get /img.qcow2 ") && asked[0].contains("accept-encoding: identity\r\n"), "{asked:?}");
    let path = fetched.path.clone();
    assert!(fetched.is_temporary() && path.exists());
    drop(fetched);
    assert!(!path.exists());
}

#[tokio::test]
async fn a_body_without_a_length_is_taken_to_its_end() {
    let body = image();
    let chunk = [format!("{:x}\r\n", body.len()).into_bytes(), body.clone(), b"\r\n0\r\n\r\n".to_vec()].concat();
    let chunked = vec![head("200 OK", &[("transfer-encoding", "chunked")]), Say::Bytes(chunk)];
    let until_close = vec![head("200 OK", &[]), Say::Bytes(body.clone())];
    for answer in [chunked, until_close] {
        let (_, fetched) = answered(vec![answer]).await;
        assert_eq!(Digest::Sha256(fetched.unwrap().sha256.clone()), sha256(&body));
    }
}

#[tokio::test]
async fn l15_a_truncated_body_is_tried_again_and_each_failure_is_told() {
    let body = image();
    let short =
        vec![head("200 OK", &[("content-length", &body.len().to_string())]), Say::Bytes(body[..300_000].to_vec())];
    let broken_chunk = vec![head("200 OK", &[("transfer-encoding", "chunked")]), Say::Bytes(b"ffff\r\nQFI".to_vec())];
    let server = Server::answering(vec![short, broken_chunk, whole(&body)]).await;
    let told = Told::default();
    let downloads = Downloads::new(None, 1, limits());
    let fetched = downloads.fetch(&source(server.url("/x")), &told, &CancellationToken::new()).await.unwrap();
    assert_eq!(Digest::Sha256(fetched.sha256.clone()), sha256(&body), "what the former attempts left is gone");
    let failures = told.failures.lock().unwrap().clone();
    assert_eq!(failures.len(), 2, "{failures:?}");
    assert!(failures[0].starts_with("1: fetch the image img: "), "{failures:?}");
    assert_eq!(told.progress.lock().unwrap().last(), Some(&(600_512, Some(600_512))));
}

#[tokio::test]
async fn transient_faults_are_tried_as_often_as_allowed_and_no_more() {
    let cut = vec![head("200 OK", &[("content-length", "1000")]), Say::Bytes(b"QFI".to_vec())];
    for answer in [
        cut,
        vec![Say::Reset],
        vec![Say::Bytes(b"SSH-2.0-OpenSSH_9.2\r\n".to_vec())],
        vec![head("500 Oops", &[("content-length", "0")])],
        vec![head("502 Bad Gateway", &[("content-length", "0")])],
        vec![head("408 Request Timeout", &[("content-length", "0")])],
        vec![head("429 Too Many Requests", &[("content-length", "0"), ("retry-after", "86400")])],
        vec![head("503 Service Unavailable", &[("content-length", "0"), ("retry-after", "soon")])],
    ] {
        let (server, fetched) = answered(vec![answer.clone()]).await;
        let error = fetched.unwrap_err();
        assert_eq!((error.class, error.reason), (Class::Transient, Reason::TransientError), "{answer:?}: {error}");
        assert_eq!(server.asked().len(), 3, "{answer:?}");
    }
}

#[tokio::test]
async fn permanent_faults_are_not_tried_again() {
    let gzip = [b"\x1f\x8b\x08".to_vec(), vec![0; 600]].concat();
    let overlay = qcow2(3, 104, 1 << 30, 0);
    for answer in [
        vec![head("404 Not Found", &[("content-length", "0")])],
        vec![head("403 Forbidden", &[("content-length", "0")])],
        vec![head("401 Unauthorized", &[("content-length", "0")])],
        vec![head("410 Gone", &[("content-length", "0")])],
        vec![head("204 No Content", &[])],
        whole(b""),
        vec![head("200 OK", &[("transfer-encoding", "chunked")]), Say::Bytes(b"0\r\n\r\n".to_vec())],
        whole(b"<html>log in to the network first</html>"),
        whole(&gzip),
        whole(&overlay),
        whole(b"QFI\xfb"),
        vec![head("200 OK", &[("content-encoding", "gzip"), ("content-length", "603")]), Say::Bytes(gzip.clone())],
        vec![head("302 Found", &[("content-length", "0")])],
    ] {
        let (server, fetched) = answered(vec![answer.clone()]).await;
        let error = fetched.unwrap_err();
        assert_eq!((error.class, error.reason), (Class::Permanent, Reason::PermanentError), "{error}");
        assert_eq!(server.asked().len(), 1, "{error}");
    }
}

#[tokio::test]
async fn a_server_that_falls_silent_is_given_up() {
    let stalls = [
        vec![Say::Stall],
        vec![head("200 OK", &[("content-length", "9999")]), Say::Bytes(b"QFI".to_vec()), Say::Stall],
    ];
    for answer in stalls {
        let server = Server::answering(vec![answer]).await;
        let short = Limits { stall: Duration::from_millis(50), ..limits() };
        let (downloads, told) = (Downloads::new(None, 1, short), Told::default());
        let error = downloads.fetch(&source(server.url("/x")), &told, &CancellationToken::new()).await.unwrap_err();
        assert_eq!((error.class, error.reason), (Class::Transient, Reason::Timeout), "{error}");
        assert_eq!(told.failures.lock().unwrap().len(), 2);
    }
}

#[tokio::test]
async fn the_whole_of_a_download_has_a_budget() {
    let drip = vec![head("200 OK", &[]), Say::Bytes(image()), Say::Stall];
    let server = Server::answering(vec![drip]).await;
    let downloads = Downloads::new(None, 1, Limits { total: Duration::from_millis(100), ..limits() });
    let error = downloads.fetch(&source(server.url("/x")), &Unwatched, &CancellationToken::new()).await.unwrap_err();
    assert_eq!((error.class, error.reason), (Class::Transient, Reason::Timeout), "{error}");
    assert!(error.message.starts_with("the image did not arrive within"), "{error}");
}

#[tokio::test]
async fn l26_an_endless_body_is_cut_at_the_bound() {
    let endless = vec![head("200 OK", &[]), Say::Bytes(image()), Say::Endless(vec![7; 65_536])];
    let server = Server::answering(vec![endless]).await;
    let error = fetch(&ImageSource { max_bytes: 2 << 20, ..source(server.url("/x")) }).await.unwrap_err();
    assert_eq!(error.class, Class::Permanent, "{error}");
    assert!(error.message.contains("2097152"), "{error}");
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn l26_a_length_beyond_the_bound_is_refused_before_the_body_is_read() {
    let long = vec![head("200 OK", &[("content-length", "2097153")]), Say::Stall];
    let server = Server::answering(vec![long]).await;
    let error = fetch(&ImageSource { max_bytes: 2 << 20, ..source(server.url("/x")) }).await.unwrap_err();
    assert_eq!(error.class, Class::Permanent, "{error}");
}

#[tokio::test]
async fn l36_a_spool_folder_without_room_is_transient() {
    let huge = (1_u64 << 62).to_string();
    let server = Server::answering(vec![vec![head("200 OK", &[("content-length", &huge)]), Say::Stall]]).await;
    let error = fetch(&ImageSource { max_bytes: u64::MAX, ..source(server.url("/x")) }).await.unwrap_err();
    assert_eq!(error.class, Class::Transient, "{error}");
    assert!(error.hint.is_some_and(|hint| hint.contains("--cache-dir")));
}

#[tokio::test]
async fn l26_a_length_that_lies_short_is_caught_by_the_digest() {
    let body = image();
    let lie = vec![head("200 OK", &[("content-length", "300000")]), Say::Bytes(body.clone())];
    let server = Server::answering(vec![lie]).await;
    let error = fetch(&ImageSource { digest: Some(sha256(&body)), ..source(server.url("/x")) }).await.unwrap_err();
    assert_eq!(error.class, Class::Permanent, "{error}");
}

#[tokio::test]
async fn a_wrong_digest_is_permanent_and_both_are_shown() {
    let server = Server::answering(vec![whole(&image())]).await;
    let wanted = sha256(b"another image");
    let error = fetch(&ImageSource { digest: Some(wanted.clone()), ..source(server.url("/x")) }).await.unwrap_err();
    assert_eq!(error.class, Class::Permanent, "{error}");
    assert!(error.message.contains(&wanted.to_string()) && error.message.contains(sha256(&image()).hex()), "{error}");
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn a_sha_512_digest_is_checked_and_sha_256_taken_besides() {
    let body = image();
    let server = Server::answering(vec![whole(&body)]).await;
    let digest = Some(Digest::Sha512(hex::encode(Sha512::digest(&body))));
    let fetched = fetch(&ImageSource { digest, ..source(server.url("/x")) }).await.unwrap();
    assert_eq!(Digest::Sha256(fetched.sha256.clone()), sha256(&body));
    let digest = Some(Digest::Sha512("0".repeat(128)));
    let error = fetch(&ImageSource { digest, ..source(server.url("/x")) }).await.unwrap_err();
    assert_eq!(error.class, Class::Permanent, "{error}");
}

#[tokio::test]
async fn r6_a_download_goes_on_where_it_broke_off() {
    let body = image();
    for validator in [("etag", "\"1\""), ("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT")] {
        let first = broken_off(&body, 300_000, &[validator]);
        let server = Server::answering(vec![first, rest(&body, 300_000, validator)]).await;
        let digest = Some(sha256(&body));
        let fetched = fetch(&ImageSource { digest, ..source(server.url("/x")) }).await.unwrap();
        let asked = server.asked();
        let if_range = format!("if-range: {}\r\n", validator.1.to_lowercase());
        assert!(!asked[0].contains("range"), "{asked:?}");
        assert!(asked[1].contains("range: bytes=300000-\r\n") && asked[1].contains(&if_range), "{asked:?}");
        assert!(std::fs::read(&fetched.path).unwrap() == body);
        assert_eq!(asked.len(), 2);
    }
}

#[tokio::test]
async fn a_file_that_changed_in_between_is_fetched_anew() {
    // Of one length, so that only the validator tells them apart.
    let (old, body) = ([qcow2(3, 0, 2 << 30, 0), vec![9; 600_000]].concat(), image());
    let first = || broken_off(&old, 300_000, &[("etag", "\"1\"")]);
    for second in [
        // The server sees that the validator no longer fits, and sends the whole.
        vec![whole(&body)],
        // The server does not know If-Range.
        vec![rest(&body, 300_000, ("etag", "\"2\"")), whole(&body)],
        // What is asked for is beyond the new file's end.
        vec![vec![head("416 Range Not Satisfiable", &[("content-length", "0")])], whole(&body)],
        // The server sends another part than it was asked for.
        vec![rest(&old, 299_999, ("etag", "\"1\"")), whole(&body)],
    ] {
        let server = Server::answering([vec![first()], second].concat()).await;
        let fetched = fetch(&source(server.url("/x"))).await.unwrap();
        assert!(std::fs::read(&fetched.path).unwrap() == body);
    }
}

#[tokio::test]
async fn a_file_that_changed_unseen_in_between_is_caught_by_the_digest_and_fetched_anew() {
    let body = image();
    let other = [qcow2(3, 0, 2 << 30, 0), vec![9; 600_000]].concat();
    let answers =
        vec![broken_off(&other, 300_000, &[("etag", "\"1\"")]), rest(&body, 300_000, ("etag", "\"1\"")), whole(&body)];
    let server = Server::answering(answers).await;
    let digest = Some(sha256(&body));
    let fetched = fetch(&ImageSource { digest, ..source(server.url("/x")) }).await.unwrap();
    assert!(std::fs::read(&fetched.path).unwrap() == body);
}

#[tokio::test]
async fn without_a_validator_nothing_is_resumed() {
    let body = image();
    for headers in [vec![], vec![("etag", "W/\"1\"")]] {
        let server = Server::answering(vec![broken_off(&body, 300_000, &headers), whole(&body)]).await;
        fetch(&source(server.url("/x"))).await.unwrap();
        assert!(server.asked().iter().all(|asked| !asked.contains("range")), "{:?}", server.asked());
    }
}

fn redirect(to: &str) -> Vec<Say> {
    vec![head("302 Found", &[("location", to), ("content-length", "0")])]
}

#[tokio::test]
async fn redirects_are_followed_but_not_for_ever() {
    let body = image();
    let server = Server::answering(vec![redirect("/a"), redirect("b?x=1"), whole(&body)]).await;
    fetch(&source(server.url("/x"))).await.unwrap();
    let asked: Vec<String> =
        server.asked().iter().map(|asked| asked[..asked.find(" http").unwrap()].to_owned()).collect();
    assert_eq!(asked, ["get /x", "get /a", "get /b?x=1"]);
    let server = Server::answering(vec![redirect("/x")]).await;
    let error = fetch(&source(server.url("/x"))).await.unwrap_err();
    assert_eq!((error.class, server.asked().len()), (Class::Permanent, 11), "{error}");
}

#[tokio::test]
async fn l34_l35_a_redirect_to_an_internal_address_is_refused_and_not_shown() {
    let inside = Server::answering(vec![whole(&image())]).await;
    let port = inside.address.port();
    for (to, refused) in [
        // A name that resolves to loopback, one of another spelling, and an address.
        (format!("http://localhost:{port}/CANARY?CANARY"), true),
        (format!("http://127.0.0.2:{port}/CANARY"), true),
        (format!("http://[::1]:{port}/CANARY"), true),
        (format!("http://CANARY@127.0.0.1:{port}/"), true),
        ("file:///etc/CANARY".to_owned(), true),
        (format!("http://127.0.0.1:{port}/"), false),
    ] {
        let server = Server::answering(vec![redirect(&to)]).await;
        match fetch(&source(server.url("/x"))).await {
            Ok(_) => assert!(!refused, "{to}"),
            Err(error) => {
                assert!(refused && error.class == Class::Permanent, "{to}: {error}");
                assert!(!error.to_string().contains("CANARY"), "{error}");
                assert_eq!(server.asked().len(), 1);
            }
        }
    }
    assert_eq!(inside.asked().len(), 1, "only the host that the config names was asked");
}

#[tokio::test]
async fn l35_an_image_of_a_manifest_stays_within_the_listed_hosts() {
    let server = Server::answering(vec![redirect("http://localhost/")]).await;
    let listed = |host: &str| ImageSource {
        allowed_hosts: AllowedHosts::Only { hosts: BTreeSet::from([host.to_owned()]) },
        ..source(server.url("/x"))
    };
    assert_eq!(fetch(&listed("images.test")).await.unwrap_err().class, Class::Permanent);
    assert_eq!(server.asked().len(), 0);
    assert_eq!(fetch(&listed("127.0.0.1")).await.unwrap_err().class, Class::Permanent);
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn c13_the_digest_is_read_from_the_digest_file() {
    let body = image();
    let list = |digest: &Digest| format!("{}  other.qcow2\n{} *img.qcow2\n", "0".repeat(64), digest.hex());
    for (text, fits) in [(list(&sha256(&body)), true), (list(&sha256(b"x")), false), ("<html>".to_owned(), false)] {
        let digests = Server::answering(vec![vec![Say::Reset], whole(text.as_bytes())]).await;
        let images = Server::answering(vec![whole(&body)]).await;
        let of = ImageSource { digest_url: Some(digests.url("/SUMS")), ..source(images.url("/img.qcow2")) };
        match fetch(&of).await {
            Ok(_) => assert!(fits),
            Err(error) => assert!(!fits && error.class == Class::Permanent, "{error}"),
        }
    }
}

#[tokio::test]
async fn c13_an_image_is_not_fetched_while_its_digest_is_not_known() {
    let digests = Server::answering(vec![vec![head("404 Not Found", &[("content-length", "0")])]]).await;
    let long = Server::answering(vec![vec![head("200 OK", &[]), Say::Endless(vec![b'0'; 65_536])]]).await;
    let images = Server::answering(vec![whole(&image())]).await;
    for server in [digests, long] {
        let of = ImageSource { digest_url: Some(server.url("/SUMS")), ..source(images.url("/img.qcow2")) };
        assert_eq!(fetch(&of).await.unwrap_err().class, Class::Permanent);
    }
    assert_eq!(images.asked().len(), 0);
}

#[tokio::test]
async fn r7_several_hosts_of_a_run_share_one_download() {
    let server = Server::answering(vec![whole(&image())]).await;
    let downloads = Downloads::new(None, 2, limits());
    let (of, cancel) = (source(server.url("/x")), CancellationToken::new());
    let one = || downloads.fetch(&of, &Unwatched, &cancel);
    let (a, b, c) = tokio::join!(one(), one(), one());
    let (a, b, c) = (a.unwrap(), b.unwrap(), c.unwrap());
    assert!(Arc::ptr_eq(&a, &b) && Arc::ptr_eq(&b, &c));
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn what_failed_for_one_host_is_not_fetched_again_for_the_next() {
    let server = Server::answering(vec![vec![head("404 Not Found", &[("content-length", "0")])]]).await;
    let downloads = Downloads::new(None, 2, limits());
    for _ in 0..2 {
        let error =
            downloads.fetch(&source(server.url("/x")), &Unwatched, &CancellationToken::new()).await.unwrap_err();
        assert_eq!(error.class, Class::Permanent);
    }
    assert_eq!(server.asked().len(), 1);
}

/// Interrupts the run as soon as something has arrived.
struct Interrupt(CancellationToken);

impl Watch for Interrupt {
    fn progress(&self, _received: u64, _total: Option<u64>) {
        self.0.cancel();
    }
}

#[tokio::test]
async fn an_interrupted_download_ends_at_once_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let stalls = vec![head("200 OK", &[("content-length", "1000000")]), Say::Bytes(image()), Say::Stall];
    let server = Server::answering(vec![stalls, whole(&image())]).await;
    let downloads = Downloads::new(Some(folder.path().to_owned()), 1, limits());
    let of = source(server.url("/x"));
    let cancel = CancellationToken::new();
    let error = downloads.fetch(&of, &Interrupt(cancel.clone()), &cancel).await.unwrap_err();
    assert_eq!((error.class, error.reason), (Class::Cancelled, Reason::Interrupted), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    assert!(downloads.fetch(&of, &Unwatched, &CancellationToken::new()).await.is_ok(), "an interruption is no verdict");
}

#[tokio::test]
async fn a_verified_file_in_the_cache_folder_is_used_again_and_checked_again() {
    let body = image();
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    let server = Server::answering(vec![whole(&body)]).await;
    let of = ImageSource { digest: Some(sha256(&body)), ..source(server.url("/x")) };
    let run = async || {
        let downloads = Downloads::new(Some(cache.clone()), 1, limits());
        downloads.fetch(&of, &Unwatched, &CancellationToken::new()).await.unwrap()
    };
    let first = run().await;
    let path = first.path.clone();
    assert!(!first.is_temporary() && path.starts_with(&cache));
    drop(first);
    let again = run().await;
    assert_eq!((again.path.clone(), again.bytes, again.virtual_bytes), (path.clone(), 600_512, Some(2 << 30)));
    assert_eq!(server.asked().len(), 1);
    std::fs::write(&path, &body[..500_000]).unwrap();
    let repaired = run().await;
    assert!(std::fs::read(&repaired.path).unwrap() == body);
    assert_eq!(server.asked().len(), 2);
}

#[tokio::test]
async fn a_file_that_nothing_vouches_for_is_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::answering(vec![whole(&image())]).await;
    for _ in 0..2 {
        let downloads = Downloads::new(Some(folder.path().to_owned()), 1, limits());
        let fetched = downloads.fetch(&source(server.url("/x")), &Unwatched, &CancellationToken::new()).await.unwrap();
        assert!(fetched.is_temporary());
    }
    assert_eq!(server.asked().len(), 2);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
