//! An image server for tests that says exactly the bytes it is told to, one answer a connection,
//! and remembers what it was asked.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What happens on a connection after its request was read.
#[derive(Debug, Clone)]
pub(super) enum Say {
    /// These bytes are sent.
    Bytes(Vec<u8>),
    /// These bytes are sent again and again, until the client is gone.
    Endless(Vec<u8>),
    /// Nothing more is sent, and the connection stays.
    Stall,
    /// The connection is reset.
    Reset,
}

pub(super) struct Server {
    pub(super) address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Gives these answers in turn; the last one again and again.
    pub(super) async fn answering(answers: Vec<Vec<Say>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = asked.clone();
        tokio::spawn(async move {
            let mut answers: VecDeque<_> = answers.into();
            while let Ok((socket, _)) = listener.accept().await {
                let answer = if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() };
                tokio::spawn(serve(socket, answer.unwrap(), log.clone()));
            }
        });
        Self { address, asked }
    }

    pub(super) fn url(&self, path: &str) -> url::Url {
        url::Url::parse(&format!("http://{}{path}", self.address)).unwrap()
    }

    /// The requests so far, lower-case.
    pub(super) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

async fn serve(mut socket: TcpStream, answer: Vec<Say>, log: Arc<Mutex<Vec<String>>>) {
    let mut request = Vec::new();
    while !request.windows(4).any(|window| window == b"\r\n\r\n") {
        let mut chunk = [0; 1024];
        match socket.read(&mut chunk).await {
            Ok(read) if read > 0 => request.extend(&chunk[..read]),
            _ => return,
        }
    }
    log.lock().unwrap().push(String::from_utf8_lossy(&request).to_lowercase());
    for say in answer {
        let fine = match say {
            Say::Bytes(bytes) => socket.write_all(&bytes).await.is_ok(),
            Say::Endless(bytes) => {
                while socket.write_all(&bytes).await.is_ok() {}
                false
            }
            Say::Stall => {
                // Ends when the client gives up.
                let _ = socket.read(&mut [0; 1]).await;
                false
            }
            Say::Reset => {
                let _ = socket.set_zero_linger();
                false
            }
        };
        if !fine {
            return;
        }
    }
    let _ = socket.shutdown().await;
    // The client closes first, so that no answer is cut by a reset.
    let _ = socket.read(&mut [0; 1]).await;
}

/// A status line and headers, with `connection: close`.
pub(super) fn head(status: &str, headers: &[(&str, &str)]) -> Say {
    let lines: Vec<String> = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    Say::Bytes(format!("HTTP/1.1 {status}\r\nconnection: close\r\n{}\r\n", lines.concat()).into_bytes())
}

/// A whole answer of that body.
pub(super) fn whole(body: &[u8]) -> Vec<Say> {
    vec![head("200 OK", &[("content-length", &body.len().to_string())]), Say::Bytes(body.to_vec())]
}
