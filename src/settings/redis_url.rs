//! What `REDIS_URL` says: where Redis is, and perhaps who we are.

use super::SECRET;
use super::servers::{Address, Credentials, Topology};
use super::words::Read;

/// Which form a URL has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Single,
    Sentinel,
    Cluster,
}

/// What a URL says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) topology: Topology,
    pub(super) database: i64,
    pub(super) auth: Option<Credentials>,
    pub(super) encrypted: bool,
}

/// One server of it.
struct Server {
    address: Address,
    database: i64,
    auth: Option<Credentials>,
    encrypted: bool,
}

const SERVER: &str = "`host:port`, `redis://user:password@host:port/database` or `rediss://…`";
const PORT: u16 = 6379;

/// Reads a URL. Only a single server can be behind a unix socket; `unix` unsaid: a path is one.
pub(super) fn read(text: &str, kind: Kind, unix: Option<bool>) -> Read<Place> {
    match kind {
        Kind::Single if unix.unwrap_or(text.starts_with('/')) => socket(text),
        Kind::Single => single(text),
        Kind::Sentinel => sentinel(text),
        Kind::Cluster => cluster(text),
    }
}

/// The same text without what is secret in it.
pub(super) fn masked(text: &str) -> String {
    let start = text.find("://").map_or(0, |at| at + 3);
    match text.rfind('@').filter(|end| *end >= start) {
        Some(end) => {
            let (before, after) = (text.get(..start), text.get(end..));
            let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
            format!("{before}{SECRET}{after}")
        }
        None => text.to_owned(),
    }
}

fn socket(text: &str) -> Read<Place> {
    if !text.starts_with('/') {
        return Err("the path of a unix socket; REDIS_SOCKET_TYPE=tcp takes `host:port`");
    }
    Ok(Place {
        topology: Topology::Single(Address::Unix(text.into())),
        database: 0,
        auth: None,
        encrypted: false,
    })
}

fn single(text: &str) -> Read<Place> {
    let Server { address, database, auth, encrypted } = server(text)?;
    Ok(Place { topology: Topology::Single(address), database, auth, encrypted })
}

fn sentinel(text: &str) -> Read<Place> {
    const EXPECTED: &str =
        "the master's name and the sentinels, such as `mymaster,host:26379,host:26379`";
    let (master, sentinels) = text.split_once(',').ok_or(EXPECTED)?;
    let sentinels = sentinels.split(',').map(|address| address.trim().parse());
    let sentinels: Vec<_> = sentinels.collect::<Result<_, _>>().map_err(|_| EXPECTED)?;
    let master = master.trim();
    if master.is_empty() || master.contains("://") {
        return Err(EXPECTED);
    }
    let topology = Topology::Sentinel { master: master.into(), sentinels };
    Ok(Place { topology, database: 0, auth: None, encrypted: false })
}

fn cluster(text: &str) -> Read<Place> {
    const EXPECTED: &str = "nodes with commas between, each as `host:port` or `redis://…`";
    let servers = text.split(',').map(|text| server(text.trim()));
    let servers: Vec<Server> = servers.collect::<Result<_, _>>().map_err(|_| EXPECTED)?;
    if servers.iter().any(|server| server.database != 0) {
        return Err("database 0, the only one of a cluster");
    }
    let encrypted = servers.iter().any(|server| server.encrypted);
    let auth = servers.iter().find_map(|server| server.auth.clone());
    let seeds = servers.into_iter().map(|server| server.address).collect();
    Ok(Place { topology: Topology::Cluster { seeds }, database: 0, auth, encrypted })
}

fn server(text: &str) -> Read<Server> {
    let (encrypted, rest) = if let Some(rest) = text.strip_prefix("rediss://") {
        (true, rest)
    } else if let Some(rest) = text.strip_prefix("redis://") {
        (false, rest)
    } else {
        let address = text.parse().map_err(|_| SERVER)?;
        if text.contains(['/', '@']) {
            return Err(SERVER);
        }
        return Ok(Server { address, database: 0, auth: None, encrypted: false });
    };
    let (user, rest) = match rest.rsplit_once('@') {
        Some((user, rest)) => (Some(user), rest),
        None => (None, rest),
    };
    let (host, database) = rest.split_once('/').unwrap_or((rest, ""));
    let auth = user.map(credentials).transpose()?;
    Ok(Server { address: address(host)?, database: number(database)?, auth, encrypted })
}

/// `host:port`, or a host at Redis's usual port.
fn address(text: &str) -> Read<Address> {
    let has_port = text.contains(':') && !text.ends_with(']');
    let full = if has_port { text.to_owned() } else { format!("{text}:{PORT}") };
    full.parse().map_err(|_| SERVER)
}

fn number(database: &str) -> Read<i64> {
    if database.is_empty() {
        return Ok(0);
    }
    let number: u32 = database.parse().map_err(|_| "a number as the database, after the port")?;
    Ok(number.into())
}

fn credentials(text: &str) -> Read<Credentials> {
    const EXPECTED: &str = "`user:password` or `:password` before the `@`, `%` and two hex digits \
                            for what has a meaning in URLs";
    let (user, password) = text.split_once(':').ok_or(EXPECTED)?;
    let user = decoded(user).ok_or(EXPECTED)?;
    let password = decoded(password).filter(|password| !password.is_empty()).ok_or(EXPECTED)?;
    let user = Some(user).filter(|user| !user.is_empty()).map(Into::into);
    Ok(Credentials { user, password: password.into() })
}

/// With `%41` read as `A`.
fn decoded(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes: Vec<u8> = parts.next()?.into();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))?);
        bytes.extend(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn single_at(text: &str) -> Option<(String, i64, bool)> {
        let place = read(text, Kind::Single, None).ok()?;
        Some((place.topology.to_string(), place.database, place.encrypted))
    }

    #[test]
    fn a_single_server_is_an_address_a_url_or_a_path() {
        for (text, place) in [
            ("redis:6379", ("single at redis:6379", 0, false)),
            ("redis://redis", ("single at redis:6379", 0, false)),
            ("redis://me:pw@[::1]:1/7", ("single at [::1]:1", 7, false)),
            ("rediss://redis:6380/", ("single at redis:6380", 0, true)),
            ("/run/redis.sock", ("single at /run/redis.sock", 0, false)),
        ] {
            assert_eq!(single_at(text), Some((place.0.to_owned(), place.1, place.2)), "{text}");
        }
        for text in ["redis", "http://redis:1", "redis://redis:x", "redis://r/x", "redis://me@r"] {
            assert_eq!(single_at(text), None, "{text}");
        }
        assert!(read("/run/redis.sock", Kind::Single, Some(false)).is_err());
        assert!(read("redis:6379", Kind::Single, Some(true)).is_err());
    }

    #[test]
    fn a_password_in_a_url_may_be_escaped() {
        let auth = |text| read(text, Kind::Single, None).ok().and_then(|place| place.auth);
        let is = |user: Option<&str>, password: &str| {
            Some(Credentials { user: user.map(Into::into), password: password.into() })
        };
        assert_eq!(auth("redis://me:p%40:s@r"), is(Some("me"), "p@:s"));
        assert_eq!(auth("redis://:p%2Fs@r"), is(None, "p/s"));
        assert_eq!(auth("redis://:%4@r"), None);
    }

    #[test]
    fn sentinels_come_after_their_masters_name() {
        let place = read("m, a:1,b:2", Kind::Sentinel, None).map(|place| place.topology);
        let sentinels = vec![Address::tcp("a", 1), Address::tcp("b", 2)];
        assert_eq!(place, Ok(Topology::Sentinel { master: "m".into(), sentinels }));
        for text in ["m", "a:1", "m,a", ",a:1"] {
            assert!(read(text, Kind::Sentinel, None).is_err(), "{text}");
        }
    }

    #[test]
    fn a_cluster_is_some_of_its_nodes() {
        let place = read("redis://:pw@a:1,b:2", Kind::Cluster, None).ok();
        let found = place.map(|place| (place.topology.to_string(), place.auth.is_some()));
        assert_eq!(found, Some(("cluster at a:1, b:2".to_owned(), true)));
        assert!(read("redis://a:1/3", Kind::Cluster, None).is_err());
    }

    #[test]
    fn a_password_is_masked_wherever_it_stands() {
        assert_eq!(masked("redis://me:h,nt@r2@r:1"), "redis://*****@r:1");
        assert_eq!(masked("me:hunter2@r:1"), "*****@r:1");
        assert_eq!(masked("r:1"), "r:1");
    }
}
