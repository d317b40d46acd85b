use std::fs;

use tempfile::TempDir;

use super::*;

/// A packed file: name and content.
pub type Packed<'a> = (&'a str, &'a [u8]);

/// Returns the SHA-256 in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Returns a manifest for these files.
pub fn manifest_of(files: &[Packed<'_>]) -> String {
    let lines = files.iter().map(|(name, bytes)| format!("SHA256({name})= {}", sha256(bytes)));
    lines.collect::<Vec<_>>().join("\n")
}

/// Packs files as an OVA.
pub fn pack(path: &Path, files: &[Packed<'_>]) {
    let mut archive = tar::Builder::new(File::create(path).unwrap());
    for (name, bytes) in files {
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, name, *bytes).unwrap();
    }
    archive.finish().unwrap();
}

const OVF: &[u8] = br#"<Envelope><References><File href="disk.vmdk" size="4"/></References></Envelope>"#;
const DISK: &[u8] = b"disk";

/// Writes an OVA with these files into a temporary folder.
fn packed(files: &[Packed<'_>]) -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("node.ova");
    pack(&path, files);
    (folder, path)
}

/// Writes a complete OVA with a manifest.
fn whole() -> (TempDir, PathBuf) {
    let manifest = manifest_of(&[("node.ovf", OVF), ("disk.vmdk", DISK)]);
    packed(&[("node.ovf", OVF), ("node.mf", manifest.as_bytes()), ("disk.vmdk", DISK)])
}

fn read(files: &[Packed<'_>]) -> Result<Ova, String> {
    let (_folder, path) = packed(files);
    Ova::read(&path, &AtomicU64::new(0)).map_err(|error| format!("{error:#}"))
}

#[test]
fn the_parts_are_where_the_archive_has_them() {
    let (_folder, path) = whole();
    let done = AtomicU64::new(0);
    let ova = Ova::read(&path, &done).unwrap();
    let bytes = fs::read(&path).unwrap();
    assert_eq!(done.load(Ordering::Relaxed), bytes.len() as u64);
    assert_eq!(ova.sha256, sha256(&bytes), "as sha256sum has it");
    assert!(ova.has_manifest);
    let names: Vec<_> = ova.parts.iter().map(|part| &*part.name).collect();
    assert_eq!(names, ["node.ovf", "disk.vmdk"]);
    for (part, content) in ova.parts.iter().zip([OVF, DISK]) {
        let begin = usize::try_from(part.offset).unwrap();
        assert_eq!(&bytes[begin..begin + content.len()], content);
        assert_eq!(part.sha256, sha256(content));
    }
}

#[test]
fn what_is_not_whole_is_refused() {
    let whole = manifest_of(&[("node.ovf", OVF), ("disk.vmdk", DISK)]);
    let whole = whole.as_bytes();
    let sha1 = b"SHA1(node.ovf)= ab\n".as_slice();
    let partial = manifest_of(&[("node.ovf", OVF)]);
    let cases: [(&[Packed<'_>], &str); 10] = [
        (&[], "no .ovf"),
        (&[("disk.vmdk", DISK)], "no .ovf"),
        (&[("a.ovf", OVF), ("b.ovf", OVF), ("disk.vmdk", DISK)], "more than one .ovf"),
        (&[("node.ovf", OVF)], "it does not contain disk.vmdk, which node.ovf names"),
        (&[("node.ovf", OVF), ("disk.vmdk", b"disks")], "has 5 bytes"),
        (&[("node.ovf", OVF), ("node.mf", whole), ("disk.vmdk", b"risk")], "disk.vmdk is damaged"),
        (
            &[("node.ovf", OVF), ("node.mf", partial.as_bytes()), ("disk.vmdk", DISK)],
            "no digest of disk.vmdk",
        ),
        (&[("node.ovf", OVF), ("node.mf", sha1), ("disk.vmdk", DISK)], "SHA1"),
        (&[("node.ovf", OVF), ("x/disk.vmdk", DISK)], "not a plain file name"),
        (&[("node.ovf", OVF), ("disk.vmdk", DISK), ("disk.vmdk", DISK)], "two files with the name disk.vmdk"),
    ];
    for (files, why) in cases {
        let error = read(files).unwrap_err();
        assert!(error.contains(why) && error.contains("node.ova is not a complete OVA"), "{error}");
    }
    assert!(!read(&[("node.ovf", OVF), ("disk.vmdk", DISK)]).unwrap().has_manifest);
}

#[test]
fn names_may_begin_with_the_folder_of_the_archive() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("node.ova");
    let manifest = manifest_of(&[("./node.ovf", OVF), ("./disk.vmdk", DISK)]);
    let mut archive = tar::Builder::new(File::create(&path).unwrap());
    let mut header = tar::Header::new_ustar();
    let mut add = |name: &str, kind: tar::EntryType, bytes: &[u8]| {
        // `append_data` would drop the prefix.
        header.as_ustar_mut().unwrap().name = [0; 100];
        header.as_ustar_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(kind);
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        archive.append(&header, bytes).unwrap();
    };
    add("./", tar::EntryType::Directory, b"");
    for (name, bytes) in [("./node.ovf", OVF), ("./node.mf", manifest.as_bytes()), ("./disk.vmdk", DISK)] {
        add(name, tar::EntryType::Regular, bytes);
    }
    archive.finish().unwrap();
    drop(archive);
    let ova = Ova::read(&path, &AtomicU64::new(0)).unwrap();
    let names: Vec<_> = ova.parts.iter().map(|part| &*part.name).collect();
    assert_eq!((names.as_slice(), ova.has_manifest), (["node.ovf", "disk.vmdk"].as_slice(), true));
}

#[test]
fn a_packed_archive_is_named_and_no_binary_data_is_quoted() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("node.ova");
    let refusal = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        format!("{:#}", Ova::read(&path, &AtomicU64::new(0)).unwrap_err())
    };
    let packed = refusal(&[b"\x1f\x8b\x08\0".as_slice(), &[0xfe; 2000]].concat());
    assert!(packed.contains("is packed with gzip") && packed.contains("gunzip"), "{packed}");
    let junk = refusal(&[0xfe; 2000]);
    assert!(junk.contains("not a complete tar archive") && junk.is_ascii(), "{junk}");
    let escaped = OVF.to_vec();
    let escaped = String::from_utf8(escaped).unwrap().replace("disk.vmdk", "my%20disk.vmdk");
    let error = read(&[("node.ovf", escaped.as_bytes()), ("my disk.vmdk", DISK)]).unwrap_err();
    assert!(error.contains("names my disk.vmdk with escapes, as my%20disk.vmdk"), "{error}");
}

#[test]
fn a_file_that_is_cut_off_anywhere_is_refused() {
    let (_folder, path) = whole();
    let bytes = fs::read(&path).unwrap();
    let last = Ova::read(&path, &AtomicU64::new(0)).unwrap().parts[1].clone();
    let end = usize::try_from(last.offset + last.size).unwrap();
    for length in 0..end {
        fs::write(&path, &bytes[..length]).unwrap();
        assert!(Ova::read(&path, &AtomicU64::new(0)).is_err(), "{length} of {} bytes", bytes.len());
    }
    fs::write(&path, b"QFI\xfb not an archive at all".repeat(100)).unwrap();
    let error = Ova::read(&path, &AtomicU64::new(0)).unwrap_err();
    assert!(format!("{error:#}").contains("not a complete tar archive"), "{error:#}");
}
