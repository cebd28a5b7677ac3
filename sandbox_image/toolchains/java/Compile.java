package workroom;

import com.sun.source.tree.ClassTree;
import com.sun.source.tree.CompilationUnitTree;
import com.sun.source.tree.Tree;
import com.sun.source.util.JavacTask;
import com.sun.source.util.TaskEvent;
import com.sun.source.util.TaskListener;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import javax.lang.model.element.Element;
import javax.lang.model.element.ElementKind;
import javax.lang.model.element.ExecutableElement;
import javax.lang.model.element.Modifier;
import javax.lang.model.element.TypeElement;
import javax.lang.model.element.VariableElement;
import javax.lang.model.type.TypeKind;
import javax.tools.JavaCompiler;
import javax.tools.SimpleJavaFileObject;
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
        System.err.print(outcome.said);
        System.err.flush();
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
    private static Outcome compile(Unit unit, List<String> options) {
        if (!mentionsOtherModules(unit.text)) {
            Outcome narrow = attempt(unit, with(options, "--limit-modules", "java.base"));
            if (narrow.good) {
                return narrow;
            }
        }
        Outcome outcome = attempt(unit, options);
        if (!outcome.good && outcome.said.contains("--enable-preview")) {
            String release = Integer.toString(Runtime.version().feature());
            outcome = attempt(unit, with(options, "--enable-preview", "--source", release, "-Xlint:-preview"));
            outcome.preview = true;
            outcome.said = outcome.said.replaceAll("(?m)^Note: .* uses preview features .*\\R(Note: .*-Xlint:preview.*\\R)?", "");
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

    private static Outcome attempt(Unit unit, List<String> options) {
        JavaCompiler tool = ToolProvider.getSystemJavaCompiler();
        StringWriter said = new StringWriter();
        JavacTask task = (JavacTask) tool.getTask(new PrintWriter(said, true), null, null, options, null, List.of(unit));
        List<String> declared = new ArrayList<>();
        Map<String, Boolean> mains = new HashMap<>();
        task.addTaskListener(new TaskListener() {
            @Override
            public void finished(TaskEvent event) {
                if (event.getKind() == TaskEvent.Kind.PARSE && unit.toUri().equals(event.getSourceFile().toUri())) {
                    CompilationUnitTree tree = event.getCompilationUnit();
                    String prefix = tree.getPackageName() == null ? "" : tree.getPackageName() + ".";
                    for (Tree type : tree.getTypeDecls()) {
                        if (type instanceof ClassTree named) {
                            declared.add(prefix + named.getSimpleName());
                        }
                    }
                } else if (event.getKind() == TaskEvent.Kind.ANALYZE && event.getTypeElement() != null) {
                    TypeElement type = event.getTypeElement();
                    Boolean usual = hasUsualMain(task, type);
                    if (usual != null) {
                        mains.put(task.getElements().getBinaryName(type).toString(), usual);
                    }
                }
            }
        });
        Outcome outcome = new Outcome();
        outcome.good = task.call();
        outcome.said = said.toString();
        for (String name : declared) {
            if (mains.containsKey(name)) {
                outcome.main = name;
                // A main that is not static or takes no arguments is still a preview of the launcher.
                outcome.preview = !mains.get(name);
                break;
            }
        }
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
        boolean good;
        boolean preview;
        String main;
        String said;
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
