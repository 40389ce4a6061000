//! What root has a shell do while the package is tried, and what is expected of it.

/// A call that a sandbox refuses ends the service, where it would go on without what it asked for;
/// and what takes long by purpose is short.
pub(super) const STRICT: &str = r"
    mkdir /etc/systemd/system/rhumb-.service.d
    printf '[Service]\nSystemCallErrorNumber=kill\nRestartSec=100ms\nWatchdogSec=3\n' \
        >/etc/systemd/system/rhumb-.service.d/90-strict.conf
    systemctl daemon-reload
";
/// As somebody whom `adduser` has put into the group, and as another daemon.
pub(super) const READERS: &str = "
    useradd --no-create-home --groups rhumb-status alice
    install -d -o alice /srv/alice
    as() {
        user=$1
        shift
        setpriv --reuid=$user --regid=$user --init-groups rhumb \"$@\"
    }
    rib=/run/rhumb-status/rib/rib.sock
    as alice status --admin $rib
    if as alice rib backup /srv/alice/copy --admin $rib; then exit 1; fi
    if as rhumb-router status --admin $rib; then exit 1; fi
";
/// What succeeds is written to the folder that the RIB has for as long as it runs.
pub(super) const PROBE: &str = r#"
    mkdir /etc/systemd/system/rhumb-rib.service.d
    printf '[Service]\nExecStartPost=/bin/sh /usr/local/bin/probe\n' \
        >/etc/systemd/system/rhumb-rib.service.d/probe.conf
    cat >/usr/local/bin/probe <<'EOF'
can() {
    what=$1
    shift
    "$@" 2>/dev/null >&2 && echo "$what"
}
{
    can 'read its key' cat /etc/rhumb/rib.key
    can 'write to its folder' touch /var/lib/rhumb-rib/probe
    can 'write to its status' touch /run/rhumb-status/rib/probe
    cd /tmp
    can 'write to a /tmp' touch probe
    can 'read the key of another' cat /etc/rhumb/router.key
    can 'write to /run/lock' touch /run/lock/probe
    can 'write to /dev/shm' touch /dev/shm/probe
    can 'see homes' ls /home
    can 'see the first process' test -e /proc/1
    can 'see the machine' test -e /proc/cpuinfo
    can 'see devices' test -e /dev/net/tun
    can 'make a user namespace' unshare --user true
    can 'let others be it' install -m 4755 /bin/true /var/lib/rhumb-rib/suid
    can 'have others read' test -n "$(find /var/lib/rhumb-rib/probe -perm /077)"
} >"$RUNTIME_DIRECTORY/can"
rm -f /run/rhumb-status/rib/probe /var/lib/rhumb-rib/probe
EOF
    systemctl daemon-reload
"#;
/// What a RIB does, too.
pub(super) const CAN: &str = "read its key
write to its folder
write to its status
write to a /tmp";
/// What is refused by the sandbox alone, on whatever machine.
pub(super) const TO_REFUSE: [&str; 7] = [
    "write to /run/lock",
    "write to /dev/shm",
    "see homes",
    "see the first process",
    "see the machine",
    "let others be it",
    "have others read",
];
/// The same by the same user, without a sandbox.
pub(super) const UNCONFINED: &str = "
    install -d -o rhumb-rib /srv/probe
    setpriv --reuid=rhumb-rib --regid=rhumb-rib --init-groups \\
        env RUNTIME_DIRECTORY=/srv/probe sh /usr/local/bin/probe
    cat /srv/probe/can
    cd /tmp
    rm -f probe /run/lock/probe /dev/shm/probe /var/lib/rhumb-rib/suid
";
/// A node that answers, and one that asks for as long as it runs.
pub(super) const TALK: &str = r#"
    cd /srv
    name=$(rhumb --json keygen --role node --out node.key | sed 's/.*"name":"\([a-z2-7]*\)".*/\1/')
    systemd-run --quiet --unit answering rhumb receive --router 127.0.0.1:7460 \
        --key /srv/node.key --dir /srv
    until journalctl --unit answering --output cat | grep -q '^ready'; do
        systemctl is-active --quiet answering
        sleep 0.05
    done
    systemd-run --quiet --unit pinging rhumb ping "$name" --router 127.0.0.1:7460 --count 1000000
"#;
/// What the router has dropped, by reason.
pub(super) const DROPS: &str = r"
    curl -sf --unix-socket /run/rhumb-status/router/router.sock http://localhost/metrics |
        grep -E '^rhumb_(switch_dropped_pdus|link_dropped_datagrams)_total'
";
/// Whatever is as long as a key in the files that only one user reads; names of keys are public.
pub(super) const SECRETS: &str = r#"
    cd /etc/rhumb
    cat *.key *.master *.principal *.tsig *.token principals waypoint.keys/* |
        grep -v -e '^name ' -e '^metadata ' | grep -oE '[A-Za-z0-9+/=]{30,}' >/run/secrets
    test "$(wc -l </run/secrets)" -ge 10
    if journalctl --output cat | grep -F -f /run/secrets; then exit 1; fi
"#;
pub(super) const COMPLAINTS: &str = r"
    journalctl --output cat | grep -iE \
        -e 'not permitted|permission denied|status=31|status=2[0-9]{2}/|failed to set up' \
        -e 'unknown key name|unknown section|, ignoring' || :
";
