import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Scanner;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/** Run once while the root is made: the classes that it and its compilation load go into the class archive. */
public class Main {
    record Point(int x, String name) {}

    sealed interface Shape permits Circle, Square {}

    record Circle(double radius) implements Shape {}

    record Square(double side) implements Shape {}

    enum Color { RED, GREEN }

    static double area(Shape shape) {
        return switch (shape) {
            case Circle circle -> Math.PI * circle.radius() * circle.radius();
            case Square square -> square.side() * square.side();
        };
    }

    static <T, R> List<R> map(List<T> items, Function<T, R> function) {
        List<R> mapped = new ArrayList<>();
        for (T item : items) {
            mapped.add(function.apply(item));
        }
        return mapped;
    }

    public static void main(String[] args) throws Exception {
        List<Point> points = IntStream.range(0, 10).mapToObj(i -> new Point(i, "p" + i)).collect(Collectors.toList());
        Map<String, Integer> sums = new HashMap<>();
        for (Point point : points) {
            sums.merge(point.name(), point.x(), Integer::sum);
        }
        System.out.println(points.stream().filter(p -> p.x() > 3).map(Point::name).collect(Collectors.joining(",")));
        System.out.printf("%.2f %s %d%n", area(new Circle(1)) + area(new Square(2)), sums, map(points, Point::x).size());
        StringBuilder text = new StringBuilder();
        text.append(args.length).append(' ').append(Color.GREEN);
        System.out.println(text + " arguments: " + String.join(" ", args));
        try (Scanner scanner = new Scanner("1 2")) {
            System.out.println(scanner.nextInt() + scanner.nextInt());
        }
        try {
            Integer.parseInt("x");
        } catch (NumberFormatException expected) {
            System.err.println(expected.getMessage());
        }
        Thread thread = new Thread(() -> System.out.println("thread"));
        thread.start();
        thread.join();
    }
}
