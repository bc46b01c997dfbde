// What a user of kafkajs does first: `node smoke.js SCENARIO HOST:PORT`.
const { Kafka, CompressionTypes, CompressionCodecs, logLevel, ConfigResourceTypes } = require('kafkajs')
const assert = require('assert')
CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy')

const [scenario, address] = process.argv.slice(2)
const kafka = new Kafka({
  clientId: 'smoke', brokers: [address], logLevel: logLevel.NOTHING,
  retry: { initialRetryTime: 100, retries: 50, maxRetryTime: 1000 },
})
const topic = `kafkajs-${scenario}`
const sleep = ms => new Promise(done => setTimeout(done, ms))
async function until (what, holds) {
  for (let tries = 0; !holds(); tries++) {
    if (tries > 600) throw new Error(`never: ${what}`)
    await sleep(100)
  }
}

async function create (numPartitions) {
  const admin = kafka.admin()
  await admin.connect()
  await admin.createTopics({ topics: [{ topic, numPartitions }] })
  await admin.disconnect()
}

const message = n => ({
  key: n % 3 ? `k${n}` : null,
  value: n % 5 ? `v${n}` : '',
  headers: { h: `${n}`, 'no value': '' },
})

async function consumer (groupId, seen) {
  const consumer = kafka.consumer({ groupId, sessionTimeout: 6000, heartbeatInterval: 500, rebalanceTimeout: 5000 })
  let assigned = 0
  consumer.on(consumer.events.GROUP_JOIN, e => { assigned = (e.payload.memberAssignment[topic] || []).length })
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  await consumer.run({ eachMessage: async ({ message }) => { seen.push(message) } })
  return { assigned: () => assigned, leave: () => consumer.disconnect() }
}

async function roundTrip (compression) {
  await create(3)
  const producer = kafka.producer({ idempotent: true })
  await producer.connect()
  const messages = Array.from({ length: 500 }, (_, n) => message(n))
  for (let n = 0; n < 500; n += 100) {
    await producer.send({ topic, compression, messages: messages.slice(n, n + 100) })
  }
  const seen = []
  const reader = await consumer(topic, seen)
  await until('all records', () => seen.length >= 500)
  const got = seen.map(m => [m.key && m.key.toString(), m.value.toString(), m.headers.h.toString()])
  got.sort((a, b) => a[2] - b[2])
  assert.deepStrictEqual(got, messages.map(m => [m.key, m.value, m.headers.h]))
  await reader.leave()
  await producer.disconnect()
}

const scenarios = {
  plain: () => roundTrip(CompressionTypes.None),
  gzip: () => roundTrip(CompressionTypes.GZIP),
  snappy: () => roundTrip(CompressionTypes.Snappy),

  async group () {
    await create(6)
    const producer = kafka.producer()
    await producer.connect()
    const seen = []
    const members = []
    for (let n = 0; n < 3; n++) members.push(await consumer('kafkajs-three', seen))
    await until('two partitions each', () => members.every(m => m.assigned() === 2))
    const send = from => producer.send({
      topic, messages: Array.from({ length: 60 }, (_, n) => ({ value: `${from + n}`, partition: n % 6 })),
    })
    await send(0)
    await until('the first records', () => new Set(seen.map(m => m.value.toString())).size === 60)
    await members.pop().leave()
    await until('three partitions each', () => members.every(m => m.assigned() === 3))
    await send(60)
    await until('the others', () => new Set(seen.map(m => m.value.toString())).size === 120)
    for (const member of members) await member.leave()
    await producer.disconnect()
  },

  async restart () {
    await create(1)
    const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 })
    await producer.connect()
    const seen = []
    const reader = await consumer('kafkajs-restart', seen)
    const values = () => new Set(seen.map(m => m.value.toString()))
    const send = async (from) => {
      for (let n = from; n < from + 50; n++) await producer.send({ topic, messages: [{ value: `${n}` }] })
    }
    await send(0)
    await until('the first records', () => values().size === 50)
    console.log('half')
    await new Promise(done => process.stdin.once('data', done))
    await send(50)
    await until('the records after the restart', () => values().size === 100)
    await reader.leave()
    await producer.disconnect()
  },

  async admin () {
    const admin = kafka.admin()
    await admin.connect()
    assert(await admin.createTopics({
      topics: [{ topic, numPartitions: 2, configEntries: [{ name: 'retention.ms', value: '1000000' }] }],
    }))
    assert((await admin.listTopics()).includes(topic))
    const config = async () => {
      const type = ConfigResourceTypes.TOPIC
      const described = await admin.describeConfigs({
        includeSynonyms: false, resources: [{ type, name: topic, configNames: ['retention.ms'] }],
      })
      return described.resources[0].configEntries[0].configValue
    }
    assert.strictEqual(await config(), '1000000')
    await admin.alterConfigs({
      validateOnly: false,
      resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries: [{ name: 'retention.ms', value: '2000000' }] }],
    })
    assert.strictEqual(await config(), '2000000')
    await admin.createPartitions({ topicPartitions: [{ topic, count: 4 }] })
    const metadata = await admin.fetchTopicMetadata({ topics: [topic] })
    assert.strictEqual(metadata.topics[0].partitions.length, 4)
    const producer = kafka.producer()
    await producer.connect()
    await producer.send({ topic, messages: [{ value: 'x', partition: 3 }, { value: 'y', partition: 3 }] })
    await producer.disconnect()
    const high = async () => (await admin.fetchTopicOffsets(topic)).find(p => p.partition === 3)
    assert.strictEqual((await high()).high, '2')
    await admin.setOffsets({ groupId: 'kafkajs-admin', topic, partitions: [{ partition: 3, offset: '1' }] })
    const [offsets] = await admin.fetchOffsets({ groupId: 'kafkajs-admin', topics: [topic] })
    assert.strictEqual(offsets.partitions.find(p => p.partition === 3).offset, '1')
    assert((await admin.listGroups()).groups.some(g => g.groupId === 'kafkajs-admin'))
    await admin.deleteTopicRecords({ topic, partitions: [{ partition: 3, offset: '1' }] })
    assert.strictEqual((await high()).low, '1')
    await admin.deleteGroups(['kafkajs-admin'])
    await admin.deleteTopics({ topics: [topic] })
    assert(!(await admin.listTopics()).includes(topic))
    await admin.disconnect()
  },
}

scenarios[scenario]().then(() => process.exit(0), error => {
  console.log(error.stack || error)
  process.exit(1)
})
