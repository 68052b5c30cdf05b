//! TLS to a private server: what each mode asks of it, and what is refused.

use std::time::Duration;

use sendoff_conformance::servers::{Authority, Postgres, PostgresConfig};
use sendoff_core::store::{OutboxDesk, OutboxStore, SchemaState};
use sendoff_core::{Error, ErrorKind};
use sendoff_stores::postgres::{PostgresOptions, PostgresStore};

use crate::stage::message;

/// A server with TLS by an authority of its own, whose certificate is for `localhost` alone, and files
/// for its clients.
struct Ground {
    server: Postgres,
    folder: tempfile::TempDir,
}

impl Ground {
    /// `client` says whether a client's certificate is asked for.
    fn new(client: bool) -> Self {
        let authority = Authority::new().unwrap();
        let other = Authority::new().unwrap();
        let certified = authority.certify(&["localhost"]).unwrap();
        let (known, unknown) =
            (authority.certify(&["teller"]).unwrap(), other.certify(&["teller"]).unwrap());
        let rest = if client { "cert" } else { "trust" };
        let host = format!(
            "local all all trust\nhost all postgres 127.0.0.1/32 trust\n\
             hostssl all all 127.0.0.1/32 {rest}\nhostssl all all ::1/128 {rest}\n\
             hostnossl all all 127.0.0.1/32 trust\n"
        );
        let server = Postgres::start_with(PostgresConfig {
            settings: [
                ("ssl", "on"),
                ("ssl_cert_file", "server.crt"),
                ("ssl_key_file", "server.key"),
                ("ssl_ca_file", "ca.crt"),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
            files: [
                ("server.crt", certified.certificate.as_str()),
                ("server.key", &certified.key),
                ("ca.crt", authority.pem()),
                ("pg_hba.conf", &host),
            ]
            .map(|(name, text)| (name.to_owned(), text.to_owned()))
            .into(),
            ..PostgresConfig::default()
        })
        .unwrap();
        server.execute("postgres", "CREATE ROLE teller LOGIN SUPERUSER").unwrap();
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("ca.pem", authority.pem()),
            ("other.pem", other.pem()),
            ("known.pem", &known.certificate),
            ("known.key", &known.key),
            ("unknown.pem", &unknown.certificate),
            ("unknown.key", &unknown.key),
            ("no.pem", "-----BEGIN PRIVATE KEY-----\nc2VjcmV0LXdvcmQ=\n"),
        ] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        Self { server, folder }
    }

    /// A store; `{}` in the query stands for the folder of files.
    fn open(&self, host: &str, query: &str) -> sendoff_core::Result<PostgresStore> {
        let folder = self.folder.path().display().to_string();
        let port = self.server.port();
        let query = query.replace("{}", &folder);
        let url = format!("postgres://teller:hidden-word@{host}:{port}/postgres?{query}");
        PostgresStore::new(&url, PostgresOptions::default())
    }

    async fn works(&self, host: &str, query: &str) {
        let store = self.open(host, query).unwrap();
        let schema = store.schema().await;
        assert!(schema.is_ok(), "{query}: {schema:?}");
    }

    async fn refused(&self, host: &str, query: &str) -> Error {
        let error = match self.open(host, query) {
            Ok(store) => store.schema().await.expect_err(query),
            Err(error) => error,
        };
        let text = format!("{error} {error:?}");
        assert!(!text.contains("hidden-word") && !text.contains("c2Vjcm"), "{text}");
        error
    }

    /// How many of the connections of `teller` have TLS, and how many there are.
    fn encrypted(&self) -> String {
        let sql = "SELECT count(*) FILTER (WHERE s.ssl) || ' of ' || count(*) FROM pg_stat_ssl s \
                     JOIN pg_stat_activity a USING (pid) WHERE a.usename = 'teller'";
        self.server.execute("postgres", sql).unwrap().trim().to_owned()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_connection_of_a_store_is_encrypted_and_verified_where_that_is_asked() {
    let ground = Ground::new(false);
    let store = ground.open("localhost", "sslmode=verify-full&sslrootcert={}/ca.pem").unwrap();
    assert_eq!(store.migrate().await.unwrap().state, SchemaState::Current);
    // The listener has a connection of its own; its first news is that it is there.
    tokio::time::timeout(Duration::from_secs(30), store.news()).await.unwrap().unwrap();
    store.send_all(&[message("1", "k")]).await.unwrap();
    assert_eq!(ground.encrypted(), "2 of 2");
    drop(store);

    for query in
        ["sslmode=require", "sslmode=prefer", "", "sslmode=verify-ca&sslrootcert={}/ca.pem"]
    {
        let store = ground.open("127.0.0.1", query).unwrap();
        store.stats().await.unwrap();
        assert_eq!(ground.encrypted(), "1 of 1", "{query}");
        drop(store);
        crate::stage::eventually("it is closed", || async {
            (ground.encrypted() == "0 of 0").then_some(())
        })
        .await;
    }
    let store = ground.open("127.0.0.1", "sslmode=disable").unwrap();
    store.stats().await.unwrap();
    assert_eq!(ground.encrypted(), "0 of 1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_authority_another_name_and_no_authority_are_refused_with_what_to_do() {
    let ground = Ground::new(false);
    for mode in ["verify-ca", "verify-full", "require"] {
        let query = format!("sslmode={mode}&sslrootcert={{}}/other.pem");
        let error = ground.refused("localhost", &query).await;
        assert_eq!(error.kind(), ErrorKind::Denied, "{mode}: {error}");
        assert!(error.to_string().contains("sslrootcert"), "{error}");
    }
    // The certificate is for localhost.
    let error = ground.refused("127.0.0.1", "sslmode=verify-full&sslrootcert={}/ca.pem").await;
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert!(error.to_string().contains("verify-ca"), "{error}");
    ground.works("127.0.0.1", "sslmode=verify-ca&sslrootcert={}/ca.pem").await;
    // The system's authorities do not know this one; a system without any says so.
    for query in ["sslmode=verify-full", "sslmode=verify-ca", "sslmode=require&sslrootcert=system"]
    {
        let error = ground.refused("localhost", query).await;
        assert!(matches!(error.kind(), ErrorKind::Denied | ErrorKind::Invalid), "{query}: {error}");
    }
    for (query, word) in [
        ("sslmode=verify-full&sslrootcert={}/none.pem", "none.pem"),
        ("sslmode=verify-full&sslrootcert={}/no.pem", "no.pem"),
    ] {
        let error = ground.refused("localhost", query).await;
        assert_eq!(error.kind(), ErrorKind::Invalid, "{query}");
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_tls_is_refused_where_tls_is_required_and_taken_where_it_is_preferred() {
    let server = tokio::task::spawn_blocking(|| Postgres::start().unwrap()).await.unwrap();
    let open = |query: &str| {
        PostgresStore::new(&format!("{}?{query}", server.url()), PostgresOptions::default())
            .unwrap()
    };
    let error = open("sslmode=require").schema().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert!(error.to_string().contains("ssl = on"), "{error}");
    open("sslmode=prefer").schema().await.unwrap();
    open("sslmode=disable").schema().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_asks_for_a_certificate_takes_the_one_it_knows_and_no_other() {
    let ground = Ground::new(true);
    let with = |name: &str| {
        format!(
            "sslmode=verify-full&sslrootcert={{}}/ca.pem&sslcert={{}}/{name}.pem&sslkey={{}}/{name}.key"
        )
    };
    ground.works("localhost", &with("known")).await;
    for query in [with("unknown"), "sslmode=require".to_owned()] {
        let error = ground.refused("localhost", &query).await;
        assert_eq!(error.kind(), ErrorKind::Denied, "{query}: {error} {error:?}");
    }
    // A key that belongs to another certificate, and a file that has none.
    for (certificate, key) in [("known.pem", "unknown.key"), ("known.pem", "no.pem")] {
        let query = format!("sslmode=require&sslcert={{}}/{certificate}&sslkey={{}}/{key}");
        let error = ground.refused("localhost", &query).await;
        assert_eq!(error.kind(), ErrorKind::Invalid, "{query}: {error}");
    }
}
