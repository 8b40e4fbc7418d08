//! Against an SSH server in this process: what is dialled, what is trusted, what is said.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Mutex;

use russh::keys::ssh_key::LineEnding;
use russh::keys::ssh_key::certificate::{Builder, CertType};
use russh::keys::{Algorithm, EcdsaCurve, PublicKey};
use russh::server::{self, Auth, ChannelOpenHandle, VerifiedPublicKey};
use russh::{Channel, ChannelOpenFailure as Refusal};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::super::target::DEFAULT_KEEPALIVE;
use super::super::test_keys;
use super::*;
use crate::provider::error::Class;

/// What the server does with the connections that come before it behaves.
enum Mishap {
    HangUp,
    Garbage,
}

/// A server, and a client's files for it.
struct Fixture {
    address: SocketAddr,
    folder: TempDir,
    seen: Arc<Mutex<Vec<Algorithm>>>,
}

struct Host {
    keys: Vec<PrivateKey>,
    certificates: Vec<russh::keys::Certificate>,
    accepts: PublicKey,
    mishaps: Vec<Mishap>,
}

#[derive(Clone)]
struct Visitor {
    accepts: PublicKey,
    seen: Arc<Mutex<Vec<Algorithm>>>,
}

impl server::Handler for Visitor {
    type Error = russh::Error;

    async fn auth_publickey(&mut self, user: &str, key: VerifiedPublicKey<'_>) -> Result<Auth, russh::Error> {
        self.seen.lock().unwrap().push(key.algorithm.clone());
        let right = user == "u" && key.public_key.key_data() == self.accepts.key_data();
        Ok(if right { Auth::Accept } else { Auth::reject() })
    }

    async fn channel_open_direct_streamlocal(
        &mut self,
        channel: Channel<server::Msg>,
        path: &str,
        reply: ChannelOpenHandle,
        _session: &mut server::Session,
    ) -> Result<(), russh::Error> {
        if path == "/echo" {
            reply.accept().await;
            tokio::spawn(async move {
                let (mut read, mut write) = tokio::io::split(channel.into_stream());
                tokio::io::copy(&mut read, &mut write).await
            });
        } else {
            reply.reject(Refusal::ConnectFailed).await;
        }
        Ok(())
    }
}

async fn serve(host: Host, client: &PrivateKey) -> Fixture {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("key"), client.to_openssh(LineEnding::LF).unwrap().as_bytes()).unwrap();
    let config = Arc::new(server::Config {
        keys: host.keys,
        certificates: host.certificates,
        auth_rejection_time: Duration::ZERO,
        ..server::Config::default()
    });
    let visitor = Visitor { accepts: host.accepts, seen: Arc::default() };
    let seen = Arc::clone(&visitor.seen);
    tokio::spawn(async move {
        let mut mishaps = VecDeque::from(host.mishaps);
        while let Ok((mut stream, _)) = listener.accept().await {
            match mishaps.pop_front() {
                Some(Mishap::HangUp) => drop(stream),
                Some(Mishap::Garbage) => stream.write_all(b"\0\xff\xff\xff\xffgarbage\r\n\r\n").await.unwrap(),
                None => {
                    let (config, visitor) = (Arc::clone(&config), visitor.clone());
                    tokio::spawn(async move {
                        if let Ok(session) = server::run_stream(config, stream, visitor).await {
                            let _ = session.await;
                        }
                    });
                }
            }
        }
    });
    Fixture { address, folder, seen }
}

impl Fixture {
    /// Dials with a `known_hosts` of these lines, in which `HOST` stands for the server's name.
    async fn dial(&self, known_hosts: &[String]) -> Result<Session, DialError> {
        let file = self.folder.path().join("known_hosts");
        let name = format!("[127.0.0.1]:{}", self.address.port());
        std::fs::write(&file, known_hosts.join("\n").replace("HOST", &name)).unwrap();
        Session::dial(&SshTarget { known_hosts: Some(file), ..self.target() }, &Progress::default()).await
    }

    fn target(&self) -> SshTarget {
        SshTarget {
            host: "127.0.0.1".to_owned(),
            port: self.address.port(),
            host_key_alias: None,
            user: "u".to_owned(),
            key_file: self.folder.path().join("key"),
            known_hosts: None,
            sockets: Vec::new(),
            pool: "default".to_owned(),
            keepalive: DEFAULT_KEEPALIVE,
        }
    }
}

fn line(names: &str, key: &PrivateKey) -> String {
    format!("{names} {}", key.public_key().to_openssh().unwrap())
}

/// A server that has these host keys, and a client whose key it takes.
async fn host_with(keys: &[&PrivateKey]) -> Fixture {
    let client = test_keys::ed25519();
    let accepts = client.public_key().clone();
    let keys = keys.iter().map(|key| (*key).clone()).collect();
    serve(Host { keys, certificates: Vec::new(), accepts, mishaps: Vec::new() }, &client).await
}

/// The error of a dial that must not succeed.
fn refused(outcome: Result<Session, DialError>) -> DialError {
    outcome.err().expect("the dial succeeded")
}

/// A public RSA key that nobody has the other half of: drawing a second one takes seconds.
const ANOTHER_RSA: &str = "AAAAB3NzaC1yc2EAAAADAQABAAABAQCXeCNxD0BtczuuIcKgav7YtBTS+pv24yZSCsP3J83681uFEC7Xt2rTzf1c4btt4yd0bYgA\
    PT4I9fijzrjVEQfaoVEScsyIjw+Td0Vh4TA/yvqj6ooyXZzNtSTQ6WkyXzG4qPo1HQOvqnhiahiZbSYnvJN1HFrYIcm88unW6nF9\
    mosCwXQmWGI2iZaM3Dyuhe7t+LeII9TXHjvaq5x2UnVnBOwaJXikOVHvKUIlVBfjrkcR2uFseH5aNFAxIF/5q6MlZuWONVpUHSBm\
    ASphAO//+OBQ3EQkk7G6I2zMHtgD4WS+o9w3Uoku9SP1me+MN57+0G9pgXjkb2uTOYdcafuB";

/// How a dial of the table below must end.
enum Ends {
    Connected,
    /// Permanently, with these words, and never with a token of the file.
    Untrusted(&'static str),
}

#[tokio::test]
async fn r22_c07_each_kind_of_host_key_is_found_in_each_form_of_line_or_refused_for_good() {
    use Ends::{Connected, Untrusted};
    let kinds = || {
        let ecdsa = Algorithm::Ecdsa { curve: EcdsaCurve::NistP256 };
        [("ed25519", test_keys::ed25519()), ("ecdsa", test_keys::new(ecdsa)), ("rsa", test_keys::rsa())]
    };
    let another = |kind: &str| match kind {
        "ed25519" => line("HOST", &test_keys::ed25519()),
        "ecdsa" => line("HOST", &test_keys::new(Algorithm::Ecdsa { curve: EcdsaCurve::NistP256 })),
        _ => format!("HOST ssh-rsa {ANOTHER_RSA}"),
    };
    for (kind, mine) in kinds() {
        let host = host_with(&[&mine]).await;
        let name = format!("[127.0.0.1]:{}", host.address.port());
        let (good, wrong) = (line("HOST", &mine), another(kind));
        let foreign = kinds().into_iter().find(|(other, _)| *other != kind).map(|(_, key)| line("HOST", &key)).unwrap();
        let salted = line(&hashed(&name), &mine);
        for (what, lines, ends) in [
            ("plain", vec![good.clone()], Connected),
            ("hashed", vec![salted], Connected),
            ("a wildcard", vec![line("[127.0.0.*]:*", &mine)], Connected),
            ("several of a kind, the second fits", vec![wrong.clone(), good.clone()], Connected),
            ("tabs", vec![good.replace(' ', "\t")], Connected),
            ("another kind beside it", vec![foreign.clone(), good.clone()], Connected),
            ("negated", vec![line("[127.0.0.*]:*,!HOST", &mine)], Untrusted("is unknown: ")),
            ("without its port", vec![line("127.0.0.1", &mine)], Untrusted("is unknown: ")),
            ("only another kind", vec![foreign], Untrusted("of this kind for [127.0.0.1]:")),
            ("changed", vec!["# note".to_owned(), wrong.clone()], Untrusted("known_hosts:2 has another key")),
            ("revoked", vec![good.clone(), format!("@revoked {good}")], Untrusted("known_hosts:2 revokes it")),
            ("only an authority", vec![format!("@cert-authority {wrong}")], Untrusted("only certificate authorities")),
            ("an empty file", vec![], Untrusted("is unknown: ")),
        ] {
            let outcome = host.dial(&lines).await;
            match ends {
                Connected => assert!(outcome.is_ok(), "{kind}, {what}: {}", refused(outcome)),
                Untrusted(says) => {
                    let error = refused(outcome);
                    assert_eq!(
                        (error.class, error.reason),
                        (Class::Permanent, Reason::HostKeyMismatch),
                        "{kind}, {what}"
                    );
                    let shown = format!("{} {}", error.message, error.hint.unwrap_or_default());
                    let fingerprint = mine.public_key().fingerprint(HashAlg::Sha256).to_string();
                    let file = host.folder.path().join("known_hosts").display().to_string();
                    for part in [says, &fingerprint, &file] {
                        assert!(shown.contains(part), "{kind}, {what}: {shown}");
                    }
                    assert!(what == "revoked" || shown.contains(&format!("-t {kind} ")), "{kind}, {what}: {shown}");
                    assert!(!shown.contains("AAAA"), "{kind}, {what}: {shown}");
                }
            }
        }
    }
}

/// A name as `HashKnownHosts` writes it.
fn hashed(name: &str) -> String {
    use base64::Engine as _;
    use hmac::{Hmac, KeyInit as _, Mac as _};
    let encode = |bytes: &[u8]| base64::engine::general_purpose::STANDARD.encode(bytes);
    let hash = Hmac::<sha1::Sha1>::new_from_slice(b"salt").unwrap().chain_update(name).finalize().into_bytes();
    format!("|1|{}|{}", encode(b"salt"), encode(&hash))
}

#[tokio::test]
async fn c05_r22_files_that_are_missing_or_no_private_keys_are_named_before_anything_is_dialled() {
    let mut host = host_with(&[&test_keys::ed25519()]).await;
    host.address.set_port(1);
    let key = test_keys::ed25519();
    let encrypted = key.encrypt(&mut rand::rng(), "secret").unwrap();
    let text = |key: &PrivateKey| key.to_openssh(LineEnding::LF).unwrap().to_string();
    let path = host.folder.path().join("key");
    for (content, says) in [
        (text(&encrypted), "is encrypted with a passphrase"),
        (key.public_key().to_openssh().unwrap(), "is a public key"),
        (text(&key).replace('b', "!"), "cannot be decoded"),
        (String::new(), "is empty"),
    ] {
        std::fs::write(&path, content).unwrap();
        let error = refused(Session::dial(&host.target(), &Progress::default()).await);
        assert_eq!((error.stage, error.class), (Stage::Credentials, Class::Permanent), "{error}");
        assert!(error.message.contains(says) && error.message.contains(path.to_str().unwrap()), "{error}");
        assert!(error.hint.is_some());
    }
    std::fs::write(&path, text(&key)).unwrap();
    let missing = host.folder.path().join("none");
    for target in [
        SshTarget { key_file: missing.clone(), ..host.target() },
        SshTarget { known_hosts: Some(missing.clone()), ..host.target() },
    ] {
        let error = refused(Session::dial(&target, &Progress::default()).await);
        assert_eq!((error.stage, error.reason), (Stage::Credentials, Reason::CredentialsUnavailable), "{error}");
        // The file may be mounted a moment later.
        assert_eq!(error.class, Class::Transient);
        assert!(error.message.contains(missing.to_str().unwrap()), "{error}");
    }
}

#[tokio::test]
async fn l06_a_host_pinned_by_its_rsa_key_alone_is_reached_though_it_has_others() {
    let (ed25519, rsa) = (test_keys::ed25519(), test_keys::rsa());
    let host = host_with(&[&ed25519, &rsa]).await;
    assert!(host.dial(&[line("HOST", &rsa)]).await.is_ok());
    assert!(host.dial(&[line("HOST", &ed25519)]).await.is_ok());
}

#[tokio::test]
async fn l06_an_untrusted_host_key_is_permanent_and_says_where_without_a_token() {
    let (mine, other, rsa) = (test_keys::ed25519(), test_keys::ed25519(), test_keys::rsa());
    let host = host_with(&[&mine]).await;
    let (mine_line, other_line, rsa_line) = (line("HOST", &mine), line("HOST", &other), line("HOST", &rsa));
    let (revoked, note) = (format!("@revoked {mine_line}"), "# a note".to_owned());
    for (lines, says) in [
        (vec![], "the host key is unknown: "),
        (vec![rsa_line], "of this kind for [127.0.0.1]:"),
        (vec![note, other_line], "known_hosts:2 has another key for [127.0.0.1]:"),
        (vec![mine_line.clone(), revoked], "known_hosts:2 revokes it for [127.0.0.1]:"),
        (vec![mine_line.replace("HOST", "127.0.0.1")], "the host key is unknown: "),
    ] {
        let error = refused(host.dial(&lines).await);
        assert_eq!((error.stage, error.class, error.reason), (Stage::Ssh, Class::Permanent, Reason::HostKeyMismatch));
        let shown = format!("{} {}", error.message, error.hint.unwrap_or_default());
        assert!(shown.contains(says), "{shown}");
        assert!(shown.contains(&mine.public_key().fingerprint(HashAlg::Sha256).to_string()), "{shown}");
        assert!(!shown.contains("AAAA"), "{shown}");
        if !says.contains("revokes") {
            let scan = format!("ssh-keyscan -p {} -t ed25519 127.0.0.1 >> ", host.address.port());
            assert!(shown.contains(&scan), "{shown}");
        }
    }
}

#[tokio::test]
async fn r22_a_host_certificate_of_a_known_authority_is_enough() {
    let (authority, key, client) = (test_keys::ed25519(), test_keys::ed25519(), test_keys::ed25519());
    let mut builder = Builder::new_with_random_nonce(&mut rand::rng(), key.public_key().clone(), 0, u64::MAX).unwrap();
    builder.cert_type(CertType::Host).unwrap();
    builder.valid_principal("127.0.0.1").unwrap();
    let certificates = vec![builder.sign(&authority).unwrap()];
    let accepts = client.public_key().clone();
    let host = serve(Host { keys: vec![key], certificates, accepts, mishaps: Vec::new() }, &client).await;

    assert!(host.dial(&[format!("@cert-authority {}", line("*", &authority))]).await.is_ok());
    let stranger = test_keys::ed25519();
    let error = refused(host.dial(&[format!("@cert-authority {}", line("*", &stranger))]).await);
    assert_eq!(error.reason, Reason::HostKeyMismatch);
    assert!(error.message.contains("only certificate authorities"), "{error}");
    // The same line as a plain key: an authority signs, it does not log anybody in.
    assert_eq!(refused(host.dial(&[line("HOST", &authority)]).await).reason, Reason::HostKeyMismatch);
}

#[tokio::test]
async fn an_alias_names_the_host_in_known_hosts() {
    let key = test_keys::ed25519();
    let host = host_with(&[&key]).await;
    let file = host.folder.path().join("aliased");
    std::fs::write(&file, line("real.test", &key)).unwrap();
    let target = |alias: &str| SshTarget {
        host_key_alias: Some(alias.to_owned()),
        known_hosts: Some(file.clone()),
        ..host.target()
    };
    assert!(Session::dial(&target("Real.Test"), &Progress::default()).await.is_ok());
    let error = refused(Session::dial(&target("other.test"), &Progress::default()).await);
    assert!(error.message.contains("has no key for other.test"), "{error}");
    assert!(error.hint.unwrap().contains("sed 's/^[^# ]*/other.test/'"));
}

#[tokio::test]
async fn without_known_hosts_any_key_is_taken() {
    let host = host_with(&[&test_keys::ed25519()]).await;
    assert!(Session::dial(&host.target(), &Progress::default()).await.is_ok());
}

#[tokio::test]
async fn r24_a_refused_key_is_permanent_and_named_by_its_fingerprint() {
    let (key, client, other) = (test_keys::ed25519(), test_keys::ed25519(), test_keys::ed25519());
    let accepts = other.public_key().clone();
    let host = serve(Host { keys: vec![key], certificates: Vec::new(), accepts, mishaps: Vec::new() }, &client).await;
    let error = refused(Session::dial(&host.target(), &Progress::default()).await);
    assert_eq!((error.stage, error.class, error.reason), (Stage::Ssh, Class::Permanent, Reason::Unauthorized));
    assert!(error.message.contains(&client.public_key().fingerprint(HashAlg::Sha256).to_string()), "{error}");
    assert!(error.message.contains("for user u"), "{error}");
}

#[tokio::test]
async fn r22_an_rsa_client_key_signs_with_sha2() {
    let client = test_keys::rsa();
    let accepts = client.public_key().clone();
    let keys = vec![test_keys::ed25519()];
    let host = serve(Host { keys, certificates: Vec::new(), accepts, mishaps: Vec::new() }, &client).await;
    Session::dial(&host.target(), &Progress::default()).await.map(drop).unwrap();
    let seen = host.seen.lock().unwrap().clone();
    assert!(seen.iter().all(|algorithm| matches!(algorithm, Algorithm::Rsa { hash: Some(_) })), "{seen:?}");
    assert!(!seen.is_empty());
}

#[tokio::test]
async fn a_socket_is_opened_or_refused_and_the_connection_lives_on() {
    let host = host_with(&[&test_keys::ed25519()]).await;
    let session = Session::dial(&host.target(), &Progress::default()).await.map_err(|error| error.message).unwrap();
    assert_eq!(session.open_socket("/missing").await.err(), Some(SocketError::Refused));
    let mut socket = session.open_socket("/echo").await.unwrap();
    socket.write_all(b"hello").await.unwrap();
    let mut answer = [0; 5];
    socket.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"hello");
    // Shut means shut, for whoever reads as well.
    session.shut();
    assert_eq!(socket.read(&mut answer).await.unwrap_or(0), 0);
    assert!(matches!(session.open_socket("/echo").await.err(), Some(SocketError::Lost(_))));
}

#[tokio::test]
async fn r24_a_handshake_that_the_server_cuts_off_is_tried_again() {
    let (client, keys) = (test_keys::ed25519(), vec![test_keys::ed25519()]);
    let accepts = client.public_key().clone();
    let mishaps = vec![Mishap::HangUp, Mishap::HangUp];
    let host = serve(Host { keys, certificates: Vec::new(), accepts, mishaps }, &client).await;
    assert!(Session::dial(&host.target(), &Progress::default()).await.is_ok());
}

#[tokio::test]
async fn l08_garbage_in_place_of_ssh_is_an_error_of_that_host() {
    let (client, keys) = (test_keys::ed25519(), vec![test_keys::ed25519()]);
    let accepts = client.public_key().clone();
    let mishaps = (0..=RETRIES).map(|_| Mishap::Garbage).collect();
    let host = serve(Host { keys, certificates: Vec::new(), accepts, mishaps }, &client).await;
    let error = refused(Session::dial(&host.target(), &Progress::default()).await);
    assert_eq!((error.stage, error.class, error.reason), (Stage::Ssh, Class::Transient, Reason::Unreachable));
}

#[tokio::test]
async fn nobody_listening_is_told_at_the_stage_of_tcp() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut host = host_with(&[&test_keys::ed25519()]).await;
    host.address = listener.local_addr().unwrap();
    drop(listener);
    let error = refused(Session::dial(&host.target(), &Progress::default()).await);
    assert_eq!((error.stage, error.class, error.reason), (Stage::Tcp, Class::Transient, Reason::Unreachable));
}

#[tokio::test]
async fn c05_a_bad_key_file_is_told_before_anything_is_dialled() {
    let mut host = host_with(&[&test_keys::ed25519()]).await;
    std::fs::write(host.folder.path().join("key"), "").unwrap();
    host.address.set_port(1);
    let error = refused(Session::dial(&host.target(), &Progress::default()).await);
    assert_eq!((error.stage, error.class), (Stage::Credentials, Class::Permanent));
}

/// Reads one line, or one packet of the part of the protocol that is not encrypted yet.
async fn read_line(stream: &mut TcpStream) -> Vec<u8> {
    let mut line = Vec::new();
    while !line.ends_with(b"\n") {
        line.push(stream.read_u8().await.unwrap());
    }
    line
}

async fn read_packet(stream: &mut TcpStream) -> Vec<u8> {
    let length = stream.read_u32().await.unwrap();
    let mut packet = length.to_be_bytes().to_vec();
    packet.resize(4 + usize::try_from(length).unwrap(), 0);
    stream.read_exact(&mut packet[4..]).await.unwrap();
    packet
}

#[tokio::test]
async fn l04_a_dial_that_is_given_up_during_the_handshake_closes_its_connection() {
    let mut host = host_with(&[&test_keys::ed25519()]).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let behind = std::mem::replace(&mut host.address, listener.local_addr().unwrap());
    let (target, progress) = (host.target(), Arc::new(Progress::default()));
    let dial = tokio::spawn({
        let progress = Arc::clone(&progress);
        async move { Session::dial(&target, &progress).await.map(drop) }
    });
    // A relay that falls silent in the middle of the key exchange.
    let (mut client, _) = listener.accept().await.unwrap();
    let mut server = TcpStream::connect(behind).await.unwrap();
    server.write_all(&read_line(&mut client).await).await.unwrap();
    client.write_all(&read_line(&mut server).await).await.unwrap();
    client.write_all(&read_packet(&mut server).await).await.unwrap();
    let (_key_exchange_init, _public_key) = (read_packet(&mut client).await, read_packet(&mut client).await);
    dial.abort();
    let rest = timeout(Duration::from_secs(30), client.read(&mut [0; 64])).await.expect("the connection stays");
    assert_eq!(rest.unwrap_or(0), 0);
    assert_eq!((progress.stage(), progress.expired().reason), (Stage::Ssh, Reason::Timeout));
}
