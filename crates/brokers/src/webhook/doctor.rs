//! The examination of a webhook: whether its host answers, and whether requests are signed.

use sendoff_core::store::Finding;

use crate::webhook::{WebhookAddress, WebhookOptions, WebhookPublisher};

/// Connects, with TLS where the address asks for it, and sends no request.
pub(crate) async fn examine(
    url: &str,
    address: &WebhookAddress,
    options: &WebhookOptions,
) -> Vec<Finding> {
    let secrets = secrets(options);
    let publisher = match WebhookPublisher::new(url, options.clone()) {
        Ok(publisher) => publisher,
        Err(error) => {
            let next = error.what_next().unwrap_or("mend the setting").to_owned();
            return vec![Finding::failure("target", error.to_string(), next), secrets];
        }
    };
    let target = match publisher.reach().await {
        Ok(()) => Finding::ok("target", format!("the host of {address} answers")),
        Err(error) => Finding::failure(
            "target",
            error.to_string(),
            "see whether the receiver runs, the address, its certificate, and `webhook.private`",
        ),
    };
    vec![target, scheme(url), secrets]
}

fn scheme(url: &str) -> Finding {
    if url.starts_with("https:") {
        return Finding::ok("encryption", "requests go over TLS");
    }
    Finding::warning(
        "encryption",
        "requests go unencrypted",
        "write https:// but on a private line",
    )
}

fn secrets(options: &WebhookOptions) -> Finding {
    match options.secrets.len() {
        0 => Finding::warning(
            "webhook-secrets",
            "requests are not signed: a receiver cannot tell who sends them",
            "set SENDOFF_WEBHOOK_SECRETS, and let the receiver verify the signature",
        ),
        count => Finding::ok("webhook-secrets", format!("requests are signed with {count}")),
    }
}
