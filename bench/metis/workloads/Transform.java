package workloads;

import java.io.StringReader;
import java.io.StringWriter;
import java.util.Random;
import javax.xml.transform.Templates;
import javax.xml.transform.TransformerException;
import javax.xml.transform.TransformerFactory;
import javax.xml.transform.stream.StreamResult;
import javax.xml.transform.stream.StreamSource;

/** The JDK's XSLT: catalogues become pages. */
final class Transform implements Workload {
    private static final String HEAD = "<xsl:stylesheet version='1.0' xmlns:xsl='http://www.w3.org/1999/XSL/Transform'>"
            + "<xsl:output method='html' indent='yes'/>";
    private static final String TABLE = HEAD
            + "<xsl:template match='/catalogue'><html><body><h1><xsl:value-of select='@place'/></h1><table>"
            + "<xsl:for-each select='book'><xsl:sort select='title'/><tr><td><xsl:value-of select='title'/></td>"
            + "<td><xsl:for-each select='author'><xsl:value-of select='concat(first, \" \", last)'/>"
            + "<xsl:if test='position() != last()'>, </xsl:if></xsl:for-each></td></tr></xsl:for-each>"
            + "</table></body></html></xsl:template></xsl:stylesheet>";
    private static final String LIST = HEAD
            + "<xsl:key name='years' match='book' use='@year'/>"
            + "<xsl:template match='/'><ul><xsl:apply-templates select='//book[price &gt; 20]'>"
            + "<xsl:sort select='price' data-type='number' order='descending'/></xsl:apply-templates></ul></xsl:template>"
            + "<xsl:template match='book'><li><xsl:attribute name='class'>y<xsl:value-of select='@year'/></xsl:attribute>"
            + "<xsl:apply-templates select='title|note'/> (<xsl:value-of select='count(key(\"years\", @year))'/>)</li></xsl:template>"
            + "<xsl:template match='note'><i><xsl:value-of select='substring(., 1, 30)'/></i></xsl:template>"
            + "</xsl:stylesheet>";

    private final Templates[] sheets;
    private final Random random;
    private final int books;

    Transform(boolean training) throws TransformerException {
        TransformerFactory factory = TransformerFactory.newInstance();
        Templates table = factory.newTemplates(new StreamSource(new StringReader(TABLE)));
        Templates list = factory.newTemplates(new StreamSource(new StringReader(LIST)));
        sheets = training ? new Templates[] {table, list} : new Templates[] {list, table, list};
        random = new Random(training ? 61 : 62);
        books = training ? 20 : 30;
    }

    @Override
    public long round(int number) throws TransformerException {
        long sum = 0;
        for (Templates sheet : sheets) {
            StringWriter out = new StringWriter();
            String text = Documents.catalogue(random, books);
            sheet.newTransformer().transform(new StreamSource(new StringReader(text)), new StreamResult(out));
            sum += out.getBuffer().length();
        }
        return sum;
    }
}
