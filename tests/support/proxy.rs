//! A TCP proxy that delays, cuts, swallows replies, and changes its target.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A proxy to a port of this machine.
pub struct Proxy {
    pub port: u16,
    ways: Arc<Ways>,
}

/// How it treats what passes.
struct Ways {
    target: watch::Sender<u16>,
    cuts: watch::Sender<u64>,
    swallows: AtomicBool,
    refuses: AtomicBool,
    delay: watch::Sender<Duration>,
    n_swallowed: AtomicUsize,
    n_accepted: AtomicUsize,
}

impl Proxy {
    pub async fn start(target: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().map(|address: SocketAddr| address.port()).unwrap();
        let ways = Arc::new(Ways {
            target: watch::Sender::new(target),
            cuts: watch::Sender::new(0),
            swallows: AtomicBool::new(false),
            refuses: AtomicBool::new(false),
            delay: watch::Sender::new(Duration::ZERO),
            n_swallowed: AtomicUsize::new(0),
            n_accepted: AtomicUsize::new(0),
        });
        let shared = Arc::clone(&ways);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if !shared.refuses.load(Ordering::SeqCst) {
                    shared.n_accepted.fetch_add(1, Ordering::SeqCst);
                    tokio::spawn(Arc::clone(&shared).pass(client));
                }
            }
        });
        Self { port, ways }
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// New connections lead there.
    pub fn lead_to(&self, target: u16) {
        self.ways.target.send_replace(target);
    }

    /// Closes every connection.
    pub fn cut(&self) {
        self.ways.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Whether replies are lost. A connection that has lost one loses all that follow.
    pub fn swallow(&self, replies: bool) {
        self.ways.swallows.store(replies, Ordering::SeqCst);
    }

    /// Whether new connections are closed at once.
    pub fn refuse(&self, connections: bool) {
        self.ways.refuses.store(connections, Ordering::SeqCst);
    }

    /// Replies come that much later.
    pub fn delay(&self, by: Duration) {
        self.ways.delay.send_replace(by);
    }

    /// How many pieces of replies were lost.
    pub fn n_swallowed(&self) -> usize {
        self.ways.n_swallowed.load(Ordering::SeqCst)
    }

    /// How many connections were accepted so far.
    pub fn n_accepted(&self) -> usize {
        self.ways.n_accepted.load(Ordering::SeqCst)
    }
}

impl Ways {
    async fn pass(self: Arc<Self>, client: TcpStream) {
        let mut cuts = self.cuts.subscribe();
        let target = *self.target.borrow();
        let Ok(server) = TcpStream::connect(("127.0.0.1", target)).await else { return };
        let (mut from_client, mut to_client) = client.into_split();
        let (mut from_server, mut to_server) = server.into_split();
        let requests = tokio::io::copy(&mut from_client, &mut to_server);
        let replies = async {
            let (mut piece, mut broken) = (vec![0; 64 * 1024], false);
            while let Ok(n @ 1..) = from_server.read(&mut piece).await {
                let delay = *self.delay.borrow();
                if !delay.is_zero() {
                    tokio::time::sleep(delay).await;
                }
                // No network leaves a piece out and goes on.
                broken |= self.swallows.load(Ordering::SeqCst);
                if broken {
                    self.n_swallowed.fetch_add(1, Ordering::SeqCst);
                } else if to_client.write_all(&piece[..n]).await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            _ = requests => {}
            () = replies => {}
            _ = cuts.changed() => {}
        }
    }
}
