//! The settings of a relay with row locks, and which of the others it has not.

use sendoff::relay::RowLockSettings;
use sendoff::{Error, Result};

use super::{Configuration, wrong};

impl Configuration {
    /// The settings of a relay with row locks, where that mode was asked for: those that both kinds have,
    /// and its own.
    ///
    /// # Errors
    /// A value that is out of range, by itself or beside another, and one that only the other mode has.
    pub(crate) fn row_locks(&self) -> Result<Option<RowLockSettings>> {
        let relay = self.relay()?;
        if self.text("relay.mode") != Some("row-locks") {
            if let Some(batch) = self.set("relay.batch") {
                return Err(wrong(batch, "it is for `relay.mode = \"row-locks\"`"));
            }
            return Ok(None);
        }
        // It has a rule of its own about what a failure holds back, for all topics.
        if let Some(hold) = self.set("relay.hold") {
            return Err(wrong(hold, "it is for `relay.mode = \"lanes\"`"));
        }
        if !relay.overrides.is_empty() {
            return Err(Error::invalid(
                "reading the configuration",
                "relay.override is for `relay.mode = \"lanes\"`",
            ));
        }
        let settings = RowLockSettings {
            batch: self.count("relay.batch")?,
            batch_bytes: relay.window_bytes,
            publish_timeout: relay.publish_timeout,
            poll: relay.poll,
            attempts_max: relay.attempts_max,
            drain: relay.drain,
            cancel_after: relay.cancel_after,
        };
        settings.check()?;
        Ok(Some(settings))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::empty;
    use super::super::{Origin, Value};
    use sendoff::relay::RowLockSettings;

    #[test]
    fn the_tables_defaults_are_the_libraries_defaults() {
        assert_eq!(empty().row_locks().unwrap(), None);
        let mut configuration = empty();
        let (text, origin) = ("row-locks".to_owned(), Origin::Flag("--mode"));
        configuration.values.push(Value { key: "relay.mode", text, origin });
        assert_eq!(configuration.row_locks().unwrap(), Some(RowLockSettings::default()));
    }

    #[test]
    fn a_setting_of_the_other_mode_is_refused() {
        let mut configuration = empty();
        let (text, origin) = ("5".to_owned(), Origin::Flag("--batch"));
        configuration.values.push(Value { key: "relay.batch", text, origin });
        let error = configuration.row_locks().unwrap_err().to_string();
        assert!(error.contains("row-locks") && error.contains("--batch"), "{error}");
    }

    #[test]
    fn row_locks_hold_back_what_they_hold_back_and_no_setting_says_otherwise() {
        for hold in ["all", "key", "none"] {
            let mut configuration = empty();
            for (key, text, origin) in [
                ("relay.mode", "row-locks", Origin::Flag("--mode")),
                ("relay.hold", hold, Origin::Flag("--hold")),
            ] {
                configuration.values.push(Value { key, text: text.to_owned(), origin });
            }
            let error = configuration.row_locks().unwrap_err().to_string();
            assert!(error.contains("lanes") && error.contains("--hold"), "{error}");
        }
    }
}
