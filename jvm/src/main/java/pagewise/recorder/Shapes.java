package pagewise.recorder;

import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import jdk.internal.misc.Unsafe;

/** Where objects have their references. Used with the thread marked busy, for it runs instrumented code, and
 * without the recorder's lock, for it may load classes. */
final class Shapes {
    private static final Unsafe U = Unsafe.getUnsafe();

    private final Method declaredFields;
    private final Map<Class<?>, long[]> shapes = new ConcurrentHashMap<>();

    /** {@code java.lang} must be open to this module: the public method hides fields of some classes. */
    Shapes() throws ReflectiveOperationException {
        declaredFields = Class.class.getDeclaredMethod("getDeclaredFields0", boolean.class);
        declaredFields.setAccessible(true);
    }

    /** Offsets of all reference fields of the class's objects. */
    long[] references(Class<?> type) {
        long[] known = shapes.get(type);
        if (known == null) {
            known = find(type);
            shapes.put(type, known);
        }
        return known;
    }

    private long[] find(Class<?> type) {
        long[] found = new long[16];
        int count = 0;
        for (Class<?> level = type; level != null; level = level.getSuperclass()) {
            for (Field field : declared(level)) {
                if (Modifier.isStatic(field.getModifiers()) || field.getType().isPrimitive()) {
                    continue;
                }
                if (count == found.length) {
                    found = Arrays.copyOf(found, 2 * count);
                }
                found[count++] = U.objectFieldOffset(field);
            }
        }
        return Arrays.copyOf(found, count);
    }

    private Field[] declared(Class<?> type) {
        try {
            return (Field[]) declaredFields.invoke(type, false);
        } catch (ReflectiveOperationException | LinkageError missing) {
            return new Field[0];
        }
    }

    /** Offset of the field that code names as {@code owner.name}; the declaring class may be further up. -1: unknown. */
    static long offset(Class<?> type, String owner, String name) {
        Class<?> level = type;
        while (level != null && !level.getName().equals(owner)) {
            level = level.getSuperclass();
        }
        for (; level != null; level = level.getSuperclass()) {
            try {
                return U.objectFieldOffset(level, name);
            } catch (InternalError none) {
                // Declared further up.
            }
        }
        return -1;
    }
}
