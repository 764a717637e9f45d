//! The selection terms as options, the same for every command that takes them.

/// Which letters. Different options narrow the selection, the same again widens it; * stands for anything.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Selection")]
pub(super) struct Selection {
    /// Only letters in this status; several with commas
    #[arg(long, value_name = "STATUS")]
    status: Vec<String>,
    /// Only this service
    #[arg(long, value_name = "NAME")]
    service: Vec<String>,
    /// Only services of this team
    #[arg(long, value_name = "NAME")]
    team: Vec<String>,
    /// Only this event or task type
    #[arg(long, value_name = "TYPE")]
    event_type: Vec<String>,
    /// Only what was captured from this source
    #[arg(long, value_name = "NAME")]
    source: Vec<String>,
    /// Only this broker
    #[arg(long, value_name = "NAME")]
    broker: Vec<String>,
    /// Only letters in this framework's words
    #[arg(long, value_name = "NAME")]
    dialect: Vec<String>,
    /// Only this failure group, by number
    #[arg(long, value_name = "GROUP")]
    failure_group: Vec<String>,
    /// Only this class of error
    #[arg(long, value_name = "CLASS")]
    error_class: Vec<String>,
    /// Only what this consumer failed at
    #[arg(long, value_name = "NAME")]
    consumer: Vec<String>,
    /// Only from this exchange, failed queue or topic
    #[arg(long, value_name = "NAME")]
    origin: Vec<String>,
    /// Only this message key or routing key
    #[arg(long, value_name = "KEY")]
    key: Vec<String>,
    /// Only the message with this id
    #[arg(long, value_name = "ID")]
    message_id: Vec<String>,
    /// Captured at or after: 2h, 7d, a date, or RFC 3339
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Captured before: the same
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Only where this holds of the payload: '$.total > 100', '$.items[*] ? (@.sku == "A1")'
    #[arg(long, value_name = "JSONPATH")]
    payload: Vec<String>,
    /// Only with this header, or only where it is there at all
    #[arg(long, value_name = "NAME[=VALUE]")]
    header: Vec<String>,
    /// Only with all these words in error, stack trace or payload
    #[arg(long, value_name = "WORDS")]
    text: Vec<String>,
}

impl Selection {
    /// As the API's query string wants them.
    pub(super) fn pairs(&self) -> Vec<(&'static str, String)> {
        let since: Vec<String> = self.since.iter().cloned().collect();
        let until: Vec<String> = self.until.iter().cloned().collect();
        let named = [
            ("status", &self.status),
            ("service", &self.service),
            ("team", &self.team),
            ("event_type", &self.event_type),
            ("source", &self.source),
            ("broker", &self.broker),
            ("dialect", &self.dialect),
            ("failure_group", &self.failure_group),
            ("error_class", &self.error_class),
            ("consumer", &self.consumer),
            ("origin", &self.origin),
            ("key", &self.key),
            ("message_id", &self.message_id),
            ("since", &since),
            ("until", &until),
            ("payload", &self.payload),
            ("header", &self.header),
            ("text", &self.text),
        ];
        named.iter().flat_map(|(name, values)| values.iter().map(|value| (*name, value.clone()))).collect()
    }
}
