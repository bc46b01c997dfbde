//! What is written in one of several versions. A message stands behind a header that says which;
//! structs in records, in files, or inside other messages begin with it.

use alloc::vec::Vec;
use bytes::{Bytes, BytesMut};

use super::reader::{DecodeError, Malformation, Reader};
use super::value::{Format, Value};
use super::versions::Versions;
use super::writer::Writer;
use crate::effect::Part;

/// A struct made from a table, with versions of its own.
pub trait Versioned: Value {
    /// Kafka's name for it.
    const NAME: &'static str;
    /// The versions it can be read and written in.
    const VERSIONS: Versions;
    /// The versions with compact lengths and tagged fields (KIP-482).
    const FLEXIBLE: Versions;

    /// Reads the struct in `version`, without a version in front. Bytes after its end are left in
    /// the reader.
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(version) {
            return Err(DecodeError::new(Malformation::Version(version)));
        }
        Self::read(reader, Self::format(version))
    }

    /// Writes the struct in `version`, without a version in front.
    ///
    /// # Panics
    ///
    /// If `version` is not one of its own. It is a constant, comes from a request that was decoded,
    /// or is a choice among versions that the peer and this codec both have.
    fn encode(&self, writer: &mut Writer, version: i16) {
        assert!(
            Self::VERSIONS.contains(version),
            "{} has no version {version}",
            Self::NAME
        );
        self.write(writer, Self::format(version));
    }

    /// Reads the version and the struct, and nothing after it. What is read holds slices of `bytes`.
    fn read_versioned(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let version = reader.i16()?;
        let value = Self::decode(&mut reader, version)?;
        reader.finish()?;
        Ok(value)
    }

    /// Reads the version and the struct. A version newer than all that are known is read as the
    /// newest, and what follows is ignored: so new members of a group may say more than old ones
    /// understand.
    fn read_lenient(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let version = reader.i16()?.min(Self::VERSIONS.max);
        Self::decode(&mut reader, version)
    }

    /// Writes the version and the struct; panics as [`Versioned::encode`] does.
    #[must_use]
    fn to_versioned(&self, version: i16) -> Bytes {
        let mut writer = Writer::new();
        writer.put_i16(version);
        self.encode(&mut writer, version);
        joined(writer.finish())
    }

    /// How values are written in `version`.
    #[must_use]
    fn format(version: i16) -> Format {
        Format {
            version,
            flexible: Self::FLEXIBLE.contains(version),
            nullable: false,
            tagged: false,
        }
    }
}

/// What a writer holds, in one piece. Nothing written here is a range of a file.
pub(crate) fn joined(parts: Vec<Part>) -> Bytes {
    let mut parts = parts.into_iter().map(|part| match part {
        Part::Bytes(bytes) => bytes,
        Part::File(_) => unreachable!("no field of a record is a range of a file"),
    });
    match (parts.next(), parts.next()) {
        (None, _) => Bytes::new(),
        (Some(only), None) => only,
        (Some(first), Some(second)) => {
            let mut joined = BytesMut::from(first);
            joined.extend_from_slice(&second);
            parts.for_each(|part| joined.extend_from_slice(&part));
            joined.freeze()
        }
    }
}
