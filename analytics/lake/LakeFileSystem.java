import java.io.File;
import java.io.IOException;
import java.net.URI;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * The file system that Spark's sessions are given for `file:`: it opens, lists and writes what its session's list allows, and
 * nothing else, whatever path Spark has come to, by a pattern or by a mistake of ours. A session says who it is by a number
 * that nobody can guess, in a setting that the configuration of every file system of the session has; the lists themselves
 * never are in a setting. Without a number there is only Spark's own empty warehouse.
 *
 * Compiled by Janino, the compiler inside Spark: no generics, no lambdas.
 */
public class LakeFileSystem extends LocalFileSystem {
    static final String SESSION = "gantry.lake.session";
    /** The class of the object storage's file system, and the setting that names it; none for a lake in a folder. */
    static final String STORAGE = "gantry.lake.storage";
    static final String STORAGE_SETTING = "gantry.lake.storage.setting";
    /** By number of the session: the files and folders, as real paths, that it may reach. */
    static final Map LISTS = new ConcurrentHashMap();

    public LakeFileSystem() {
        super(new Folder());
    }

    /** Java's own file system, behind the one method by which all of it comes from a path to a file. */
    public static class Folder extends RawLocalFileSystem {
        private String session = "";

        public void initialize(URI uri, Configuration conf) throws IOException {
            this.session = conf.get(SESSION, "");
            super.initialize(uri, conf);
        }

        public File pathToFile(Path path) {
            File file = super.pathToFile(path);
            if (!isAllowed(file)) {
                throw new SecurityException("[LAKE_PATH_REFUSED] The statement may not reach " + path + ".");
            }
            return file;
        }

        /** Without looking at the folders above, which are not the session's business. */
        public boolean mkdirs(Path path) throws IOException {
            File folder = pathToFile(path);
            return folder.mkdirs() || folder.isDirectory();
        }

        public boolean mkdirs(Path path, FsPermission permission) throws IOException {
            return mkdirs(path);
        }

        /** On the list of the session, or in the warehouse, which all have and nobody keeps anything in. */
        private boolean isAllowed(File file) {
            String real;
            try {
                real = file.getCanonicalPath() + File.separator;
            } catch (IOException error) {
                return false;
            }
            return isIn(real, (String[]) LISTS.get(this.session)) || isIn(real, (String[]) LISTS.get(""));
        }

        private boolean isIn(String real, String[] list) {
            if (list == null) {
                return false;
            }
            for (int number = 0; number < list.length; number++) {
                if (list[number].endsWith(File.separator) && real.startsWith(list[number])) {
                    return true;
                }
            }
            return false;
        }
    }

    /** What every other scheme leads to. */
    public static class Refused extends RawLocalFileSystem {
        public void initialize(URI uri, Configuration conf) throws IOException {
            throw new IOException("[LAKE_PATH_REFUSED] The statement may not reach " + uri + ".");
        }
    }

    /** Gives a configuration no file system but ours, also when a setting names another class. */
    public static class Loader extends ClassLoader {
        private final String storage;

        public Loader(ClassLoader parent, String storage) {
            super(parent);
            this.storage = storage;
        }

        protected Class loadClass(String name, boolean resolve) throws ClassNotFoundException {
            Class found = super.loadClass(name, resolve);
            boolean isFileSystem = FileSystem.class.isAssignableFrom(found)
                || org.apache.hadoop.fs.AbstractFileSystem.class.isAssignableFrom(found);
            if (isFileSystem && !name.startsWith("LakeFileSystem") && !name.equals(this.storage)) {
                throw new ClassNotFoundException("[LAKE_PATH_REFUSED] " + name + " is no file system of the lake");
            }
            return found;
        }
    }

    /** What Python calls: the list of a session, folders with a slash behind each; null takes it away. */
    public static class Lists implements java.util.function.BiFunction {
        public Object apply(Object session, Object paths) {
            return paths == null ? LISTS.remove(session) : LISTS.put(session, ((String) paths).split("\n"));
        }
    }

    /** What Python calls once: makes the configuration of all sessions refuse what is not ours. */
    public static class Install implements java.util.function.Function {
        public Object apply(Object given) {
            Configuration conf = (Configuration) given;
            java.util.Iterator known = java.util.ServiceLoader.load(FileSystem.class).iterator();
            while (known.hasNext()) {
                try {
                    refuse(conf, ((FileSystem) known.next()).getScheme());
                } catch (Throwable error) {
                    // a file system that cannot be made, or has no scheme, cannot be named either
                }
            }
            String[] others = {"http", "https", "ftp", "sftp", "har", "viewfs", "hdfs", "s3a", "s3n", "s3", "oss", "data"};
            for (int number = 0; number < others.length; number++) {
                refuse(conf, others[number]);
            }
            conf.set("fs.file.impl", "LakeFileSystem");
            conf.setBoolean("fs.file.impl.disable.cache", true);
            conf.setClassLoader(new Loader(LakeFileSystem.class.getClassLoader(), conf.get(STORAGE, "")));
            keepOutOfTheCache(conf);
            return null;
        }

        /**
         * Hadoop keeps file systems, and gives them to whoever's setting asks for a kept one, whatever else it says. What it
         * kept before is forgotten, and what is kept from now on is one without a session.
         */
        private void keepOutOfTheCache(Configuration conf) {
            try {
                FileSystem.closeAll();
                Configuration nobody = new Configuration(conf);
                nobody.setBoolean("fs.file.impl.disable.cache", false);
                FileSystem.get(URI.create("file:///"), nobody);
            } catch (IOException error) {
                throw new IllegalStateException(error);
            }
        }

        private void refuse(Configuration conf, String scheme) {
            if (("fs." + scheme + ".impl").equals(conf.get(STORAGE_SETTING))) {
                return;
            }
            conf.set("fs." + scheme + ".impl", "LakeFileSystem$Refused");
            conf.setBoolean("fs." + scheme + ".impl.disable.cache", true);
        }
    }
}
