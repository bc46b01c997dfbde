import com.fasterxml.jackson.databind.JsonNode;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HexFormat;
import java.util.List;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageSizeAccumulator;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.record.internal.BaseRecords;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.SimpleRecord;

/**
 * Writes each message of the named APIs in each version, as Kafka's own classes write it, one line
 * a message: name, version, case, version of its header, the bytes in hex, the fields in JSON.
 *
 * The cases: "defaults"; "full", every field set to a value of its own, two elements a list;
 * "nulls", full but with null in every field that may be null; "inner-nulls", the same but with
 * structs and lists of structs left in place, so that what is null inside them shows.
 *
 * A name with dots is a class, for messages that belong to no API; their version of the header is
 * "-". Without names it writes the error codes instead: code, name, whether clients try again.
 */
public class Golden {
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    private static int counter;

    public static void main(String[] names) throws Exception {
        if (names.length == 0) {
            for (Errors error : Errors.values()) {
                OUT.println(String.join("\t", "" + error.code(), error.name(),
                    "" + (error.exception() instanceof RetriableException)));
            }
            return;
        }
        var apis = new TreeMap<Short, ApiMessageType>();
        for (String name : names) {
            if (name.contains(".")) {
                Message data = (Message) Class.forName(name).getConstructor().newInstance();
                for (short v = data.lowestSupportedVersion(); v <= data.highestSupportedVersion(); v++) {
                    write(data, v, "-");
                }
                continue;
            }
            ApiMessageType api = ApiMessageType.valueOf(name);
            apis.put(api.apiKey(), api);
        }
        for (ApiMessageType api : apis.values()) {
            for (short v = api.lowestSupportedVersion(); v <= api.highestSupportedVersion(false); v++) {
                write(api.newRequest(), v, "" + api.requestHeaderVersion(v));
                write(api.newResponse(), v, "" + api.responseHeaderVersion(v));
            }
        }
    }

    private static void write(Message defaults, short version, String headerVersion) throws Exception {
        print(defaults, version, headerVersion, "defaults");
        counter = 0;
        Message full = (Message) fill(defaults.getClass());
        serializable(full, version);
        print(full, version, headerVersion, "full");
        Message inner = nulls(full, version, false);
        if (inner != null) {
            print(inner, version, headerVersion, "inner-nulls");
        }
        Message outer = nulls(full, version, true);
        if (outer != null
                && (inner == null || !Arrays.equals(serialize(inner, version), serialize(outer, version)))) {
            print(outer, version, headerVersion, "nulls");
        }
    }

    /** Sets fields that the version refuses back to their defaults, until it refuses none. */
    private static void serializable(Message message, short version) throws Exception {
        for (String refused = refusal(message, version); refused != null;) {
            String before = refused;
            List<Class<?>> owners = new ArrayList<>();
            for (Object struct : structs(message)) {
                boolean owner = setters(struct.getClass()).stream()
                    .anyMatch(m -> m.getName().equalsIgnoreCase("set" + before));
                if (owner && !owners.contains(struct.getClass())) {
                    owners.add(struct.getClass());
                }
            }
            // Kafka does not say which struct's field it was: the first that helps.
            for (Class<?> owner : owners) {
                List<Object> values = reset(message, owner, refused);
                refused = refusal(message, version);
                if (!before.equals(refused)) {
                    break;
                }
                int i = 0;
                for (Object struct : structs(message)) {
                    if (struct.getClass() == owner) {
                        setter(owner, before).invoke(struct, values.get(i++));
                    }
                }
            }
            if (before.equals(refused)) {
                for (Class<?> owner : owners) {
                    reset(message, owner, refused);
                }
                refused = refusal(message, version);
            }
        }
    }

    /** The field that the version refuses, or null. */
    private static String refusal(Message message, short version) {
        try {
            serialize(message, version);
            return null;
        } catch (UnsupportedVersionException e) {
            Matcher matcher = Pattern.compile("non-default (\\w+) at version").matcher(e.getMessage());
            if (!matcher.find()) {
                throw e;
            }
            return matcher.group(1);
        }
    }

    private static List<Object> reset(Message message, Class<?> owner, String field) throws Exception {
        List<Object> values = new ArrayList<>();
        for (Object struct : structs(message)) {
            if (struct.getClass() == owner) {
                Object fresh = owner.getConstructor().newInstance();
                values.add(getter(struct, field).invoke(struct));
                setter(owner, field).invoke(struct, getter(struct, field).invoke(fresh));
            }
        }
        return values;
    }

    /** The message with null wherever the version takes it, or null if it takes none. */
    private static Message nulls(Message full, short version, boolean structsToo) throws Exception {
        Message message = copy(full, version);
        boolean any = false;
        List<Object> all = structs(message);
        // The innermost first: null in the field of a struct that is null itself cannot be tried.
        for (int i = all.size() - 1; i >= 0; i--) {
            Object struct = all.get(i);
            for (Method setter : setters(struct.getClass())) {
                Class<?> type = setter.getParameterTypes()[0];
                Object before = getter(struct, setter.getName().substring(3)).invoke(struct);
                boolean holdsStructs = before instanceof Message
                    || before instanceof Collection<?> list && !list.isEmpty()
                        && list.iterator().next() instanceof Message;
                if (type.isPrimitive() || before == null || holdsStructs && !structsToo) {
                    continue;
                }
                byte[] withValue = serialize(message, version);
                setter.invoke(struct, new Object[] {null});
                try {
                    any |= !Arrays.equals(withValue, serialize(message, version));
                } catch (RuntimeException e) {
                    setter.invoke(struct, before);
                }
            }
        }
        return any ? message : null;
    }

    private static void print(Message message, short version, String headerVersion, String name)
            throws Exception {
        byte[] bytes = serialize(message, version);
        if (!Arrays.equals(bytes, serialize(copy(message, version), version))) {
            throw new IllegalStateException(message.getClass() + " does not read back");
        }
        String type = message.getClass().getSimpleName();
        Class<?> converter = Class.forName(message.getClass().getName() + "JsonConverter");
        JsonNode json = (JsonNode) converter
            .getMethod("write", message.getClass(), short.class, boolean.class)
            .invoke(null, message, version, false);
        OUT.println(String.join("\t",
            type.replaceFirst("Data$", ""), "" + version, name,
            headerVersion, HexFormat.of().formatHex(bytes), json.toString()));
    }

    private static byte[] serialize(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        MessageSizeAccumulator size = new MessageSizeAccumulator();
        message.addSize(size, cache, version);
        ByteBuffer buffer = ByteBuffer.allocate(size.totalSize());
        message.write(new ByteBufferAccessor(buffer), cache, version);
        return buffer.array();
    }

    private static Message copy(Message message, short version) throws Exception {
        Message copy = message.getClass().getConstructor().newInstance();
        copy.read(new ByteBufferAccessor(ByteBuffer.wrap(serialize(message, version))), version);
        return copy;
    }

    private static Object fill(Class<?> type) throws Exception {
        Object struct = type.getConstructor().newInstance();
        for (Method setter : setters(type)) {
            Object value = value(setter.getGenericParameterTypes()[0]);
            try {
                setter.invoke(struct, value);
            } catch (InvocationTargetException e) {
                // An unsigned integer is a wider one in Java, and takes no larger value.
                boolean is16 = setter.getParameterTypes()[0] == int.class;
                setter.invoke(struct, is16 ? (Object) (0x0100 + counter) : (long) (0x01020300 + counter));
            }
        }
        return struct;
    }

    /** A value whose every byte counts, so that none can be lost or swapped unseen. */
    private static Object value(Type type) throws Exception {
        counter++;
        if (type == boolean.class) return true;
        if (type == byte.class) return (byte) counter;
        if (type == short.class) return (short) (0x0100 + counter);
        if (type == int.class) return 0x01020300 + counter;
        if (type == long.class) return 0x0102030405060700L + counter;
        if (type == Byte.class) return (byte) counter;
        if (type == Short.class) return (short) (0x0100 + counter);
        if (type == Integer.class) return 0x01020300 + counter;
        if (type == Long.class) return 0x0102030405060700L + counter;
        if (type == double.class) return counter + 0.5;
        if (type == String.class) {
            // One in nine is long enough for a compact length of two bytes.
            return "text " + counter + " \u00fc\u20ac" + (counter % 9 == 0 ? "-".repeat(150) : "");
        }
        if (type == Uuid.class) return new Uuid(0x0102030405060708L, 0x090a0b0c0d0e0f00L + counter);
        if (type == byte[].class) return new byte[] {(byte) counter, 0, -1};
        if (type == ByteBuffer.class) return ByteBuffer.wrap(new byte[] {(byte) counter, 0, -1});
        if (type == BaseRecords.class) {
            return MemoryRecords.withRecords(Compression.NONE,
                new SimpleRecord(1_000_000L + counter, "key".getBytes(), ("value " + counter).getBytes()));
        }
        if (type instanceof ParameterizedType list) {
            Type element = list.getActualTypeArguments()[0];
            return new ArrayList<>(List.of(value(element), value(element)));
        }
        Class<?> struct = (Class<?>) type;
        if (Collection.class.isAssignableFrom(struct)) {
            // Kafka's hashed lists: XCollection of X.
            @SuppressWarnings("unchecked")
            Collection<Object> list = (Collection<Object>) struct.getConstructor().newInstance();
            String name = struct.getName();
            Class<?> element = Class.forName(name.substring(0, name.length() - "Collection".length()));
            list.add(fill(element));
            list.add(fill(element));
            return list;
        }
        return fill(struct);
    }

    /** The message and every struct inside it, outermost first. */
    private static List<Object> structs(Object struct) throws Exception {
        List<Object> found = new ArrayList<>();
        found.add(struct);
        for (Method setter : setters(struct.getClass())) {
            Object value = getter(struct, setter.getName().substring(3)).invoke(struct);
            Collection<?> inside = value instanceof Collection<?> list ? list : Arrays.asList(value);
            for (Object one : inside) {
                if (one instanceof Message) {
                    found.addAll(structs(one));
                }
            }
        }
        return found;
    }

    private static List<Method> setters(Class<?> type) {
        return Arrays.stream(type.getMethods())
            .filter(m -> m.getName().startsWith("set") && m.getParameterCount() == 1)
            // The links of Kafka's hashed lists are no fields.
            .filter(m -> !m.getName().equals("setNext") && !m.getName().equals("setPrev"))
            .sorted(java.util.Comparator.comparing(Method::getName))
            .toList();
    }

    private static Method setter(Class<?> type, String field) {
        return setters(type).stream()
            .filter(m -> m.getName().equalsIgnoreCase("set" + field))
            .findFirst().orElseThrow();
    }

    private static Method getter(Object struct, String field) throws NoSuchMethodException {
        String name = Character.toLowerCase(field.charAt(0)) + field.substring(1);
        return struct.getClass().getMethod(name);
    }
}
