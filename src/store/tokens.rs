//! Access tokens. The database keeps a digest only; the token itself is shown once, when it is made.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};
use utoipa::ToSchema;

use super::{
    PgStore, QueryError,
    audit::{self, Entry},
    reading::answered,
};

/// What somebody may do; each may what the one before may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Look.
    Viewer,
    /// Replay, discard, reopen, resolve.
    Operator,
    /// Say who may.
    Admin,
}

impl Role {
    pub const ALL: [Self; 3] = [Self::Viewer, Self::Operator, Self::Admin];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }

    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == text)
    }
}

/// A token as it is listed: never itself.
#[derive(Clone, Debug, sqlx::FromRow, Serialize, ToSchema)]
pub struct Token {
    pub name: String,
    /// viewer, operator or admin.
    pub role: String,
    pub created_at: DateTime<Utc>,
    pub revoked_at: Option<DateTime<Utc>>,
}

/// Why there is no such token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    #[error(
        "there is a token {0:?} already; names are not used twice, not even after revoking, because the audit trail knows them"
    )]
    NameTaken(String),
    #[error("a token's name has 1 to 64 letters, digits, or . _ - @")]
    BadName,
    #[error("there is no token {0:?}")]
    NotFound(String),
    #[error("the system gives no random numbers: {0}")]
    Random(getrandom::Error),
    #[error(transparent)]
    Query(#[from] QueryError),
}

/// A new token. Shows itself to [`Secret::expose`] only.
pub struct Secret(String);

impl Secret {
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    fn random() -> Result<Self, TokenError> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(TokenError::Random)?;
        Ok(Self(format!("dlo_{}", URL_SAFE_NO_PAD.encode(bytes))))
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

/// What is kept of a token: 256 random bits need no slow hash.
fn digest(token: &str) -> Vec<u8> {
    Sha256::digest(token.as_bytes()).to_vec()
}

impl PgStore {
    /// Makes a token for `name`.
    pub async fn create_token(&self, name: &str, role: Role, actor: &str) -> Result<Secret, TokenError> {
        let fits = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '@');
        if name.is_empty() || name.chars().count() > 64 || !name.chars().all(fits) {
            return Err(TokenError::BadName);
        }
        let secret = Secret::random()?;
        let mut txn = self.changing().await?;
        // Called by POST tokens.
        let insert =
            sqlx::query("INSERT INTO dlo_tokens (name, role, hash) VALUES ($1, $2, $3) ON CONFLICT (name) DO NOTHING");
        let insert = insert.bind(name).bind(role.as_str()).bind(digest(secret.expose()));
        if answered(insert.execute(&mut *txn)).await?.rows_affected() == 0 {
            return Err(TokenError::NameTaken(name.to_owned()));
        }
        let details = json!({"name": name, "role": role.as_str()});
        answered(audit::record(&mut txn, Entry { actor, action: "token create", letters: &[], details })).await?;
        answered(txn.commit()).await?;
        Ok(secret)
    }

    /// Ends a token's life, at once and for every instance. Revoking twice is the same as once.
    pub async fn revoke_token(&self, name: &str, actor: &str) -> Result<(), TokenError> {
        let mut txn = self.changing().await?;
        // Called by DELETE tokens/{name}.
        let revoke = sqlx::query("UPDATE dlo_tokens SET revoked_at = coalesce(revoked_at, now()) WHERE name = $1");
        if answered(revoke.bind(name).execute(&mut *txn)).await?.rows_affected() == 0 {
            return Err(TokenError::NotFound(name.to_owned()));
        }
        let details = json!({"name": name});
        answered(audit::record(&mut txn, Entry { actor, action: "token revoke", letters: &[], details })).await?;
        answered(txn.commit()).await?;
        Ok(())
    }

    pub async fn tokens(&self) -> Result<Vec<Token>, QueryError> {
        let mut reading = self.reading().await?;
        // Called by GET tokens.
        let all = sqlx::query_as("SELECT name, role, created_at, revoked_at FROM dlo_tokens ORDER BY name");
        answered(all.fetch_all(reading.connection())).await
    }

    /// Whose token this is.
    pub async fn token_holder(&self, token: &str) -> Result<Option<(String, Role)>, QueryError> {
        // Called for every request to the API. By digest, so that time tells nothing about a token.
        let found = sqlx::query_as::<_, (String, String)>(
            "SELECT name, role FROM dlo_tokens WHERE hash = $1 AND revoked_at IS NULL",
        );
        let found = answered(found.bind(digest(token)).fetch_optional(&self.pool)).await?;
        Ok(found.and_then(|(name, role)| Some((name, Role::parse(&role)?))))
    }

    /// An admin token, if there is no token yet: how the first person gets in. `None` when there is one.
    ///
    /// Called at start with `auth: token`. Of several instances that start at once, one makes it.
    pub async fn ensure_first_token(&self) -> Result<Option<Secret>, TokenError> {
        let secret = Secret::random()?;
        let mut txn = self.changing().await?;
        // Called at start. The lock makes "none yet" true until the COMMIT.
        let insert = "LOCK TABLE dlo_tokens IN SHARE ROW EXCLUSIVE MODE";
        answered(sqlx::query(insert).execute(&mut *txn)).await?;
        let insert = sqlx::query(
            "INSERT INTO dlo_tokens (name, role, hash) SELECT 'first-admin', 'admin', $1
             WHERE NOT EXISTS (SELECT FROM dlo_tokens)",
        );
        if answered(insert.bind(digest(secret.expose())).execute(&mut *txn)).await?.rows_affected() == 0 {
            return Ok(None);
        }
        let details = json!({"name": "first-admin", "role": "admin"});
        answered(audit::record(&mut txn, Entry { actor: "dlo", action: "token create", letters: &[], details }))
            .await?;
        answered(txn.commit()).await?;
        Ok(Some(secret))
    }
}
