//! Each rule of the model as a situation.

use super::power_loss::Tearing;
use super::*;
use crate::choices::Choices;

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
