// What a user of sarama does first: `sarama SCENARIO HOST:PORT`.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"sort"
	"strconv"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

var scenario, address, topic string

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

func config(codec sarama.CompressionCodec) *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Producer.Return.Successes = true
	config.Producer.Compression = codec
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Retry.Max = 100
	config.Net.MaxOpenRequests = 1
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Group.Session.Timeout = 6 * time.Second
	config.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	config.Metadata.Retry.Max = 100
	return config
}

func admin() sarama.ClusterAdmin {
	return must(sarama.NewClusterAdmin([]string{address}, config(sarama.CompressionNone)))
}

func create(partitions int32, configs map[string]*string) {
	admin := admin()
	check(admin.CreateTopic(topic, &sarama.TopicDetail{
		NumPartitions: partitions, ReplicationFactor: 1, ConfigEntries: configs,
	}, false))
	check(admin.Close())
}

func producer(codec sarama.CompressionCodec) sarama.SyncProducer {
	return must(sarama.NewSyncProducer([]string{address}, config(codec)))
}

// A member of a group, and what it read.
type member struct {
	group    sarama.ConsumerGroup
	mutex    sync.Mutex
	assigned int
	seen     []*sarama.ConsumerMessage
}

func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.assigned = len(session.Claims()[topic])
	return nil
}

func (m *member) Cleanup(sarama.ConsumerGroupSession) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.assigned = 0
	return nil
}

func (m *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			m.mutex.Lock()
			m.seen = append(m.seen, message)
			m.mutex.Unlock()
			session.MarkMessage(message, "")
		case <-session.Context().Done():
			return nil
		}
	}
}

func join(name string) *member {
	m := &member{group: must(sarama.NewConsumerGroup([]string{address}, name, config(sarama.CompressionNone)))}
	go func() {
		for {
			err := m.group.Consume(context.Background(), []string{topic}, m)
			if err == sarama.ErrClosedConsumerGroup {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
	}()
	return m
}

func (m *member) owns(count int) bool {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.assigned == count
}

func seen(members ...*member) []*sarama.ConsumerMessage {
	var all []*sarama.ConsumerMessage
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

func send(producer sarama.SyncProducer, from, to, partitions int) {
	for n := from; n < to; n++ {
		_, _, err := producer.SendMessage(&sarama.ProducerMessage{
			Topic: topic, Partition: int32(n % partitions), Value: sarama.StringEncoder(strconv.Itoa(n)),
		})
		check(err)
	}
}

func roundTrip(codec sarama.CompressionCodec) {
	create(3, nil)
	producer := producer(codec)
	var messages []*sarama.ProducerMessage
	for n := range 500 {
		message := &sarama.ProducerMessage{
			Topic: topic, Partition: int32(n % 3),
			Headers: []sarama.RecordHeader{{Key: []byte("h"), Value: []byte(strconv.Itoa(n))}, {Key: []byte("h")}},
		}
		if n%3 != 0 {
			message.Key = sarama.StringEncoder(fmt.Sprint("k", n))
		}
		if n%5 != 0 {
			message.Value = sarama.StringEncoder(fmt.Sprint("v", n))
		}
		messages = append(messages, message)
	}
	check(producer.SendMessages(messages))
	reader := join(topic)
	until("all records", func() bool { return len(seen(reader)) >= 500 })
	got := seen(reader)
	number := func(m *sarama.ConsumerMessage) int { return must(strconv.Atoi(string(m.Headers[0].Value))) }
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
		assert(same && (message.Key == nil) == (n%3 == 0) && len(message.Headers) == 2, "record ", n, ": ", message)
	}
	check(reader.group.Close())
	check(producer.Close())
}

func group() {
	create(6, nil)
	producer := producer(sarama.CompressionNone)
	members := []*member{join("sarama-three"), join("sarama-three"), join("sarama-three")}
	until("two partitions each", func() bool {
		return members[0].owns(2) && members[1].owns(2) && members[2].owns(2)
	})
	send(producer, 0, 60, 6)
	until("the first records", func() bool { return len(values(members...)) == 60 })
	check(members[2].group.Close())
	until("three partitions each", func() bool { return members[0].owns(3) && members[1].owns(3) })
	send(producer, 60, 120, 6)
	until("the others", func() bool { return len(values(members...)) == 120 })
	check(members[0].group.Close())
	check(members[1].group.Close())
	check(producer.Close())
}

func restart() {
	create(1, nil)
	producer := producer(sarama.CompressionNone)
	reader := join("sarama-restart")
	send(producer, 0, 50, 1)
	until("the first records", func() bool { return len(values(reader)) == 50 })
	fmt.Println("half")
	bufio.NewReader(os.Stdin).ReadString('\n')
	send(producer, 50, 100, 1)
	until("the records after the restart", func() bool { return len(values(reader)) == 100 })
	// An idempotent producer repeats nothing.
	for _, message := range seen(reader) {
		assert(string(message.Value) == fmt.Sprint(message.Offset), string(message.Value), " at ", message.Offset)
	}
	check(reader.group.Close())
	check(producer.Close())
}

func administer() {
	text := func(s string) *string { return &s }
	create(2, map[string]*string{"retention.ms": text("1000000")})
	admin := admin()
	retention := func() string {
		entries := must(admin.DescribeConfig(sarama.ConfigResource{
			Type: sarama.TopicResource, Name: topic, ConfigNames: []string{"retention.ms"},
		}))
		return entries[0].Value
	}
	assert(retention() == "1000000", retention())
	check(admin.IncrementalAlterConfig(sarama.TopicResource, topic, map[string]sarama.IncrementalAlterConfigsEntry{
		"retention.ms": {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: text("2000000")},
	}, false))
	assert(retention() == "2000000", retention())
	check(admin.CreatePartitions(topic, 4, nil, false))
	described := must(admin.DescribeTopics([]string{topic}))
	assert(len(described[0].Partitions) == 4, described[0])
	producer := producer(sarama.CompressionNone)
	send(producer, 3, 4, 4)
	send(producer, 7, 8, 4)
	check(producer.Close())
	client := must(sarama.NewClient([]string{address}, config(sarama.CompressionNone)))
	offset := func(which int64) int64 { return must(client.GetOffset(topic, 3, which)) }
	assert(offset(sarama.OffsetNewest) == 2)
	manager := must(sarama.NewOffsetManagerFromClient("sarama-admin", client))
	partition := must(manager.ManagePartition(topic, 3))
	partition.MarkOffset(1, "")
	manager.Commit()
	check(partition.Close())
	check(manager.Close())
	offsets := must(admin.ListConsumerGroupOffsets("sarama-admin", map[string][]int32{topic: {3}}))
	assert(offsets.GetBlock(topic, 3).Offset == 1, offsets)
	_, listed := must(admin.ListConsumerGroups())["sarama-admin"]
	assert(listed)
	check(admin.DeleteRecords(topic, map[int32]int64{3: 1}))
	assert(offset(sarama.OffsetOldest) == 1)
	check(admin.DeleteConsumerGroup("sarama-admin"))
	check(admin.DeleteTopic(topic))
	_, there := must(admin.ListTopics())[topic]
	assert(!there)
	check(admin.Close())
}

func main() {
	scenario, address = os.Args[1], os.Args[2]
	topic = "sarama-" + scenario
	codecs := map[string]sarama.CompressionCodec{
		"plain": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
		"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
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
