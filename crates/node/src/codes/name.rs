//! Name of this user and machine, as the other side of a code sees it.

/// `user@machine`, as far as the system tells them.
pub fn of_this_machine(environment: impl Fn(&str) -> Option<String>) -> String {
    let user = ["USER", "LOGNAME", "USERNAME"]
        .into_iter()
        .find_map(&environment);
    let user = user.filter(|name| !name.is_empty());
    match (user, machine()) {
        (Some(user), Some(machine)) => format!("{user}@{machine}"),
        (Some(name), None) | (None, Some(name)) => name,
        (None, None) => "unnamed".to_owned(),
    }
}

#[cfg(unix)]
fn machine() -> Option<String> {
    let name = rustix::system::uname();
    let name = name.nodename().to_string_lossy().into_owned();
    (!name.is_empty()).then_some(name)
}

#[cfg(not(unix))]
fn machine() -> Option<String> {
    std::env::var("COMPUTERNAME").ok()
}
