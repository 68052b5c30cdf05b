//! A TCP proxy that breaks the line between a client and a server.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Chunks that are on the way in one direction of one connection, at most.
const CHUNKS_MAX: usize = 256;

/// A TCP proxy on a free loopback port in front of a server. Dropping it closes every connection.
///
/// It runs on the tokio runtime that started it.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    line: watch::Sender<Line>,
    accepting: JoinHandle<()>,
}

/// The state of the line.
#[derive(Debug, Clone, Copy)]
struct Line {
    /// Goes up with each cut; connections of an older generation end.
    generation: u64,
    refusing: bool,
    stalled: bool,
    delay: Duration,
}

impl Proxy {
    /// Starts a proxy in front of the server at `upstream`.
    ///
    /// # Errors
    /// Where no loopback port can be bound.
    pub async fn start(upstream: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, super::free_port()?)).await?;
        let address = listener.local_addr()?;
        let (line, seen) = watch::channel(Line {
            generation: 0,
            refusing: false,
            stalled: false,
            delay: Duration::ZERO,
        });
        let accepting = tokio::spawn(accept(listener, upstream, seen));
        Ok(Self { address, line, accepting })
    }

    /// A proxy in front of a loopback port.
    ///
    /// # Errors
    /// Where no loopback port can be bound.
    pub async fn to_port(port: u16) -> io::Result<Self> {
        Self::start((Ipv4Addr::LOCALHOST, port).into()).await
    }

    /// Where clients connect to.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The port that clients connect to.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Closes every connection. New ones are served.
    pub fn cut(&self) {
        self.line.send_modify(|line| line.generation += 1);
    }

    /// Closes every connection, and new ones at once, until [`Proxy::resume`].
    pub fn refuse(&self) {
        self.line.send_modify(|line| {
            line.generation += 1;
            line.refusing = true;
        });
    }

    /// Forwards nothing until [`Proxy::resume`], while connections stay open and new ones are
    /// accepted: to both sides it looks as if the other had gone silent.
    pub fn stall(&self) {
        self.line.send_modify(|line| line.stalled = true);
    }

    /// Ends a stall and a refusal. What came in during a stall is forwarded now.
    pub fn resume(&self) {
        self.line.send_modify(|line| {
            line.stalled = false;
            line.refusing = false;
        });
    }

    /// Delays every byte by this long, in each direction, without narrowing the line.
    pub fn delay(&self, delay: Duration) {
        self.line.send_modify(|line| line.delay = delay);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, upstream: SocketAddr, line: watch::Receiver<Line>) {
    while let Ok((client, _)) = listener.accept().await {
        if !line.borrow().refusing {
            tokio::spawn(connect(client, upstream, line.clone()));
        }
    }
}

async fn connect(client: TcpStream, upstream: SocketAddr, line: watch::Receiver<Line>) {
    let generation = line.borrow().generation;
    let Ok(server) = TcpStream::connect(upstream).await else {
        return;
    };
    if client.set_nodelay(true).is_err() || server.set_nodelay(true).is_err() {
        return;
    }
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let cut = async {
        let mut line = line.clone();
        // An error means that the proxy was dropped, which closes everything too.
        drop(line.wait_for(|line| line.generation != generation).await);
    };
    tokio::select! {
        () = cut => {}
        () = forward(from_client, to_server, line.clone()) => {}
        () = forward(from_server, to_client, line.clone()) => {}
    }
}

/// Forwards one direction until it ends.
async fn forward(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut line: watch::Receiver<Line>) {
    let delays = line.clone();
    let (sender, mut chunks) = mpsc::channel::<(Instant, Vec<u8>)>(CHUNKS_MAX);
    let reading = async move {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(length @ 1..) = from.read(&mut buffer).await {
            let due = Instant::now() + delays.borrow().delay;
            if sender.send((due, buffer[..length].to_vec())).await.is_err() {
                return;
            }
        }
    };
    let writing = async move {
        while let Some((due, chunk)) = chunks.recv().await {
            tokio::time::sleep_until(due).await;
            if line.wait_for(|line| !line.stalled).await.is_err()
                || to.write_all(&chunk).await.is_err()
            {
                return;
            }
        }
    };
    tokio::join!(reading, writing);
}
