//! The publisher: a signed request for each attempt, and what its answer means.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{
    AUTHORIZATION, HOST, HeaderMap, HeaderValue, LOCATION, RETRY_AFTER, USER_AGENT,
};
use hyper::{Method, Request, Response};
use sendoff_core::publisher::{PublishClass, PublisherLimits};
use sendoff_core::{Error, Message, PublishError, Publisher, Result};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsConnector;
use url::Url;

use crate::tls::{TlsFiles, client_config};
use crate::webhook::WebhookOptions;
use crate::webhook::address::{WebhookAddress, host_and_port, origin, path_and_query, shown};
use crate::webhook::answer::{self, Verdict};
use crate::webhook::connection::{Connection, Dial, Failure};
use crate::webhook::headers::{render, webhook_id};
use crate::webhook::network::Private;
use crate::webhook::pool::Pool;
use crate::webhook::redirect::{self, Redirects};
use crate::webhook::refusals::Refusals;
use crate::webhook::secret::WebhookSecret;

const AGENT: HeaderValue = HeaderValue::from_static(concat!("sendoff/", env!("CARGO_PKG_VERSION")));

/// Posts messages to one URL. See [`crate::webhook`] for what a request looks like and what an
/// answer means.
pub struct WebhookPublisher {
    address: WebhookAddress,
    shown: String,
    options: WebhookOptions,
    tls: Option<TlsConnector>,
    /// Held by the publishes that are under way.
    turns: Semaphore,
    pool: Pool,
    refusals: Mutex<Refusals>,
    closed: watch::Sender<bool>,
}

impl WebhookPublisher {
    /// A publisher to a URL. Reads the certificates to trust; connects at the first publish.
    ///
    /// ```
    /// use sendoff_brokers::webhook::{WebhookOptions, WebhookPublisher, WebhookSecret};
    /// use sendoff_core::Publisher;
    ///
    /// let options = WebhookOptions {
    ///     secrets: WebhookSecret::parse_list("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")?,
    ///     ..WebhookOptions::default()
    /// };
    /// let publisher = WebhookPublisher::new("http://127.0.0.1:8080/hooks", options)?;
    /// assert_eq!(publisher.address(), "http://127.0.0.1:8080/hooks");
    /// # Ok::<(), sendoff_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`sendoff_core::ErrorKind::Invalid`] for a malformed URL, options out of range, and for TLS
    /// without a certificate to trust.
    pub fn new(url: &str, options: WebhookOptions) -> Result<Self> {
        let address = WebhookAddress::parse(url)?;
        let refused = |what: &str| Err(Error::invalid("preparing a webhook", what));
        if !(1..=Semaphore::MAX_PERMITS).contains(&options.in_flight_max) {
            return refused("in_flight_max has to be at least 1");
        }
        if options.connect_timeout.is_zero() || options.answer_timeout.is_zero() {
            return refused("connect_timeout and answer_timeout have to be longer than nothing");
        }
        if options.secrets.len() > WebhookSecret::MAX {
            return refused("there are more secrets than can be used at once");
        }
        let needs_tls = address.url().scheme() == "https" || options.redirects == Redirects::Follow;
        let files = TlsFiles { ca: options.ca_file.clone(), client: None };
        let connector = || client_config(&files).map(|config| TlsConnector::from(Arc::new(config)));
        Ok(Self {
            shown: address.to_string(),
            tls: needs_tls.then(connector).transpose()?,
            turns: Semaphore::new(options.in_flight_max),
            pool: Pool::default(),
            refusals: Mutex::default(),
            closed: watch::Sender::new(false),
            address,
            options,
        })
    }

    /// The headers of one attempt.
    fn sign(
        &self,
        mut headers: HeaderMap,
        id: &str,
        body: &[u8],
    ) -> Result<HeaderMap, PublishError> {
        let timestamp = self.options.clock.now().as_second().to_string();
        let secrets = self.options.secrets.iter();
        let signatures: Vec<String> = secrets.map(|one| one.sign(id, &timestamp, body)).collect();
        let value = |text: &str| {
            HeaderValue::try_from(text).map_err(|_| PublishError::permanent("it cannot be signed"))
        };
        headers.insert("webhook-timestamp", value(&timestamp)?);
        if !signatures.is_empty() {
            headers.insert("webhook-signature", value(&signatures.join(" "))?);
        }
        headers.insert(USER_AGENT, AGENT);
        Ok(headers)
    }

    fn request(
        &self,
        url: &Url,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, PublishError> {
        // The target's own have been tried when it was read; a redirect's may be anything.
        let (Ok(path), Ok(host)) = (path_and_query(url), host_and_port(url)) else {
            return Err(PublishError::unreachable(format!(
                "{} cannot stand in a request; correct the address",
                shown(url)
            )));
        };
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = path;
        *request.headers_mut() = headers.clone();
        request.headers_mut().insert(HOST, host);
        if self.is_targets_own(url)
            && let Some(authorization) = self.address.authorization()
        {
            request.headers_mut().insert(AUTHORIZATION, authorization.clone());
        }
        Ok(request)
    }

    /// Posts to the target and to where it leads, until there is an answer that counts.
    async fn post(&self, id: &str, headers: &HeaderMap, body: &Bytes) -> Result<(), PublishError> {
        let mut url = self.address.url().clone();
        let mut hops = 0;
        loop {
            let request = self.request(&url, headers, body.clone())?;
            let (mut connection, answer) = self.exchange(&url, request).await?;
            let (status, answered) = (answer.status(), answer.headers());
            let retry_after = answered.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
            let seen = shown(&url);
            let verdict = answer::read(status, retry_after, &seen, self.options.clock.now());
            let to = matches!(verdict, Verdict::Moved).then(|| {
                redirect::next(&url, status, answered.get(LOCATION), self.options.redirects, hops)
            });
            if connection.finish(answer).await && self.is_targets_own(&url) {
                self.pool.give_back(connection);
            }
            let everything = match (verdict, to) {
                (Verdict::Done, _) => return Ok(()),
                (Verdict::Refused(error), _) => return Err(error),
                (Verdict::Everything(detail), _) => detail,
                (Verdict::Moved, Some(Ok(next))) => {
                    url = next;
                    hops += 1;
                    continue;
                }
                (Verdict::Moved, Some(Err(why))) => {
                    format!("{seen} answered {}: {why}", answer::named(status))
                }
                (Verdict::Moved, None) => format!("{seen} answered {}", answer::named(status)),
            };
            return Err(self.refusals(|refusals| refusals.refused(id.to_owned(), everything)));
        }
    }

    /// Sends a request on a connection that waits, or on a new one.
    async fn exchange(
        &self,
        url: &Url,
        mut request: Request<Full<Bytes>>,
    ) -> Result<(Connection, Response<Incoming>), PublishError> {
        let lost = |why: String| {
            PublishError::new(
                PublishClass::Lost,
                format!("{}: {why}; it is unknown whether the message arrived", shown(url)),
            )
        };
        while self.is_targets_own(url)
            && let Some(mut connection) = self.pool.take().await
        {
            match connection.exchange(request).await {
                Ok(answer) => return Ok((connection, answer)),
                Err(Failure::Lost(why)) => return Err(lost(why)),
                // It had ended while it waited, and nothing of the request was written.
                Err(Failure::NotSent(unsent)) => request = *unsent,
            }
        }
        let mut connection = Connection::open(url, self.dial(url)).await?;
        match connection.exchange(request).await {
            Ok(answer) => Ok((connection, answer)),
            Err(Failure::Lost(why)) => Err(lost(why)),
            Err(Failure::NotSent(_)) => Err(PublishError::unreachable(format!(
                "the connection to {} ended; the message was not sent",
                origin(url)
            ))),
        }
    }

    /// Connects to the target's host and sends nothing.
    ///
    /// # Errors
    /// Of class `Unreachable`, with the reason.
    pub(super) async fn reach(&self) -> Result<(), PublishError> {
        let url = self.address.url();
        Connection::open(url, self.dial(url)).await.map(drop)
    }

    fn dial(&self, url: &Url) -> Dial<'_> {
        let private_is_fine = match self.options.private {
            Private::Always => true,
            Private::Target => self.is_targets_own(url),
            Private::Never => false,
        };
        Dial {
            tls: self.tls.as_ref(),
            public_only: !private_is_fine,
            timeout: self.options.connect_timeout,
        }
    }

    fn is_targets_own(&self, url: &Url) -> bool {
        url.origin() == self.address.url().origin()
    }

    fn refusals<T>(&self, act: impl FnOnce(&mut Refusals) -> T) -> T {
        act(&mut self.refusals.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Awaits `publish` unless the publisher is closed meanwhile.
    async fn unless_closed(
        &self,
        publish: impl Future<Output = Result<(), PublishError>>,
    ) -> Result<(), PublishError> {
        let mut closed = self.closed.subscribe();
        let closing = async {
            // It cannot fail while the sender is here.
            drop(closed.wait_for(|closed| *closed).await);
        };
        tokio::select! {
            biased;
            () = closing => Err(PublishError::new(
                PublishClass::Lost,
                "the publisher was closed; it is unknown whether the message arrived",
            )),
            outcome = publish => outcome,
        }
    }
}

#[async_trait]
impl Publisher for WebhookPublisher {
    fn address(&self) -> &str {
        &self.shown
    }

    fn limits(&self) -> PublisherLimits {
        PublisherLimits { in_flight_max: self.options.in_flight_max, ..PublisherLimits::default() }
    }

    async fn publish(&self, message: &Message) -> Result<(), PublishError> {
        let turn = self.turns.acquire().await;
        if turn.is_err() || *self.closed.borrow() {
            return Err(PublishError::unreachable("the publisher is closed"));
        }
        let id = webhook_id(message);
        let headers = self.sign(render(message)?, &id, message.body())?;
        let timeout = self.options.answer_timeout;
        let posting = tokio::time::timeout(timeout, self.post(&id, &headers, message.body()));
        self.unless_closed(async {
            posting.await.unwrap_or_else(|_| {
                Err(PublishError::new(
                    PublishClass::TimedOut,
                    format!(
                        "{} did not answer within {timeout:?}; it is unknown whether the message \
                         arrived",
                        self.shown
                    ),
                ))
            })
        })
        .await?;
        self.refusals(Refusals::confirmed);
        Ok(())
    }

    /// Ends the connections that wait. A publish that was dropped has ended its own already, and
    /// the others go on.
    async fn reset(&self) {
        self.pool.clear();
    }

    async fn close(&self) {
        self.closed.send_replace(true);
        self.turns.close();
        self.pool.clear();
    }
}

impl fmt::Debug for WebhookPublisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookPublisher")
            .field("address", &self.address)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
