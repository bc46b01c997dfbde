import java.io.File;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.OptionalLong;
import org.apache.kafka.storage.internals.log.ProducerStateEntry;
import org.apache.kafka.storage.internals.log.ProducerStateManager;

/** Writes a producer snapshot by Kafka's own class: an ordinary producer, one in a new epoch, one in a transaction. */
public class Snapshot {
    public static void main(String[] args) throws Exception {
        Map<Long, ProducerStateEntry> entries = new LinkedHashMap<>();
        // addBatch is not public.
        var add = ProducerStateEntry.class.getDeclaredMethod(
            "addBatch", short.class, int.class, long.class, int.class, long.class);
        add.setAccessible(true);
        var plain = new ProducerStateEntry(5L, (short) 3, -1, -1L, OptionalLong.empty());
        add.invoke(plain, (short) 3, 31, 1_200L, 4, 1_600_000_000_000L);
        add.invoke(plain, (short) 3, 41, 1_234L, 9, 1_700_000_000_000L);
        entries.put(5L, plain);
        entries.put(6L, new ProducerStateEntry(6L, (short) 7, -1, -1L, OptionalLong.empty()));
        var open = new ProducerStateEntry(4_000_000_000_000L, (short) 0, 2, -1L, OptionalLong.of(77L));
        add.invoke(open, (short) 0, 2147483647, 80L, 0, 5L);
        entries.put(4_000_000_000_000L, open);
        ProducerStateManager.writeSnapshot(new File(args[0]), entries, true);
    }
}
