package workloads;

import java.io.IOException;
import java.io.StringReader;
import java.util.Random;
import javax.xml.XMLConstants;
import javax.xml.transform.stream.StreamSource;
import javax.xml.validation.Schema;
import javax.xml.validation.SchemaFactory;
import javax.xml.validation.Validator;
import org.xml.sax.SAXException;

/** The JDK's schema validation: catalogues, every fifth of which is wrong. */
final class Validation implements Workload {
    private static final String SCHEMA = "<xs:schema xmlns:xs='http://www.w3.org/2001/XMLSchema'>"
            + "<xs:simpleType name='year'><xs:restriction base='xs:integer'><xs:minInclusive value='1800'/>"
            + "<xs:maxInclusive value='2100'/></xs:restriction></xs:simpleType>"
            + "<xs:complexType name='author'><xs:sequence><xs:element name='first' type='xs:string'/>"
            + "<xs:element name='last' type='xs:token'/></xs:sequence></xs:complexType>"
            + "<xs:element name='catalogue'><xs:complexType><xs:sequence><xs:element name='book' maxOccurs='unbounded'>"
            + "<xs:complexType><xs:sequence><xs:element name='title' type='xs:string'/>"
            + "<xs:element name='author' type='author' maxOccurs='5'/>"
            + "<xs:element name='price'><xs:complexType><xs:simpleContent><xs:extension base='xs:decimal'>"
            + "<xs:attribute name='currency' type='xs:NMTOKEN'/></xs:extension></xs:simpleContent></xs:complexType></xs:element>"
            + "<xs:element name='note' type='xs:string' minOccurs='0'/></xs:sequence>"
            + "<xs:attribute name='id' type='xs:ID' use='required'/><xs:attribute name='year' type='year'/>"
            + "</xs:complexType></xs:element></xs:sequence><xs:attribute name='place' type='xs:string'/></xs:complexType>"
            + "</xs:element></xs:schema>";

    private final Schema schema;
    private final Random random;
    private final int books;

    Validation(boolean training) throws SAXException {
        SchemaFactory factory = SchemaFactory.newInstance(XMLConstants.W3C_XML_SCHEMA_NS_URI);
        schema = factory.newSchema(new StreamSource(new StringReader(SCHEMA)));
        random = new Random(training ? 71 : 72);
        books = training ? 15 : 40;
    }

    @Override
    public long round(int number) throws IOException {
        String text = Documents.catalogue(random, books);
        boolean isWrong = number % 5 == 4;
        if (isWrong) {
            text = text.replace("id=\"b3\"", "id=\"b2\"");
        }
        Validator validator = schema.newValidator();
        try {
            validator.validate(new StreamSource(new StringReader(text)));
        } catch (SAXException wrong) {
            if (!isWrong) {
                throw new IllegalStateException(wrong);
            }
            return 1;
        }
        if (isWrong) {
            throw new IllegalStateException("two books of one number are not found out");
        }
        return 0;
    }
}
