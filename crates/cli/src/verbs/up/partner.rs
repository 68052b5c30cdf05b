//! The simulated partner: reads the documents that were delivered and answers each over HTTP, as a
//! program of somebody else's would: twice, under a wrong name, late, or not at all.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::shop::{CALLBACK, DataFolder, Document, Fate, SENT, Shop, number};
use crate::stop::Stop;

/// Between two looks at the deliveries.
const LOOK: Duration = Duration::from_millis(100);
/// How many lines are read at a time. Their answers are given before the next ones are read.
const LINES_MAX: usize = 1_000;
/// Answers on their way at once.
const TOGETHER: usize = 8;
/// How long an answer may take, and how often it is tried.
const TIMEOUT: Duration = Duration::from_secs(10);
const TRIES: u32 = 5;

/// A partner.
#[derive(Debug, Clone)]
pub(super) struct Partner {
    deliveries: PathBuf,
    position: PathBuf,
    port: u16,
    token: Arc<str>,
    shop: Shop,
}

/// As much of a delivery as the partner reads.
#[derive(Debug, Deserialize)]
struct Delivery {
    topic: String,
    #[serde(default)]
    headers: HashMap<String, String>,
    #[serde(default)]
    body: Option<String>,
}

impl Partner {
    pub(super) fn new(folder: &DataFolder, port: u16, token: String, shop: Shop) -> Self {
        Self {
            deliveries: folder.delivered(),
            position: folder.partner_position(),
            port,
            token: token.into(),
            shop,
        }
    }

    /// Answers until a stop is asked for. What was read and not answered by then is read again by the
    /// next run, and so is what was answered last before a kill.
    pub(super) async fn run(self, stop: Stop) {
        while !stop.is_asked() {
            let (deliveries, position) = (self.deliveries.clone(), self.position.clone());
            let read = tokio::task::spawn_blocking(move || read(&deliveries, &position)).await;
            let Ok(Ok(Read { sent, end })) = read else {
                tracing::warn!("the partner cannot read what was delivered");
                tokio::time::sleep(LOOK).await;
                continue;
            };
            let all = self.answer_all(sent, &stop).await;
            if all && let Some(end) = end {
                // Where it cannot be written, the partner answers again after a restart.
                let _ = tokio::fs::write(&self.position, end.to_string()).await;
                continue;
            }
            tokio::select! {
                () = stop.asked() => {}
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }

    /// Answers these documents; false where a stop came in between.
    async fn answer_all(&self, sent: Vec<(Document, String)>, stop: &Stop) -> bool {
        let together = Arc::new(Semaphore::new(TOGETHER));
        let mut answers = JoinSet::new();
        for (document, callback) in sent {
            let Ok(permit) = Arc::clone(&together).acquire_owned().await else { return false };
            if stop.is_asked() {
                break;
            }
            let partner = self.clone();
            answers.spawn(async move {
                partner.answer(document, &callback).await;
                drop(permit);
            });
        }
        while answers.join_next().await.is_some() {}
        !stop.is_asked()
    }

    async fn answer(&self, document: Document, callback: &str) {
        let Some(number) = number(&document.document) else { return };
        if number % 50 == 11 {
            // A name as another system writes it: refused, and told as a near miss.
            let path = format!("/v1/barriers/{}/acks", document.batch);
            let wrong = json!({ "member": document.document.to_uppercase() }).to_string();
            self.post(&path, &wrong).await;
        }
        let body = match Fate::of(number) {
            Fate::Well => "",
            Fate::Failed => r#"{"ok":false,"error":"not readable"}"#,
            Fate::Lost => {
                if let Err(error) = self.shop.keep_answer(document).await {
                    tracing::warn!(%error, "the partner cannot keep an answer");
                }
                return;
            }
            Fate::Forgotten => return,
        };
        self.post(callback, body).await;
        if number.is_multiple_of(7) {
            self.post(callback, body).await;
        }
    }

    /// Posts until it is answered, a bounded number of times. What is answered does not matter.
    async fn post(&self, path: &str, body: &str) {
        for attempt in 1..=TRIES {
            match tokio::time::timeout(TIMEOUT, self.post_once(path, body)).await {
                Ok(Ok(status)) if status < 500 => return,
                _ => tokio::time::sleep(LOOK * attempt).await,
            }
        }
    }

    async fn post_once(&self, path: &str, body: &str) -> io::Result<u16> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {}\r\n\
             connection: close\r\ncontent-length: {}\r\n\r\n{body}",
            self.token,
            body.len()
        );
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.take(1 << 16).read_to_end(&mut answer).await?;
        let status = answer.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok());
        status.and_then(|digits| digits.parse().ok()).ok_or(io::ErrorKind::InvalidData.into())
    }
}

/// What was read at one look.
#[derive(Debug, Default)]
struct Read {
    /// Documents with their callbacks.
    sent: Vec<(Document, String)>,
    /// Where the lines end that were read; `None` where there were none.
    end: Option<u64>,
}

/// Reads the next whole lines.
fn read(deliveries: &Path, position: &Path) -> io::Result<Read> {
    let begin = std::fs::read_to_string(position)
        .ok()
        .and_then(|text| text.trim().parse::<u64>().ok())
        .unwrap_or(0);
    let mut file = match File::open(deliveries) {
        Ok(file) => BufReader::new(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Read::default()),
        Err(error) => return Err(error),
    };
    // A file that is shorter than what was read is another one.
    let begin = if begin <= file.get_ref().metadata()?.len() { begin } else { 0 };
    file.seek(SeekFrom::Start(begin))?;
    let (mut sent, mut end, mut line) = (Vec::new(), begin, Vec::new());
    for _ in 0..LINES_MAX {
        line.clear();
        let count = file.read_until(b'\n', &mut line)?;
        if line.last() != Some(&b'\n') {
            break;
        }
        end += u64::try_from(count).unwrap_or(0);
        sent.extend(document(&line));
    }
    Ok(Read { sent, end: (end > begin).then_some(end) })
}

fn document(line: &[u8]) -> Option<(Document, String)> {
    let mut delivery: Delivery = serde_json::from_slice(line).ok()?;
    if delivery.topic != SENT {
        return None;
    }
    let document = serde_json::from_str(delivery.body.as_deref()?).ok()?;
    Some((document, delivery.headers.remove(CALLBACK)?))
}
