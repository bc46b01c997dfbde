import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;

import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;

/**
 * Writes record batches with Kafka's own classes, for record_golden.rs to read, and reads the
 * batches that record_golden.rs writes. README.md beside this file says how to run it.
 */
public class GoldenBatches {
    static final long TIME = 1_700_000_000_000L;

    public static void main(String[] args) throws IOException {
        Path dir = Path.of(args[1]);
        switch (args[0]) {
            case "write" -> write(dir);
            case "read" -> read(dir);
            default -> throw new IllegalArgumentException(args[0]);
        }
    }

    static void write(Path dir) throws IOException {
        for (CompressionType type : CompressionType.values()) {
            Files.write(dir.resolve(type.name + "-small.batch"), small(type));
            Files.write(dir.resolve(type.name + "-large.batch"), large(type));
        }
        Files.write(dir.resolve("append-time.batch"), appendTime());
    }

    /** Nulls, empties, headers, timestamps out of order, an idempotent producer in a transaction. */
    static byte[] small(CompressionType type) {
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(4096),
            RecordBatch.MAGIC_VALUE_V2, Compression.of(type).build(), TimestampType.CREATE_TIME,
            0L, RecordBatch.NO_TIMESTAMP, 4711L, (short) 3, 42, true, 7);
        builder.append(TIME, bytes("key"), bytes("value"), new Header[] {
            new RecordHeader("twice", bytes("a")),
            new RecordHeader("twice", bytes("b")),
            new RecordHeader("null", null),
            new RecordHeader("empty", new byte[0]),
            new RecordHeader("", bytes("no name")),
        });
        builder.append(TIME - 5, (byte[]) null, bytes("no key"));
        builder.append(TIME + 100_000, bytes(""), bytes(""));
        builder.append(TIME + 1, bytes("tombstone"), (byte[]) null);
        return built(builder);
    }

    /** Some 300 records of 1 KiB: several blocks of any framing, compressible and not. */
    static byte[] large(CompressionType type) {
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(1 << 20),
            RecordBatch.MAGIC_VALUE_V2, Compression.of(type).build(), TimestampType.CREATE_TIME,
            0L);
        int records = type == CompressionType.NONE ? 3 : 300;
        for (int i = 0; i < records; i++)
            builder.append(TIME + i, bytes("key-" + i), value(i));
        return built(builder);
    }

    /** The value of record i: every tenth is noise, the others repeat themselves. */
    static byte[] value(int i) {
        byte[] value = new byte[1024];
        int state = i + 1;
        for (int j = 0; j < value.length; j++) {
            state = state * 1664525 + 1013904223;
            value[j] = i % 10 == 0 ? (byte) (state >>> 24) : (byte) ('a' + (i + j) % 7);
        }
        return value;
    }

    static byte[] appendTime() {
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(4096),
            RecordBatch.MAGIC_VALUE_V2, Compression.NONE, TimestampType.LOG_APPEND_TIME,
            1000L, TIME, 7);
        builder.append(TIME - 1, bytes("k"), bytes("v"));
        builder.append(TIME - 2, bytes("l"), bytes("w"));
        return built(builder);
    }

    static byte[] built(MemoryRecordsBuilder builder) {
        ByteBuffer buffer = builder.build().buffer();
        byte[] batch = new byte[buffer.remaining()];
        buffer.get(batch);
        return batch;
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    /** Reads every batch of a directory and fails unless it is what large() would have held. */
    static void read(Path dir) throws IOException {
        try (Stream<Path> files = Files.list(dir)) {
            for (Path file : (Iterable<Path>) files.sorted()::iterator) {
                int records = 0;
                for (MutableRecordBatch batch
                        : MemoryRecords.readableRecords(ByteBuffer.wrap(Files.readAllBytes(file))).batches()) {
                    batch.ensureValid();
                    for (Record record : batch) {
                        ByteBuffer value = ByteBuffer.wrap(value(records));
                        ByteBuffer key = ByteBuffer.wrap(bytes("key-" + records));
                        if (record.offset() != records || record.timestamp() != TIME + records
                                || !key.equals(record.key()) || !value.equals(record.value()))
                            throw new AssertionError(file + ": record " + records + ": " + record);
                        records++;
                    }
                }
                if (records != 300)
                    throw new AssertionError(file + " has " + records + " records");
                System.out.println(file.getFileName() + ": " + records + " records");
            }
        }
    }
}
