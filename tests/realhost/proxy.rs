//! A client of the proxies: one GET and one CONNECT, by hand, so that every byte of the answer is seen.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use super::lab::lab;

const PORT: u16 = 3128;
const HELLO: &str = "hello from the lab\n";

/// What a proxy answered to a request.
pub struct Answer {
    /// The status line and the fields.
    pub head: String,
    pub body: String,
}

impl Answer {
    fn read(stream: &mut TcpStream) -> io::Result<Self> {
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        Ok(Self { head: head.to_owned(), body: body.to_owned() })
    }

    fn is(&self, status: u16) -> bool {
        self.head.split(' ').nth(1) == Some(&status.to_string())
    }

    /// Whether the lab's web server is who answered in the end.
    pub fn is_hello(&self) -> bool {
        self.is(200) && self.body == HELLO
    }
}

fn connect(proxy: IpAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&SocketAddr::new(proxy, PORT), Duration::from_secs(5))?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    Ok(stream)
}

/// A plain GET through the proxy.
pub fn get(proxy: IpAddr) -> io::Result<Answer> {
    let mut stream = connect(proxy)?;
    let web = lab("LAB_WEB");
    write!(stream, "GET {web}/hello HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", lab("LAB_ADDRESS"))?;
    Answer::read(&mut stream)
}

/// A tunnel to a port of the lab's web server, and a GET through it; the proxy's own answer when it
/// lets nobody through.
pub fn tunnel(proxy: IpAddr, port: u16) -> io::Result<Answer> {
    let mut stream = connect(proxy)?;
    let target = format!("{}:{port}", lab("LAB_ADDRESS"));
    write!(stream, "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n")?;
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let answer = Answer { head: String::from_utf8_lossy(&head).into_owned(), body: String::new() };
    if !answer.is(200) {
        return Ok(answer);
    }
    write!(stream, "GET /hello HTTP/1.1\r\nHost: {target}\r\nConnection: close\r\n\r\n")?;
    Answer::read(&mut stream)
}

/// Whether the proxy refused.
pub fn is_refused(answer: &Answer) -> bool {
    answer.is(403)
}
