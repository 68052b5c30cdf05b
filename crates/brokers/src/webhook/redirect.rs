//! Where a redirect leads, and whether it may be followed.

use hyper::StatusCode;
use hyper::header::HeaderValue;
use url::Url;

use crate::webhook::address::origin;

/// The most redirects that one publish follows.
pub(super) const HOPS_MAX: usize = 3;

/// Whether redirects are followed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Redirects {
    /// They make the target unreachable, and the error says where it has moved.
    #[default]
    Refuse,
    /// 307 and 308 are followed: the same POST, at most three times for one message, never from
    /// https to http. [`crate::webhook::Private`] says where to.
    Follow,
}

/// The next URL, or why there is none.
pub(super) fn next(
    from: &Url,
    status: StatusCode,
    location: Option<&HeaderValue>,
    redirects: Redirects,
    hops: usize,
) -> Result<Url, String> {
    let location = location.and_then(|value| value.to_str().ok());
    let Some(mut to) = location.and_then(|location| from.join(location).ok()) else {
        return Err("it does not say where to; correct the address".to_owned());
    };
    if !matches!(to.scheme(), "http" | "https") || to.host().is_none() {
        return Err("it leads to no web address; correct the address".to_owned());
    }
    let leads = origin(&to);
    if redirects == Redirects::Refuse {
        return Err(format!("it has moved to {leads}; correct the address, or follow redirects"));
    }
    if !matches!(status.as_u16(), 307 | 308) {
        return Err(format!(
            "it leads to {leads} and asks for a GET, which would deliver nothing (307 and 308 are \
             followed); correct the address"
        ));
    }
    if from.scheme() == "https" && to.scheme() == "http" {
        return Err(format!("it leads from https to {leads}; correct the address"));
    }
    if hops >= HOPS_MAX {
        return Err(format!("it leads on after {HOPS_MAX} redirects; correct the address"));
    }
    // A stranger gives us no user and password.
    if to.set_username("").is_err() || to.set_password(None).is_err() {
        return Err("it leads to no web address; correct the address".to_owned());
    }
    to.set_fragment(None);
    Ok(to)
}

#[cfg(test)]
mod tests {
    use hyper::StatusCode;
    use proptest::prelude::*;
    use url::Url;

    use super::{Redirects, next};

    fn lead(from: &str, status: u16, to: &str, hops: usize) -> Result<String, String> {
        let status = StatusCode::from_u16(status).unwrap();
        let to = to.parse().ok();
        let from = Url::parse(from).unwrap();
        next(&from, status, to.as_ref(), Redirects::Follow, hops).map(|url| url.to_string())
    }

    #[test]
    fn only_the_same_post_is_followed_and_not_down_to_http() {
        let from = "https://h/a?b";
        assert_eq!(lead(from, 307, "/c", 0).unwrap(), "https://h/c");
        assert_eq!(lead(from, 308, "//other:81/c#d", 2).unwrap(), "https://other:81/c");
        assert_eq!(lead(from, 308, "https://me:hush@other/", 0).unwrap(), "https://other/");
        assert_eq!(lead("http://h/", 308, "https://h/", 0).unwrap(), "https://h/");
        for (status, to, hops, why) in [
            (301, "/c", 0, "asks for a GET"),
            (303, "/c", 0, "asks for a GET"),
            (307, "http://h/", 0, "from https to http://h"),
            (307, "/c", 3, "after 3 redirects"),
            (307, "file:///etc/passwd", 0, "no web address"),
            (307, "https://[", 0, "does not say where to"),
        ] {
            let error = lead(from, status, to, hops).unwrap_err();
            assert!(error.contains(why), "{to}: {error}");
        }
    }

    #[test]
    fn refused_is_the_default_and_the_path_that_it_leads_to_is_not_shown() {
        let from = Url::parse("https://h/").unwrap();
        let to = "https://new.example/hush?hush".parse().unwrap();
        let error = next(&from, StatusCode::PERMANENT_REDIRECT, Some(&to), Redirects::default(), 0)
            .unwrap_err();
        assert!(error.contains("moved to https://new.example;"), "{error}");
        assert!(!error.contains("hush"), "{error}");
    }

    proptest! {
        #[test]
        fn any_location_is_a_web_address_without_a_user_or_refused(to in "\\PC{0,40}|[ -~]{0,40}") {
            if let Ok(url) = lead("https://h/a", 307, &to, 0) {
                let url = Url::parse(&url).unwrap();
                prop_assert_eq!(url.scheme(), "https");
                prop_assert!(url.username().is_empty() && url.password().is_none());
            }
        }
    }
}
