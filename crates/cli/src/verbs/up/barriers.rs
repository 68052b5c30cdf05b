//! The barriers' routes of `sendoff up`: with a token and a callback secret of its own, kept in the
//! data folder, unless the configuration has others.

use std::sync::Arc;

use sendoff::barrier::BarrierDesk;
use sendoff::{Result, Wake};

use crate::callback::Signer;
use crate::configuration::Configuration;
use crate::http::{Api, Keys};
use crate::secret;
use crate::shop::DataFolder;

/// The routes' parts.
///
/// # Errors
/// A secret can be neither read nor made.
pub(super) fn api(
    configuration: &Configuration,
    folder: &DataFolder,
    store: Arc<dyn BarrierDesk>,
    wake: Wake,
) -> Result<Api> {
    let mut tokens = configuration.secrets("serve.tokens")?;
    tokens.push(secret::kept(&folder.api_token())?);
    let mut secrets = configuration.secrets("serve.callback_secret")?;
    secrets.push(secret::kept(&folder.callback_secret())?);
    Ok(Api::new(store, Keys::new(&tokens)?, Signer::new(&secrets), wake))
}
