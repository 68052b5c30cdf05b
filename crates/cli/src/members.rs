//! Lists of members: from a file with one name a line, or as JSON, for the command line and for HTTP.
//!
//! What does not belong here: what a name may be, which [`sendoff::barrier`] decides.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use sendoff::barrier::{Change, MEMBERS_MAX, MemberName, PlanBuilder, Refusal, RefusalCode};
use sendoff::{Error, ErrorKind};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::exit::Failure;

const READING: &str = "reading the members";
/// The most bytes of a JSON list: as many as the most members take with names of some 100 bytes.
const JSON_BYTES_MAX: u64 = 128 << 20;

/// Names by group; the group without a name is the usual one.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Members(Vec<(String, Vec<Vec<u8>>)>);

impl Members {
    /// Adds them to a plan.
    pub(crate) fn add_to(self, plan: PlanBuilder) -> PlanBuilder {
        // An empty list is a list too.
        let plan = plan.members(Vec::<Vec<u8>>::new());
        self.0.into_iter().fold(plan, |plan, (group, names)| plan.group(group, names))
    }

    /// The growth by these members.
    ///
    /// # Errors
    /// A name that is none or stands twice; too many.
    pub(crate) fn growth(self) -> Result<Change, Refusal> {
        let mut members = Vec::new();
        for (group, names) in self.0 {
            let Change::Grow(some) = Change::grow(&group, names)? else { continue };
            members.extend(some);
        }
        Ok(Change::Grow(members))
    }

    /// Reads a file with one name a line: the bytes as they are, the line feed ends the name.
    ///
    /// # Errors
    /// The file cannot be read; a name that is over the limit or more names than a barrier may have,
    /// with the line's number.
    pub(crate) fn from_lines(path: &Path) -> Result<Self, Failure> {
        let (subject, file) = open(path)?;
        let names = lines(file, &subject)?;
        Ok(Self(vec![(String::new(), names)]))
    }

    /// Reads a file that is a JSON list of names, or an object of groups with a list each.
    ///
    /// # Errors
    /// The file cannot be read, is too large, or is something else.
    pub(crate) fn from_json(path: &Path) -> Result<Self, Failure> {
        let (subject, mut file) = open(path)?;
        let mut text = Vec::new();
        file.by_ref()
            .take(JSON_BYTES_MAX + 1)
            .read_to_end(&mut text)
            .map_err(|error| unreadable(&subject, error))?;
        if u64::try_from(text.len()).unwrap_or(u64::MAX) > JSON_BYTES_MAX {
            return Err(Error::new(ErrorKind::TooLarge, READING)
                .subject(subject)
                .detail(format!("it has more than {JSON_BYTES_MAX} bytes, the limit"))
                .into());
        }
        serde_json::from_slice(&text).map_err(|error| {
            Error::invalid(READING, misread(&error))
                .subject(subject)
                .advice(
                    r#"write ["a.xml", "b.xml"] or {"group": ["a.xml"]}; a name that is not UTF-8 is {"base64": "..."}"#,
                )
                .into()
        })
    }
}

fn open(path: &Path) -> Result<(String, Box<dyn BufRead>), Failure> {
    if path == Path::new("-") {
        return Ok(("standard input".to_owned(), Box::new(BufReader::new(io::stdin()))));
    }
    let subject = path.display().to_string();
    let file = File::open(path).map_err(|error| unreadable(&subject, error))?;
    Ok((subject, Box::new(BufReader::with_capacity(1 << 16, file))))
}

fn unreadable(subject: &str, error: io::Error) -> Error {
    Error::new(ErrorKind::Invalid, READING)
        .subject(subject)
        .caused_by(error)
        .advice("name a file that can be read, or - for standard input")
}

fn lines(mut from: impl BufRead, subject: &str) -> Result<Vec<Vec<u8>>, Failure> {
    let too_large = |detail| Failure::refused(READING, Refusal::new(RefusalCode::TooLarge, detail));
    let bound = u64::try_from(MemberName::BYTES_MAX).unwrap_or(u64::MAX) + 1;
    let mut names = Vec::new();
    loop {
        let mut name = Vec::new();
        from.by_ref()
            .take(bound)
            .read_until(b'\n', &mut name)
            .map_err(|error| unreadable(subject, error))?;
        let line = names.len() + 1;
        if name.is_empty() {
            return Ok(names);
        }
        if name.last() == Some(&b'\n') {
            name.pop();
        } else if name.len() > MemberName::BYTES_MAX {
            return Err(too_large(format!(
                "line {line} of {subject} has more than {} bytes, the limit of a name",
                MemberName::BYTES_MAX
            )));
        }
        if name.is_empty() {
            let detail = format!("line {line} of {subject} is empty, which is no name");
            return Err(Failure::refused(READING, Refusal::new(RefusalCode::Invalid, detail)));
        }
        if line > MEMBERS_MAX {
            return Err(too_large(format!(
                "{subject} has more than {MEMBERS_MAX} lines, the limit of a barrier's members"
            )));
        }
        names.push(name);
    }
}

/// What is wrong with JSON, without the texts that it holds.
pub(crate) fn misread(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match (text.find("string \""), text.rfind("\", expected")) {
        (Some(from), Some(to)) if from < to => {
            format!("{}a string{}", &text[..from], &text[to + 1..])
        }
        _ => text,
    }
}

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Listed)
    }
}

struct Listed;

impl<'de> Visitor<'de> for Listed {
    type Value = Members;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of names, or an object of groups with a list of names each")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Members, A::Error> {
        let mut names = Vec::new();
        while let Some(name) = from.next_element::<MemberName>()? {
            if names.len() == MEMBERS_MAX {
                return Err(serde::de::Error::custom(format!(
                    "more than {MEMBERS_MAX} members, the limit of a barrier"
                )));
            }
            names.push(name.as_bytes().to_vec());
        }
        Ok(Members(vec![(String::new(), names)]))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Members, A::Error> {
        let mut groups = Vec::new();
        while let Some((group, names)) = from.next_entry::<String, Vec<MemberName>>()? {
            let names = names.iter().map(|name| name.as_bytes().to_vec()).collect();
            groups.push((group, names));
        }
        Ok(Members(groups))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_name_as_it_is() {
        let names = lines(&b"a.xml\n b \r\n\xff\xfe\nlast"[..], "list").unwrap();
        assert_eq!(names, [&b"a.xml"[..], b" b \r", b"\xff\xfe", b"last"]);
        assert!(lines(&b""[..], "list").unwrap().is_empty());
    }

    #[test]
    fn a_line_that_is_no_name_is_told_by_its_number() {
        let long = [b"a\n".as_slice(), &[b'x'; 1_025]].concat();
        for (bytes, code) in
            [(&b"a\n\nb\n"[..], RefusalCode::Invalid), (&long, RefusalCode::TooLarge)]
        {
            let Err(Failure::Refused { refusal, .. }) = lines(bytes, "list") else {
                panic!("it was taken");
            };
            assert_eq!(refusal.code(), code);
            assert!(refusal.detail().contains("line 2 of list"), "{refusal}");
        }
    }

    #[test]
    fn json_is_a_list_or_groups_of_lists() {
        let list: Members = serde_json::from_str(r#"["a\nb", {"base64": "/w=="}]"#).unwrap();
        assert_eq!(list, Members(vec![(String::new(), vec![b"a\nb".to_vec(), b"\xff".to_vec()])]));
        let groups: Members = serde_json::from_str(r#"{"core": ["a"], "": []}"#).unwrap();
        assert_eq!(groups.0.len(), 2);
        assert!(serde_json::from_str::<Members>("null").is_err());
    }

    #[test]
    fn what_is_wrong_with_json_is_told_without_its_texts() {
        let error = serde_json::from_str::<Members>(r#""a secret""#).unwrap_err();
        let told = misread(&error);
        assert!(!told.contains("secret") && told.contains("expected a list"), "{told}");
    }
}
