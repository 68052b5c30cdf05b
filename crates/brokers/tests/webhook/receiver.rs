//! An HTTP server on a thread and a runtime of its own, so that it can be stopped in its tracks and
//! killed as a process can.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use sendoff_brokers::webhook::{WebhookOptions, WebhookPublisher, read_delivery};
use sendoff_conformance::publisher::Arrival;
use sendoff_conformance::servers::{Certified, free_port};
use sendoff_core::{Message, PublishError, Publisher};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A request that has arrived whole.
#[derive(Debug, Clone)]
pub(crate) struct Arrived {
    pub(crate) method: Method,
    pub(crate) uri: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Arrived {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

pub(crate) type Answer = Response<Full<Bytes>>;

/// What a server has and does; it outlives the server's death, as a disk does.
struct Desk {
    arrived: Mutex<Vec<Arrived>>,
    answer: Box<dyn Fn(&Arrived) -> Answer + Send + Sync>,
    tls: Option<TlsAcceptor>,
    connections: AtomicUsize,
}

enum Command {
    /// Stand still until the receiver gets something.
    Pause(mpsc::Sender<()>, mpsc::Receiver<Wake>),
    Kill,
}

enum Wake {
    Resume,
    Kill,
}

pub(crate) struct Receiver {
    address: SocketAddr,
    desk: Arc<Desk>,
    running: Option<(UnboundedSender<Command>, JoinHandle<()>)>,
    paused: Option<mpsc::Sender<Wake>>,
}

impl Receiver {
    /// A server that says 204 to everything.
    pub(crate) fn start() -> Self {
        Self::answering(|_| status(204))
    }

    pub(crate) fn answering(answer: impl Fn(&Arrived) -> Answer + Send + Sync + 'static) -> Self {
        Self::start_with(None, answer)
    }

    /// A server with TLS.
    pub(crate) fn with_tls(certified: &Certified) -> Self {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(certified.certificate.as_bytes())
            .collect::<Result<_, _>>()
            .unwrap();
        let key = PrivateKeyDer::from_pem_slice(certified.key.as_bytes()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        Self::start_with(Some(TlsAcceptor::from(Arc::new(config))), |_| status(204))
    }

    fn start_with(
        tls: Option<TlsAcceptor>,
        answer: impl Fn(&Arrived) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let desk = Arc::new(Desk {
            arrived: Mutex::default(),
            answer: Box::new(answer),
            tls,
            connections: AtomicUsize::new(0),
        });
        let address = (Ipv4Addr::LOCALHOST, free_port().unwrap()).into();
        let mut receiver = Self { address, desk, running: None, paused: None };
        receiver.restart();
        receiver
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn arrived(&self) -> Vec<Arrived> {
        self.desk.arrived.lock().unwrap().clone()
    }

    pub(crate) fn arrivals(&self) -> Vec<Arrival> {
        let read = |request: Arrived| Arrival {
            dedup_id: request.header("webhook-id").to_owned(),
            message: read_delivery(&request.headers, request.body).unwrap(),
        };
        self.arrived().into_iter().map(read).collect()
    }

    /// How many connections there have been.
    pub(crate) fn connections(&self) -> usize {
        self.desk.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn restart(&mut self) {
        self.kill();
        let listener = TcpListener::bind(self.address).unwrap();
        listener.set_nonblocking(true).unwrap();
        let (sender, commands) = unbounded_channel();
        let desk = Arc::clone(&self.desk);
        let thread = std::thread::spawn(move || serve(listener, &desk, commands));
        self.running = Some((sender, thread));
    }

    /// Open connections end, and new ones are refused.
    pub(crate) fn kill(&mut self) {
        if let Some(paused) = self.paused.take() {
            drop(paused.send(Wake::Kill));
        }
        if let Some((sender, thread)) = self.running.take() {
            drop(sender.send(Command::Kill));
            thread.join().unwrap();
        }
    }

    /// Nothing is read and nothing answered; the operating system goes on.
    pub(crate) fn pause(&mut self) {
        let (stands, standing) = mpsc::channel();
        let (wake, waking) = mpsc::channel();
        self.running.as_ref().unwrap().0.send(Command::Pause(stands, waking)).ok().unwrap();
        standing.recv().unwrap();
        self.paused = Some(wake);
    }

    pub(crate) fn resume(&mut self) {
        self.paused.take().unwrap().send(Wake::Resume).unwrap();
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.kill();
    }
}

fn serve(listener: TcpListener, desk: &Arc<Desk>, mut commands: UnboundedReceiver<Command>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        tokio::spawn(accept(
            tokio::net::TcpListener::from_std(listener).unwrap(),
            Arc::clone(desk),
        ));
        while let Some(Command::Pause(stands, wake)) = commands.recv().await {
            stands.send(()).unwrap();
            // The one thread of this runtime: everything stands.
            let Ok(Wake::Resume) = wake.recv() else { return };
        }
    });
}

async fn accept(listener: tokio::net::TcpListener, desk: Arc<Desk>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        desk.connections.fetch_add(1, Ordering::SeqCst);
        let desk = Arc::clone(&desk);
        tokio::spawn(async move {
            let acceptor = desk.tls.clone();
            let service = service_fn(move |request| answer(Arc::clone(&desk), request));
            let mut http = http1::Builder::new();
            // More than the default of 100: messages have as many of their own.
            http.max_headers(400);
            // An end in the middle is the client's right.
            match acceptor {
                Some(acceptor) => {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        drop(http.serve_connection(TokioIo::new(stream), service).await);
                    }
                }
                None => drop(http.serve_connection(TokioIo::new(stream), service).await),
            }
        });
    }
}

async fn answer(desk: Arc<Desk>, request: Request<Incoming>) -> Result<Answer, Infallible> {
    let (head, body) = request.into_parts();
    let Ok(body) = body.collect().await else {
        return Ok(status(400));
    };
    let request = Arrived {
        method: head.method,
        uri: head.uri.to_string(),
        headers: head.headers,
        body: body.to_bytes(),
    };
    let answer = (desk.answer)(&request);
    desk.arrived.lock().unwrap().push(request);
    Ok(answer)
}

pub(crate) fn status(code: u16) -> Answer {
    let mut answer = Answer::default();
    *answer.status_mut() = StatusCode::from_u16(code).unwrap();
    answer
}

pub(crate) fn status_with(code: u16, name: &'static str, value: &str) -> Answer {
    let mut answer = status(code);
    answer.headers_mut().insert(name, value.parse().unwrap());
    answer
}

pub(crate) fn publisher(url: &str) -> WebhookPublisher {
    WebhookPublisher::new(url, WebhookOptions::default()).unwrap()
}

pub(crate) fn message(id: &str) -> Message {
    Message::builder("shop", "orders.placed").id(id).body("{}").build().unwrap()
}

pub(crate) async fn publish(
    publisher: &WebhookPublisher,
    message: &Message,
) -> Result<(), PublishError> {
    let patience = std::time::Duration::from_secs(30);
    tokio::time::timeout(patience, publisher.publish(message)).await.unwrap()
}

pub(crate) async fn refusal(publisher: &WebhookPublisher, id: &str) -> PublishError {
    publish(publisher, &message(id)).await.unwrap_err()
}
