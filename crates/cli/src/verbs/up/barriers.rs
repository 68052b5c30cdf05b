//! The barriers' routes of `sendoff up`: with a token and a callback secret of its own, kept in the
//! data folder, unless the configuration has others.

use std::sync::Arc;

use sendoff::barrier::BarrierDesk;
use sendoff::{Error, ErrorKind, Result, Wake};

use crate::callback::Signer;
use crate::configuration::Configuration;
use crate::http::{Api, Keys};
use crate::secret;
use crate::shop::DataFolder;

/// What opens the routes, and what signs callbacks.
#[derive(Debug)]
pub(super) struct Secrets {
    /// The token of the folder.
    pub(super) token: String,
    pub(super) signer: Signer,
    keys: Keys,
}

impl Secrets {
    /// Reads or makes them.
    ///
    /// # Errors
    /// A secret can be neither read nor made.
    pub(super) fn of(configuration: &Configuration, folder: &DataFolder) -> Result<Self> {
        let token = secret::kept(&folder.api_token())?;
        let mut tokens = configuration.secrets("serve.tokens")?;
        tokens.push(token.clone());
        let mut secrets = configuration.secrets("serve.callback_secret")?;
        secrets.push(secret::kept(&folder.callback_secret())?);
        let signer = Signer::new(&secrets)
            .ok_or_else(|| Error::new(ErrorKind::Unexpected, "reading the callback secret"))?;
        Ok(Self { token, signer, keys: Keys::new(&tokens)? })
    }

    /// The routes' parts.
    pub(super) fn api(self, store: Arc<dyn BarrierDesk>, wake: Wake) -> Api {
        Api::new(store, self.keys, Some(self.signer), wake)
    }
}
