//! Runs every block of the README and of `docs/` as a reader would, and compares what it prints.
//!
//! A page is one session: its blocks run one after another in one shell, in a folder of its own,
//! with `sendoff` on the PATH, `DATABASE_URL` naming an empty PostgreSQL database and `NATS_URL` a
//! NATS server. [`page`] says how blocks are written, [`session`] how they run, [`output`] how
//! their output is compared. Rust blocks are doc tests of the crate `sendoff-examples`.

mod output;
mod page;
mod session;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use page::Page;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// One test for each page, so that pages run side by side and a failure names its page.
macro_rules! pages {
    ($($name:ident: $path:literal),* $(,)?) => {
        const PAGES: &[&str] = &[$($path),*];

        $(
            #[test]
            fn $name() {
                let page = Page::read(&root(), $path).unwrap();
                if let Err(failure) = session::run(&page) {
                    panic!("{failure}");
                }
            }
        )*
    };
}

pages! {
    the_readme_does_what_it_says: "README.md",
    the_tutorial_does_what_it_says: "docs/tutorial/first-outbox.md",
    the_barriers_tutorial_does_what_it_says: "docs/tutorial/first-barrier.md",
    waiting_for_acknowledgements_works: "docs/how-to/barriers.md",
    sending_from_any_language_works: "docs/how-to/send-from-any-language.md",
    securing_the_database_works: "docs/how-to/secure-the-database.md",
    running_the_relay_works: "docs/how-to/run-the-relay.md",
    choosing_a_policy_works: "docs/how-to/choose-a-policy.md",
    sending_to_several_targets_works: "docs/how-to/send-to-several-targets.md",
    watching_the_relay_works: "docs/how-to/watch-the-relay.md",
    following_a_trace_works: "docs/how-to/follow-a-trace.md",
    using_webhooks_works: "docs/how-to/use-webhooks.md",
    using_nats_works: "docs/how-to/use-nats.md",
    mending_the_quarantine_works: "docs/how-to/quarantine.md",
    keeping_and_sending_again_works: "docs/how-to/keep-and-resend.md",
    restoring_from_a_backup_works: "docs/how-to/restore-from-a-backup.md",
    what_to_do_at_night_works: "docs/how-to/at-three-in-the-morning.md",
    the_settings_are_as_the_reference_says: "docs/reference/configuration.md",
    the_sql_is_as_the_reference_says: "docs/reference/sql.md",
}

#[test]
fn every_page_with_blocks_is_run() {
    let mut found = BTreeSet::new();
    for path in page::all(&root()).unwrap() {
        let page = Page::read(&root(), &path).unwrap();
        if page.blocks.iter().any(page::Block::runs) {
            found.insert(path);
        }
    }
    let listed: BTreeSet<String> = PAGES.iter().map(|&path| path.to_owned()).collect();
    assert_eq!(found, listed, "the pages that have blocks to run, and those listed in main.rs");
}

#[test]
fn a_block_that_does_not_run_says_why() {
    for path in page::all(&root()).unwrap() {
        let page = Page::read(&root(), &path).unwrap();
        for block in &page.blocks {
            if let Some(reason) = &block.no_run {
                println!("{path}:{}: not run: {reason}", block.line);
                assert!(reason.len() > 10, "{path}:{}: `{reason}` is no reason", block.line);
            }
        }
    }
}
