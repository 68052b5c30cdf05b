//! How many messages a second a target confirms from one process.
//!
//! ```text
//! cargo run --release -p sendoff-brokers --all-features --example publish_rate -- \
//!     nats://127.0.0.1:4222/RATE 200000 2000
//! ```
//!
//! The arguments are the target, the number of messages (256-byte bodies, 10,000 keys) and how many
//! are in flight at once. The last line has the rate.

use std::time::Instant;

use futures_util::StreamExt;
use sendoff_brokers::Target;
use sendoff_core::Message;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().ok_or("the first argument is a target")?;
    let messages: usize = arguments.next().map_or(Ok(200_000), |n| n.parse())?;
    let in_flight: usize = arguments.next().map_or(Ok(2_000), |n| n.parse())?;
    let publisher = Target::parse(&url)?;

    let waiting: Vec<Message> = (0..messages)
        .map(|n| {
            Message::builder("rate", "orders.placed")
                .key(format!("customer-{}", n % 10_000))
                .header("content-type", "application/json")
                .body(vec![b'x'; 256])
                .build()
        })
        .collect::<Result<_, _>>()?;
    publisher.publish(&waiting[0]).await?;
    let (began, cpu_before) = (Instant::now(), cpu_seconds());
    let publisher = &publisher;
    let mut failed = 0_usize;
    let mut outcomes = futures_util::stream::iter(&waiting)
        .map(|message| async move { publisher.publish(message).await })
        .buffer_unordered(in_flight);
    while let Some(outcome) = outcomes.next().await {
        if let Err(error) = outcome {
            failed += 1;
            if failed == 1 {
                eprintln!("the first failure: {error}");
            }
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "{messages} messages, {failed} failed, {in_flight} in flight, {seconds:.2} s: {:.0}/s, {:.1} us of \
         CPU each in this process, to {}",
        messages as f64 / seconds,
        (cpu_seconds() - cpu_before) * 1e6 / messages as f64,
        publisher.address()
    );
    Ok(())
}

/// CPU time of this process. On a busy machine it says more than the clock on the wall.
fn cpu_seconds() -> f64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}
