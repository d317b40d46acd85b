//! Parses the file references in an OVF descriptor.

use anyhow::{Context, Result, bail};
use quick_xml::XmlVersion;
use quick_xml::events::{BytesStart, Event};
use quick_xml::reader::Reader;

/// The descriptor's list of files.
#[derive(Debug)]
pub struct References(pub Vec<Reference>);

/// A file reference in an OVF descriptor.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Reference {
    pub href: String,
    /// The size in bytes, if declared.
    pub size: Option<u64>,
}

impl References {
    pub fn read(xml: &str) -> Result<Self> {
        let mut reader = Reader::from_str(xml);
        let (mut found, mut inside, mut is_ovf) = (Vec::new(), false, false);
        loop {
            match reader.read_event()? {
                Event::Start(start) | Event::Empty(start)
                    if start.local_name().as_ref() == "File" && inside =>
                {
                    found.push(reference(&start)?);
                }
                Event::Start(start) => match start.local_name().as_ref() {
                    "References" => inside = true,
                    "Envelope" => is_ovf = true,
                    _ => {}
                },
                Event::End(end) if end.local_name().as_ref() == "References" => inside = false,
                Event::Eof => break,
                _ => {}
            }
        }
        if !is_ovf {
            bail!("it is not an OVF descriptor: it has no Envelope");
        }
        Ok(Self(found))
    }
}

fn reference(start: &BytesStart<'_>) -> Result<Reference> {
    let mut reference = Reference::default();
    for attribute in start.attributes() {
        let attribute = attribute?;
        let value = attribute.normalized_value(XmlVersion::Implicit1_0)?.into_owned();
        match attribute.key.local_name().as_ref() {
            "href" => reference.href = value,
            "size" => reference.size = Some(value.parse().with_context(|| format!("ovf:size={value:?}"))?),
            "compression" if !["", "identity"].contains(&value.as_str()) => {
                bail!(
                    "its files are packed with {value}, which is not supported. Pack it again: ovftool OLD.ova NEW.ova"
                )
            }
            "chunkSize" => {
                bail!("its files are split into chunks, which is not supported. Pack it again with ovftool")
            }
            _ => {}
        }
    }
    if reference.href.contains("://") {
        bail!("it names {}, which is not in the OVA. Pack it again with ovftool", reference.href);
    }
    Ok(reference)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_with_their_sizes() {
        let xml = r#"<Envelope xmlns:ovf="o"><References><File ovf:href="a&amp;b.vmdk" ovf:size="7"/><ovf:File ovf:href="c"></ovf:File></References><File ovf:href="no"/></Envelope>"#;
        let References(found) = References::read(xml).unwrap();
        let expected = [("a&b.vmdk", Some(7)), ("c", None)];
        let expected = expected.map(|(href, size)| Reference { href: href.into(), size });
        assert_eq!(found, expected);
    }

    #[test]
    fn what_cannot_be_uploaded_is_refused() {
        for (xml, why) in [
            ("<Domain/>", "no Envelope"),
            (r#"<Envelope><References><File href="a" chunkSize="1"/></References></Envelope>"#, "chunks"),
            (r#"<Envelope><References><File href="http://x/a"/></References></Envelope>"#, "not in the OVA"),
            (
                r#"<Envelope><References><File href="a.gz" compression="gzip"/></References></Envelope>"#,
                "packed with gzip",
            ),
            (r#"<Envelope><References><File href="a" size="-1"/></References></Envelope>"#, "size"),
            ("<Envelope><References></Envelope>", ""),
        ] {
            let error = format!("{:#}", References::read(xml).unwrap_err());
            assert!(error.contains(why), "{error}");
        }
    }
}
