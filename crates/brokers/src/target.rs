//! A publisher for every URL that names a target.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use sendoff_core::store::Finding;
use sendoff_core::{Error, Publisher, Result};

#[cfg(feature = "file")]
use crate::file::{FileAddress, FilePublisher, StdoutPublisher};
#[cfg(feature = "nats")]
use crate::nats::{NatsAddress, NatsOptions, NatsPublisher};
#[cfg(feature = "webhook")]
use crate::webhook::{WebhookAddress, WebhookOptions, WebhookPublisher};

const DOING: &str = "reading a target";
const EXAMPLES: &str = "targets are nats://127.0.0.1:4222/ORDERS, https://shop.example/hooks, \
                        file:out.jsonl, file:/var/out.jsonl and stdout:";

/// Where messages go, read from a URL and not opened yet.
///
/// The schemes are `nats:` and `tls:`, `https:` and `http:`, `file:` and `stdout:`; the modules
/// `nats`, `webhook` and `file` have their rules.
#[derive(Clone)]
pub struct Target(Kind);

#[derive(Clone)]
enum Kind {
    /// The URL as it came, with its password.
    #[cfg(feature = "nats")]
    Nats { url: String, address: NatsAddress },
    /// The URL as it came, with its password.
    #[cfg(feature = "webhook")]
    Webhook { url: String, address: WebhookAddress },
    #[cfg(feature = "file")]
    File(FileAddress),
    #[cfg(feature = "file")]
    Stdout,
}

/// How targets are published to: the part that does not stand in a URL.
#[derive(Debug, Clone, Default)]
pub struct TargetOptions {
    /// For NATS.
    #[cfg(feature = "nats")]
    pub nats: NatsOptions,
    /// For webhooks.
    #[cfg(feature = "webhook")]
    pub webhook: WebhookOptions,
}

impl Target {
    /// Reads a URL; opens nothing and connects nowhere.
    ///
    /// ```
    /// # #[cfg(feature = "file")] {
    /// use sendoff_brokers::Target;
    /// assert_eq!(Target::read("file:///var/out.jsonl")?.to_string(), "file:/var/out.jsonl");
    /// assert!(Target::read("out.jsonl").is_err());
    /// # }
    /// # Ok::<(), sendoff_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`sendoff_core::ErrorKind::Invalid`] with the reason and examples, also for a scheme that
    /// this program was built without.
    pub fn read(url: &str) -> Result<Self> {
        let Some((scheme, rest)) = url.split_once(':') else {
            return Err(refused("there is no scheme before a colon"));
        };
        match scheme {
            #[cfg(feature = "nats")]
            "nats" | "tls" => {
                Ok(Self(Kind::Nats { url: url.to_owned(), address: NatsAddress::parse(url)? }))
            }
            #[cfg(feature = "webhook")]
            "https" | "http" => Ok(Self(Kind::Webhook {
                url: url.to_owned(),
                address: WebhookAddress::parse(url)?,
            })),
            #[cfg(feature = "file")]
            "file" => Ok(Self(Kind::File(FileAddress::parse(url)?))),
            #[cfg(feature = "file")]
            "stdout" if rest.is_empty() => Ok(Self(Kind::Stdout)),
            #[cfg(feature = "file")]
            "stdout" => Err(refused("nothing stands after stdout:")),
            #[cfg(not(feature = "nats"))]
            "nats" | "tls" => Err(refused("this program was built without the feature `nats`")),
            #[cfg(not(feature = "webhook"))]
            "https" | "http" => {
                Err(refused("this program was built without the feature `webhook`"))
            }
            #[cfg(not(feature = "file"))]
            "file" | "stdout" => Err(refused("this program was built without the feature `file`")),
            _ if rest.starts_with("//") || !scheme.contains(['/', '.']) => {
                Err(refused(format!("there is no scheme {scheme:?}")))
            }
            _ => Err(refused("there is no scheme before a colon")),
        }
    }

    /// Opens the target with the default options. A file is created and locked; NATS and webhooks
    /// are connected to at the first publish.
    ///
    /// # Errors
    /// Those of the publisher's constructor.
    pub fn open(&self) -> Result<Arc<dyn Publisher>> {
        self.open_with(&TargetOptions::default())
    }

    /// As [`Target::open`], with options of one's own.
    ///
    /// # Errors
    /// Those of the publisher's constructor.
    pub fn open_with(&self, options: &TargetOptions) -> Result<Arc<dyn Publisher>> {
        // Files have none.
        let _ = options;
        match &self.0 {
            #[cfg(feature = "nats")]
            Kind::Nats { url, .. } => Ok(Arc::new(NatsPublisher::new(url, options.nats.clone())?)),
            #[cfg(feature = "webhook")]
            Kind::Webhook { url, .. } => {
                Ok(Arc::new(WebhookPublisher::new(url, options.webhook.clone())?))
            }
            #[cfg(feature = "file")]
            Kind::File(address) => Ok(Arc::new(FilePublisher::open(address.path())?)),
            #[cfg(feature = "file")]
            Kind::Stdout => Ok(Arc::new(StdoutPublisher::new())),
        }
    }

    /// Examines the target: whether it can be reached, whether what it needs is there, whether a
    /// repetition is recognised. `repeated_after` is the longest time that may lie between two publishes
    /// of one message. Publishes, creates and changes nothing.
    pub async fn examine(&self, options: &TargetOptions, repeated_after: Duration) -> Vec<Finding> {
        // Files have neither.
        let _ = (options, repeated_after);
        match &self.0 {
            #[cfg(feature = "nats")]
            Kind::Nats { address, .. } => {
                crate::nats::examine(address, &options.nats, repeated_after).await
            }
            #[cfg(feature = "webhook")]
            Kind::Webhook { url, address } => {
                crate::webhook::examine(url, address, &options.webhook).await
            }
            #[cfg(feature = "file")]
            Kind::File(address) => vec![crate::file::examine(address)],
            #[cfg(feature = "file")]
            Kind::Stdout => vec![Finding::ok("target", "standard output")],
        }
    }

    /// Reads a URL and opens it: [`Target::read`], then [`Target::open`].
    ///
    /// # Errors
    /// Those of both.
    pub fn parse(url: &str) -> Result<Arc<dyn Publisher>> {
        Self::read(url)?.open()
    }
}

impl fmt::Display for Target {
    /// The target for people: no password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            #[cfg(feature = "nats")]
            Kind::Nats { address, .. } => address.fmt(f),
            #[cfg(feature = "webhook")]
            Kind::Webhook { address, .. } => address.fmt(f),
            #[cfg(feature = "file")]
            Kind::File(address) => address.fmt(f),
            #[cfg(feature = "file")]
            Kind::Stdout => f.write_str("stdout:"),
        }
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({self})")
    }
}

fn refused(reason: impl Into<String>) -> Error {
    Error::invalid(DOING, reason).advice(EXAMPLES)
}

#[cfg(all(test, feature = "nats", feature = "file", feature = "webhook"))]
mod tests {
    use sendoff_core::ErrorKind;

    use super::Target;

    #[test]
    fn every_scheme_opens_its_publisher() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.jsonl");
        for url in [format!("file:{}", path.display()), format!("file://{}", path.display())] {
            let publisher = Target::parse(&url).unwrap();
            assert_eq!(publisher.address(), format!("file:{}", path.display()));
        }
        assert_eq!(Target::parse("stdout:").unwrap().address(), "stdout:");
        let nats = Target::parse("nats://me:hush@127.0.0.1:1/S").unwrap();
        assert_eq!(nats.address(), "nats://127.0.0.1:1/S");
        let webhook = Target::parse("http://me:hush@127.0.0.1:1/a?hush").unwrap();
        assert_eq!(webhook.address(), "http://127.0.0.1:1/a?***");
        let read = Target::read("nats://me:hush@127.0.0.1:1/S").unwrap();
        assert_eq!(format!("{read:?}"), "Target(nats://127.0.0.1:1/S)");
    }

    #[test]
    fn what_is_no_target_is_refused_with_examples() {
        for (url, reason) in [
            ("", "no scheme before a colon"),
            ("out.jsonl", "no scheme before a colon"),
            ("./a:b", "no scheme before a colon"),
            ("kafka://h/t", "no scheme \"kafka\""),
            ("stdout:x", "nothing stands after stdout:"),
            ("nats:x", "does not begin with nats://"),
            ("http:x", "does not begin with https:// or http://"),
            ("file:", "names no file"),
        ] {
            let error = Target::read(url).expect_err(url);
            assert_eq!(error.kind(), ErrorKind::Invalid, "{url}");
            let text = error.to_string();
            assert!(text.contains(reason), "{url}: {text}");
            let examples = ["file:out.jsonl", "nats://127.0.0.1", "https://shop.example"];
            assert!(examples.iter().any(|example| text.contains(example)), "{text}");
        }
    }
}
