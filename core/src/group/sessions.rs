//! The session timeouts of a group's members.

use alloc::collections::{BTreeMap, BTreeSet};

use crate::time::Mono;
use crate::wire::Str;

/// When each member is given up, earliest first.
///
/// A heartbeat only moves a member's deadline; its place in the order stays until it is reached, and
/// only then is it moved. So a heartbeat costs a look-up, and a member at most one early wake-up a
/// session.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    places: BTreeSet<(Mono, Str)>,
    of: BTreeMap<Str, Session>,
}

#[derive(Clone, Copy, Debug)]
struct Session {
    deadline: Mono,
    /// Its place in the order: at or before the deadline.
    place: Mono,
}

impl Sessions {
    /// The member is given up at `deadline`, and not at what was said before.
    pub(crate) fn set(&mut self, member: &Str, deadline: Mono) {
        match self.of.get_mut(member) {
            Some(session) if session.place <= deadline => session.deadline = deadline,
            Some(session) => {
                self.places.remove(&(session.place, member.clone()));
                *session = Session {
                    deadline,
                    place: deadline,
                };
                self.places.insert((deadline, member.clone()));
            }
            None => {
                let session = Session {
                    deadline,
                    place: deadline,
                };
                self.of.insert(member.clone(), session);
                self.places.insert((deadline, member.clone()));
            }
        }
    }

    /// Whether the member is given up at some time.
    pub(crate) fn has(&self, member: &str) -> bool {
        self.of.contains_key(member)
    }

    /// The member is not given up.
    pub(crate) fn cancel(&mut self, member: &Str) {
        if let Some(session) = self.of.remove(member) {
            self.places.remove(&(session.place, member.clone()));
        }
    }

    /// A member whose deadline has come; it has none any more.
    pub(crate) fn expired(&mut self, now: Mono) -> Option<Str> {
        loop {
            let (place, member) = self.places.first()?;
            if *place > now {
                return None;
            }
            let member = member.clone();
            self.places.pop_first();
            match self.of.get_mut(&member) {
                Some(session) if session.deadline > now => {
                    session.place = session.deadline;
                    self.places.insert((session.place, member));
                }
                _ => {
                    self.of.remove(&member);
                    return Some(member);
                }
            }
        }
    }

    /// When to look next: at or before the first deadline.
    pub(crate) fn next(&self) -> Option<Mono> {
        self.places.first().map(|(place, _)| *place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Mono {
        Mono(0).plus_ms(ms)
    }

    #[test]
    fn a_heartbeat_puts_the_end_off() {
        let mut sessions = Sessions::default();
        let (a, b) = (Str::from("a"), Str::from("b"));
        sessions.set(&a, at(10));
        sessions.set(&b, at(12));
        sessions.set(&a, at(20));
        assert_eq!(sessions.next(), Some(at(10)), "early, and only once");
        assert_eq!(sessions.expired(at(10)), None);
        assert_eq!(sessions.next(), Some(at(12)));
        assert_eq!(sessions.expired(at(19)), Some(b));
        assert_eq!(sessions.expired(at(19)), None);
        assert_eq!(sessions.expired(at(20)), Some(a));
        assert_eq!(sessions.next(), None);
    }

    #[test]
    fn a_shorter_timeout_holds_at_once() {
        let mut sessions = Sessions::default();
        let a = Str::from("a");
        sessions.set(&a, at(100));
        sessions.set(&a, at(10));
        assert_eq!(sessions.expired(at(10)), Some(a.clone()));
        sessions.set(&a, at(30));
        sessions.cancel(&a);
        assert_eq!(sessions.expired(at(30)), None);
    }
}
