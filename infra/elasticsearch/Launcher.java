import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

import org.elasticsearch.common.logging.LogConfigurator;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.env.Environment;
import org.elasticsearch.http.HttpServerTransport;
import org.elasticsearch.node.Node;
import org.elasticsearch.plugins.PluginBundle;
import org.elasticsearch.plugins.PluginsLoader;

/**
 * A single Elasticsearch node on loopback: java -cp 'HOME/lib/*:HOME/classes' Launcher HOME FOLDER PORT
 *
 * <p>HOME holds lib and modules, as infra/elasticsearch/assemble.sh lays them out; FOLDER gets data, temporary files and,
 * once the node answers, the file url. PORT 0 takes a free one. The class path stands in for the module path of the
 * distribution, so modules are loaded without the server's qualified exports. There is no X-Pack, hence no security:
 * only this machine can reach it.
 */
public final class Launcher {
    private static final int SECONDS_TO_CLOSE = 20;

    public static void main(String[] arguments) throws Exception {
        Path home = Path.of(arguments[0]).toAbsolutePath();
        Path folder = Path.of(arguments[1]).toAbsolutePath();
        Path url = folder.resolve("url");
        Settings settings = settings(home, folder, arguments[2]);
        LogConfigurator.configureESLogging();
        LogConfigurator.configureWithoutConfig(settings);

        Environment environment = new Environment(settings, home.resolve("config"));
        Set<PluginBundle> modules = PluginsLoader.loadModulesBundles(environment.modulesDir());
        Node node = new Node(environment, PluginsLoader.createPluginsLoader(modules, Set.of(), Map.of(), false));
        Runtime.getRuntime().addShutdownHook(new Thread(() -> close(node, url)));
        node.start();
        announce(node, url);
        // The threads of a node are daemons: without this one the program would end here.
        new CountDownLatch(1).await();
    }

    private static Settings settings(Path home, Path folder, String port) {
        return Settings.builder()
            .put("path.home", home.toString())
            .put("path.data", folder.resolve("data").toString())
            .put("path.logs", folder.toString())
            .put("cluster.name", "yiwen")
            .put("node.name", "yiwen")
            .putList("node.roles", "master", "data", "ingest")
            .put("discovery.type", "single-node")
            .put("network.host", "127.0.0.1")
            .put("http.port", port)
            .put("transport.port", 0)
            // A full disk would make every index read-only; this server's are small and can be built again.
            .put("cluster.routing.allocation.disk.threshold_enabled", false)
            .put("logger.level", "WARN")
            .build();
    }

    private static void announce(Node node, Path url) throws IOException {
        int port = node.injector().getInstance(HttpServerTransport.class).boundAddress().publishAddress().getPort();
        Path unfinished = url.resolveSibling("url.unfinished");
        Files.writeString(unfinished, "http://127.0.0.1:" + port + "\n");
        Files.move(unfinished, url, StandardCopyOption.ATOMIC_MOVE);
    }

    private static void close(Node node, Path url) {
        try {
            Files.deleteIfExists(url);
            node.close();
            node.awaitClose(SECONDS_TO_CLOSE, TimeUnit.SECONDS);
        } catch (IOException | InterruptedException error) {
            System.err.println("The node did not close in order: " + error);
        }
    }
}
