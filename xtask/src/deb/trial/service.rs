//! A service as systemd has it: what it says of its state, and what the kernel says of its main
//! process.

use super::Machine;
use crate::files::said;

/// One of the package's.
pub(super) struct Service<'a> {
    machine: &'a Machine,
    /// Without `.service`.
    unit: &'a str,
}

impl<'a> Service<'a> {
    /// Starts it: it runs, confined, with these capabilities, and is rated as it should be; and has
    /// it read its settings again, if its unit says that it does.
    pub(super) fn start(
        machine: &'a Machine,
        unit: &'a str,
        capabilities: u64,
    ) -> Result<Self, String> {
        let service = Self::of(machine, unit);
        machine.systemctl(&["start", unit]).map_err(|error| service.with_log(&error))?;
        service.is_confined(capabilities)?;
        let name = format!("{unit}.service");
        let arguments = ["--no-pager", "security", MOST_EXPOSED, &name];
        said(machine.command("systemd-analyze").args(arguments))?;
        match &service.property("CanReload")?[..] {
            "yes" => service.reload()?,
            _ => service.is_running()?,
        }
        Ok(service)
    }

    /// One that was started before.
    pub(super) fn of(machine: &'a Machine, unit: &'a str) -> Self {
        Self { machine, unit }
    }

    /// Whether it runs, and has from the first attempt on.
    pub(super) fn is_running(&self) -> Result<(), String> {
        match &self.properties(["SubState", "NRestarts"])?.each_ref().map(|it| &it[..]) {
            ["running", "0"] => Ok(()),
            [state, restarts] => Err(self.with_log(&format!("{state} after {restarts} restarts"))),
        }
    }

    /// Has it read its settings again, which it does as the process that it is.
    pub(super) fn reload(&self) -> Result<(), String> {
        let process = self.property("MainPID")?;
        self.machine.systemctl(&["reload", self.unit])?;
        self.machine.wait(&format!("{} has read its settings", self.unit), || {
            match &self.properties(["ActiveState", "MainPID"])?.each_ref().map(|it| &it[..]) {
                ["reloading", _] => Ok(false),
                ["active", same] if *same == process => Ok(true),
                _ => Err(self.with_log("a reload ends it")),
            }
        })
    }

    /// Ends it, which it does itself and in time.
    pub(super) fn stop(self) -> Result<(), String> {
        self.machine.systemctl(&["stop", self.unit])?;
        self.gave_way()
    }

    /// Whether it has ended well: by itself, since another one that conflicts with it has started.
    pub(super) fn gave_way(self) -> Result<(), String> {
        let at_end = self.properties(["ActiveState", "Result", "ExecMainStatus"])?;
        match at_end.each_ref().map(|it| &it[..]) {
            ["inactive", "success", "0"] => Ok(()),
            _ => Err(self.with_log(&format!("at its end {}", at_end.join(", ")))),
        }
    }

    /// Whether these words are among what the journal has of it.
    pub(super) fn says(&self, words: &str) -> Result<(), String> {
        let mut ask = self.machine.command("journalctl");
        let log = said(ask.args(["--output", "cat", "--unit", self.unit]))?;
        match log.contains(words) {
            true => Ok(()),
            false => Err(self.with_log(&format!("nothing of `{words}`"))),
        }
    }

    /// Whether its process sees this in a folder of its root, and nothing else.
    pub(super) fn sees_only(&self, folder: &str, all: &str) -> Result<(), String> {
        let process = self.property("MainPID")?;
        let seen = self.machine.run(&format!("ls -A /proc/{process}/root/{folder}"))?;
        match seen == all {
            true => Ok(()),
            false => Err(self.with_log(&format!("it sees in /{folder}: {seen}"))),
        }
    }

    /// What systemd says of it.
    pub(super) fn property(&self, name: &str) -> Result<String, String> {
        self.properties([name]).map(|[value]| value)
    }

    /// The same of several, as of one moment.
    pub(super) fn properties<const N: usize>(
        &self,
        names: [&str; N],
    ) -> Result<[String; N], String> {
        let told = self.machine.systemctl(&["show", "--property", &names.join(","), self.unit])?;
        Ok(names.map(|name| {
            let value =
                |line: &'_ str| Some(line.strip_prefix(name)?.strip_prefix('=')?.to_owned());
            told.lines().find_map(value).unwrap_or_default()
        }))
    }

    /// What the kernel says of its main process: not root's, with these capabilities and no way to
    /// others, its calls filtered, without cores, and in namespaces of its own.
    fn is_confined(&self, capabilities: u64) -> Result<(), String> {
        let [process, own_users] = self.properties(["MainPID", "PrivateUsers"])?;
        let facts = self.machine.run(&FACTS.replace("{PROCESS}", &process))?;
        let mut expected = vec![
            "NoNewPrivs:\t1".to_owned(),
            "Seccomp:\t2".to_owned(),
            format!("CapEff:\t{capabilities:016x}"),
            "core 0 0".to_owned(),
            "own mnt".to_owned(),
            "own uts".to_owned(),
        ];
        // Capabilities count for nothing in a user namespace of one's own.
        if own_users == "yes" {
            expected.push("own user".to_owned());
        }
        let is_missing = |fact: &&String| !facts.lines().any(|line| line == **fact);
        match expected.iter().find(is_missing) {
            None if facts.contains("Uid:\t0\t") => Err(format!("{} is root's", self.unit)),
            None => Ok(()),
            Some(fact) => Err(self.with_log(&format!("it is not confined ({fact}): {facts}"))),
        }
    }

    /// A problem, with what the journal has last of it.
    fn with_log(&self, problem: &str) -> String {
        let mut ask = self.machine.command("journalctl");
        let log = said(ask.args(["--output", "cat", "--lines", "8", "--unit", self.unit]));
        format!("{}: {problem}\n{}", self.unit, log.unwrap_or_default())
    }
}

/// Nothing that it was given is left once it runs.
pub(super) const GIVEN_UP: u64 = 0;
/// In tenths, as for units that are not loaded.
const MOST_EXPOSED: &str = "--threshold=20";
const FACTS: &str = r#"
    cd /proc/{PROCESS}
    grep -E '^(Uid|NoNewPrivs|Seccomp|CapEff):' status
    sed -n 's/^Max core file size *\([0-9a-z]*\) *\([0-9a-z]*\).*/core \1 \2/p' limits
    for space in mnt uts user; do
        [ "$(readlink ns/$space)" = "$(readlink /proc/1/ns/$space)" ] || echo "own $space"
    done
"#;
