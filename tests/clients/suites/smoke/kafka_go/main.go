// What a user of segmentio's kafka-go does first: `kafka_go SCENARIO HOST:PORT`.
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"sort"
	"strconv"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
)

var scenario, address, topic string
var background = context.Background()

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func assert(holds bool, what ...any) {
	if !holds {
		panic(fmt.Sprint(what...))
	}
}

func until(what string, holds func() bool) {
	for tries := 0; !holds(); tries++ {
		assert(tries < 600, "never: ", what)
		time.Sleep(100 * time.Millisecond)
	}
}

func client() *kafka.Client {
	// What it knows of topics is old after a moment, not after the client's six seconds.
	transport := &kafka.Transport{MetadataTTL: 100 * time.Millisecond}
	return &kafka.Client{Addr: kafka.TCP(address), Timeout: 30 * time.Second, Transport: transport}
}

func create(partitions int, configs ...kafka.ConfigEntry) {
	answer := must(client().CreateTopics(background, &kafka.CreateTopicsRequest{
		Topics: []kafka.TopicConfig{{
			Topic: topic, NumPartitions: partitions, ReplicationFactor: 1, ConfigEntries: configs,
		}},
	}))
	check(answer.Errors[topic])
}

// To the partition that the record's number says.
type byNumber struct{}

func (byNumber) Balance(message kafka.Message, partitions ...int) int {
	number := 0
	for _, header := range message.Headers {
		if header.Key == "n" {
			number = must(strconv.Atoi(string(header.Value)))
		}
	}
	return partitions[number%len(partitions)]
}

func writer(codec kafka.Compression) *kafka.Writer {
	return &kafka.Writer{
		Addr: kafka.TCP(address), Topic: topic, Balancer: byNumber{}, RequiredAcks: kafka.RequireAll,
		Compression: codec, BatchTimeout: 5 * time.Millisecond, MaxAttempts: 100,
	}
}

func numbered(n int) kafka.Header {
	return kafka.Header{Key: "n", Value: []byte(strconv.Itoa(n))}
}

func send(writer *kafka.Writer, from, to int) {
	var messages []kafka.Message
	for n := from; n < to; n++ {
		messages = append(messages, kafka.Message{
			Value: []byte(strconv.Itoa(n)), Headers: []kafka.Header{numbered(n)},
		})
	}
	check(writer.WriteMessages(background, messages...))
}

// A member of a group, and what it read.
type member struct {
	reader *kafka.Reader
	mutex  sync.Mutex
	seen   []kafka.Message
}

func join(name string) *member {
	m := &member{reader: kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{address}, GroupID: name, Topic: topic, StartOffset: kafka.FirstOffset,
		SessionTimeout: 6 * time.Second, HeartbeatInterval: 500 * time.Millisecond,
		MaxWait: 250 * time.Millisecond, RebalanceTimeout: 5 * time.Second,
	})}
	go func() {
		for {
			message, err := m.reader.FetchMessage(background)
			if err == io.EOF {
				return
			}
			if err != nil {
				time.Sleep(100 * time.Millisecond)
				continue
			}
			m.mutex.Lock()
			m.seen = append(m.seen, message)
			m.mutex.Unlock()
			// One that fails is made good by the next.
			_ = m.reader.CommitMessages(background, message)
		}
	}()
	return m
}

func seen(members ...*member) []kafka.Message {
	var all []kafka.Message
	for _, m := range members {
		m.mutex.Lock()
		all = append(all, m.seen...)
		m.mutex.Unlock()
	}
	return all
}

func values(members ...*member) map[string]bool {
	distinct := map[string]bool{}
	for _, message := range seen(members...) {
		distinct[string(message.Value)] = true
	}
	return distinct
}

// What the members of a group own, by number of partitions, once it is stable.
func owned(name string) []int {
	answer := must(client().DescribeGroups(background, &kafka.DescribeGroupsRequest{GroupIDs: []string{name}}))
	check(answer.Groups[0].Error)
	if answer.Groups[0].GroupState != "Stable" {
		return nil
	}
	var counts []int
	for _, member := range answer.Groups[0].Members {
		count := 0
		for _, t := range member.MemberAssignments.Topics {
			count += len(t.Partitions)
		}
		counts = append(counts, count)
	}
	return counts
}

func roundTrip(codec kafka.Compression) {
	create(3)
	writer := writer(codec)
	var messages []kafka.Message
	for n := range 500 {
		message := kafka.Message{Headers: []kafka.Header{numbered(n), {Key: "h"}, {Key: "h", Value: []byte("2")}}}
		if n%3 != 0 {
			message.Key = []byte(fmt.Sprint("k", n))
		}
		if n%5 != 0 {
			message.Value = []byte(fmt.Sprint("v", n))
		}
		messages = append(messages, message)
	}
	check(writer.WriteMessages(background, messages...))
	reader := join(topic)
	until("all records", func() bool { return len(seen(reader)) >= 500 })
	got := seen(reader)
	number := func(m kafka.Message) int { return must(strconv.Atoi(string(m.Headers[0].Value))) }
	sort.Slice(got, func(a, b int) bool { return number(got[a]) < number(got[b]) })
	for n, message := range got {
		key, value := "", ""
		if n%3 != 0 {
			key = fmt.Sprint("k", n)
		}
		if n%5 != 0 {
			value = fmt.Sprint("v", n)
		}
		same := number(message) == n && string(message.Key) == key && string(message.Value) == value
		assert(same && len(message.Headers) == 3 && string(message.Headers[2].Value) == "2", "record ", n, ": ", message)
	}
	check(reader.reader.Close())
	check(writer.Close())
}

func group() {
	create(6)
	writer := writer(0)
	name := "kafka-go-three"
	members := []*member{join(name), join(name), join(name)}
	until("two partitions each", func() bool { return fmt.Sprint(owned(name)) == "[2 2 2]" })
	send(writer, 0, 60)
	until("the first records", func() bool { return len(values(members...)) == 60 })
	check(members[2].reader.Close())
	until("three partitions each", func() bool { return fmt.Sprint(owned(name)) == "[3 3]" })
	send(writer, 60, 120)
	until("the others", func() bool { return len(values(members...)) == 120 })
	check(members[0].reader.Close())
	check(members[1].reader.Close())
	check(writer.Close())
}

func restart() {
	create(1)
	writer := writer(0)
	reader := join("kafka-go-restart")
	send(writer, 0, 50)
	until("the first records", func() bool { return len(values(reader)) == 50 })
	fmt.Println("half")
	bufio.NewReader(os.Stdin).ReadString('\n')
	send(writer, 50, 100)
	until("the records after the restart", func() bool { return len(values(reader)) == 100 })
	check(reader.reader.Close())
	check(writer.Close())
}

func administer() {
	create(2, kafka.ConfigEntry{ConfigName: "retention.ms", ConfigValue: "1000000"})
	client := client()
	retention := func() string {
		answer := must(client.DescribeConfigs(background, &kafka.DescribeConfigsRequest{
			Resources: []kafka.DescribeConfigRequestResource{{
				ResourceType: kafka.ResourceTypeTopic, ResourceName: topic, ConfigNames: []string{"retention.ms"},
			}},
		}))
		check(answer.Resources[0].Error)
		return answer.Resources[0].ConfigEntries[0].ConfigValue
	}
	assert(retention() == "1000000", retention())
	altered := must(client.IncrementalAlterConfigs(background, &kafka.IncrementalAlterConfigsRequest{
		Resources: []kafka.IncrementalAlterConfigsRequestResource{{
			ResourceType: kafka.ResourceTypeTopic, ResourceName: topic,
			Configs: []kafka.IncrementalAlterConfigsRequestConfig{{Name: "retention.ms", Value: "2000000"}},
		}},
	}))
	check(altered.Resources[0].Error)
	assert(retention() == "2000000", retention())
	grown := must(client.CreatePartitions(background, &kafka.CreatePartitionsRequest{
		Topics: []kafka.TopicPartitionsConfig{{Name: topic, Count: 4}},
	}))
	check(grown.Errors[topic])
	until("four partitions", func() bool {
		metadata := must(client.Metadata(background, &kafka.MetadataRequest{Topics: []string{topic}}))
		return len(metadata.Topics[0].Partitions) == 4
	})
	writer := writer(0)
	send(writer, 3, 4)
	send(writer, 7, 8)
	check(writer.Close())
	offsets := must(client.ListOffsets(background, &kafka.ListOffsetsRequest{
		Topics: map[string][]kafka.OffsetRequest{topic: {kafka.FirstOffsetOf(3), kafka.LastOffsetOf(3)}},
	}))
	assert(offsets.Topics[topic][0].LastOffset == 2, offsets)
	committed := must(client.OffsetCommit(background, &kafka.OffsetCommitRequest{
		GroupID: "kafka-go-admin", GenerationID: -1,
		Topics:  map[string][]kafka.OffsetCommit{topic: {{Partition: 3, Offset: 1}}},
	}))
	check(committed.Topics[topic][0].Error)
	fetched := must(client.OffsetFetch(background, &kafka.OffsetFetchRequest{
		GroupID: "kafka-go-admin", Topics: map[string][]int{topic: {3}},
	}))
	assert(fetched.Topics[topic][0].CommittedOffset == 1, fetched)
	groups := must(client.ListGroups(background, &kafka.ListGroupsRequest{}))
	there := false
	for _, group := range groups.Groups {
		there = there || group.GroupID == "kafka-go-admin"
	}
	assert(there, groups)
	check(must(client.DeleteGroups(background, &kafka.DeleteGroupsRequest{
		GroupIDs: []string{"kafka-go-admin"},
	})).Errors["kafka-go-admin"])
	check(must(client.DeleteTopics(background, &kafka.DeleteTopicsRequest{
		Topics: []string{topic},
	})).Errors[topic])
	until("the topic is gone", func() bool {
		for _, t := range must(client.Metadata(background, &kafka.MetadataRequest{})).Topics {
			if t.Name == topic {
				return false
			}
		}
		return true
	})
}

func main() {
	scenario, address = os.Args[1], os.Args[2]
	topic = "kafka-go-" + scenario
	codecs := map[string]kafka.Compression{
		"plain": 0, "gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd,
	}
	switch scenario {
	case "group":
		group()
	case "restart":
		restart()
	case "admin":
		administer()
	default:
		codec, known := codecs[scenario]
		assert(known, "no scenario ", scenario)
		roundTrip(codec)
	}
}
