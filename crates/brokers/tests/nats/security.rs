//! TLS and logins by file, against servers that ask for them.

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use nkeys::KeyPair;
use sendoff_brokers::nats::{NatsOptions, NatsPublisher};
use sendoff_conformance::servers::{Authority, Certified};
use sendoff_core::publisher::PublishClass;
use sendoff_core::{Message, PublishError, Publisher};

use crate::server::Server;

/// A folder with the files that a URL names.
struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> String {
        std::fs::write(self.path(name), text).unwrap();
        self.parameter(name)
    }

    /// A path as it stands in a URL.
    fn parameter(&self, name: &str) -> String {
        self.path(name).display().to_string().replace('/', "%2F")
    }

    fn certified(&self, name: &str, certified: &Certified) -> String {
        let cert = self.write(&format!("{name}.crt"), &certified.certificate);
        let key = self.write(&format!("{name}.key"), &certified.key);
        format!("cert={cert}&key={key}")
    }
}

/// A server that speaks TLS; with `verify` it asks for a client's certificate, too.
fn tls_server(files: &Files, authority: &Authority, verify: bool) -> Server {
    let ca = files.path("ca.pem");
    std::fs::write(&ca, authority.pem()).unwrap();
    files.certified("server", &authority.certify(&["localhost"]).unwrap());
    let quoted = |path: &Path| format!("{:?}", path.display().to_string());
    Server::start(&[&format!(
        "tls {{ cert_file: {}, key_file: {}, ca_file: {}, verify: {verify} }}",
        quoted(&files.path("server.crt")),
        quoted(&files.path("server.key")),
        quoted(&ca),
    )])
}

async fn publish(url: &str) -> Result<(), PublishError> {
    let publisher = NatsPublisher::new(url, NatsOptions::default()).unwrap();
    let message = Message::builder("shop", "placed").id("1").body("{}").build().unwrap();
    let patience = std::time::Duration::from_secs(30);
    let outcome = tokio::time::timeout(patience, publisher.publish(&message)).await.unwrap();
    publisher.close().await;
    outcome
}

async fn unreachable(url: &str) -> String {
    let error = publish(url).await.unwrap_err();
    assert_eq!(error.class(), PublishClass::Unreachable, "{url}: {error}");
    error.detail().to_owned()
}

#[tokio::test]
async fn a_server_is_trusted_by_its_own_authority_alone() {
    let files = Files::new();
    let authority = Authority::new().unwrap();
    let server = tls_server(&files, &authority, false);
    let port = server.nats.port();
    let ca = files.parameter("ca.pem");
    publish(&format!("tls://localhost:{port}/ORDERS?create=true&ca={ca}")).await.unwrap();
    let other = files.write("other.pem", Authority::new().unwrap().pem());
    for url in [
        format!("tls://localhost:{port}/ORDERS?ca={other}"),
        format!("tls://localhost:{port}/ORDERS"),
        format!("nats://localhost:{port}/ORDERS"),
        // Not a name of its certificate.
        format!("tls://127.0.0.1:{port}/ORDERS?ca={ca}"),
    ] {
        let error = unreachable(&url).await;
        assert!(error.contains("certificate") && error.contains("?ca=PATH"), "{url}: {error}");
    }
}

#[tokio::test]
async fn nothing_is_said_to_a_server_without_tls_where_tls_is_asked_for() {
    let server = Server::start(&["authorization { user: me, password: hush }"]);
    let rest = format!("me:hush@127.0.0.1:{}/ORDERS?create=true", server.nats.port());
    let error = unreachable(&format!("tls://{rest}")).await;
    assert!(!error.contains("hush"), "{error}");
    // It is nothing else that keeps it out.
    publish(&format!("nats://{rest}")).await.unwrap();
}

#[tokio::test]
async fn a_clients_certificate_lets_it_in() {
    let files = Files::new();
    let authority = Authority::new().unwrap();
    let server = tls_server(&files, &authority, true);
    let url = format!(
        "tls://localhost:{}/ORDERS?create=true&ca={}",
        server.nats.port(),
        files.parameter("ca.pem")
    );
    let right = files.certified("client", &authority.certify(&["client"]).unwrap());
    publish(&format!("{url}&{right}")).await.unwrap();
    let stranger = Authority::new().unwrap().certify(&["client"]).unwrap();
    let wrong = files.certified("stranger", &stranger);
    unreachable(&url).await;
    unreachable(&format!("{url}&{wrong}")).await;
}

#[tokio::test]
async fn an_nkey_seed_from_a_file_lets_it_in() {
    let files = Files::new();
    let user = KeyPair::new_user();
    let server = Server::start(&[&format!(
        "authorization {{ users = [ {{ nkey: {} }} ] }}",
        user.public_key()
    )]);
    let url = |seed: &str| server.url(&format!("ORDERS?create=true&nkey={seed}"));
    let right = files.write("right.nk", &format!("{}\n", user.seed().unwrap()));
    publish(&url(&right)).await.unwrap();
    let wrong = files.write("wrong.nk", &KeyPair::new_user().seed().unwrap());
    let error = unreachable(&url(&wrong)).await;
    assert!(error.contains("authorization violation; correct the user"), "{error}");
    unreachable(&server.url("ORDERS")).await;
}

#[tokio::test]
async fn a_token_lets_it_in_and_is_shown_nowhere() {
    let server = Server::start(&["authorization { token: right }"]);
    let url =
        |token: &str| format!("nats://{token}@127.0.0.1:{}/ORDERS?create=true", server.nats.port());
    publish(&url("right")).await.unwrap();
    let error = unreachable(&url("hush")).await;
    assert!(error.contains("authorization violation"), "{error}");
    assert!(!error.contains("hush"), "{error}");
}

/// A JSON web token as NATS signs them.
fn token(issuer: &KeyPair, subject: &KeyPair, nats: &str) -> String {
    let part = |text: &str| BASE64_URL_SAFE_NO_PAD.encode(text);
    let claims = format!(
        r#"{{"jti":"1","iat":1700000000,"iss":"{}","sub":"{}","name":"test","nats":{nats}}}"#,
        issuer.public_key(),
        subject.public_key()
    );
    let signed = format!("{}.{}", part(r#"{"typ":"JWT","alg":"ed25519-nkey"}"#), part(&claims));
    let signature = BASE64_URL_SAFE_NO_PAD.encode(issuer.sign(signed.as_bytes()).unwrap());
    format!("{signed}.{signature}")
}

const OPERATOR: &str = r#"{"type":"operator","version":2}"#;
const ACCOUNT: &str = r#"{"limits":{"subs":-1,"data":-1,"payload":-1,"imports":-1,"exports":-1,
    "wildcards":true,"conn":-1,"leaf":-1,"mem_storage":-1,"disk_storage":-1,"streams":-1,
    "consumer":-1},"type":"account","version":2}"#;
const SYSTEM: &str = r#"{"limits":{"subs":-1,"data":-1,"payload":-1,"imports":-1,"exports":-1,
    "wildcards":true,"conn":-1,"leaf":-1},"type":"account","version":2}"#;
const USER: &str =
    r#"{"pub":{},"sub":{},"subs":-1,"data":-1,"payload":-1,"type":"user","version":2}"#;

fn credentials(account: &KeyPair, user: &KeyPair) -> String {
    format!(
        "-----BEGIN NATS USER JWT-----\n{}\n------END NATS USER JWT------\n\n\
         -----BEGIN USER NKEY SEED-----\n{}\n------END USER NKEY SEED------\n",
        token(account, user, USER),
        user.seed().unwrap()
    )
}

#[tokio::test]
async fn a_credentials_file_lets_it_in_and_is_read_anew_at_each_connect() {
    let files = Files::new();
    let (operator, account, system) =
        (KeyPair::new_operator(), KeyPair::new_account(), KeyPair::new_account());
    let server = Server::start(&[
        &format!("operator: {:?}", token(&operator, &operator, OPERATOR)),
        &format!("system_account: {}", system.public_key()),
        "resolver: MEMORY",
        &format!(
            "resolver_preload {{ {}: {:?}, {}: {:?} }}",
            account.public_key(),
            token(&operator, &account, ACCOUNT),
            system.public_key(),
            token(&operator, &system, SYSTEM),
        ),
    ]);
    let url = server.url(&format!(
        "ORDERS?create=true&credentials={}",
        files.write("user.creds", &credentials(&KeyPair::new_account(), &KeyPair::new_user()))
    ));
    let publisher = NatsPublisher::new(&url, NatsOptions::default()).unwrap();
    let message = Message::builder("shop", "placed").id("1").body("{}").build().unwrap();
    let error = publisher.publish(&message).await.unwrap_err();
    assert_eq!(error.class(), PublishClass::Unreachable, "{error}");
    assert!(error.detail().contains("authorization violation"), "{error}");
    // The file is put right; nothing is restarted.
    files.write("user.creds", &credentials(&account, &KeyPair::new_user()));
    publisher.publish(&message).await.unwrap();
    publisher.close().await;
}

#[tokio::test]
async fn a_file_that_is_wrong_is_named_and_nothing_of_it_is_quoted() {
    let server = Server::start(&[]);
    let files = Files::new();
    let missing = files.parameter("missing");
    let broken = files.write("broken", "SUAHUSH hush\n-----BEGIN HUSH-----\nhush\n");
    let port = server.nats.port();
    let client = files.certified("client", &Authority::new().unwrap().certify(&["a"]).unwrap());
    let other = files.certified("other", &Authority::new().unwrap().certify(&["a"]).unwrap());
    let mixed =
        format!("{}&{}", client.split('&').next().unwrap(), other.split('&').next_back().unwrap());
    for (scheme, parameters, expected) in [
        ("nats", format!("credentials={missing}"), "missing cannot be read"),
        ("nats", format!("nkey={missing}"), "missing cannot be read"),
        ("nats", format!("credentials={broken}"), "broken has no user JWT"),
        ("nats", format!("nkey={broken}"), "broken has no seed of an nkey"),
        ("tls", format!("ca={missing}"), "it cannot be read"),
        ("tls", format!("ca={broken}"), "name a PEM file with certificates"),
        ("tls", format!("cert={broken}&key={broken}"), "name a PEM file with certificates"),
        ("tls", client.replace("client.key", "missing"), "name a PEM file with the private key"),
        ("tls", mixed, "name a certificate and the key that belongs to it"),
    ] {
        let url = format!("{scheme}://localhost:{port}/ORDERS?{parameters}");
        let error = unreachable(&url).await;
        assert!(error.contains(expected), "{url}: {error}");
        assert!(!error.to_lowercase().contains("hush"), "{url}: {error}");
    }
}
