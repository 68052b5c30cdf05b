//! The program `sendoff`: verbs over the library, for people and for scripts.
//!
//! [`arguments`] reads the command line and [`configuration`] merges it with the environment and a
//! file; [`store`] and [`target`] open what URLs name; [`verbs`] do the work; [`output`] and
//! [`exit`] tell how it ended. What does not belong here: order, retries, SQL on the outbox.

mod acknowledgement;
mod address;
mod arguments;
mod callback;
mod configuration;
mod exit;
mod http;
mod log;
mod members;
mod observe;
mod output;
mod secret;
mod shop;
mod state;
mod stop;
mod store;
mod target;
mod terminal;
mod verbs;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind as Misread;
use sendoff::{Error, ErrorKind};

use arguments::{Arguments, ConfigVerb, Verb};
use configuration::Configuration;
use exit::{Ending, Exit, Failure};
use output::Form;

/// A relay allocates and frees several small things for each message, on one thread and the other.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(misread) => return ExitCode::from(misread_code(&misread).code()),
    };
    let form = if arguments.global.json { Form::Json } else { Form::Text };
    let exit = match run(&arguments, form) {
        Ok(exit) => exit,
        Err(failure) => {
            terminal::clear();
            form.tell(&failure)
        }
    };
    ExitCode::from(exit.code())
}

/// Tells what clap made of a command line that is no command: help and version are answers.
fn misread_code(misread: &clap::Error) -> Exit {
    let is_answer = matches!(misread.kind(), Misread::DisplayHelp | Misread::DisplayVersion);
    let wants_json = std::env::args_os().any(|argument| argument == "--json");
    if is_answer {
        // Where nobody reads any more there is nobody to tell.
        let _ = misread.print();
        return Exit::Done;
    }
    let text = without_passwords(&misread.render().to_string());
    if !wants_json {
        let _ = std::io::stderr().write_all(text.as_bytes());
        return Exit::Usage;
    }
    let what = text.trim_start_matches("error: ").split("\n\n").next();
    let error = Error::invalid("reading the command line", what.unwrap_or_default().trim())
        .advice("`sendoff help` has the verbs, `sendoff help VERB` what each takes");
    Form::Json.tell(&Failure::from(error))
}

/// A text that repeats what was typed, with passwords masked.
fn without_passwords(text: &str) -> String {
    std::env::args_os().fold(text.to_owned(), |text, argument| {
        let argument = argument.to_string_lossy();
        match secret::masked(&argument) {
            masked if masked == argument || argument.is_empty() => text,
            masked => text.replace(argument.as_ref(), &masked),
        }
    })
}

fn run(arguments: &Arguments, form: Form) -> Ending {
    if let Verb::Completions { shell } = &arguments.verb {
        return verbs::completions::run(*shell);
    }
    let configuration =
        Configuration::read(arguments.global.config.as_deref(), &arguments.flags())?;
    log::begin(&configuration);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|error| {
            Error::new(ErrorKind::Unexpected, "starting the runtime").caused_by(error)
        })?;
    let ending = runtime.block_on(verb(&configuration, &arguments.verb, form));
    // Not waited for: a read of standard input that nobody needs any more cannot be interrupted.
    runtime.shutdown_background();
    ending
}

async fn verb(configuration: &Configuration, verb: &Verb, form: Form) -> Ending {
    match verb {
        Verb::Up(up) => verbs::up::run(configuration, up, form).await,
        Verb::Verify(verify) => verbs::verify::run(verify, form),
        Verb::Migrate(_) => verbs::migrate::run(configuration, form).await,
        Verb::Roles(roles) => verbs::roles::run(configuration, roles, form).await,
        Verb::Send(send) => verbs::send::run(configuration, send, form).await,
        Verb::Relay(relay) => verbs::relay::run(configuration, relay, form).await,
        Verb::Status(status) => verbs::status::run(configuration, status, form).await,
        Verb::Show(show) => verbs::show::run(configuration, show, form).await,
        Verb::Tail(tail) => verbs::tail::run(configuration, tail, form).await,
        Verb::Retention(retention) => verbs::retention::run(configuration, retention, form).await,
        Verb::Resend(resend) => verbs::resend::run(configuration, resend, form).await,
        Verb::Doctor(doctor) => verbs::doctor::run(configuration, doctor, form).await,
        Verb::Quarantine { verb } => verbs::quarantine::run(configuration, verb, form).await,
        Verb::Pause(pause) => verbs::pause::pause(configuration, pause, form).await,
        Verb::Resume(resume) => verbs::pause::resume(configuration, resume, form).await,
        Verb::Pauses(_) => verbs::pause::list(configuration, form).await,
        Verb::Barrier { verb } => verbs::barrier::run(configuration, verb, form).await,
        Verb::Serve(_) => verbs::serve::run(configuration, form).await,
        Verb::Config { verb: ConfigVerb::Show(_) } => verbs::config::show(configuration, form),
        Verb::Completions { shell } => verbs::completions::run(*shell),
    }
}
