//! DESIGN.md prints every config key in the list it belongs to.

use odradek_core::metadata::config::{BROKER_KEYS, Standing, TOPIC_KEYS};

#[test]
fn every_config_key_stands_in_its_list() {
    let design = include_str!("../../DESIGN.md");
    let (_, configs) = design
        .split_once("## Configs")
        .expect("DESIGN.md has a section on configs");
    let (works, rest) = configs
        .split_once("### Stored and shown only")
        .expect("a second list");
    let (stored, rest) = rest.split_once("### Refused").expect("a third list");
    let refused = rest
        .split("\n## ")
        .next()
        .expect("the end of the third list");
    let keys = TOPIC_KEYS
        .iter()
        .map(|key| (key.name, key.standing))
        .chain(BROKER_KEYS.iter().map(|key| (key.name, key.standing)));
    for (name, standing) in keys {
        let quoted = format!("`{name}`");
        let lists = [
            (Standing::Works, works),
            (Standing::Stored, stored),
            (Standing::Refused, refused),
        ];
        for (list, text) in lists {
            assert_eq!(
                text.contains(&quoted),
                list == standing,
                "{name} is {standing:?}"
            );
        }
    }
}
