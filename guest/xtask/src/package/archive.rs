//! Archives whose bytes depend on their contents only: entries in the given order, fixed times, no
//! owners.

use std::io::{Cursor, Write as _};

use anyhow::Result;
use flate2::Compression;
use flate2::write::GzEncoder;
use lzma_rust2::{FilterType, XzOptions, XzWriter};
use sha2::{Digest as _, Sha256};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// The time of all entries: the start of 2020. Debian refuses packages with files of 1970.
const MODIFIED: u64 = 1_577_836_800;
/// The level of compression of releases, which is the highest.
pub(crate) const BEST: u32 = 9;

/// A file in an archive.
pub(crate) struct Entry {
    pub(crate) path: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) is_executable: bool,
}

impl Entry {
    pub(crate) fn file(path: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self { path: path.into(), bytes: bytes.into(), is_executable: false }
    }

    pub(crate) fn program(path: impl Into<String>, bytes: &[u8]) -> Self {
        Self { path: path.into(), bytes: bytes.to_vec(), is_executable: true }
    }
}

/// Returns a tar archive. Folders precede their files.
pub(crate) fn tar(entries: &[Entry]) -> Result<Vec<u8>> {
    let mut builder = tar::Builder::new(Vec::new());
    let mut folders: Vec<String> = Vec::new();
    for entry in entries {
        let prefixes = entry.path.match_indices('/').map(|(at, _)| entry.path.split_at(at).0);
        for folder in prefixes.filter(|folder| !folder.is_empty() && *folder != ".") {
            if !folders.iter().any(|known| known == folder) {
                folders.push(folder.to_owned());
                let mut header = header(0o755, 0);
                header.set_entry_type(tar::EntryType::Directory);
                builder.append_data(&mut header, format!("{folder}/"), std::io::empty())?;
            }
        }
        let mode = if entry.is_executable { 0o755 } else { 0o644 };
        let mut header = header(mode, entry.bytes.len() as u64);
        builder.append_data(&mut header, &entry.path, entry.bytes.as_slice())?;
    }
    Ok(builder.into_inner()?)
}

fn header(mode: u32, size: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_mode(mode);
    header.set_size(size);
    header.set_mtime(MODIFIED);
    header.set_uid(0);
    header.set_gid(0);
    header
}

/// Returns the bytes compressed with gzip, without a time.
pub(crate) fn gzip(bytes: &[u8], level: u32) -> Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(level));
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

/// Returns the bytes compressed with xz: a quarter smaller than with gzip. `filter` prepares the
/// machine code of a processor for compression.
pub(crate) fn xz(bytes: &[u8], filter: Option<FilterType>, level: u32) -> Result<Vec<u8>> {
    let mut options = XzOptions::with_preset(level);
    if let Some(filter) = filter {
        options.prepend_pre_filter(filter, 0);
    }
    // A dictionary beyond the length of the data only takes memory.
    options.lzma_options.dict_size = u32::try_from(bytes.len())?.next_power_of_two().max(1 << 16);
    let mut writer = XzWriter::new(Vec::new(), options)?;
    writer.write_all(bytes)?;
    Ok(writer.finish()?)
}

/// Returns a zip archive.
pub(crate) fn zip(entries: &[Entry], level: u32) -> Result<Vec<u8>> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for entry in entries {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .compression_level(Some(level.into()))
            .last_modified_time(zip::DateTime::default())
            .unix_permissions(if entry.is_executable { 0o755 } else { 0o644 });
        writer.start_file(&entry.path, options)?;
        writer.write_all(&entry.bytes)?;
    }
    Ok(writer.finish()?.into_inner())
}

/// Returns an `ar` archive, the form of Debian packages.
pub(crate) fn ar(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = b"!<arch>\n".to_vec();
    for (name, bytes) in members {
        let size = bytes.len();
        let head = format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{size:<10}`\n", 0, 0, 0, 100_644);
        archive.extend_from_slice(head.as_bytes());
        archive.extend_from_slice(bytes);
        if size % 2 == 1 {
            archive.push(b'\n');
        }
    }
    archive
}

/// Returns the SHA-256 in hexadecimal digits.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archives_are_reproducible() {
        let entries = || {
            [Entry::program("a/b/run", b"x"), Entry::file("a/b/text", "y"), Entry::file("c", "z")]
        };
        assert_eq!(tar(&entries()).unwrap(), tar(&entries()).unwrap());
        assert_eq!(zip(&entries(), BEST).unwrap(), zip(&entries(), BEST).unwrap());
        assert_eq!(gzip(b"abc", BEST).unwrap(), gzip(b"abc", BEST).unwrap());
        let xz = || xz(b"abc", Some(FilterType::BcjX86), BEST).unwrap();
        assert_eq!(xz(), xz());
        let archive = ar(&[("odd", b"123"), ("even", b"12")]);
        assert_eq!(archive.len(), 8 + 60 + 4 + 60 + 2);
    }
}
