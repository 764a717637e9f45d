//! The schema, brought up to date. Safe when ten start at once (advisory lock), and an older binary leaves a
//! newer schema alone.

use sqlx::migrate::{Migrate, Migrator};

use super::PgStore;

static MIGRATIONS: Migrator = {
    let mut migrator = sqlx::migrate!();
    migrator.ignore_missing = true;
    migrator
};

/// Why the schema is not as it should be.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    #[error("the database cannot be reached")]
    Unreachable(#[source] sqlx::Error),
    #[error("the database's encoding is {0}; dead letters need UTF8 (CREATE DATABASE … ENCODING 'UTF8')")]
    Encoding(String),
    #[error("PostgreSQL {0} is too old; 14 or later is needed")]
    Version(String),
    #[error("the schema cannot be brought up to date")]
    Failed(#[source] sqlx::migrate::MigrateError),
}

impl MigrateError {
    /// Whether it passes by itself: the database is away, starting, or has no connection to spare.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        use sqlx::migrate::MigrateError as Sqlx;
        let error = match self {
            Self::Unreachable(error) | Self::Failed(Sqlx::Execute(error) | Sqlx::ExecuteMigration(error, _)) => error,
            _ => return false,
        };
        error.as_database_error().is_none_or(|db| {
            let code = db.code().unwrap_or_default().into_owned();
            code.starts_with("57")
                || code.starts_with("08")
                || code.starts_with("53")
                || code.starts_with("40")
                || code == "25006"
        })
    }
}

impl PgStore {
    /// Applies what is missing. Returns how many migrations were applied.
    pub async fn migrate(&self) -> Result<usize, MigrateError> {
        self.check_server().await?;
        let before = self.missing().await?.len();
        MIGRATIONS.run(&self.pool).await.map_err(MigrateError::Failed)?;
        Ok(before)
    }

    /// The migrations this binary knows and the database has not.
    pub async fn missing(&self) -> Result<Vec<String>, MigrateError> {
        let mut connection = self.pool.acquire().await.map_err(MigrateError::Unreachable)?;
        let known = sqlx::query_scalar::<_, bool>("SELECT to_regclass('_sqlx_migrations') IS NOT NULL")
            .fetch_one(&mut *connection)
            .await
            .map_err(MigrateError::Unreachable)?;
        let applied =
            if known { connection.list_applied_migrations().await.map_err(MigrateError::Failed)? } else { Vec::new() };
        Ok(MIGRATIONS
            .iter()
            .filter(|m| !applied.iter().any(|a| a.version == m.version))
            .map(|m| format!("{:04} {}", m.version, m.description))
            .collect())
    }

    async fn check_server(&self) -> Result<(), MigrateError> {
        // Called before migrating: what a server cannot do is better said than met half-way.
        let (encoding, number, version): (String, i32, String) = sqlx::query_as(
            "SELECT current_setting('server_encoding'), current_setting('server_version_num')::int, current_setting('server_version')",
        )
        .fetch_one(&self.pool)
        .await
        .map_err(MigrateError::Unreachable)?;
        if encoding != "UTF8" {
            return Err(MigrateError::Encoding(encoding));
        }
        if number < 140_000 {
            return Err(MigrateError::Version(version));
        }
        Ok(())
    }
}
