//! The cluster's state as the records say it is.

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::record::{MetadataRecord, Resource};
use super::topics::partition_name;
use crate::group::config::GroupConfig;
use crate::ids::{LeaderEpoch, TopicId};

/// Everything the metadata log has said so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// The cluster's id; empty before the first record.
    pub cluster_id: String,
    /// Raised by one at each unclean start.
    pub epoch: i32,
    /// The first producer id that belongs to no block yet.
    pub next_producer_id: i64,
    topics: BTreeMap<TopicId, Topic>,
    names: BTreeMap<String, TopicId>,
    configs: BTreeMap<Resource, BTreeMap<String, String>>,
}

/// A topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    /// Its id.
    pub id: TopicId,
    /// Its name.
    pub name: String,
    /// Number of partitions.
    pub partitions: i32,
    created_in_epoch: i32,
}

impl Image {
    /// Applies one record. Replaying the same log gives the same image.
    pub fn replay(&mut self, record: &MetadataRecord) {
        match record {
            MetadataRecord::Cluster { id } => self.cluster_id.clone_from(id),
            MetadataRecord::Topic {
                id,
                name,
                partitions,
                epoch,
            } => {
                self.names.insert(name.clone(), *id);
                self.topics.insert(
                    *id,
                    Topic {
                        id: *id,
                        name: name.clone(),
                        partitions: *partitions,
                        created_in_epoch: *epoch,
                    },
                );
            }
            MetadataRecord::Partitions { id, count } => {
                if let Some(topic) = self.topics.get_mut(id) {
                    topic.partitions = *count;
                }
            }
            MetadataRecord::RemoveTopic { id } => {
                if let Some(topic) = self.topics.remove(id) {
                    self.names.remove(&topic.name);
                }
                self.configs.remove(&Resource::Topic(*id));
            }
            MetadataRecord::Config {
                resource,
                name,
                value,
            } => {
                let configs = self.configs.entry(resource.clone()).or_default();
                match value {
                    Some(value) => {
                        configs.insert(name.clone(), value.clone());
                    }
                    None => {
                        configs.remove(name);
                    }
                }
                if configs.is_empty() {
                    self.configs.remove(resource);
                }
            }
            MetadataRecord::Epoch { epoch } => self.epoch = *epoch,
            // Never back, whatever a log says: an id is not given out twice.
            MetadataRecord::ProducerIds { next } => {
                self.next_producer_id = self.next_producer_id.max(*next);
            }
            MetadataRecord::Snapshot { .. } => {}
        }
    }

    /// The shortest list of records that gives this image: what a snapshot holds.
    #[must_use]
    pub fn records(&self) -> Vec<MetadataRecord> {
        let mut records = Vec::new();
        records.push(MetadataRecord::Cluster {
            id: self.cluster_id.clone(),
        });
        records.push(MetadataRecord::Epoch { epoch: self.epoch });
        if self.next_producer_id > 0 {
            records.push(MetadataRecord::ProducerIds {
                next: self.next_producer_id,
            });
        }
        for topic in self.topics.values() {
            records.push(MetadataRecord::Topic {
                id: topic.id,
                name: topic.name.clone(),
                partitions: topic.partitions,
                epoch: topic.created_in_epoch,
            });
        }
        for (resource, configs) in &self.configs {
            for (name, value) in configs {
                records.push(MetadataRecord::Config {
                    resource: resource.clone(),
                    name: name.clone(),
                    value: Some(value.clone()),
                });
            }
        }
        records
    }

    /// The topic of that name.
    #[must_use]
    pub fn topic(&self, name: &str) -> Option<&Topic> {
        self.topics.get(self.names.get(name)?)
    }

    /// The topic of the partition whose directory has that name.
    #[must_use]
    pub fn topic_of_partition(&self, directory: &str) -> Option<&Topic> {
        let (name, index) = directory.rsplit_once('-')?;
        let topic = self.topic(name)?;
        let index = index
            .parse()
            .ok()
            .filter(|index| *index < topic.partitions)?;
        // One name each: `t-01` and `t-+1` are nobody's.
        (partition_name(name, index) == directory).then_some(topic)
    }

    /// The topic with that id.
    #[must_use]
    pub fn topic_by_id(&self, id: TopicId) -> Option<&Topic> {
        self.topics.get(&id)
    }

    /// All topics, by name.
    pub fn topics(&self) -> impl Iterator<Item = &Topic> {
        self.names.values().filter_map(|id| self.topics.get(id))
    }

    /// The leader epoch of a topic's partitions: how often the broker started uncleanly since the
    /// topic was created.
    #[must_use]
    pub fn leader_epoch(&self, topic: &Topic) -> LeaderEpoch {
        LeaderEpoch(self.epoch - topic.created_in_epoch)
    }

    /// The configs set on a resource.
    #[must_use]
    pub fn configs(&self, resource: &Resource) -> Option<&BTreeMap<String, String>> {
        self.configs.get(resource)
    }

    /// The groups that have configs of their own.
    pub fn groups_with_configs(&self) -> impl Iterator<Item = &str> {
        // Groups stand last in the order of resources.
        let groups = self.configs.range(Resource::Group(String::new())..);
        groups.filter_map(|(resource, _)| match resource {
            Resource::Group(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// The settings of a group: what it says itself, and else the broker's.
    #[must_use]
    pub fn group_config<'a>(&self, broker: &'a GroupConfig, group: &str) -> Cow<'a, GroupConfig> {
        // Most brokers have none, and every heartbeat asks.
        if self.groups_with_configs().next().is_none() {
            return Cow::Borrowed(broker);
        }
        match self.configs(&Resource::Group(group.to_string())) {
            Some(own) => Cow::Owned(broker.with_own(own)),
            None => Cow::Borrowed(broker),
        }
    }

    /// One config set on a resource.
    #[must_use]
    pub fn config(&self, resource: &Resource, name: &str) -> Option<&str> {
        self.configs.get(resource)?.get(name).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(id: u8, name: &str) -> MetadataRecord {
        MetadataRecord::Topic {
            id: TopicId([id; 16]),
            name: name.to_string(),
            partitions: 2,
            epoch: 1,
        }
    }

    fn config(id: u8, value: Option<&str>) -> MetadataRecord {
        MetadataRecord::Config {
            resource: Resource::Topic(TopicId([id; 16])),
            name: "retention.ms".to_string(),
            value: value.map(ToString::to_string),
        }
    }

    #[test]
    fn a_snapshot_gives_the_same_image() {
        let mut image = Image::default();
        for record in [
            MetadataRecord::Cluster {
                id: "c".to_string(),
            },
            MetadataRecord::Epoch { epoch: 3 },
            topic(1, "a"),
            topic(2, "b"),
            config(1, Some("5")),
            config(2, Some("6")),
            config(2, None),
            MetadataRecord::Partitions {
                id: TopicId([1; 16]),
                count: 7,
            },
            MetadataRecord::RemoveTopic {
                id: TopicId([2; 16]),
            },
            MetadataRecord::ProducerIds { next: 3_000 },
        ] {
            image.replay(&record);
        }
        let mut copy = Image::default();
        image
            .records()
            .iter()
            .for_each(|record| copy.replay(record));
        assert_eq!(copy, image);
        assert_eq!(image.topic("a").map(|t| t.partitions), Some(7));
        assert_eq!(image.topic("b"), None);
        assert_eq!(
            image.leader_epoch(image.topic("a").unwrap()),
            LeaderEpoch(2)
        );
    }

    #[test]
    fn a_directory_belongs_to_the_topic_that_has_such_a_partition() {
        let mut image = Image::default();
        image.replay(&topic(1, "a"));
        image.replay(&topic(2, "a-1"));
        let owner = |directory| Some(image.topic_of_partition(directory)?.name.as_str());
        assert_eq!(owner("a-0"), Some("a"));
        assert_eq!(owner("a-1"), Some("a"));
        assert_eq!(owner("a-1-1"), Some("a-1"));
        for nobodys in ["a", "a-2", "a--1", "a-01", "a-+1", "b-0", "a-0.x-delete"] {
            assert_eq!(owner(nobodys), None, "{nobodys}");
        }
    }

    #[test]
    fn deleting_a_topic_takes_its_configs_along() {
        let mut image = Image::default();
        for record in [topic(1, "a"), config(1, Some("5"))] {
            image.replay(&record);
        }
        image.replay(&MetadataRecord::RemoveTopic {
            id: TopicId([1; 16]),
        });
        assert!(image.configs(&Resource::Topic(TopicId([1; 16]))).is_none());
    }
}
