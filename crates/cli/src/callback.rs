//! Tokens with which a partner acknowledges one member over HTTP, without an account.
//!
//! A token names a barrier, its incarnation and epoch, one member and when it expires, and is signed
//! with HMAC-SHA256. It is compared in constant time and never logged. What does not belong here:
//! routes, and whether the barrier still is what the token says.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sendoff::barrier::{BarrierId, LAST_ACK_BEFORE, MemberName, Status};
use sendoff::time::{Clock, Timestamp};
use serde::Serialize;
use sha2::Sha256;

use crate::address;

/// What a signature is about, so that the secret signs nothing else by accident.
const PURPOSE: &[u8] = b"sendoff callback";
const VERSION: u8 = 1;
const MAC_BYTES: usize = 32;
/// Version, epoch and expiry.
const HEAD_BYTES: usize = 1 + 4 + 8;
/// No token of ours is longer, and nothing longer is decoded.
const TEXT_BYTES_MAX: usize = 512;

/// The secrets: the first one signs, all of them verify, so that one can take another's place.
#[derive(Clone)]
pub(crate) struct Signer(Vec<Hmac<Sha256>>);

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signer({} secrets)", self.0.len())
    }
}

/// What a token says, once its signature was found right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Claim {
    /// The barrier's incarnation.
    pub(crate) incarnation: String,
    /// Its epoch.
    pub(crate) epoch: u32,
}

impl Signer {
    /// A signer with these secrets; `None` where there are none.
    pub(crate) fn new(secrets: &[String]) -> Option<Self> {
        let keys: Vec<_> = secrets
            .iter()
            .filter_map(|secret| Hmac::<Sha256>::new_from_slice(secret.as_bytes()).ok())
            .collect();
        (!keys.is_empty()).then_some(Self(keys))
    }

    /// A token for a member of a barrier at the epoch of its status.
    pub(crate) fn token(
        &self,
        id: &BarrierId,
        status: &Status,
        member: &MemberName,
        expires_at: Timestamp,
    ) -> String {
        let expires_s = u64::try_from(expires_at.as_second()).unwrap_or(0);
        let mut text = vec![VERSION];
        text.extend(status.epoch.to_be_bytes());
        text.extend(expires_s.to_be_bytes());
        text.extend(status.incarnation.as_bytes());
        let mac = self.0.first().map(|key| signed(key, &text, id, member).finalize().into_bytes());
        text.extend(mac.unwrap_or_default());
        URL_SAFE_NO_PAD.encode(text)
    }

    /// What a token says; `None` where it is not for this barrier and member, its time is over, or
    /// none of the secrets signed it. Why it is not, nobody is told.
    pub(crate) fn claim(
        &self,
        token: &[u8],
        id: &BarrierId,
        member: &MemberName,
        now: Timestamp,
    ) -> Option<Claim> {
        if token.len() > TEXT_BYTES_MAX {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
        let (text, mac) = bytes.split_at_checked(bytes.len().checked_sub(MAC_BYTES)?)?;
        // Every secret is tried, so that the time does not tell which one it was.
        let right = self.0.iter().fold(false, |right, key| {
            signed(key, text, id, member).verify_slice(mac).is_ok() | right
        });
        if !right || text.first() != Some(&VERSION) {
            return None;
        }
        let (head, incarnation) = text.split_at_checked(HEAD_BYTES)?;
        let epoch = u32::from_be_bytes(head[1..5].try_into().ok()?);
        let expires_s = u64::from_be_bytes(head[5..].try_into().ok()?);
        if expires_s <= u64::try_from(now.as_second()).unwrap_or(u64::MAX) {
            return None;
        }
        Some(Claim { incarnation: String::from_utf8(incarnation.to_vec()).ok()?, epoch })
    }
}

/// The signature's input, every part behind its length, so that no two inputs are the same bytes.
fn signed(key: &Hmac<Sha256>, text: &[u8], id: &BarrierId, member: &MemberName) -> Hmac<Sha256> {
    let mut mac = key.clone();
    for part in [PURPOSE, text, id.tenant().as_bytes(), id.id().as_bytes(), member.as_bytes()] {
        mac.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        mac.update(part);
    }
    mac
}

impl Claim {
    /// Whether the barrier is the one that the token was made for, at the same epoch.
    pub(crate) fn fits(&self, status: &Status) -> bool {
        self.incarnation == status.incarnation && self.epoch == status.epoch
    }
}

/// When a token that is to last for `for_s` seconds from `now` expires: at the latest when its barrier
/// takes no more acknowledgements, so that it is never good for a later barrier of the same id.
pub(crate) fn expiry(status: &Status, for_s: u64, now: Timestamp) -> Timestamp {
    let last_s = status.expires_at.as_second()
        - i64::try_from(LAST_ACK_BEFORE.as_secs()).unwrap_or(i64::MAX);
    let wanted_s = now.as_second().saturating_add(i64::try_from(for_s).unwrap_or(i64::MAX));
    Timestamp::from_second(wanted_s.min(last_s)).unwrap_or(status.expires_at)
}

/// The path and query of the request that the token is for.
pub(crate) fn path(id: &BarrierId, member: &MemberName, token: &str) -> String {
    format!(
        "/v1/callbacks/{}/{}?token={token}",
        address::encoded(id.id().as_bytes()),
        address::encoded(member.as_bytes())
    )
}

/// A token, as it is given to whoever asked for one.
#[derive(Debug, Serialize)]
pub(crate) struct Token {
    /// For which member.
    pub(crate) member: MemberName,
    /// The token itself.
    pub(crate) token: String,
    /// The path and query of the request.
    pub(crate) path: String,
    /// Until when it is good.
    pub(crate) expires_at: Timestamp,
}

/// Tokens for members of a barrier. A name that is not on the list gets one too, which the barrier
/// then refuses.
pub(crate) fn answers(
    signer: &Signer,
    id: &BarrierId,
    status: &Status,
    members: &[MemberName],
    for_s: u64,
    clock: &Clock,
) -> Vec<Token> {
    let expires_at = expiry(status, for_s, clock.now());
    members
        .iter()
        .map(|member| {
            let token = signer.token(id, status, member, expires_at);
            Token { member: member.clone(), path: path(id, member, &token), token, expires_at }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use sendoff::barrier::{BarrierState, OnDeadline};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn status(incarnation: &str, epoch: u32) -> Status {
        Status {
            id: "b".to_owned(),
            total: 1,
            resolved: 0,
            pending: 1,
            failed: 0,
            missing: 0,
            complete: false,
            overdue: false,
            dispatched: None,
            state: BarrierState::Open,
            reason: None,
            epoch,
            sealed: true,
            created_at: at(0),
            deadline_at: None,
            on_deadline: OnDeadline::Mark,
            completed_at: None,
            last_ack_at: None,
            expires_at: at(604_800),
            continue_with: None,
            state_value: None,
            parent: None,
            incarnation: incarnation.to_owned(),
        }
    }

    fn signer(secrets: &[&str]) -> Signer {
        Signer::new(&secrets.iter().map(|&secret| secret.to_owned()).collect::<Vec<_>>()).unwrap()
    }

    fn name(name: &str) -> MemberName {
        MemberName::new(name).unwrap()
    }

    fn id(id: &str) -> BarrierId {
        BarrierId::new(id).unwrap()
    }

    #[test]
    fn a_token_is_for_one_member_of_one_barrier_until_it_expires() {
        let signer = signer(&["secret"]);
        let token = signer.token(&id("b"), &status("i", 2), &name("a"), at(100));
        let claim = |barrier: &str, member: &str, now| {
            signer.claim(token.as_bytes(), &id(barrier), &name(member), at(now))
        };
        let good = claim("b", "a", 99).unwrap();
        assert_eq!(good, Claim { incarnation: "i".to_owned(), epoch: 2 });
        assert!(claim("b", "a", 100).is_none() && claim("b", "a", 1_000).is_none());
        assert!(claim("c", "a", 0).is_none() && claim("b", "A", 0).is_none());
        assert!(good.fits(&status("i", 2)));
        assert!(!good.fits(&status("i", 3)) && !good.fits(&status("j", 2)));
    }

    #[test]
    fn another_secret_signs_nothing_and_an_older_one_verifies() {
        let token = signer(&["old"]).token(&id("b"), &status("i", 1), &name("a"), at(100));
        let claim = |secrets: &[&str]| {
            signer(secrets).claim(token.as_bytes(), &id("b"), &name("a"), at(0)).is_some()
        };
        assert!(claim(&["old"]) && claim(&["new", "old"]) && claim(&["old", "new"]));
        assert!(!claim(&["new"]));
    }

    #[test]
    fn a_token_with_one_letter_changed_or_cut_is_none() {
        let signer = signer(&["secret"]);
        let token = signer.token(&id("b"), &status("i", 1), &name("a"), at(100));
        let claim = |token: &[u8]| signer.claim(token, &id("b"), &name("a"), at(0));
        assert!(claim(token.as_bytes()).is_some());
        for index in 0..token.len() {
            let mut changed = token.clone().into_bytes();
            changed[index] = if changed[index] == b'A' { b'B' } else { b'A' };
            assert!(claim(&changed).is_none(), "{index}");
            assert!(claim(&token.as_bytes()[..index]).is_none(), "{index}");
        }
        assert!(claim(&[b'A'; 100_000]).is_none());
        assert!(claim(b"\xff").is_none());
    }

    #[test]
    fn a_token_ends_when_its_barrier_takes_no_more_acknowledgements() {
        let status = status("i", 1);
        assert_eq!(expiry(&status, 60, at(0)), at(60));
        assert_eq!(expiry(&status, 604_800, at(0)), at(601_200));
        assert_eq!(expiry(&status, u64::MAX, at(0)), at(601_200));
    }

    #[test]
    fn the_secret_is_not_shown() {
        assert!(!format!("{:?}", signer(&["hidden"])).contains("hidden"));
    }
}
