//! What people ask: pages of letters, one letter with all of it, its body, its lives.
//!
//! Pages go backwards by id and hold no wide column. A letter that is inserted while somebody turns pages is on
//! a page before the first one, so nothing is repeated and nothing is missed.

mod letter;
mod letters;
mod lives;
mod pattern;
mod rows;
mod sql;
mod terms;

pub(crate) use self::letter::properties;
pub use self::{
    letters::{Cursor, PAGE_MAX, PageOf},
    lives::Lives,
    rows::{Body, Letter, LetterRow},
    terms::{BadTerm, Filter, TERMS},
};
