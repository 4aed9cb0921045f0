//! Resources that this process has used so far, from the Linux kernel.

/// CPU seconds and the largest resident set, as members of a JSON object.
pub fn json() -> String {
    format!(
        "\"cpu_s\":{:.2},\"rss_max_kib\":{}",
        cpu_s().unwrap_or(f64::NAN),
        rss_max_kib().unwrap_or(0)
    )
}

/// User and system time; fields 14 and 15 of proc_pid_stat(5), in hundredths of a second.
fn cpu_s() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name before may contain spaces; it ends with the last parenthesis.
    let mut fields = text[text.rfind(')')? + 2..].split(' ').skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / 100.0)
}

fn rss_max_kib() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
