package workloads;

import java.util.Random;

/** XML to work on: a catalogue. */
final class Documents {
    private Documents() {}

    static String catalogue(Random random, int books) {
        StringBuilder text = new StringBuilder("<?xml version=\"1.0\"?>\n<catalogue place=\"shelf ");
        text.append(random.nextInt(100)).append("\">\n");
        for (int i = 0; i < books; i++) {
            text.append("  <book id=\"b").append(i).append("\" year=\"").append(1900 + random.nextInt(120)).append("\">\n");
            text.append("    <title>Title ").append(random.nextInt(5000)).append(" &amp; more</title>\n");
            for (int j = random.nextInt(3); j >= 0; j--) {
                text.append("    <author><first>F").append(random.nextInt(90)).append("</first><last>L")
                        .append(random.nextInt(900)).append("</last></author>\n");
            }
            text.append("    <price currency=\"EUR\">").append(random.nextInt(90)).append('.')
                    .append(10 + random.nextInt(90)).append("</price>\n");
            if (random.nextInt(3) == 0) {
                text.append("    <note>").append("word ".repeat(random.nextInt(20))).append("</note>\n");
            }
            text.append("  </book>\n");
        }
        return text.append("</catalogue>\n").toString();
    }
}
