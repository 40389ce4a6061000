//! BIRD as a member's router on loopback: static routes with attributes, its configuration read
//! anew for each change. It outlives its proxy, and can be killed and started again itself.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::router::EXCHANGE_AS;
use super::{Exchange, PATIENCE};

/// Path behind its own AS, and large communities.
type Said = (Vec<u32>, Vec<(u32, u32, u32)>);

/// A router that runs until dropped.
pub(crate) struct Bird<'a> {
    pub(crate) address: SocketAddr,
    exchange: &'a Exchange,
    number: u16,
    said: Mutex<BTreeMap<String, Said>>,
    /// None while it is killed.
    process: Option<Child>,
}

impl Drop for Bird<'_> {
    fn drop(&mut self) {
        self.kill();
    }
}

impl<'a> Bird<'a> {
    /// The router of AS 64500 and a number, which waits for its proxy. None where there is no BIRD.
    pub(crate) fn start(exchange: &'a Exchange, number: u16) -> Option<Self> {
        if Command::new("bird").arg("--version").output().is_err() {
            println!("without bird (Debian package bird2): all routers are small ones");
            return None;
        }
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        exchange.place.write(&configuration(number), &config(number, address, &BTreeMap::new()));
        let mut bird = Self { address, exchange, number, said: Mutex::default(), process: None };
        bird.start_again();
        Some(bird)
    }

    /// Its process ends without a word.
    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// A process with what was announced and withdrawn meanwhile.
    pub(crate) fn start_again(&mut self) {
        let Self { exchange, number, .. } = *self;
        let file = exchange.place.path(&format!("router{number}.log"));
        let log = std::fs::File::options().append(true).create(true).open(file).unwrap();
        let (socket, pid) = (socket(number), format!("router{number}.pid"));
        let mut command = Command::new("bird");
        command.args(["-f", "-c", &configuration(number), "-s", &socket, "-P", &pid]);
        command.current_dir(exchange.place.folder());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.process = Some(command.spawn().unwrap());
        let begin = Instant::now();
        while !self.ask("show status").contains("up and running") {
            assert!(begin.elapsed() < PATIENCE, "BIRD does not answer");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub(crate) fn announce(&self, prefix: &str, tail: &[u32], large: &[(u32, u32, u32)]) {
        let mut said = self.said.lock().unwrap();
        said.insert(prefix.to_owned(), (tail.to_vec(), large.to_vec()));
        self.configure(&said);
    }

    pub(crate) fn withdraw(&self, prefix: &str) {
        let mut said = self.said.lock().unwrap();
        said.remove(prefix);
        self.configure(&said);
    }

    /// What it has from its proxy: paths by prefix.
    pub(crate) fn received(&self) -> BTreeMap<String, Vec<u32>> {
        let mut received = BTreeMap::new();
        let mut prefix = "";
        let text = self.ask("show route all protocol proxy");
        for line in text.lines() {
            if let Some((first, _)) = line.split_once(char::is_whitespace)
                && first.contains('/')
            {
                prefix = first;
            }
            if let Some(path) = line.trim().strip_prefix("BGP.as_path: ") {
                let path = path.split(' ').map(|asn| asn.parse().unwrap()).collect();
                received.insert(prefix.to_owned(), path);
            }
        }
        received
    }

    /// What its processes said, and how its session stands.
    pub(crate) fn log(&self) -> String {
        let file = self.exchange.place.path(&format!("router{}.log", self.number));
        std::fs::read_to_string(file).unwrap() + &self.ask("show protocols all proxy")
    }

    fn configure(&self, said: &BTreeMap<String, Said>) {
        let text = config(self.number, self.address, said);
        self.exchange.place.write(&configuration(self.number), &text);
        if self.process.is_none() {
            return;
        }
        let answer = self.ask("configure");
        assert!(answer.to_lowercase().contains("reconfig"), "{answer}");
    }

    fn ask(&self, command: &str) -> String {
        let socket = self.exchange.place.path(&socket(self.number));
        let mut asked = Command::new("birdc");
        let output = asked.arg("-s").arg(socket).args(command.split(' ')).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

fn configuration(number: u16) -> String {
    format!("router{number}.conf")
}

fn socket(number: u16) -> String {
    format!("router{number}.ctl")
}

fn config(number: u16, address: SocketAddr, said: &BTreeMap<String, Said>) -> String {
    let (asn, port) = (64500 + u32::from(number), address.port());
    let mut text = format!(
        "router id 10.0.0.{};\nlog stderr all;\nprotocol device {{}}\nprotocol static {{\n ipv4;\n",
        number + 1
    );
    for (prefix, (tail, large)) in said {
        let _ = write!(text, " route {prefix} blackhole {{ bgp_path = +empty+;");
        for asn in tail.iter().rev() {
            let _ = write!(text, " bgp_path.prepend({asn});");
        }
        for (a, b, c) in large {
            let _ = write!(text, " bgp_large_community.add(({a}, {b}, {c}));");
        }
        text += " };\n";
    }
    text + &format!(
        "}}\nprotocol bgp proxy {{\n local 127.0.0.1 port {port} as {asn};\n neighbor 127.0.0.1 as {EXCHANGE_AS};\n \
         multihop; strict bind yes; passive yes; local role rs_client; enforce first as off;\n error wait time 1, 2;\n \
         ipv4 {{ import all; export where source = RTS_STATIC; next hop address 198.51.100.{}; }};\n}}\n",
        asn % 250 + 1
    )
}
