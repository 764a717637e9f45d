//! Stack traces as `Throwable.printStackTrace` writes them.
//!
//! The chain of causes stands at column 0; `Suppressed:` sections are indented and have causes of their own.
//! Messages are the application's text and may hold anything, line breaks and other traces included.

use std::sync::LazyLock;

use memchr::memmem::Finder;

static CAUSED_BY: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\nCaused by: "));

/// The class at the end of the chain of causes, or of the exception itself when it has none; `None` when the
/// text begins with no class.
pub(super) fn innermost_class(trace: &str) -> Option<&str> {
    let causes = CAUSED_BY.find_iter(trace.as_bytes());
    let classes = causes.filter_map(|at| class(&trace[at + CAUSED_BY.needle().len()..]));
    classes.last().or_else(|| class(trace))
}

/// Whether the end of the trace is missing, and with it perhaps the innermost cause: a whole one ends its line.
pub(super) fn is_cut(trace: &str) -> bool {
    !trace.is_empty() && !trace.ends_with('\n')
}

/// The class name at the start of `Throwable.toString`: `class` or `class: message`.
fn class(text: &str) -> Option<&str> {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '.' | '$' | '_' | '/' | '-');
    let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);

    let closed = rest.is_empty() || rest.starts_with(['\r', '\n']) || rest.starts_with(": ") || rest.starts_with(":\n");
    // A word of a message is no class: those have a package or at least a capital.
    let named = name.starts_with(char::is_uppercase)
        || (name.starts_with(char::is_alphabetic) && name.contains('.') && !name.ends_with('.'));
    (closed && named).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_cause_of_the_chain_is_the_innermost() {
        let trace = "a.Wrapper: outer\n\tat a.B.c(B.java:1)\nCaused by: a.Middle: x\n\tat a.B.d(B.java:2)\n\t... 2 more\nCaused by: a.Root$Inner\n\tat a.B.e(B.java:3)\n\t... 4 more\n";
        assert_eq!(innermost_class(trace), Some("a.Root$Inner"));
    }

    #[test]
    fn an_exception_without_cause_is_its_own_innermost() {
        assert_eq!(innermost_class("a.Only: no stock\n\tat a.B.c(B.java:1)\n"), Some("a.Only"));
        assert_eq!(innermost_class("a.Only"), Some("a.Only"));
        assert_eq!(innermost_class("a.Only\r\n\tat a.B.c(B.java:1)\r\n"), Some("a.Only"));
    }

    #[test]
    fn causes_of_suppressed_exceptions_do_not_count() {
        let trace = "a.Outer: x\n\tat a.B.c(B.java:1)\n\tSuppressed: a.Side: y\n\t\tat a.B.d(B.java:2)\n\tCaused by: a.SideRoot: z\n\t\t... 1 more\nCaused by: a.Root: w\n\t... 1 more\n\tSuppressed: a.S\n\tCaused by: a.T\n";
        assert_eq!(innermost_class(trace), Some("a.Root"));
    }

    #[test]
    fn a_message_that_looks_like_a_cause_is_none() {
        let trace = "a.Outer: two lines\nCaused by: a broken pump, at [Source: x]\nCaused by: timeout: 5 s\nCaused by: [CIRCULAR REFERENCE: a.Outer]\n\tat a.B.c(B.java:1)\n";
        assert_eq!(innermost_class(trace), Some("a.Outer"));
    }

    #[test]
    fn a_text_that_is_no_trace_names_no_class() {
        for text in ["", "no stock for A-1042", "\n\n", "404: not found", "é à"] {
            assert_eq!(innermost_class(text), None, "{text}");
        }
    }

    #[test]
    fn a_trace_cut_to_fit_a_frame_is_seen() {
        assert!(is_cut("a.Only: no stock\n\tat a.B.c(B.ja"));
        assert!(!is_cut("a.Only: no stock\n\tat a.B.c(B.java:1)\n"));
        assert!(!is_cut(""));
    }
}
