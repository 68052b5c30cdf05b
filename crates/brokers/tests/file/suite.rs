//! The suite of every publisher on a file.

use std::sync::Arc;

use async_trait::async_trait;
use sendoff_brokers::Target;
use sendoff_brokers::file::read_line;
use sendoff_conformance::publisher::{Arrival, Facts, Subject};
use sendoff_core::{Publisher, Result};

struct Lines(tempfile::TempDir);

impl Lines {
    fn path(&self) -> std::path::PathBuf {
        self.0.path().join("out.jsonl")
    }
}

#[async_trait]
impl Subject for Lines {
    const FACTS: Facts = Facts { deduplicates: false, body_bytes_max: None, exclusive: true };

    async fn empty() -> Result<Self> {
        Ok(Self(tempfile::tempdir().unwrap()))
    }

    async fn publisher(&self) -> Result<Arc<dyn Publisher>> {
        Target::parse(&format!("file:{}", self.path().display()))
    }

    async fn arrived(&self) -> Result<Vec<Arrival>> {
        let Ok(lines) = std::fs::read(self.path()) else {
            return Ok(Vec::new());
        };
        lines
            .split_inclusive(|byte| *byte == b'\n')
            .map(|line| {
                let message = read_line(line)?;
                Ok(Arrival { dedup_id: message.dedup_id(), message })
            })
            .collect()
    }
}

mod lines {
    use super::Lines;
    sendoff_conformance::publisher_suite!(Lines);
}
