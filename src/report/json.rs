//! JSON texts: pretty, with a final line end, the same bytes for the same value. And the way back for
//! a report that a former run wrote.

use serde::Serialize;

use super::document::Report;

/// Any of the documents as JSON. Maps are sorted, since all of them are `BTreeMap`s.
///
/// # Errors
/// A value that JSON cannot carry, which none of this crate's documents holds.
pub fn text(document: &impl Serialize) -> Result<String, serde_json::Error> {
    let mut text = serde_json::to_string_pretty(document)?;
    text.push('\n');
    Ok(text)
}

/// Why a former report was not taken.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// It is not JSON, or not in the shape of a report.
    #[error("this is not a report of egress-plan")]
    Malformed {
        /// What the parser said.
        #[source]
        source: serde_json::Error,
    },
    /// It is a report of another format.
    #[error("this report has the format {found:?}, and only {:?} is read", Report::SCHEMA)]
    OtherFormat {
        /// What it says it is, cut and cleaned.
        found: String,
    },
}

/// Reads a former report. Fields that a newer program of the same format added are passed over.
///
/// # Errors
/// When it is not a report, or one of another format.
pub fn read_report(text: &str) -> Result<Report, ReportError> {
    #[derive(serde::Deserialize)]
    struct Head {
        schema: String,
    }
    let head: Head = serde_json::from_str(text).map_err(|source| ReportError::Malformed { source })?;
    if head.schema != Report::SCHEMA {
        return Err(ReportError::OtherFormat { found: crate::provider::error::clean(&head.schema) });
    }
    serde_json::from_str(text).map_err(|source| ReportError::Malformed { source })
}

#[cfg(test)]
mod tests {
    use super::super::fixture::everything;
    use super::*;
    use crate::plan::Plan;

    #[test]
    fn a_plan_as_json_is_stable_and_reads_back() {
        let plan = everything();
        let text = text(&plan).expect("JSON");
        assert_eq!(super::text(&plan).expect("JSON"), text);
        assert!(text.starts_with("{\n  \"format\": \"egress-plan.dev/plan/v1\"") && text.ends_with("}\n"));
        assert_eq!(serde_json::from_str::<Plan>(&text).expect("a plan"), plan);
    }
}
