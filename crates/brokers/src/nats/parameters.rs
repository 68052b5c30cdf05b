//! The parameters of a NATS URL: `name=value`, with `&` between.

use std::path::PathBuf;

use crate::nats::security::{Files, Identity};
use crate::percent;
use crate::tls::TlsFiles;

const NAMES: [&str; 7] = ["prefix", "create", "credentials", "nkey", "ca", "cert", "key"];

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Parameters {
    pub(super) prefix: Option<String>,
    pub(super) create: bool,
    pub(super) files: Files,
}

/// Takes the query of a URL apart.
///
/// # Errors
/// A text that says what is wrong and quotes no value.
pub(super) fn parse(query: &str, tls: bool, login: bool) -> Result<Parameters, String> {
    let mut values: [Option<String>; NAMES.len()] = Default::default();
    for pair in query.split('&') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let Some(at) = NAMES.iter().position(|known| *known == name) else {
            return Err(format!(
                "there is no such parameter; they are {}",
                NAMES.map(|name| format!("`{name}`")).join(", ")
            ));
        };
        if values[at].is_some() {
            return Err(format!("`{name}` stands twice"));
        }
        let value = percent::decode(value)
            .ok_or_else(|| format!("`{name}` has a broken percent-encoding"))?;
        values[at] = Some(value.into_owned());
    }
    let [prefix, create, credentials, nkey, ca, cert, key] = values;
    let create = match create.as_deref() {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => return Err("`create` is neither `true` nor `false`".to_owned()),
    };
    let file = |name: &str, path: Option<String>| match path {
        Some(path) if path.is_empty() || path.contains('\0') => {
            Err(format!("`{name}` names no file"))
        }
        path => Ok(path.map(PathBuf::from)),
    };
    let ca = file("ca", ca)?;
    let client = match (file("cert", cert)?, file("key", key)?) {
        (Some(cert), Some(key)) => Some((cert, key)),
        (None, None) => None,
        _ => return Err("`cert` and `key` go together".to_owned()),
    };
    if !tls && (ca.is_some() || client.is_some()) {
        return Err("`ca`, `cert` and `key` are for TLS: begin with tls://".to_owned());
    }
    let identity = match (file("credentials", credentials)?, file("nkey", nkey)?) {
        (Some(_), Some(_)) => return Err("`credentials` and `nkey` exclude each other".to_owned()),
        (Some(path), None) => Some(Identity::Credentials(path)),
        (None, Some(path)) => Some(Identity::Nkey(path)),
        (None, None) => None,
    };
    if login && identity.is_some() {
        return Err("a user or token and a file with credentials exclude each other".to_owned());
    }
    Ok(Parameters { prefix, create, files: Files { identity, tls: TlsFiles { ca, client } } })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use proptest::prelude::*;

    use super::parse;
    use crate::nats::security::Identity;

    #[test]
    fn every_parameter_is_read() {
        let parameters = parse(
            "prefix=a.b&create=true&credentials=%2Fc%20d&ca=ca.pem&cert=c&key=k",
            true,
            false,
        )
        .unwrap();
        assert_eq!(parameters.prefix.as_deref(), Some("a.b"));
        assert!(parameters.create);
        let identity = Some(Identity::Credentials(PathBuf::from("/c d")));
        assert_eq!(parameters.files.identity, identity);
        assert_eq!(parameters.files.tls.ca, Some(PathBuf::from("ca.pem")));
        assert_eq!(parameters.files.tls.client, Some((PathBuf::from("c"), PathBuf::from("k"))));
        let parameters = parse("nkey=seed", false, false).unwrap();
        assert_eq!(parameters.files.identity, Some(Identity::Nkey(PathBuf::from("seed"))));
        assert!(!parse("create=false", false, false).unwrap().create);
    }

    #[test]
    fn what_does_not_go_together_is_refused_and_no_value_is_quoted() {
        for (query, tls, login, reason) in [
            ("", true, false, "no such parameter; they are `prefix`, `create`"),
            ("hush", true, false, "no such parameter"),
            ("password=hush", true, false, "no such parameter"),
            ("ca=hush&ca=hush", true, false, "`ca` stands twice"),
            ("ca=hush%", true, false, "`ca` has a broken percent-encoding"),
            ("ca=", true, false, "`ca` names no file"),
            ("ca=hush%00", true, false, "`ca` names no file"),
            ("ca=hush", false, false, "begin with tls://"),
            ("cert=hush&key=hush", false, false, "begin with tls://"),
            ("cert=hush", true, false, "go together"),
            ("key=hush", true, false, "go together"),
            ("nkey=hush&credentials=hush", true, false, "exclude each other"),
            ("nkey=hush", false, true, "exclude each other"),
            ("create=hush", false, false, "neither `true` nor `false`"),
        ] {
            let error = parse(query, tls, login).unwrap_err();
            assert!(error.contains(reason), "{query}: {error}");
            assert!(!error.contains("hush"), "{query}: {error}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn any_query_is_read_or_refused(
            query in "((prefix|create|nkey|ca|cert|key|credentials)=[a-z%0-9/]{0,6}&?){0,4}|\\PC{0,30}",
            tls: bool,
            login: bool,
        ) {
            if let Ok(parameters) = parse(&query, tls, login) {
                prop_assert!(tls || parameters.files.tls.ca.is_none());
                prop_assert!(!(login && parameters.files.identity.is_some()));
            }
        }
    }
}
