import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.nio.charset.StandardCharsets;
import java.time.DateTimeException;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/**
 * Prints what Java makes of patterns. Input: a line of instants (seconds.nanos, separated by
 * spaces), then one pattern per line. Output: for each pattern one line of results, separated by
 * tabs; an exclamation mark where Java refuses.
 */
public final class JavaTime {
    public static void main(String[] arguments) throws IOException {
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var out = new BufferedWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8));
        var instants = new ArrayList<Instant>();
        for (var text : in.readLine().split(" ")) {
            var parts = text.split("\\.");
            instants.add(Instant.ofEpochSecond(Long.parseLong(parts[0]), Long.parseLong(parts[1])));
        }
        for (var pattern = in.readLine(); pattern != null; pattern = in.readLine()) {
            out.write(results(pattern, instants));
            out.newLine();
        }
        out.flush();
    }

    private static String results(String pattern, List<Instant> instants) {
        DateTimeFormatter formatter;
        try {
            formatter = DateTimeFormatter.ofPattern(pattern, Locale.US).withZone(ZoneOffset.UTC);
        } catch (IllegalArgumentException refused) {
            return "!";
        }
        var line = new ArrayList<String>(instants.size());
        for (var instant : instants) {
            try {
                line.add(formatter.format(instant));
            } catch (DateTimeException | IndexOutOfBoundsException refused) {
                line.add("!");
            }
        }
        return String.join("\t", line);
    }
}
