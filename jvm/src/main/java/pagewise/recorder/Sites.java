package pagewise.recorder;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import jdk.internal.misc.Unsafe;

/** Numbers for the places that allocate and for the fields that code names. */
class Sites {
    static final int MOST_FIELDS = 1 << 20;
    static final int MOST_SITES = 1 << 21;
    private static final Unsafe U = Unsafe.getUnsafe();

    /** By the numbers of fields: what code calls them. */
    final String[] fieldOwners = new String[MOST_FIELDS];

    final String[] fieldNames = new String[MOST_FIELDS];
    private final Map<String, Integer> fields = new ConcurrentHashMap<>();
    private final Map<Class<?>, Integer> unseen = new ConcurrentHashMap<>();
    private final Spool spool;
    /** The last site, for objects of all types that came when there were no more sites. */
    private final int others;

    private int nextField;
    private int nextSite;

    Sites(Spool spool) {
        this(spool, MOST_SITES);
    }

    Sites(Spool spool, int most) {
        this.spool = spool;
        this.others = most - 1;
    }

    /** A place in a method. Its index among the method's instructions tells it from others on the line. */
    int site(String method, String file, int line, int index, String type) {
        String text = method + '\t' + (file == null ? "" : file) + '\t' + line + '\t' + index + '\t' + type;
        synchronized (Spool.LOCK) {
            if (nextSite >= others) {
                throw new TooMany();
            }
            write(nextSite, text);
            return nextSite++;
        }
    }

    /** The place of objects that no instrumented code allocated. The lock is held, in the program's own code: nothing is thrown. */
    int unseen(Class<?> type) {
        Integer known = unseen.get(type);
        if (known == null) {
            known = nextSite < others ? site("", null, 0, 0, type.getTypeName()) : other();
            unseen.put(type, known);
        }
        return known;
    }

    private int other() {
        if (nextSite == others) {
            write(nextSite++, "\t\t0\t0\t(other types)");
        }
        return others;
    }

    int field(String owner, String name) {
        synchronized (fields) {
            String key = owner + '.' + name;
            Integer known = fields.get(key);
            if (known != null) {
                return known;
            }
            if (nextField >= MOST_FIELDS) {
                throw new TooMany();
            }
            fieldOwners[nextField] = owner.replace('/', '.');
            fieldNames[nextField] = name;
            fields.put(key, nextField);
            return nextField++;
        }
    }

    private void write(int number, String text) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        int length = Math.min(bytes.length, Spool.LONGEST_TEXT);
        int words = 3 + (length + 3) / 4;
        long at = spool.reserve(words);
        if (at == 0) {
            return;
        }
        U.putInt(null, at + 4, number);
        U.putInt(null, at + 8, length);
        for (int i = 0; i < length; i++) {
            U.putByte(null, at + 12 + i, bytes[i]);
        }
        spool.publish(words, Spool.SITE);
    }

    /** More sites or fields than are kept: the class is left as it is. */
    static final class TooMany extends RuntimeException {
        private static final long serialVersionUID = 1;

        TooMany() {
            super("too many sites or fields", null, false, false);
        }
    }
}
