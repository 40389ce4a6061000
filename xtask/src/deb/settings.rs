//! What an operator writes before services of the package start: keys, and settings such as the
//! comments in their files ask for. Each is a script of a shell, for root, on the host that the
//! services are tried on.

/// Keys of a RIB and a router, and whom the router asks.
pub(super) const ROUTING: &str = r#"
    cd /etc/rhumb
    rib=$(rhumb --json keygen --role rib --out rib.key | sed 's/.*"name":"\([a-z2-7]*\)".*/\1/')
    rhumb keygen --role router --out router.key
    chown rhumb-rib: rib.key
    chown rhumb-router: router.key
    printf 'rib = ["%s@127.0.0.1:7461"]\nlocator = "127.0.0.1:7460"\n' "$rib" >>router.toml
"#;
/// An interface whose driver has AF_XDP.
pub(super) const LINKS: &str = "
    ip link add left type veth peer name right
    ip addr add 198.51.100.1/24 dev left
    ip link set left up
    ip link set right up
";
/// As the file of its options says.
pub(super) const DASHBOARD: &str = r#"
    (umask 077; head -c 24 /dev/urandom | base64 >/etc/rhumb/dashboard.token)
    chown rhumb-dashboard: /etc/rhumb/dashboard.token
"#;
/// What daemons tell, as its page asks for it: by a session for the token.
pub(super) const LOOK_AT_DASHBOARD: &str = r#"
    at=http://127.0.0.1:7485
    if [ ! -e /run/dashboard.key ]; then
        curl -sf -c /run/dashboard.cookie -H 'content-type: application/json' \
            -d "{\"token\":\"$(cat /etc/rhumb/dashboard.token)\"}" "$at/session" |
            sed 's/.*"key":"\([^"]*\)".*/\1/' >/run/dashboard.key
    fi
    curl -sf -b /run/dashboard.cookie -H "rhumb-key: $(cat /run/dashboard.key)" "$at/api/state"
"#;
/// A network of this host's, which is its first member.
pub(super) const NETWORK: &str = "
    cd /var/lib/rhumb
    setpriv --reuid=rhumb --regid=rhumb --init-groups env HOME=/var/lib/rhumb \\
        rhumb network create home --address 127.0.0.1
";
/// A waypoint, the key server of its keys, and who stamps by them, as the settings of all say.
pub(super) const WAYPOINT: &str = r#"
    cd /etc/rhumb
    ip addr add 192.0.2.1/32 dev lo
    sed -i 's/^#addresses = .*/addresses = ["192.0.2.1"]/' waypoint.toml
    install -d -m 0700 waypoint.keys
    rhumb capability master 192.0.2.1 --out waypoint.keys/1.master
    cp waypoint.keys/1.master 192.0.2.1.master
    rhumb capability signer operator._k.example.net --out operator.tsig
    chmod 0600 192.0.2.1.master
    sed -i -e 's/^#zone/zone/' -e 's/^#listen.*/listen = ["127.0.0.1:53"]/' \
        -e 's/^#addresses.*/addresses = ["127.0.0.1"]/' \
        -e 's/^#\(\[\[\|address =\|master =\)/\1/' keyserver.toml
    rhumb --config keyserver.toml capability mint 7 --out /run/7.principal
    install -m 0600 -o rhumb-stamp -g rhumb-stamp /run/7.principal stamp.principal
    chown -R rhumb-waypoint: waypoint.keys
    chown rhumb-keyserver: principals 192.0.2.1.master operator.tsig
"#;
/// Both servers of an exchange, which on real hosts are not beside each other, and a member.
pub(super) const EXCHANGE: &str = r#"
    cd /etc/rhumb
    name() {
        rhumb --json keygen --role node --out "$1" | sed 's/.*"name":"\([a-z2-7]*\)".*/\1/'
    }
    one=$(name exchange-one.key) two=$(name exchange-two.key) member=$(name member.key)
    printf '[[site]]\nmember = "A"\nsite = "a"\nasn = 64500\nname = "%s"\n' "$member" >roster.toml
    sed -i -e "s/^#peer.*/peer = [\"$two@127.0.0.2:7480\"]/" -e 's/0\.0\.0\.0/127.0.0.1/' \
        exchange-one.toml
    sed -i -e "s/^#peer.*/peer = [\"$one@127.0.0.1:7480\"]/" -e 's/0\.0\.0\.0/127.0.0.2/' \
        exchange-two.toml
    sed -i -e 's/^#\([a-z\[]\)/\1/' -e "s/^exchange = .*/exchange = [\"$one@127.0.0.1:7480\"]/" \
        -e "s/^neutral = .*/neutral = [\"$two@127.0.0.2:7480\"]/" \
        -e 's/^router = .*/router = "127.0.0.3"/' -e 's/^listen = .*/listen = "127.0.0.4"/' \
        member.toml
    chown rhumb-exchange: exchange-*.key
    chown rhumb-member: member.key
"#;
