//! The text format of Prometheus, version 0.0.4.

use std::fmt::Write;

use sendoff::relay::Distribution;

/// What kind of content it is.
pub(super) const CONTENT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What a metric is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl Kind {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A metric: its name ends with its unit, a counter's with `_total`.
#[derive(Debug)]
pub(super) struct Metric {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) help: &'static str,
}

/// One label. The values are few: addresses of targets and words.
pub(super) type Label<'a> = (&'static str, &'a str);

/// A page that is being written.
#[derive(Debug, Default)]
pub(super) struct Page {
    text: String,
    /// The metric whose head was written last.
    last: &'static str,
}

impl Page {
    pub(super) fn text(self) -> String {
        self.text
    }

    /// A value. Samples of one metric have to come one after the other.
    pub(super) fn value(&mut self, metric: &Metric, labels: &[Label<'_>], value: impl Into<f64>) {
        self.head(metric);
        self.line(metric.name, labels, value.into());
    }

    /// A count, which may be larger than a float keeps whole.
    pub(super) fn count(&mut self, metric: &Metric, labels: &[Label<'_>], count: u64) {
        self.head(metric);
        self.line(metric.name, labels, count);
    }

    pub(super) fn histogram(
        &mut self,
        metric: &Metric,
        label: Label<'_>,
        other: Option<Label<'_>>,
        read: &Distribution,
    ) {
        self.head(metric);
        let labels: Vec<Label<'_>> = std::iter::once(label).chain(other).collect();
        let bucket = format!("{}_bucket", metric.name);
        for (bound, count) in &read.at_most {
            let bound = bound.as_secs_f64().to_string();
            let labels: Vec<Label<'_>> =
                labels.iter().copied().chain([("le", bound.as_str())]).collect();
            self.line(&bucket, &labels, count);
        }
        let all: Vec<Label<'_>> = labels.iter().copied().chain([("le", "+Inf")]).collect();
        self.line(&bucket, &all, read.count);
        self.line(&format!("{}_sum", metric.name), &labels, read.sum.as_secs_f64());
        self.line(&format!("{}_count", metric.name), &labels, read.count);
    }

    fn head(&mut self, metric: &Metric) {
        if std::mem::replace(&mut self.last, metric.name) == metric.name {
            return;
        }
        let Metric { name, kind, help } = metric;
        let kind = kind.as_str();
        // Writing to a text does not fail.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn line(&mut self, name: &str, labels: &[Label<'_>], value: impl std::fmt::Display) {
        self.text.push_str(name);
        for (index, (label, text)) in labels.iter().enumerate() {
            let before = if index == 0 { '{' } else { ',' };
            let _ = write!(self.text, "{before}{label}=\"{}\"", escaped(text));
        }
        let after = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.text, "{after} {value}");
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const LAG: Metric = Metric { name: "lag_seconds", kind: Kind::Histogram, help: "Lag." };

    #[test]
    fn a_page_is_as_the_format_wants_it() {
        let up = Metric { name: "up", kind: Kind::Gauge, help: "Up." };
        let mut page = Page::default();
        page.value(&up, &[("target", "a\"b\\c\nd")], 1.0);
        page.value(&up, &[], 0.5);
        let read = Distribution {
            at_most: vec![(Duration::from_millis(1), 2), (Duration::from_secs(30), 3)],
            count: 4,
            sum: Duration::from_millis(1_500),
        };
        page.histogram(&LAG, ("target", "t"), Some(("since", "commit")), &read);
        let expected = r##"# HELP up Up.
# TYPE up gauge
up{target="a\"b\\c\nd"} 1
up 0.5
# HELP lag_seconds Lag.
# TYPE lag_seconds histogram
lag_seconds_bucket{target="t",since="commit",le="0.001"} 2
lag_seconds_bucket{target="t",since="commit",le="30"} 3
lag_seconds_bucket{target="t",since="commit",le="+Inf"} 4
lag_seconds_sum{target="t",since="commit"} 1.5
lag_seconds_count{target="t",since="commit"} 4
"##;
        assert_eq!(page.text(), expected);
    }
}
