package pagewise.recorder;

import java.util.ArrayList;
import java.util.List;

/** Sites that are kept here instead of in a file. */
final class TestSites extends Sites {
    static List<String> texts;
    static TestSites last;

    TestSites() {
        super(null);
        texts = new ArrayList<>();
        last = this;
    }

    @Override
    int site(String method, String file, int line, int index, String type) {
        texts.add(method + '\t' + file + '\t' + line + '\t' + index + '\t' + type);
        return texts.size() - 1;
    }

    static String type(int site) {
        String[] parts = texts.get(site).split("\t", -1);
        return parts[4].substring(parts[4].lastIndexOf('.') + 1);
    }
}
