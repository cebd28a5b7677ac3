package workroom;

import com.sun.source.tree.ClassTree;
import com.sun.source.tree.CompilationUnitTree;
import com.sun.source.tree.Tree;
import com.sun.source.util.JavacTask;
import java.io.IOException;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import javax.lang.model.element.Element;
import javax.lang.model.element.ElementKind;
import javax.lang.model.element.ExecutableElement;
import javax.lang.model.element.Modifier;
import javax.lang.model.element.TypeElement;
import javax.lang.model.element.VariableElement;
import javax.lang.model.type.TypeKind;
import javax.tools.Diagnostic;
import javax.tools.DiagnosticCollector;
import javax.tools.JavaCompiler;
import javax.tools.JavaFileObject;
import javax.tools.SimpleJavaFileObject;
import javax.tools.StandardJavaFileManager;
import javax.tools.ToolProvider;

/**
 * {@code workroom.Compile SOURCE WORKSPACE BUILD}: compiles one source file into BUILD/classes and writes
 * BUILD/launch, the options with which {@code java @BUILD/launch ARG…} runs it.
 *
 * <p>The file may declare public classes of any name. What runs is its first class, in source order, that has a
 * {@code main}. The classes and sources that lie in the workspace can be used, as if the program lay there. A source
 * that does not compile ends with javac's messages and status 1.
 */
public final class Compile {
    private Compile() {}

    public static void main(String[] argv) throws IOException {
        Path source = Path.of(argv[0]);
        String workspace = argv[1];
        Path build = Path.of(argv[2]);
        Path classes = Files.createDirectories(build.resolve("classes"));
        // Malformed bytes become U+FFFD: javac then names the place itself where it matters.
        String text = new String(Files.readAllBytes(source), StandardCharsets.UTF_8);
        Unit unit = new Unit(source, text.startsWith("\ufeff") ? text.substring(1) : text);

        Outcome outcome = compile(unit, List.of(
            "-proc:none", "-g", "-encoding", "UTF-8", "-implicit:class", "-classpath", workspace, "-d", classes.toString()));
        outcome.report(System.err);
        if (!outcome.good) {
            System.exit(1);
        }
        if (outcome.main == null) {
            System.err.println("error: no class of " + unit.getName() + " has a method main(String[])");
            System.exit(1);
        }
        String options = (outcome.preview ? "--enable-preview\n" : "")
            + "-cp\n" + quoted(classes + ":" + workspace) + "\n" + quoted(outcome.main) + "\n";
        Files.writeString(build.resolve("launch"), options);
    }

    private static String quoted(String word) {
        return '"' + word.replace("\\", "\\\\").replace("\"", "\\\"") + '"';
    }

    /**
     * Setting up all modules of the platform is a third of a small compilation, so a program is first compiled against
     * java.base alone. What that pass accepts means the same against all modules; what it refuses is compiled again
     * with everything, and only that pass speaks.
     */
    private static Outcome compile(Unit unit, List<String> options) throws IOException {
        if (!mentionsOtherModules(unit.text)) {
            Outcome narrow = attempt(unit, with(options, "--limit-modules", "java.base"));
            if (narrow.good) {
                return narrow;
            }
        }
        Outcome outcome = attempt(unit, options);
        if (!outcome.good && outcome.wantsPreview()) {
            String release = Integer.toString(Runtime.version().feature());
            outcome = attempt(unit, with(options, "--enable-preview", "--source", release, "-Xlint:-preview"));
            outcome.preview = true;
        }
        return outcome;
    }

    private static List<String> with(List<String> options, String... more) {
        List<String> all = new ArrayList<>(options);
        all.addAll(List.of(more));
        return all;
    }

    private static boolean mentionsOtherModules(String text) {
        for (String name : new String[] {
            "java.sql", "java.net.http", "java.util.logging", "java.util.prefs", "javax.", "java.awt", "java.beans",
            "java.rmi", "java.lang.management", "java.lang.instrument", "com.sun.", "jdk.", "org.w3c", "org.xml"}) {
            if (text.contains(name)) {
                return true;
            }
        }
        return false;
    }

    private static Outcome attempt(Unit unit, List<String> options) throws IOException {
        Outcome outcome = new Outcome();
        JavaCompiler tool = ToolProvider.getSystemJavaCompiler();
        StandardJavaFileManager files = tool.getStandardFileManager(outcome.seen, null, StandardCharsets.UTF_8);
        JavacTask task = (JavacTask) tool.getTask(
            new PrintWriter(outcome.other, true), files, outcome.seen, options, null, List.of(unit));
        List<String> names = new ArrayList<>();
        for (CompilationUnitTree tree : task.parse()) {
            String prefix = tree.getPackageName() == null ? "" : tree.getPackageName() + ".";
            for (Tree type : tree.getTypeDecls()) {
                if (type instanceof ClassTree declared) {
                    names.add(prefix + declared.getSimpleName());
                }
            }
        }
        if (outcome.hasErrors()) {
            return outcome;
        }
        task.analyze();
        if (outcome.hasErrors()) {
            return outcome;
        }
        for (String name : names) {
            TypeElement type = task.getElements().getTypeElement(name);
            Boolean usual = type == null ? null : hasUsualMain(task, type);
            if (usual != null) {
                outcome.main = name;
                // A main that is not static or takes no arguments is still a preview of the launcher.
                outcome.preview = !usual;
                break;
            }
        }
        task.generate();
        outcome.good = !outcome.hasErrors();
        return outcome;
    }

    /** Null: no main that can be run. True: public static void main(String[]). */
    private static Boolean hasUsualMain(JavacTask task, TypeElement type) {
        Boolean found = null;
        for (Element member : task.getElements().getAllMembers(type)) {
            if (member.getKind() != ElementKind.METHOD || !member.getSimpleName().contentEquals("main")) {
                continue;
            }
            ExecutableElement method = (ExecutableElement) member;
            Set<Modifier> modifiers = method.getModifiers();
            List<? extends VariableElement> parameters = method.getParameters();
            boolean takesStrings = parameters.size() == 1 && parameters.get(0).asType().toString().matches("java\\.lang\\.String(\\[\\]|\\.\\.\\.)");
            if (method.getReturnType().getKind() != TypeKind.VOID || modifiers.contains(Modifier.PRIVATE)
                || modifiers.contains(Modifier.ABSTRACT) || !(takesStrings || parameters.isEmpty())) {
                continue;
            }
            if (takesStrings && modifiers.contains(Modifier.STATIC) && modifiers.contains(Modifier.PUBLIC)) {
                return true;
            }
            found = false;
        }
        return found;
    }

    /** What one pass said and found. */
    private static final class Outcome {
        final DiagnosticCollector<JavaFileObject> seen = new DiagnosticCollector<>();
        final StringWriter other = new StringWriter();
        boolean good;
        boolean preview;
        String main;

        boolean hasErrors() {
            return count(Diagnostic.Kind.ERROR) > 0;
        }

        boolean wantsPreview() {
            for (Diagnostic<?> diagnostic : seen.getDiagnostics()) {
                if (String.valueOf(diagnostic.getCode()).startsWith("compiler.err.preview.feature.disabled")) {
                    return true;
                }
            }
            return false;
        }

        private int count(Diagnostic.Kind... kinds) {
            int number = 0;
            for (Diagnostic<?> diagnostic : seen.getDiagnostics()) {
                number += List.of(kinds).contains(diagnostic.getKind()) ? 1 : 0;
            }
            return number;
        }

        void report(PrintStream to) {
            StringBuilder text = new StringBuilder();
            for (Diagnostic<? extends JavaFileObject> diagnostic : seen.getDiagnostics()) {
                text.append(diagnostic).append('\n');
            }
            text.append(other);
            int errors = count(Diagnostic.Kind.ERROR);
            int warnings = count(Diagnostic.Kind.WARNING, Diagnostic.Kind.MANDATORY_WARNING);
            if (errors > 0) {
                text.append(errors).append(errors == 1 ? " error\n" : " errors\n");
            }
            if (warnings > 0) {
                text.append(warnings).append(warnings == 1 ? " warning\n" : " warnings\n");
            }
            to.print(text);
            to.flush();
        }
    }

    /** The program's source. */
    private static final class Unit extends SimpleJavaFileObject {
        final String text;
        private final String name;

        Unit(Path path, String text) {
            super(path.toUri(), Kind.SOURCE);
            this.text = text;
            this.name = path.getFileName().toString();
        }

        @Override
        public String getName() {
            return name;
        }

        @Override
        public CharSequence getCharContent(boolean ignoreEncodingErrors) {
            return text;
        }

        @Override
        public boolean isNameCompatible(String simpleName, Kind kind) {
            return kind == Kind.SOURCE;
        }
    }
}
