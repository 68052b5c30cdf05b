//! `sendoff barrier token`: tokens with which partners acknowledge without an account.

use sendoff::Error;
use sendoff::barrier::MemberName;
use sendoff::time::Clock;
use serde_json::json;

use super::{barrier, duration, member, open, there};
use crate::arguments::TokenArguments;
use crate::callback::{self, Signer};
use crate::configuration::{Configuration, FILE_DEFAULT};
use crate::exit::{Ending, Exit};
use crate::output::Form;

const DOING: &str = "making callback tokens";

/// Prints a token for each member.
pub(super) async fn run(
    configuration: &Configuration,
    arguments: &TokenArguments,
    form: Form,
) -> Ending {
    let for_s = duration("--expires", &arguments.expires)?.as_secs();
    let Some(signer) = Signer::new(&configuration.secrets("serve.callback_secret")?) else {
        return Err(Error::invalid(DOING, "there is no callback secret")
            .advice(format!(
                "set SENDOFF_SERVE_CALLBACK_SECRET, or `callback_secret` under [serve] in \
                 {FILE_DEFAULT}, to what the server has; `sendoff up` keeps its own in the file \
                 callback-secret of its data folder"
            ))
            .into());
    };
    let id = barrier(arguments.id.as_str())?;
    let members: Vec<MemberName> =
        arguments.members.iter().map(|name| member(name)).collect::<Result<_, _>>()?;
    let store = open(configuration).await?;
    let status = there(&store, DOING, &id, store.barriers.barrier_status(&id).await)?;
    let tokens = callback::answers(&signer, &id, &status, &members, for_s, &Clock::system());
    let base = configuration.text("serve.public_url").unwrap_or_default().trim_end_matches('/');
    let text: Vec<String> = tokens.iter().map(|token| format!("{base}{}", token.path)).collect();
    form.answer(
        &json!({ "id": id.id(), "epoch": status.epoch, "tokens": tokens }),
        &text.join("\n"),
    )?;
    Ok(Exit::Done)
}
