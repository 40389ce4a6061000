//! What a Cassandra node is told when it starts: small heaps, quick beginnings, and the inside of
//! Java that it needs opened.

use std::path::Path;

/// What Maven is asked for.
pub(crate) fn pom(version: &str) -> String {
    format!(
        r#"<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>rhumb</groupId><artifactId>cassandra</artifactId><version>1</version><packaging>pom</packaging>
<dependencies><dependency><groupId>org.apache.cassandra</groupId><artifactId>cassandra-all</artifactId>
<version>{version}</version></dependency></dependencies></project>
"#
    )
}

/// The files of a node.
pub(crate) fn files(
    folder: &Path,
    node: usize,
    hosts: &[String],
    (storage_port, cql_port): (u16, u16),
    asks_password: bool,
) -> [(&'static str, String); 3] {
    let (token, folder) = (TOKENS[node], folder.display());
    let (host, seeds) = (&hosts[node], hosts.join(","));
    let asks = if asks_password { "Password" } else { "AllowAll" };
    // Every founding node is a seed: else one that starts slowly gives up, having met nobody.
    let yaml = format!(
        r#"cluster_name: rhumb
num_tokens: 1
initial_token: {token}
auto_bootstrap: false
authenticator: {asks}Authenticator
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
endpoint_snitch: GossipingPropertyFileSnitch
storage_compatibility_mode: NONE
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters:
      - seeds: "{seeds}"
listen_address: {host}
rpc_address: {host}
storage_port: {storage_port}
native_transport_port: {cql_port}
data_file_directories: [ {folder}/data/data ]
commitlog_directory: {folder}/data/commitlog
saved_caches_directory: {folder}/data/saved_caches
hints_directory: {folder}/data/hints
cdc_raw_directory: {folder}/data/cdc_raw
commitlog_sync: group
commitlog_sync_group_window: 5ms
commitlog_segment_size: 8MiB
commitlog_total_space: 64MiB
concurrent_reads: 16
concurrent_writes: 16
memtable_heap_space: 64MiB
memtable_offheap_space: 64MiB
memtable_allocation_type: offheap_objects
file_cache_size: 32MiB
key_cache_size: 8MiB
networking_cache_size: 32MiB
concurrent_compactors: 1
auto_snapshot: false
read_request_timeout: 5000ms
write_request_timeout: 5000ms
phi_convict_threshold: 12
"#
    );
    let rack = format!("dc=dc1\nrack=r{node}\n");
    let log = format!(
        r#"<configuration><appender name="F" class="ch.qos.logback.core.FileAppender"><file>{folder}/system.log</file>
<encoder><pattern>%-5level %d{{ISO8601}} %F:%L - %msg%n</pattern></encoder></appender>
<root level="INFO"><appender-ref ref="F"/></root></configuration>
"#
    );
    [("cassandra.yaml", yaml), ("cassandra-rackdc.properties", rack), ("logback.xml", log)]
}

/// What is told a node beside that whose clients are to speak TLS.
pub(crate) fn encryption(folder: &Path) -> String {
    format!(
        r#"client_encryption_options:
  enabled: true
  optional: false
  require_client_auth: false
  keystore: {folder}/{CERTIFICATE}
  ssl_context_factory:
    class_name: org.apache.cassandra.security.PEMBasedSslContextFactory
"#,
        folder = folder.display()
    )
}

/// The command for one of so many nodes, whose clock can be set if there is one for that.
pub(crate) fn java(
    folder: &Path,
    program: &Path,
    clock: Option<&Path>,
    nodes: usize,
) -> Vec<String> {
    let mut words = vec!["java".to_owned()];
    words.extend(OPTIONS.map(str::to_owned));
    // Whom a password is asked for is known to all.
    words.push(format!("-Dcassandra.system_auth.default_rf={nodes}"));
    let mut classes = format!("{}:{}/*", folder.display(), program.display());
    if let Some(clock) = clock {
        words.push(format!("-Dcassandra.clock={CLOCK_CLASS}"));
        words.push(format!("-Drhumb.clock={}/{CLOCK_SHIFT}", folder.display()));
        classes = format!("{}:{classes}", clock.display());
    }
    words.extend(surroundings(folder, program));
    words.extend([
        "-cp".to_owned(),
        classes,
        "org.apache.cassandra.service.CassandraDaemon".to_owned(),
    ]);
    words
}

/// What Java is told for a program beside the nodes, with the settings of one of them.
#[allow(dead_code, reason = "a bench loads a cluster by it")]
pub(crate) fn tool(folder: &Path, program: &Path, heap: &str) -> Vec<String> {
    let mut words = vec![format!("-Xmx{heap}"), "-XX:+UseSerialGC".to_owned()];
    words.extend(surroundings(folder, program));
    words.extend(["-cp".to_owned(), format!("{}:{}/*", folder.display(), program.display())]);
    words
}

/// What all of Cassandra's own needs around it.
fn surroundings(folder: &Path, program: &Path) -> Vec<String> {
    let agent = std::fs::read_dir(program).expect("a folder").flatten();
    let agent = agent.map(|file| file.path()).find(|path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("jamm-"))
    });
    let (agent, folder) = (agent.expect("Cassandra's agent"), folder.display());
    let exports = EXPORTS.map(|it| format!("--add-exports={it}=ALL-UNNAMED"));
    let mut words: Vec<String> = exports.into();
    words.extend(OPENS.map(|it| format!("--add-opens={it}=ALL-UNNAMED")));
    words.extend([
        format!("-Djava.io.tmpdir={folder}"),
        format!("-XX:ErrorFile={folder}/crash"),
        format!("-javaagent:{}", agent.display()),
        format!("-Dcassandra.config=file://{folder}/cassandra.yaml"),
        format!("-Dcassandra.storagedir={folder}/data"),
        format!("-Dlogback.configurationFile=file://{folder}/logback.xml"),
    ]);
    words
}

/// A third of the ring each.
const TOKENS: [i64; super::NODES] =
    [-9_223_372_036_854_775_808, -3_074_457_345_618_258_603, 3_074_457_345_618_258_602];

/// A node's key and certificate.
pub(crate) const CERTIFICATE: &str = "node.pem";
/// Where a clock reads how many milliseconds it is ahead.
pub(crate) const CLOCK_SHIFT: &str = "clock";
pub(crate) const CLOCK_FILE: &str = "ShiftedClock.java";
pub(crate) const CLOCK_CLASS_FILE: &str = "ShiftedClock.class";
const CLOCK_CLASS: &str = "ShiftedClock";
/// A clock for a node, which can be set while it runs.
pub(crate) const CLOCK: &str = r#"import java.nio.file.Files;
import java.nio.file.Path;

public class ShiftedClock implements org.apache.cassandra.utils.Clock {
    private final Path file = Path.of(System.getProperty("rhumb.clock"));
    private volatile long aheadMs = 0;

    public ShiftedClock() {
        Thread reader = new Thread(this::follow, "clock");
        reader.setDaemon(true);
        reader.start();
    }

    private void follow() {
        while (true) {
            try {
                aheadMs = Long.parseLong(Files.readString(file).trim());
            } catch (Exception notSetOrHalfWritten) {
            }
            try {
                Thread.sleep(100);
            } catch (InterruptedException over) {
                return;
            }
        }
    }

    public long nanoTime() {
        return System.nanoTime();
    }

    public long currentTimeMillis() {
        return System.currentTimeMillis() + aheadMs;
    }
}
"#;

const OPTIONS: [&str; 20] = [
    "-XX:-CreateCoredumpOnCrash",
    "-Xms384M",
    "-Xmx384M",
    "-Xmn96M",
    "-Xss512k",
    "-XX:+UseSerialGC",
    "-XX:MaxDirectMemorySize=256M",
    "-XX:+ExitOnOutOfMemoryError",
    // What compiles soon is worth more here than what runs fastest.
    "-XX:TieredStopAtLevel=1",
    "-XX:+PerfDisableSharedMem",
    "-Djdk.attach.allowAttachSelf=true",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dcassandra-foreground=yes",
    "-Dcassandra.skip_wait_for_gossip_to_settle=0",
    "-Dcassandra.ring_delay_ms=1000",
    // Whom a password is asked for: known soon, and cheap to verify.
    "-Dcassandra.superuser_setup_delay_ms=500",
    "-Dcassandra.auth_bcrypt_gensalt_log2_rounds=4",
    "-Dcassandra.consistent.rangemovement=false",
    "-Dcassandra.shutdown_announce_in_ms=0",
    "-Dfile.encoding=UTF-8",
];

const EXPORTS: [&str; 11] = [
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.sql/java.sql",
    "java.base/java.lang.ref",
    "jdk.unsupported/sun.misc",
    "jdk.compiler/com.sun.tools.javac.file",
    "jdk.attach/sun.tools.attach",
];

const OPENS: [&str; 17] = [
    "java.base/java.lang.module",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.util.jar",
    "jdk.management/com.sun.management.internal",
    "java.base/sun.nio.ch",
    "java.base/java.io",
    "java.base/java.lang.reflect",
    "jdk.compiler/com.sun.tools.javac",
    "java.base/java.lang",
    "java.base/java.util",
    "java.base/java.nio",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
];
