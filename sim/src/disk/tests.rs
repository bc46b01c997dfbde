//! Each rule of the model as a situation.

use std::collections::BTreeSet;

use super::damage::Moment;
use super::faults::{DiskFaults, DiskRates};
use super::power_loss::Tearing;
use super::reader::Reader;
use super::*;
use crate::choices::{Choices, Odds, Subsystem};

const PLAIN: Tearing = Tearing {
    sector_bytes: 512,
    harsh: false,
    garbage: false,
};

fn path(text: &str) -> FilePath {
    FilePath::from(text)
}

fn put(disk: &mut Disk, inode: Inode, position: u64, bytes: &[u8]) -> Written {
    disk.write(inode, position, Bytes::copy_from_slice(bytes))
}

/// A disk with one durable file `f` of this content.
fn disk_with(content: &[u8]) -> (Disk, Inode) {
    let mut disk = Disk::new();
    let inode = disk.create_file(&path("f")).unwrap();
    put(&mut disk, inode, 0, content).unwrap();
    let ticket = disk.call_flush();
    disk.flush(inode, ticket).unwrap();
    disk.sync_dir(&FilePath::root(), ticket).unwrap();
    (disk, inode)
}

/// What many power losses leave of `f`, each from a fresh disk.
fn images(tearing: Tearing, build: impl Fn() -> Disk) -> Vec<Option<Vec<u8>>> {
    (0..400)
        .map(|seed| {
            let mut disk = build();
            disk.lose_power(tearing, &mut Choices::new(seed));
            disk.cached(&path("f")).map(<[u8]>::to_vec)
        })
        .collect()
}

#[test]
fn what_was_flushed_is_there_and_what_was_not_may_be_missing() {
    let build = || {
        let (mut disk, inode) = disk_with(b"old");
        put(&mut disk, inode, 3, b"new").unwrap();
        disk
    };
    let images = images(PLAIN, build);
    assert!(
        images
            .iter()
            .all(|i| i.as_ref().unwrap().starts_with(b"old"))
    );
    assert!(images.iter().any(|i| i.as_deref() == Some(b"old")));
    assert!(images.iter().any(|i| i.as_deref() == Some(b"oldnew")));
}

#[test]
fn a_grown_size_may_persist_over_zeros() {
    let build = || {
        let (mut disk, inode) = disk_with(b"");
        put(&mut disk, inode, 0, b"data").unwrap();
        disk
    };
    assert!(images(PLAIN, build).contains(&Some(vec![0; 4])));
}

#[test]
fn the_size_of_one_write_may_persist_page_by_page() {
    // As ext4 showed it: 434 bytes, then 4,510 more, and 4,096 after the cut.
    let grown = || {
        let (mut disk, inode) = disk_with(&[1; 434]);
        put(&mut disk, inode, 434, &[2; 4_510]).unwrap();
        disk
    };
    assert_eq!(lengths(grown), [434, 4_096, 4_944]);
    // Behind a hole: no byte of the hole's pages was ever the end.
    let behind_a_hole = || {
        let (mut disk, inode) = disk_with(&[1; 434]);
        put(&mut disk, inode, 10_000, &[2; 8_000]).unwrap();
        disk
    };
    assert_eq!(lengths(behind_a_hole), [434, 12_288, 16_384, 18_000]);
    // A cut, or an extension without data, is one change.
    let extended = || {
        let (mut disk, inode) = disk_with(&[1; 434]);
        disk.set_length(inode, 10_000).unwrap();
        disk
    };
    assert_eq!(lengths(extended), [434, 10_000]);
}

/// The lengths of `f` that power losses leave, each once.
fn lengths(build: impl Fn() -> Disk) -> Vec<usize> {
    let lengths = images(PLAIN, build).into_iter().flatten().map(|f| f.len());
    let distinct: BTreeSet<usize> = lengths.collect();
    distinct.into_iter().collect()
}

#[test]
fn a_grown_size_may_persist_over_garbage_if_the_seed_says_so() {
    let tearing = Tearing {
        garbage: true,
        ..PLAIN
    };
    let build = || {
        let (mut disk, inode) = disk_with(b"");
        put(&mut disk, inode, 0, b"data").unwrap();
        disk
    };
    let garbage = |i: &Option<Vec<u8>>| {
        i.as_ref()
            .is_some_and(|i| i.len() == 4 && i[..] != [0; 4] && i != b"data")
    };
    assert!(images(tearing, build).iter().any(garbage));
    assert!(!images(PLAIN, build).iter().any(garbage));
}

#[test]
fn a_write_is_torn_at_sectors_and_only_there() {
    let build = || {
        let (mut disk, inode) = disk_with(&[1; 4096]);
        put(&mut disk, inode, 0, &[2; 4096]).unwrap();
        disk
    };
    let images = images(PLAIN, build);
    let mut torn = 0;
    for image in &images {
        let image = image.as_ref().unwrap();
        for sector in image.chunks(512) {
            assert!(sector.iter().all(|b| *b == sector[0]), "a tear in a sector");
        }
        torn += u32::from(image.contains(&1) && image.contains(&2));
    }
    assert!(torn > 50, "{torn}");
}

#[test]
fn harsh_mode_tears_inside_a_sector_but_only_bytes_being_written() {
    let tearing = Tearing {
        harsh: true,
        ..PLAIN
    };
    let build = || {
        let (mut disk, inode) = disk_with(&[1; 512]);
        put(&mut disk, inode, 100, &[2; 200]).unwrap();
        disk
    };
    let images = images(tearing, build);
    let mut inside = 0;
    for image in &images {
        let image = image.as_ref().unwrap();
        assert!(image[..100].iter().chain(&image[300..]).all(|b| *b == 1));
        inside += u32::from(image[100..300].windows(2).any(|w| w[0] != w[1]));
    }
    assert!(inside > 10, "{inside}");
}

#[test]
fn the_last_of_overlapping_writes_wins_where_both_persist() {
    let build = || {
        let (mut disk, inode) = disk_with(&[1; 512]);
        put(&mut disk, inode, 0, &[2; 512]).unwrap();
        put(&mut disk, inode, 0, &[3; 512]).unwrap();
        disk
    };
    let images = images(PLAIN, build);
    // One sector: each moment of the past, never a mixture, and the newest most often.
    for value in [1, 2, 3] {
        assert!(images.contains(&Some(vec![value; 512])), "{value}");
    }
    assert!(images.iter().all(|i| {
        let i = i.as_ref().unwrap();
        i.iter().all(|b| *b == i[0])
    }));
}

#[test]
fn a_pending_truncation_may_be_lost() {
    let build = || {
        let (mut disk, inode) = disk_with(b"kept and cut");
        disk.set_length(inode, 4).unwrap();
        disk
    };
    let images = images(PLAIN, build);
    assert!(images.contains(&Some(b"kept and cut".to_vec())));
    assert!(images.contains(&Some(b"kept".to_vec())));
    assert!(
        images
            .iter()
            .all(|i| i.as_ref().unwrap().starts_with(b"kept"))
    );
}

#[test]
fn a_flush_covers_what_was_done_before_it_was_called() {
    let build = || {
        let (mut disk, inode) = disk_with(b"");
        put(&mut disk, inode, 0, b"before").unwrap();
        let ticket = disk.call_flush();
        put(&mut disk, inode, 6, b"during").unwrap();
        disk.flush(inode, ticket).unwrap();
        disk
    };
    assert_eq!(build().durable(&path("f")), Some(&b"before"[..]));
    let images = images(PLAIN, build);
    assert!(
        images
            .iter()
            .all(|i| i.as_ref().unwrap().starts_with(b"before"))
    );
    assert!(images.contains(&Some(b"before".to_vec())));
}

#[test]
fn a_flushed_file_without_a_flushed_name_may_be_gone() {
    let build = || {
        let mut disk = Disk::new();
        let inode = disk.create_file(&path("f")).unwrap();
        put(&mut disk, inode, 0, b"data").unwrap();
        let ticket = disk.call_flush();
        disk.flush(inode, ticket).unwrap();
        disk
    };
    let images = images(PLAIN, build);
    assert!(images.contains(&None));
    assert!(images.contains(&Some(b"data".to_vec())));
    assert_eq!(build().durable(&path("f")), None);
}

#[test]
fn a_name_may_persist_before_its_data() {
    let build = || {
        let mut disk = Disk::new();
        let inode = disk.create_file(&path("f")).unwrap();
        put(&mut disk, inode, 0, b"data").unwrap();
        disk
    };
    assert!(images(PLAIN, build).contains(&Some(Vec::new())));
}

#[test]
fn a_rename_is_atomic_but_not_durable() {
    let build = || {
        let (mut disk, _) = disk_with(b"old");
        let inode = disk.create_file(&path("f.tmp")).unwrap();
        put(&mut disk, inode, 0, b"new").unwrap();
        let ticket = disk.call_flush();
        disk.flush(inode, ticket).unwrap();
        disk.rename(&path("f.tmp"), &path("f")).unwrap();
        disk
    };
    let images = images(PLAIN, build);
    assert!(images.contains(&Some(b"old".to_vec())));
    assert!(images.contains(&Some(b"new".to_vec())));
    assert_eq!(images.iter().filter(|i| i.is_none()).count(), 0);
}

#[test]
fn names_persist_in_order_unless_harsh() {
    let build = || {
        let mut disk = Disk::new();
        disk.create_file(&path("a")).unwrap();
        disk.create_file(&path("b")).unwrap();
        disk
    };
    let out_of_order = |tearing| {
        (0..200).any(|seed| {
            let mut disk = build();
            disk.lose_power(tearing, &mut Choices::new(seed));
            disk.lookup(&path("a")).is_err() && disk.lookup(&path("b")).is_ok()
        })
    };
    assert!(!out_of_order(PLAIN));
    assert!(out_of_order(Tearing {
        harsh: true,
        ..PLAIN
    }));
}

#[test]
fn a_failed_flush_leaves_pages_that_read_well_and_that_the_next_flush_does_not_save() {
    let build = || {
        let (mut disk, inode) = disk_with(&[1; 4096]);
        put(&mut disk, inode, 4096, &[2; 4096]).unwrap();
        let ticket = disk.call_flush();
        disk.fail_flush(inode, ticket, false);
        let again = disk.call_flush();
        disk.flush(inode, again).unwrap();
        disk
    };
    let disk = build();
    assert_eq!(disk.cached(&path("f")).unwrap()[4096..], [2; 4096]);
    // The size is metadata, and saved; the data is not.
    assert_eq!(disk.durable(&path("f")).unwrap()[4096..], [0; 4096]);
    for image in images(PLAIN, build) {
        assert_eq!(image.unwrap()[4096..], [0; 4096]);
    }
}

#[test]
fn a_failed_flush_may_show_the_old_bytes_at_once_or_after_an_eviction() {
    for shows_old in [true, false] {
        let (mut disk, inode) = disk_with(&[1; 4096]);
        put(&mut disk, inode, 0, &[2; 4096]).unwrap();
        let ticket = disk.call_flush();
        disk.fail_flush(inode, ticket, shows_old);
        assert_eq!(
            disk.cached(&path("f")).unwrap()[0],
            if shows_old { 1 } else { 2 }
        );
        disk.evict(inode);
        assert_eq!(disk.cached(&path("f")), Some(&[1; 4096][..]));
    }
}

#[test]
fn rewriting_the_same_bytes_after_a_failed_flush_saves_them() {
    let (mut disk, inode) = disk_with(&[1; 100]);
    put(&mut disk, inode, 100, &[2; 8000]).unwrap();
    let ticket = disk.call_flush();
    disk.fail_flush(inode, ticket, false);
    put(&mut disk, inode, 100, &[2; 8000]).unwrap();
    let again = disk.call_flush();
    disk.flush(inode, again).unwrap();
    assert_eq!(disk.durable(&path("f")).unwrap()[100..], [2; 8000]);
    assert!(!disk.file(inode).unwrap().has_lost_pages());
}

#[test]
fn a_page_written_again_takes_its_lost_bytes_along_and_others_stay_lost() {
    let (mut disk, inode) = disk_with(b"");
    put(&mut disk, inode, 0, &[2; 5000]).unwrap();
    let ticket = disk.call_flush();
    disk.fail_flush(inode, ticket, false);
    put(&mut disk, inode, 5000, &[3; 10]).unwrap();
    let again = disk.call_flush();
    disk.flush(inode, again).unwrap();
    let durable = disk.durable(&path("f")).unwrap();
    assert_eq!(durable[..4096], [0; 4096]);
    assert_eq!(durable[4096..5000], [2; 904]);
    assert_eq!(durable[5000..], [3; 10]);
    disk.evict(inode);
    assert_eq!(disk.cached(&path("f")).unwrap()[..4096], [0; 4096]);
}

#[test]
fn a_later_write_to_a_saved_page_is_not_undone_by_what_was_lost_before() {
    let (mut disk, inode) = disk_with(b"");
    put(&mut disk, inode, 0, &[2; 5000]).unwrap();
    let ticket = disk.call_flush();
    disk.fail_flush(inode, ticket, false);
    put(&mut disk, inode, 4096, &[4; 904]).unwrap();
    let ticket = disk.call_flush();
    disk.flush(inode, ticket).unwrap();
    put(&mut disk, inode, 5000, &[5; 10]).unwrap();
    let ticket = disk.call_flush();
    disk.flush(inode, ticket).unwrap();
    assert_eq!(disk.durable(&path("f")).unwrap()[4096..5000], [4; 904]);
}

#[test]
fn a_full_disk_writes_what_fits_and_says_so() {
    let (mut disk, inode) = disk_with(b"");
    disk.set_free_bytes(Some(10));
    assert_eq!(
        put(&mut disk, inode, 0, &[1; 16]),
        Err((10, DiskErrorKind::NoSpace))
    );
    assert_eq!(disk.cached(&path("f")).unwrap().len(), 10);
    assert_eq!(disk.create_file(&path("g")), Err(DiskErrorKind::NoSpace));
    // What is overwritten needs no room; what is cut gives it back.
    assert_eq!(put(&mut disk, inode, 0, &[2; 10]), Ok(()));
    disk.set_length(inode, 4).unwrap();
    assert_eq!(disk.free_bytes(), Some(6));
}

#[test]
fn a_tree_is_removed_children_first() {
    let mut disk = Disk::new();
    disk.create_dir(&path("d")).unwrap();
    disk.create_file(&path("d/x")).unwrap();
    disk.create_file(&path("d/y")).unwrap();
    let tree = disk.tree(&path("d"));
    assert_eq!(tree, [path("d/x"), path("d/y"), path("d")]);
    assert_eq!(disk.unlink(&path("d")), Err(DiskErrorKind::Other));
    for entry in tree {
        disk.unlink(&entry).unwrap();
    }
    assert!(disk.lookup(&path("d")).is_err());
}

#[test]
fn a_removed_name_may_come_back() {
    let build = || {
        let (mut disk, _) = disk_with(b"still here");
        disk.remove_file(&path("f")).unwrap();
        disk
    };
    let images = images(PLAIN, build);
    assert!(images.contains(&Some(b"still here".to_vec())));
    assert!(images.contains(&None));
}

#[test]
fn a_directory_that_was_not_synced_takes_its_files_with_it() {
    let mut lost = 0;
    for seed in 0..100 {
        let mut disk = Disk::new();
        disk.create_dir(&path("d")).unwrap();
        let inode = disk.create_file(&path("d/x")).unwrap();
        put(&mut disk, inode, 0, b"data").unwrap();
        let ticket = disk.call_flush();
        disk.flush(inode, ticket).unwrap();
        disk.sync_dir(&path("d"), ticket).unwrap();
        assert_eq!(disk.durable(&path("d/x")), None);
        disk.lose_power(PLAIN, &mut Choices::new(seed));
        lost += u32::from(disk.lookup(&path("d/x")).is_err());
    }
    assert!((10..100).contains(&lost), "{lost}");
}

/// Reads a range of `f` with these rates.
fn read(
    disk: &mut Disk,
    rates: DiskRates,
    at: u64,
    length: usize,
) -> Result<Vec<u8>, DiskErrorKind> {
    let faults = DiskFaults::new(rates);
    let (mut choices, mut struck) = (Choices::new(1), Vec::new());
    let mut buffer = vec![0; length];
    let mut reader = Reader::new(disk, &faults, &mut choices, &mut struck);
    let read = reader
        .read_at(&path("f"), Position(at), &mut buffer)
        .map_err(|error| error.kind)?;
    buffer.truncate(read);
    Ok(buffer)
}

#[test]
fn a_sector_that_cannot_be_read_stays_so_until_the_whole_of_it_is_written() {
    let (mut disk, inode) = disk_with(&[1; 2000]);
    assert!(disk.lose_sector(inode, 1));
    let plain = DiskRates::default();
    let eio = Err(DiskErrorKind::Io);
    assert_eq!(read(&mut disk, plain, 0, 2000), eio);
    assert_eq!(read(&mut disk, plain, 0, 512), Ok(vec![1; 512]));
    assert_eq!(read(&mut disk, plain, 1024, 976), Ok(vec![1; 976]));
    put(&mut disk, inode, 600, &[2; 10]).unwrap();
    assert_eq!(read(&mut disk, plain, 512, 1), eio);
    put(&mut disk, inode, 512, &[2; 512]).unwrap();
    assert_eq!(read(&mut disk, plain, 512, 1), Ok(vec![2]));
}

#[test]
fn what_is_not_written_back_is_read_from_the_cache_whatever_the_device_can_do() {
    let (mut disk, inode) = disk_with(&[1; 2000]);
    put(&mut disk, inode, 0, &[2; 10]).unwrap();
    assert!(!disk.lose_sector(inode, 1));
}

#[test]
fn a_read_finds_an_unreadable_sector_if_the_seed_says_so() {
    let (mut disk, _) = disk_with(&[1; 2000]);
    let rates = DiskRates {
        latent_error: Odds(1_000_000),
        ..DiskRates::default()
    };
    assert_eq!(read(&mut disk, rates, 0, 2000), Err(DiskErrorKind::Io));
    disk.read_again();
    let plain = DiskRates::default();
    assert_eq!(read(&mut disk, plain, 0, 2000), Ok(vec![1; 2000]));
}

#[test]
fn short_reads_are_put_together_and_misdirected_ones_give_other_bytes() {
    let content: Vec<u8> = (0..2000_u32).map(|i| (i / 512) as u8).collect();
    let (mut disk, _) = disk_with(&content);
    let rates = DiskRates {
        short_read: Odds(1_000_000),
        ..DiskRates::default()
    };
    assert_eq!(read(&mut disk, rates, 0, 2000).as_ref(), Ok(&content));
    let rates = DiskRates {
        misdirected_read: Odds(1_000_000),
        ..DiskRates::default()
    };
    let found: Vec<u8> = (0..8)
        .filter_map(|seed| {
            let faults = DiskFaults::new(rates);
            let (mut choices, mut struck) = (Choices::new(seed), Vec::new());
            let mut buffer = [9; 4];
            Reader::new(&mut disk, &faults, &mut choices, &mut struck)
                .read_at(&path("f"), Position(0), &mut buffer)
                .ok()?;
            Some(buffer[0])
        })
        .collect();
    assert!(found.iter().any(|byte| *byte != 0), "{found:?}");
}

#[test]
fn a_filesystem_that_is_read_only_is_read_and_takes_no_change() {
    let (mut disk, inode) = disk_with(b"content");
    disk.set_read_only(true);
    let refused = DiskErrorKind::ReadOnly;
    assert_eq!(put(&mut disk, inode, 0, b"x"), Err((0, refused)));
    assert_eq!(disk.set_length(inode, 1), Err(refused));
    assert_eq!(disk.create_file(&path("g")), Err(refused));
    assert_eq!(disk.rename(&path("f"), &path("g")), Err(refused));
    assert_eq!(disk.remove_file(&path("f")), Err(refused));
    let ticket = disk.call_flush();
    assert_eq!(disk.flush(inode, ticket), Err(refused));
    assert_eq!(disk.sync_dir(&FilePath::root(), ticket), Err(refused));
    assert_eq!(disk.cached(&path("f")), Some(&b"content"[..]));
}

/// A disk with one segment.
fn segment(content: &[u8]) -> (Disk, Inode, FilePath) {
    let mut disk = Disk::new();
    disk.create_dir(&path("t-0")).unwrap();
    let name = path("t-0/0.log");
    let inode = disk.create_file(&name).unwrap();
    put(&mut disk, inode, 0, content).unwrap();
    let ticket = disk.call_flush();
    disk.flush(inode, ticket).unwrap();
    disk.sync_dir(&path("t-0"), ticket).unwrap();
    disk.sync_dir(&FilePath::root(), ticket).unwrap();
    (disk, inode, name)
}

#[test]
fn rot_shows_in_a_segment_once_its_pages_have_left_the_cache() {
    let (mut disk, inode, name) = segment(&[1; 5000]);
    let mut dice = Choices::new(3).dice(Subsystem::Rot, 0);
    let damage = disk.rot(Moment::Running, &mut dice).unwrap();
    assert_eq!(damage.path, name);
    assert_eq!(disk.cached(&name), Some(&[1; 5000][..]));
    assert_ne!(disk.durable(&name), Some(&[1; 5000][..]));
    disk.evict(inode);
    assert_eq!(disk.cached(&name), disk.durable(&name));
    disk.restore(&damage);
    assert_eq!(disk.cached(&name), Some(&[1; 5000][..]));
}

#[test]
fn rot_is_mended_by_a_page_that_is_written_again() {
    let (mut disk, inode, name) = segment(&[1; 5000]);
    let mut dice = Choices::new(3).dice(Subsystem::Rot, 0);
    let damage = disk.rot(Moment::Running, &mut dice).unwrap();
    put(&mut disk, inode, damage.at.start, &[1]).unwrap();
    let ticket = disk.call_flush();
    disk.flush(inode, ticket).unwrap();
    assert_eq!(disk.durable(&name), Some(&[1; 5000][..]));
}

#[test]
fn a_page_that_goes_astray_is_missing_where_it_should_be_and_lies_where_another_was() {
    let (mut disk, inode, name) = segment(&[1; 8192]);
    put(&mut disk, inode, 8192, &[2; 4096]).unwrap();
    let ticket = disk.call_flush();
    let mut dice = Choices::new(3).dice(Subsystem::MisdirectedWrite, 0);
    let damages = disk.flush_astray(&name, inode, ticket, &mut dice);
    assert!(!damages.is_empty());
    assert_eq!(damages[0].at, 8192..12288);
    assert_eq!(disk.durable(&name).unwrap()[8192..], [0; 4096]);
    assert_eq!(disk.cached(&name).unwrap()[8192..], [2; 4096]);
}

#[test]
fn without_sectors_a_write_is_torn_at_any_byte() {
    let tearing = Tearing {
        sector_bytes: 1,
        ..PLAIN
    };
    let build = || {
        let (mut disk, inode) = disk_with(&[1; 100]);
        put(&mut disk, inode, 0, &[2; 100]).unwrap();
        disk
    };
    let images = images(tearing, build);
    let torn = |i: &&Option<Vec<u8>>| i.as_ref().is_some_and(|i| i.contains(&1) && i.contains(&2));
    assert!(images.iter().filter(torn).count() > 50);
}
