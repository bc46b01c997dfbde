//! What is drawn is among what is gone through, and what is gone through is what the model says.

use bytes::Bytes;

use super::*;
use crate::choices::Choices;

const TEARING: Tearing = Tearing {
    sector_bytes: 512,
    harsh: false,
    garbage: false,
};

/// A directory with a file that was flushed, then written over, grown and cut; and a file that was
/// renamed over another.
fn disk() -> Disk {
    let mut disk = Disk::new();
    let file = disk.create_file(&"a".into()).unwrap();
    disk.write(file, 0, Bytes::from(vec![1; 700])).unwrap();
    let ticket = disk.call_flush();
    disk.flush(file, ticket).unwrap();
    disk.sync_dir(&"".into(), ticket).unwrap();
    disk.write(file, 600, Bytes::from(vec![2; 700])).unwrap();
    disk.set_length(file, 650).unwrap();
    let other = disk.create_file(&"b".into()).unwrap();
    disk.write(other, 0, Bytes::from(vec![3; 20])).unwrap();
    disk.rename(&"b".into(), &"a".into()).unwrap();
    disk
}

fn key(disk: &Disk) -> u128 {
    let mut hash = ChainedHash::new();
    disk.add_to(&mut hash);
    hash.value()
}

fn keys(images: &Images<'_>, bound: usize) -> BTreeSet<u128> {
    let selection = images.select(bound);
    selection
        .picks
        .iter()
        .map(|picks| key(&images.image(picks)))
        .collect()
}

#[test]
fn every_image_that_is_drawn_is_among_all_of_them_and_most_are_drawn() {
    for harsh in [false, true] {
        let tearing = Tearing { harsh, ..TEARING };
        let disk = disk();
        let images = Images::of(&disk, Tearing { harsh, ..TEARING });
        let all = keys(&images, 100_000);
        let mut drawn = BTreeSet::new();
        for seed in 0..4_000 {
            let mut drawn_disk = disk.clone();
            // A tear inside a sector has more variants than can be gone through; names have not.
            drawn_disk.lose_power(
                Tearing {
                    sector_bytes: tearing.sector_bytes,
                    harsh: false,
                    garbage: false,
                },
                &mut Choices::new(seed),
            );
            let key = key(&drawn_disk);
            assert!(all.contains(&key), "seed {seed}: {drawn_disk:?}");
            drawn.insert(key);
        }
        if !harsh {
            let (drawn, all) = (drawn.len(), all.len());
            assert!(drawn * 4 >= all * 3, "{drawn} of {all}");
        }
    }
}

#[test]
fn what_is_durable_is_in_every_image_and_the_newest_is_the_cache() {
    let disk = disk();
    let images = Images::of(&disk, TEARING);
    let all = images.select(100_000);
    assert!(all.is_complete);
    assert_eq!(all.picks.len() as u64, images.count().unwrap());
    for picks in &all.picks {
        let image = images.image(picks);
        assert!(
            image.cached(&"a".into()).is_some(),
            "{:?}",
            images.words(picks)
        );
    }
    let newest: Picks = images.dimensions.iter().map(|d| d.options - 1).collect();
    let image = images.image(&newest);
    assert_eq!(image.cached(&"a".into()), disk.cached(&"a".into()));
    assert_eq!(image.cached(&"b".into()), None);
}

#[test]
fn a_bound_gives_so_many_distinct_images_and_begins_with_the_extremes() {
    let disk = disk();
    let images = Images::of(&disk, TEARING);
    let selection = images.select(20);
    assert!(!selection.is_complete);
    let distinct: BTreeSet<&Picks> = selection.picks.iter().collect();
    assert_eq!(distinct.len(), 20);
    let newest: Picks = images.dimensions.iter().map(|d| d.options - 1).collect();
    let oldest: Picks = images.dimensions.iter().map(|_| 0).collect();
    assert!(selection.picks[..4].contains(&newest));
    assert!(selection.picks[..8].contains(&oldest));
}

#[test]
fn garbage_is_only_where_the_file_grew() {
    let disk = disk();
    let images = Images::of(
        &disk,
        Tearing {
            garbage: true,
            ..TEARING
        },
    );
    let all = images.select(1 << 20);
    for picks in &all.picks {
        let image = images.image(picks);
        let file = image.cached(&"a".into()).unwrap();
        let below = file.len().min(600);
        if file.len() != 20 {
            assert!(
                file[..below].iter().all(|byte| *byte == 1),
                "{:?}",
                images.words(picks)
            );
        }
    }
    let of_garbage = all.picks.iter().any(|picks| {
        let image = images.image(picks);
        image
            .cached(&"a".into())
            .is_some_and(|file| file.contains(&GARBAGE))
    });
    assert!(of_garbage);
}
