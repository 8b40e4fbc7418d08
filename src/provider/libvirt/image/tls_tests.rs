//! Downloads over TLS from a server that nobody vouches for.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, ServerConnection, SignatureScheme};
use tokio_util::sync::CancellationToken;

use super::server::{Server, head};
use super::tests::{Told, limits, source};
use super::*;
use crate::plan::Reason;
use crate::provider::error::Class;

/// A DER value: tag, length, content.
fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let length = u16::try_from(content.len()).unwrap().to_be_bytes();
    let head =
        if length[0] == 0 && length[1] < 128 { vec![tag, length[1]] } else { vec![tag, 0x82, length[0], length[1]] };
    [head, content].concat()
}

/// A certificate for 127.0.0.1 that its own key signed, as of RFC 5280 and RFC 8410.
fn self_signed() -> CertifiedKey {
    let pkcs8 = der(0x30, &[&[2, 1, 0], &der(0x30, &[&[6, 3, 0x2b, 0x65, 0x70]]), &der(4, &[&der(4, &[&[7; 32]])])]);
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(pkcs8));
    let key = aws_lc_rs::sign::any_supported_type(&key).unwrap();
    let ed25519 = der(0x30, &[&[6, 3, 0x2b, 0x65, 0x70]]);
    let name = der(0x30, &[&der(0x31, &[&der(0x30, &[&[6, 3, 0x55, 4, 3], &der(0x0c, &[b"nobody"])])])]);
    let validity = der(0x30, &[&der(0x17, &[b"200101000000Z"]), &der(0x17, &[b"491231235959Z"])]);
    let san = der(0x30, &[&der(0x87, &[&[127, 0, 0, 1]])]);
    let extension = der(0x30, &[&[6, 3, 0x55, 0x1d, 0x11], &der(4, &[&san])]);
    let body = der(
        0x30,
        &[
            &der(0xa0, &[&[2, 1, 2]]),
            &[2, 1, 1],
            &ed25519,
            &name,
            &validity,
            &name,
            key.public_key().unwrap().as_ref(),
            &der(0xa3, &[&der(0x30, &[&extension])]),
        ],
    );
    let signature = key.choose_scheme(&[SignatureScheme::ED25519]).unwrap().sign(&body).unwrap();
    let certificate = der(0x30, &[&body, &ed25519, &der(3, &[&[0], &signature])]);
    CertifiedKey::new(vec![CertificateDer::from(certificate)], key)
}

/// An HTTPS server with that certificate: its port, and what it could read of each request.
fn https() -> (u16, Arc<Mutex<Vec<String>>>) {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let resolver = Arc::new(rustls::sign::SingleCertAndKey::from(self_signed()));
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(resolver);
    let (config, listener) = (Arc::new(config), TcpListener::bind("127.0.0.1:0").unwrap());
    let port = listener.local_addr().unwrap().port();
    let requests = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&requests);
    thread::spawn(move || {
        for socket in listener.incoming() {
            let (mut socket, mut session) = (socket.unwrap(), ServerConnection::new(Arc::clone(&config)).unwrap());
            let mut stream = rustls::Stream::new(&mut session, &mut socket);
            let mut request = [0; 1024];
            let read = stream.read(&mut request).unwrap_or(0);
            log.lock().unwrap().push(String::from_utf8_lossy(&request[..read]).into_owned());
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
        }
    });
    (port, requests)
}

#[tokio::test]
async fn a_server_that_nobody_vouches_for_is_sent_nothing_and_told_as_such() {
    let (port, requests) = https();
    let url = Url::parse(&format!("https://127.0.0.1:{port}/img.qcow2?token=CANARY")).unwrap();
    let told = Told::default();
    let downloads = Downloads::new(None, 1, limits());
    let error = downloads.fetch(&source(url), &told, &CancellationToken::new()).await.unwrap_err();
    assert_eq!((error.class, error.reason), (Class::Transient, Reason::TransientError), "{error}");
    assert!(error.message.to_lowercase().contains("certificate"), "the message says what is wrong: {error}");
    assert!(!error.to_string().contains("CANARY"), "{error}");
    assert_eq!(told.failures.lock().unwrap().len(), 2, "an authority may be added while a run goes on");
    assert!(requests.lock().unwrap().iter().all(String::is_empty), "not even the path was sent");
}

#[tokio::test]
async fn a_redirect_to_a_server_that_nobody_vouches_for_ends_there() {
    let (port, requests) = https();
    let location = format!("https://127.0.0.1:{port}/img.qcow2");
    let to = vec![head("302 Found", &[("location", &location), ("content-length", "0")])];
    let server = Server::answering(vec![to]).await;
    let downloads = Downloads::new(None, 1, limits());
    let error = downloads.fetch(&source(server.url("/x")), &Unwatched, &CancellationToken::new()).await.unwrap_err();
    assert!(error.message.to_lowercase().contains("certificate"), "{error}");
    assert!(requests.lock().unwrap().iter().all(String::is_empty));
}
