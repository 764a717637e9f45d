use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Config,
    check::Checks,
    scalar::{ByteSize, Count},
};

/// From the brokers into the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Capture {
    /// The most bytes in flight between brokers and table in one process, client buffers included. Prefetch and
    /// fetch sizes follow it.
    pub memory: ByteSize,
    /// A batch is written when it has this many rows …
    pub batch_rows: Count<1, 100_000>,
    /// … or this many bytes, or nothing more is waiting.
    pub batch_bytes: ByteSize,
    /// How many batches are written at once.
    pub writers: Count<1, 64>,
}

impl Default for Capture {
    fn default() -> Self {
        Self {
            memory: ByteSize::mib(24),
            batch_rows: const { Count::new(1000) },
            batch_bytes: ByteSize::mib(1),
            writers: const { Count::new(2) },
        }
    }
}

impl Capture {
    pub(super) fn check(&self, config: &Config, checks: &mut Checks<'_>) {
        let writers = u64::from(self.writers.get());
        if self.memory < ByteSize::mib(1) {
            checks.fault("capture.memory", format!("given {}; allowed: at least 1MiB", self.memory));
        } else if self.batch_bytes.bytes().saturating_mul(writers) > self.memory.bytes() {
            let message = format!(
                "{writers} writers × {} do not fit into capture.memory, {}; allowed: at most {} bytes",
                self.batch_bytes,
                self.memory,
                self.memory.bytes() / writers
            );
            checks.fault("capture.batch_bytes", message);
        }
        let connections = config.database.max_connections;
        if self.writers.get() > connections.get() {
            let message = format!("given {writers}; allowed: at most database.max_connections, {connections}");
            checks.fault("capture.writers", message);
        }
    }
}
