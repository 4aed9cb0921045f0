//! Name of this user and machine, as the other side of a code sees it.

/// `user@machine`, as far as the system tells them.
pub fn of_this_machine(environment: impl Fn(&str) -> Option<String>) -> String {
    let user = ["USER", "LOGNAME", "USERNAME"]
        .into_iter()
        .find_map(&environment);
    let user = user.filter(|name| !name.is_empty());
    match (user, machine_name()) {
        (Some(user), Some(machine)) => format!("{user}@{machine}"),
        (Some(name), None) | (None, Some(name)) => name,
        (None, None) => "unnamed".to_owned(),
    }
}

/// Name of this machine, if the system has one.
#[cfg(unix)]
pub(crate) fn machine_name() -> Option<String> {
    let name = rustix::system::uname();
    let name = name.nodename().to_string_lossy().into_owned();
    (!name.is_empty()).then_some(name)
}

/// Name of this machine, if the system has one.
#[cfg(not(unix))]
pub(crate) fn machine_name() -> Option<String> {
    std::env::var("COMPUTERNAME").ok()
}
