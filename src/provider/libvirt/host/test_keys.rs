//! Keys for tests, drawn when they are first needed. No private key is kept in the repository.

use std::sync::LazyLock;

use russh::keys::ssh_key::private::RsaKeypair;
use russh::keys::{Algorithm, PrivateKey};

/// A new key of a kind that is drawn quickly.
pub fn new(algorithm: Algorithm) -> PrivateKey {
    PrivateKey::random(&mut rand::rng(), algorithm).unwrap()
}

/// A new ed25519 key.
pub fn ed25519() -> PrivateKey {
    new(Algorithm::Ed25519)
}

/// The one RSA key of a test run: drawing it takes a second.
pub fn rsa() -> PrivateKey {
    static RSA: LazyLock<PrivateKey> =
        LazyLock::new(|| PrivateKey::new(RsaKeypair::random(&mut rand::rng(), 2048).unwrap().into(), "").unwrap());
    RSA.clone()
}
