package workloads;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;

/** Orders, written with Java's serialisation and read again. */
final class Serial implements Workload {
    private final Random random;
    private final int customers;
    private final int items;

    Serial(boolean training) {
        random = new Random(training ? 41 : 42);
        customers = training ? 12 : 20;
        items = training ? 8 : 5;
    }

    private static final class Item implements Serializable {
        private static final long serialVersionUID = 1;
        String name;
        Integer count;
        double price;
        int[] sizes;
    }

    private static class Customer implements Serializable {
        private static final long serialVersionUID = 1;
        String name;
        Customer friend;
        final List<Item> items = new ArrayList<>();
        final Map<String, Object> notes = new TreeMap<>();
    }

    private static final class Company extends Customer {
        private static final long serialVersionUID = 1;
        long[] numbers;
        transient Object cache = new Object();
    }

    private Map<Long, Customer> make() {
        Map<Long, Customer> all = new HashMap<>();
        Customer before = null;
        for (int i = 0; i < customers; i++) {
            Customer customer = random.nextInt(3) == 0 ? new Company() : new Customer();
            customer.name = "customer " + random.nextInt(1000);
            customer.friend = before;
            for (int j = 0; j < items; j++) {
                Item item = new Item();
                item.name = "item " + random.nextInt(50);
                item.count = random.nextInt(1000);
                item.price = random.nextDouble();
                item.sizes = new int[random.nextInt(6)];
                customer.items.add(item);
                customer.notes.put(item.name, j % 2 == 0 ? item : List.of(i, j));
            }
            all.put((long) random.nextInt(1 << 20), customer);
            before = random.nextInt(4) == 0 ? null : customer;
        }
        return all;
    }

    @Override
    public long round(int number) throws IOException, ClassNotFoundException {
        Map<Long, Customer> all = make();
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (ObjectOutputStream out = new ObjectOutputStream(bytes)) {
            out.writeObject(all);
        }
        try (ObjectInputStream in = new ObjectInputStream(new ByteArrayInputStream(bytes.toByteArray()))) {
            Map<?, ?> again = (Map<?, ?>) in.readObject();
            if (again.size() != all.size()) {
                throw new IllegalStateException("read something else");
            }
        }
        return bytes.size();
    }
}
