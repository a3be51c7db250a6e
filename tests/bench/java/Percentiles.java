import java.util.Arrays;
import java.util.Locale;

/** Nearest-rank percentiles of times in nanoseconds, told in milliseconds. */
final class Percentiles {
    private final long[] sorted;

    Percentiles(long[] nanos) {
        sorted = nanos.clone();
        Arrays.sort(sorted);
    }

    /** Milliseconds that `percent` of the times do not exceed; 0 when there are none. */
    String at(double percent) {
        if (sorted.length == 0) {
            return "0";
        }
        int rank = (int) Math.ceil(sorted.length * percent / 100);
        return String.format(Locale.ROOT, "%.3f", sorted[Math.max(0, rank - 1)] / 1e6);
    }
}
