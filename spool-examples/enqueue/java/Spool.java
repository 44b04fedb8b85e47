import static java.nio.charset.StandardCharsets.UTF_8;
import static java.nio.file.StandardOpenOption.CREATE_NEW;
import static java.nio.file.StandardOpenOption.READ;
import static java.nio.file.StandardOpenOption.WRITE;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributeView;
import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Instant;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Stores tasks for spoold or uWSGI. Copy this file: it needs Java 11 or later on Linux, and nothing else.
 *
 * <pre>Path path = Spool.spool(Map.of("to", "joe"), Path.of("/var/spool/app"), 1700000000.0, "5", body, true);</pre>
 */
public final class Spool {
    /** Bytes: the size of the block and each length in it are 16-bit numbers. */
    public static final int LIMIT = 0xFFFF;

    private static final AtomicLong COUNTER = new AtomicLong();

    private Spool() {}

    /**
     * Stores one task.
     *
     * @param dictionary keys and values, in its order (a LinkedHashMap has one);
     *     a byte[] unchanged, anything else as text in UTF-8
     * @param spooler the spool directory, which has to exist
     * @param at do not run before this time: epoch seconds, may have a fraction; or null
     * @param priority the priority directory, digits only; lower runs first if the daemon has spooler-ordered; or null
     * @param body the body, of any size
     * @param sync return only once the task is on disk, where it survives a power failure
     * @return the path of its file
     * @throws IllegalArgumentException for invalid arguments, before anything is written
     * @throws IOException if the task could not be stored
     */
    public static Path spool(Map<?, ?> dictionary, Path spooler, Double at, String priority, byte[] body, boolean sync)
            throws IOException {
        byte[] packet = encode(dictionary, at, priority);
        Path directory = priority == null ? spooler : makeDirectory(spooler.resolve(priority));
        String name = taskName();
        // No daemon runs a file whose name begins with a dot; the rename publishes only a complete file.
        Path hidden = directory.resolve("." + name);
        Path path = directory.resolve(name);
        try {
            write(hidden, packet, body, at, sync);
            Files.move(hidden, path); // rename(2)
        } catch (IOException error) {
            Files.deleteIfExists(hidden);
            throw error;
        }
        if (sync) // syncs the rename, and a new priority directory
            for (Path each : new Path[] {directory, spooler})
                try (FileChannel channel = FileChannel.open(each, READ)) {
                    channel.force(true);
                }
        return path;
    }

    private static void write(Path hidden, byte[] packet, byte[] body, Double at, boolean sync) throws IOException {
        var mode = PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------"));
        try (FileChannel channel = FileChannel.open(hidden, Set.of(WRITE, CREATE_NEW), mode)) {
            for (byte[] part : new byte[][] {packet, body})
                for (ByteBuffer rest = ByteBuffer.wrap(part); rest.hasRemaining(); ) channel.write(rest);
            if (at != null) { // after the last write, which sets the mtime to now
                FileTime time = FileTime.from(Instant.ofEpochSecond(at.longValue()));
                Files.getFileAttributeView(hidden, BasicFileAttributeView.class).setTimes(time, time, null);
            }
            if (sync) channel.force(true);
        }
    }

    private static Path makeDirectory(Path directory) throws IOException {
        try {
            return Files.createDirectory(directory); // 0777 minus the umask
        } catch (FileAlreadyExistsException exists) {
            return directory;
        }
    }

    private static String taskName() throws IOException {
        Instant now = Instant.now();
        return String.format("uwsgi_spoolfile_on_%s_%d_%d_%d_%d_%d",
                Files.readString(Path.of("/proc/sys/kernel/hostname")).trim(), ProcessHandle.current().pid(),
                COUNTER.incrementAndGet(), ThreadLocalRandom.current().nextInt(Integer.MAX_VALUE),
                now.getEpochSecond(), now.getNano() / 1000);
    }

    /** The packet: u8 17, u16 size, u8 0, then pairs of ( u16 length, key, u16 length, value ), little endian. */
    public static byte[] encode(Map<?, ?> dictionary, Double at, String priority) {
        Map<Object, Object> pairs = new LinkedHashMap<>();
        dictionary.forEach((key, value) -> {
            String name = new String(bytes("", key), UTF_8);
            if (Set.of("at", "priority", "body").contains(name))
                throw new IllegalArgumentException("the key \"" + name + "\" is not for the dictionary: give it as an argument");
            pairs.put(key, value);
        });
        if (at != null) {
            if (!(Double.isFinite(at) && at >= 0))
                throw new IllegalArgumentException("at must be epoch seconds, got " + at);
            pairs.put("at", BigDecimal.valueOf(at).stripTrailingZeros().toPlainString());
        }
        if (priority != null) {
            if (!priority.matches("[0-9]+"))
                throw new IllegalArgumentException("priority must be digits, got " + priority);
            pairs.put("priority", priority);
        }
        ByteArrayOutputStream block = new ByteArrayOutputStream();
        pairs.forEach((key, value) -> {
            byte[] keyBytes = bytes("", key);
            String name = new String(keyBytes, 0, Math.min(40, keyBytes.length), UTF_8);
            if (keyBytes.length == 0) throw new IllegalArgumentException("a key is empty");
            put(block, "the key \"" + name + '"', keyBytes);
            put(block, "the value of \"" + name + '"', bytes(name, value));
        });
        if (block.size() > LIMIT)
            throw new IllegalArgumentException(
                    "the keys and values take " + block.size() + " bytes, the limit is " + LIMIT + ": use the body");
        return ByteBuffer.allocate(4 + block.size()).order(ByteOrder.LITTLE_ENDIAN)
                .put((byte) 17).putShort((short) block.size()).put((byte) 0).put(block.toByteArray()).array();
    }

    private static void put(ByteArrayOutputStream block, String what, byte[] bytes) {
        if (bytes.length > LIMIT)
            throw new IllegalArgumentException(what + " has " + bytes.length + " bytes, the limit is " + LIMIT + ": use the body");
        block.write(bytes.length & 0xFF);
        block.write(bytes.length >> 8);
        block.writeBytes(bytes);
    }

    private static byte[] bytes(String name, Object value) {
        if (value == null) throw new IllegalArgumentException("the value of \"" + name + "\" is null");
        return value instanceof byte[] ? (byte[]) value : value.toString().getBytes(UTF_8);
    }
}
