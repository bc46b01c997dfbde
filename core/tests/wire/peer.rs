//! The codec against the `kafka-protocol` crate, a second and weaker reference: it lacks the
//! newest versions, and its decoder trusts lengths, so it only ever sees our fixtures.

use crate::golden;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::{ApiKey as PeerApi, RequestKind, ResponseKind};
use odradek_core::wire::ApiKey;

/// What the other crate makes of the bytes, written by it again; `None` if it lacks the version.
fn through_the_peer(g: &golden::Golden) -> Option<Bytes> {
    let api = PeerApi::try_from(g.api.key()).ok()?;
    let mut versions = api.valid_versions();
    // It says 10 and knows 9.
    if matches!(api, PeerApi::OffsetCommit | PeerApi::OffsetFetch) {
        versions.max = 9;
    }
    if !(versions.min..=versions.max).contains(&g.version) {
        return None;
    }
    let mut bytes = g.bytes.clone();
    let mut written = BytesMut::new();
    let result = if g.is_request {
        RequestKind::decode(api, &mut bytes, g.version)
            .and_then(|body| body.encode(&mut written, g.version))
    } else {
        ResponseKind::decode(api, &mut bytes, g.version)
            .and_then(|body| body.encode(&mut written, g.version))
    };
    result.unwrap_or_else(|error| panic!("{}: {error}", g.title()));
    Some(written.freeze())
}

#[test]
fn what_the_other_crate_writes_is_read_and_written_the_same() {
    let mut compared = std::collections::BTreeSet::new();
    for g in golden::all() {
        let Some(theirs) = through_the_peer(g) else {
            continue;
        };
        let body = golden::decode(g.api, g.is_request, g.version, theirs.clone())
            .unwrap_or_else(|error| panic!("{}: {error}", g.title()));
        assert_eq!(body.encode(g.version), theirs, "{}", g.title());
        assert_eq!(body, g.decode().unwrap(), "{}", g.title());
        compared.insert((g.api, g.version));
    }
    // It lacks some of the newest versions, and an API or two; not more.
    let ours: i16 = ApiKey::ALL
        .iter()
        .map(|api| api.versions().max - api.versions().min + 1)
        .sum();
    assert!(
        compared.len() * 10 >= ours as usize * 9,
        "only {} of {ours} versions were compared",
        compared.len()
    );
}
