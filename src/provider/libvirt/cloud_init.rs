//! What cloud-init makes of data by its first line.
//!
//! cloud-init drops what it does not recognise without an error: the machine boots and nothing is
//! configured. The headers are those of cloud-init's documentation on user-data formats. This
//! module looks at the bytes and never shows them.

/// A kind of data that cloud-init knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// `#cloud-config`
    CloudConfig,
    /// `#cloud-config-archive`
    Archive,
    /// `#cloud-config-jsonp`
    Jsonp,
    /// `#!`
    Script,
    /// `#cloud-boothook`
    Boothook,
    /// `#include` or `#include-once`
    Include,
    /// `#part-handler`
    PartHandler,
    /// `## template: jinja`
    Jinja,
    /// A MIME message, whose parts say what they are.
    Mime,
    /// gzip of any of the others.
    Gzip,
}

/// Why cloud-init would do nothing with data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unrecognised {
    /// No bytes, or white space only.
    #[error("it is empty")]
    Empty,
    /// UTF-8's mark, as some editors write it.
    #[error("it begins with a byte order mark; save it as UTF-8 without one")]
    ByteOrderMark,
    /// UTF-16.
    #[error("it is UTF-16 text; save it as UTF-8")]
    Utf16,
    /// YAML's document marker before the header.
    #[error("it begins with ---; the header has to be the first line")]
    DocumentMarker,
    /// White space before the header.
    #[error("it begins with a blank line or a blank; the header has to be the first line")]
    LeadingSpace,
    /// `# cloud-config` and the like.
    #[error("its first line is almost a header; write #cloud-config without blanks and in lower case")]
    AlmostHeader,
    /// Base64 of something.
    #[error("it looks like base64; give the text itself")]
    Base64,
    /// A header and nothing else, as a folded block (`>`) makes of a cloud-config.
    #[error("it is one comment line and there is nothing to do; a block begins with | and not with >")]
    OneComment,
    /// Anything else.
    #[error("its first line is no header that cloud-init knows, such as #cloud-config or #!/bin/sh")]
    NoHeader,
}

/// Headers that are a whole first line, up to white space.
const HEADERS: [(&str, Content); 7] = [
    ("#cloud-config", Content::CloudConfig),
    ("#cloud-config-archive", Content::Archive),
    ("#cloud-config-jsonp", Content::Jsonp),
    ("#cloud-boothook", Content::Boothook),
    ("#include", Content::Include),
    ("#include-once", Content::Include),
    ("#part-handler", Content::PartHandler),
];

impl Content {
    /// What cloud-init takes the data for.
    ///
    /// # Errors
    /// When it would do nothing with it, and why.
    pub fn recognise(data: &[u8]) -> Result<Self, Unrecognised> {
        if data.iter().all(u8::is_ascii_whitespace) {
            return Err(Unrecognised::Empty);
        }
        if data.starts_with(&[0x1f, 0x8b]) {
            return Ok(Self::Gzip);
        }
        if data.starts_with(&[0xef, 0xbb, 0xbf]) {
            return Err(Unrecognised::ByteOrderMark);
        }
        if data.starts_with(&[0xff, 0xfe]) || data.starts_with(&[0xfe, 0xff]) {
            return Err(Unrecognised::Utf16);
        }
        if data.starts_with(b"#!") {
            return Ok(Self::Script);
        }
        let end = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
        let (first, rest) = data.split_at(end);
        let first = String::from_utf8_lossy(first);
        if is_mime(data, &first) {
            return Ok(Self::Mime);
        }
        let word = first.split_whitespace().next().unwrap_or_default();
        if let Some((_, content)) = HEADERS.iter().find(|(header, _)| first.starts_with(header) && word == *header) {
            let comment = |line: &[u8]| line.trim_ascii().is_empty() || line.trim_ascii().starts_with(b"#");
            let lists_urls = *content == Self::Include;
            if rest.split(|byte| *byte == b'\n').all(comment) && !lists_urls {
                return Err(Unrecognised::OneComment);
            }
            return Ok(*content);
        }
        if first.to_ascii_lowercase().starts_with("## template:") {
            return Ok(Self::Jinja);
        }
        Err(why_not(&first))
    }

    /// The type of a MIME part that holds it. A MIME message and gzip are no parts themselves.
    #[must_use]
    pub fn mime_type(self) -> Option<&'static str> {
        match self {
            Self::CloudConfig => Some("text/cloud-config"),
            Self::Archive => Some("text/cloud-config-archive"),
            Self::Jsonp => Some("text/cloud-config-jsonp"),
            Self::Script => Some("text/x-shellscript"),
            Self::Boothook => Some("text/cloud-boothook"),
            Self::Include => Some("text/x-include-url"),
            Self::PartHandler => Some("text/part-handler"),
            Self::Jinja => Some("text/jinja2"),
            Self::Mime | Self::Gzip => None,
        }
    }
}

/// cloud-init looks for the version line within the first 4,096 bytes.
fn is_mime(data: &[u8], first: &str) -> bool {
    let head = data.get(..data.len().min(4096)).unwrap_or_default().to_ascii_lowercase();
    let header = first
        .split_once(':')
        .is_some_and(|(name, _)| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'));
    (header || first.starts_with("From ")) && head.windows(13).any(|window| window == b"mime-version:")
}

fn why_not(first: &str) -> Unrecognised {
    let trimmed = first.trim();
    let base64 = |c: char| c.is_ascii_alphanumeric() || "+/=".contains(c);
    let squeezed: String = trimmed.chars().filter(|c| !c.is_whitespace()).collect::<String>().to_ascii_lowercase();
    if trimmed == "---" {
        Unrecognised::DocumentMarker
    } else if trimmed.is_empty() || first.starts_with(char::is_whitespace) {
        Unrecognised::LeadingSpace
    } else if HEADERS.iter().any(|(header, _)| squeezed == *header || squeezed == header.trim_start_matches('#')) {
        Unrecognised::AlmostHeader
    } else if trimmed.len() >= 16 && trimmed.chars().all(base64) {
        Unrecognised::Base64
    } else {
        Unrecognised::NoHeader
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c18_the_first_line_says_what_data_is() {
        let known: [(&[u8], Content); 12] = [
            (b"#cloud-config\npackages: [squid]\n", Content::CloudConfig),
            (b"#cloud-config\r\npackages: [squid]\r\n", Content::CloudConfig),
            (b"#cloud-config  \na: 1\n", Content::CloudConfig),
            (b"#cloud-config-archive\n- a\n", Content::Archive),
            (b"#!/bin/sh\n", Content::Script),
            (b"#cloud-boothook\nls\n", Content::Boothook),
            (b"#include\nhttps://a.example/x\n", Content::Include),
            (b"#include https://a.example/x\n", Content::Include),
            (b"## template: jinja\n#cloud-config\n", Content::Jinja),
            (b"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n", Content::Mime),
            (b"Content-Type: multipart/mixed; boundary=b\nMIME-Version: 1.0\n", Content::Mime),
            (&[0x1f, 0x8b, 8, 0], Content::Gzip),
        ];
        for (data, content) in known {
            assert_eq!(Content::recognise(data), Ok(content), "{}", String::from_utf8_lossy(data));
        }
        let unknown: [(&[u8], Unrecognised); 13] = [
            (b"", Unrecognised::Empty),
            (b" \n", Unrecognised::Empty),
            (b"\xef\xbb\xbf#cloud-config\na: 1\n", Unrecognised::ByteOrderMark),
            (b"\xff\xfe#\0", Unrecognised::Utf16),
            (b"---\n#cloud-config\n", Unrecognised::DocumentMarker),
            (b"\n#cloud-config\na: 1\n", Unrecognised::LeadingSpace),
            (b" #cloud-config\na: 1\n", Unrecognised::LeadingSpace),
            (b"# cloud-config\na: 1\n", Unrecognised::AlmostHeader),
            (b"#Cloud-Config\na: 1\n", Unrecognised::AlmostHeader),
            (b"I2Nsb3VkLWNvbmZpZwpwYWNrYWdlcw==\n", Unrecognised::Base64),
            (b"#cloud-config packages: [squid]\n", Unrecognised::OneComment),
            (b"#cloud-config\n# nothing\n", Unrecognised::OneComment),
            (b"packages: [squid]\n", Unrecognised::NoHeader),
        ];
        for (data, why) in unknown {
            assert_eq!(Content::recognise(data), Err(why), "{}", String::from_utf8_lossy(data));
        }
    }
}
