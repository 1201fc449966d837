import java.time.DateTimeException;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.Locale;
import java.util.function.Function;

/**
 * What Java makes of patterns. Input: a line of instants (seconds.nanos, separated by spaces), then
 * one pattern per line. Output: for each pattern one line of results, separated by tabs; an
 * exclamation mark where Java refuses. Written for the compiler that Spark brings along, which knows
 * the Java of 2004.
 */
public final class JavaTime implements Function {
    public Object apply(Object input) {
        String[] lines = ((String) input).split("\n");
        String[] texts = lines[0].split(" ");
        Instant[] instants = new Instant[texts.length];
        for (int at = 0; at < texts.length; at++) {
            String[] parts = texts[at].split("\\.");
            instants[at] =
                    Instant.ofEpochSecond(Long.parseLong(parts[0]), Long.parseLong(parts[1]));
        }
        StringBuilder output = new StringBuilder();
        for (int at = 1; at < lines.length; at++) {
            output.append(results(lines[at], instants)).append('\n');
        }
        return output.toString();
    }

    private static String results(String pattern, Instant[] instants) {
        DateTimeFormatter formatter;
        try {
            formatter = DateTimeFormatter.ofPattern(pattern, Locale.US).withZone(ZoneOffset.UTC);
        } catch (IllegalArgumentException refused) {
            return "!";
        }
        StringBuilder line = new StringBuilder();
        for (int at = 0; at < instants.length; at++) {
            line.append(at == 0 ? "" : "\t").append(result(formatter, instants[at]));
        }
        return line.toString();
    }

    private static String result(DateTimeFormatter formatter, Instant instant) {
        try {
            return formatter.format(instant);
        } catch (DateTimeException refused) {
            return "!";
        } catch (IndexOutOfBoundsException refused) {
            return "!";
        }
    }
}
