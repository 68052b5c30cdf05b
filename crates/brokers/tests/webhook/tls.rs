//! TLS with an authority of the test's own: the right one, a wrong one, and neither side in turn.

use std::path::PathBuf;

use sendoff_brokers::webhook::{Redirects, WebhookOptions, WebhookPublisher};
use sendoff_conformance::servers::Authority;
use sendoff_core::ErrorKind;
use sendoff_core::publisher::PublishClass;

use crate::receiver::{Receiver, message, publish, refusal};

fn trusting(ca_file: PathBuf) -> WebhookOptions {
    WebhookOptions { ca_file: Some(ca_file), ..WebhookOptions::default() }
}

#[tokio::test]
async fn a_receiver_is_trusted_by_its_own_authority_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (right, wrong) = (Authority::new().unwrap(), Authority::new().unwrap());
    let (right_file, wrong_file) = (folder.path().join("right"), folder.path().join("wrong"));
    std::fs::write(&right_file, right.pem()).unwrap();
    std::fs::write(&wrong_file, wrong.pem()).unwrap();
    let server = Receiver::with_tls(&right.certify(&["localhost", "127.0.0.1"]).unwrap());
    for host in ["localhost", "127.0.0.1"] {
        let url = format!("https://{host}:{}/hooks", server.port());
        let publisher = WebhookPublisher::new(&url, trusting(right_file.clone())).unwrap();
        for id in 0..3 {
            publish(&publisher, &message(&id.to_string())).await.unwrap();
        }
        for options in [trusting(wrong_file.clone()), WebhookOptions::default()] {
            let publisher = WebhookPublisher::new(&url, options).unwrap();
            let error = refusal(&publisher, "1").await;
            assert_eq!(error.class(), PublishClass::Unreachable, "{error}");
            assert!(error.detail().contains("invalid peer certificate"), "{error}");
            assert!(error.detail().contains("name its CA file"), "{error}");
        }
    }
    assert_eq!(server.arrived().len(), 6);
}

#[tokio::test]
async fn a_certificate_for_another_name_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new().unwrap();
    let file = folder.path().join("ca");
    std::fs::write(&file, authority.pem()).unwrap();
    let server = Receiver::with_tls(&authority.certify(&["shop.example"]).unwrap());
    let url = format!("https://localhost:{}/", server.port());
    let publisher = WebhookPublisher::new(&url, trusting(file)).unwrap();
    let error = refusal(&publisher, "1").await;
    assert_eq!(error.class(), PublishClass::Unreachable, "{error}");
    assert!(error.detail().contains("not valid for name"), "{error}");
    assert_eq!(server.arrived().len(), 0);
}

#[tokio::test]
async fn tls_on_one_side_only_delivers_nothing() {
    let authority = Authority::new().unwrap();
    let secure = Receiver::with_tls(&authority.certify(&["localhost"]).unwrap());
    let plain = Receiver::start();
    for url in [
        format!("https://localhost:{}/", plain.port()),
        format!("http://localhost:{}/", secure.port()),
    ] {
        let publisher = WebhookPublisher::new(&url, WebhookOptions::default()).unwrap();
        let class = refusal(&publisher, "1").await.class();
        assert!(
            matches!(class, PublishClass::Unreachable | PublishClass::Lost),
            "{url}: {class:?}"
        );
    }
    assert_eq!((secure.arrived().len(), plain.arrived().len()), (0, 0));
}

#[tokio::test]
async fn a_file_without_certificates_is_refused_when_the_publisher_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let key = Authority::new().unwrap().certify(&["hush"]).unwrap().key;
    let garbled = key.replace("-----END", "----END");
    for (name, text) in
        [("none", None), ("empty", Some("")), ("key", Some(&*key)), ("garbled", Some(&*garbled))]
    {
        let file = folder.path().join(name);
        if let Some(text) = text {
            std::fs::write(&file, text).unwrap();
        }
        for (url, redirects) in
            [("https://h/", Redirects::Refuse), ("http://h/", Redirects::Follow)]
        {
            let options = WebhookOptions { redirects, ..trusting(file.clone()) };
            let error = WebhookPublisher::new(url, options).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{name}: {error}");
            let text = error.to_string();
            assert!(text.contains(name) && text.contains("name a PEM file"), "{text}");
            let secret = key.lines().nth(1).unwrap();
            assert!(!format!("{error:?}{text}").contains(secret), "{text}");
        }
    }
}
