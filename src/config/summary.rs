//! What `dlo check` prints: the configuration in effect, what it guarantees, and what is doubtful.

use std::fmt::Write;

use serde_json::Value as Json;

use super::{
    Config,
    brokers::Broker,
    pending::is_pending,
    sources::{Place, QueueType, Source},
};

impl Config {
    /// The file it was read from; none for the environment alone.
    #[must_use]
    pub fn file(&self) -> Option<&str> {
        self.loaded.file.as_deref()
    }

    /// One line for each thing that is allowed but probably not meant, or read but not acted on.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.loaded.warnings
    }

    /// The effective configuration as YAML with defaults filled in and secrets as `***`; then, as comments, what is
    /// guaranteed for each source, and warnings.
    #[must_use]
    pub fn summary(&self) -> String {
        let from = self.file().map_or_else(|| "the environment".to_owned(), str::to_owned);
        let mut text = format!("# configuration from {from}, with defaults; secrets are not shown\n");
        // Serializing plain structs with text keys into memory has no way to fail.
        if let Ok(Json::Object(sections)) = serde_json::to_value(self) {
            write_section(&mut text, &sections, 0);
        }
        text += "\n# what is guaranteed\n";
        for source in &self.sources {
            let _ = writeln!(text, "#   {}: {}\n#     {}", source.name, self.whereabouts(source), guarantee(source));
        }
        if self.sources.is_empty() {
            text += "#   no source is configured: nothing is captured\n";
        }
        if !self.warnings().is_empty() {
            text += "\n# warnings\n";
        }
        for warning in self.warnings() {
            let _ = writeln!(text, "#   {warning}");
        }
        text
    }

    /// The source's place in words, with the broker's address.
    fn whereabouts(&self, source: &Source) -> String {
        let address = match self.brokers.get(&source.broker) {
            Some(Broker::Rabbitmq(broker)) => {
                let hosts: Vec<String> = broker.addresses().iter().map(ToString::to_string).collect();
                format!("{} (virtual host \"{}\")", hosts.join(", "), broker.virtual_host())
            }
            Some(Broker::Kafka(broker)) => broker.bootstrap_servers.clone(),
            None => String::new(),
        };
        match source.place() {
            Place::Queue { exchange: Some(exchange), queue, queue_type, .. } => {
                let kind = format!("{queue_type:?}").to_lowercase();
                format!("{kind} queue \"{queue}\", bound to exchange \"{exchange}\" with \"#\", at {address}")
            }
            Place::Queue { exchange: None, queue, .. } => format!("existing queue \"{queue}\" at {address}"),
            Place::Topics { group, topics, start } => {
                let topics: Vec<&str> = topics.iter().map(super::Topic::as_str).collect();
                let topics = topics.join(", ");
                format!("topics {topics} as group \"{group}\", at first from {start}, at {address}")
            }
        }
    }
}

/// What holds for every letter of a source, whatever is killed or cut.
#[must_use]
pub fn guarantee(source: &Source) -> String {
    const STORED: &str = "every letter at least once in the table, second copies marked DUPLICATE";
    match source.place() {
        Place::Queue { exchange: Some(_), queue_type: QueueType::Quorum, .. } => {
            format!("{STORED}; survives loss of dlo, database and a broker minority")
        }
        Place::Queue { exchange: Some(_), queue_type: QueueType::Classic, .. } => format!(
            "{STORED}; survives loss of dlo and database and a restart of the broker, not the loss of the node that holds the queue"
        ),
        Place::Queue { exchange: None, .. } => format!(
            "{STORED}, as safe as the queue itself: dlo does not declare it; check its delivery limit, TTL, length limit, dead-letter settings"
        ),
        Place::Topics { .. } => {
            let text = "every record exactly once in the table: its position moves in the same transaction; survives loss of dlo and database, and of brokers as far as the topic is replicated; a record is lost only if the topic's retention removes it first, and that is counted";
            let not_yet = if is_pending("sources[].topics") { " (not captured by this version)" } else { "" };
            format!("{text}{not_yet}")
        }
    }
}

fn write_section(text: &mut String, section: &serde_json::Map<String, Json>, depth: usize) {
    for (key, value) in section {
        let _ = write!(text, "{:depth$}{}:", "", scalar(&Json::String(key.clone())), depth = depth * 2);
        write_value(text, value, depth + 1);
    }
}

fn write_value(text: &mut String, value: &Json, depth: usize) {
    match value {
        Json::Object(section) if !section.is_empty() => {
            text.push('\n');
            write_section(text, section, depth);
        }
        Json::Array(items) if items.iter().any(|item| item.is_object()) => {
            text.push('\n');
            for item in items {
                let mut inner = String::new();
                write_value(&mut inner, item, depth + 1);
                let indent = depth * 2;
                let _ = write!(text, "{:indent$}- {}", "", inner.trim_start());
            }
        }
        Json::Array(items) => {
            let items: Vec<String> = items.iter().map(scalar).collect();
            let _ = writeln!(text, " [{}]", items.join(", "));
        }
        value => {
            let _ = writeln!(text, " {}", scalar(value));
        }
    }
}

/// Plain where YAML takes it for the same text, else quoted as in JSON, which is YAML.
fn scalar(value: &Json) -> String {
    let Json::String(text) = value else { return value.to_string() };
    let tame = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/');
    let is_plain = text.chars().all(tame) && text.starts_with(|c: char| c.is_ascii_alphanumeric());
    let means_something_else =
        matches!(text.to_lowercase().as_str(), "null" | "true" | "false" | "yes" | "no" | "on" | "off");
    let is_number = text.starts_with(|c: char| c.is_ascii_digit()) && text.parse::<f64>().is_ok();
    if is_plain && !means_something_else && !is_number { text.clone() } else { value.to_string() }
}
