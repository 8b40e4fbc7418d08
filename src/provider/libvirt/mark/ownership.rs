//! Whose a domain is, by the mark that it carries. A mark alone proves nothing: it must have been
//! written for this very domain, at this very place, under this very name (L18).

use uuid::Uuid;

use crate::plan::{HostRef, Label, Mark, Reason};
use crate::provider::libvirt::naming::instance_name;

/// Whose a domain with a readable mark is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ownership {
    /// This fleet's, this entry's, this host's, and the mark was written for this domain.
    Ours,
    /// The mark bears this fleet and place and yet does not belong to the domain: nobody touches
    /// it.
    Blocked {
        /// Why.
        reason: Reason,
        /// One line for people.
        message: String,
    },
    /// Another fleet's: foreign.
    OtherFleet,
    /// This fleet's, but of another entry or host. Where the config has that place on this very
    /// daemon it is that place's machine; where the config has it elsewhere, the machine is
    /// misplaced; where the config does not have it, it is a stranger to be listed (L22). The
    /// caller knows the config.
    OtherEntryOrHost {
        /// The entry that the mark names.
        entry: Label,
        /// The host that it names.
        host: Label,
    },
}

/// Decides whose the domain `domain_name`/`domain_uuid` is, seen on `host` of `entry` by a run of
/// `fleet`. `aliases` are the host's former names: a mark that bears one is this host's, and its
/// domain is named after the former name.
#[must_use]
pub fn standing(
    mark: &Mark,
    fleet: &Label,
    entry: &Label,
    host: &Label,
    aliases: &[Label],
    domain_name: &str,
    domain_uuid: Uuid,
) -> Ownership {
    let same = |value: &str, label: &Label| value.trim().eq_ignore_ascii_case(label.as_str());
    if !same(&mark.fleet, fleet) {
        return Ownership::OtherFleet;
    }
    let Some(marked_host) = std::iter::once(host).chain(aliases).find(|name| same(&mark.host, name)) else {
        return elsewhere(mark);
    };
    if !same(&mark.provider, entry) {
        return elsewhere(mark);
    }
    if !Uuid::try_parse(mark.machine.trim()).is_ok_and(|uuid| uuid == domain_uuid) {
        return blocked(
            Reason::CopiedMark,
            "the mark was written for another domain; this one is probably a copy of it",
        );
    }
    let derived = instance_name(fleet, &HostRef { entry: entry.clone(), host: marked_host.clone() }, &mark.proxy);
    if derived != domain_name {
        return Ownership::Blocked {
            reason: Reason::Renamed,
            message: ["the domain was renamed; its mark says ", &derived].concat(),
        };
    }
    Ownership::Ours
}

fn blocked(reason: Reason, message: &str) -> Ownership {
    Ownership::Blocked { reason, message: message.to_owned() }
}

fn elsewhere(mark: &Mark) -> Ownership {
    let (entry, host) = (mark.provider.trim().to_lowercase().parse(), mark.host.trim().to_lowercase().parse());
    match (entry, host) {
        (Ok(entry), Ok(host)) => Ownership::OtherEntryOrHost { entry, host },
        _ => blocked(Reason::UnreadableMark, "the mark names no valid provider entry and host"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::mark;
    use super::*;

    const UUID: Uuid = Uuid::from_u128(0x0000_0000_0000_4000_8000_0000_0000_0001);

    fn label(text: &str) -> Label {
        text.parse().unwrap()
    }

    fn name(host: &str) -> String {
        let place = HostRef { entry: label("lab"), host: label(host) };
        instance_name(&label("crawl-eu"), &place, &mark().proxy)
    }

    fn stand(mark: &Mark, domain: &str, uuid: Uuid) -> Ownership {
        standing(mark, &label("crawl-eu"), &label("lab"), &label("h1"), &[label("old")], domain, uuid)
    }

    fn reason(standing: &Ownership) -> Option<Reason> {
        match standing {
            Ownership::Blocked { reason, .. } => Some(*reason),
            _ => None,
        }
    }

    #[test]
    fn ours_means_fleet_entry_host_uuid_and_name() {
        assert_eq!(stand(&mark(), &name("h1"), UUID), Ownership::Ours);
    }

    #[test]
    fn l17_values_are_compared_without_case_and_padding() {
        let padded = Mark {
            fleet: " Crawl-EU ".into(),
            host: "H1\n".into(),
            provider: "LAB".into(),
            machine: format!(" {} ", mark().machine.to_uppercase()),
            ..mark()
        };
        assert_eq!(stand(&padded, &name("h1"), UUID), Ownership::Ours);
    }

    #[test]
    fn l18_r32_a_mark_that_was_copied_with_its_machine_makes_nothing_ours() {
        let copy = stand(&mark(), &name("h1"), Uuid::from_u128(2));
        assert_eq!(reason(&copy), Some(Reason::CopiedMark));
    }

    #[test]
    fn a_renamed_domain_is_blocked_and_told_its_name() {
        let renamed = stand(&mark(), "mine", UUID);
        assert_eq!(reason(&renamed), Some(Reason::Renamed));
        assert!(matches!(&renamed, Ownership::Blocked { message, .. } if message.contains(&name("h1"))));
    }

    #[test]
    fn l19_another_fleet_is_foreign_whatever_else_fits() {
        let other = Mark { fleet: "other".into(), ..mark() };
        assert_eq!(stand(&other, &name("h1"), UUID), Ownership::OtherFleet);
    }

    #[test]
    fn an_alias_is_the_host_itself_and_the_name_is_derived_from_it() {
        let former = Mark { host: "old".into(), ..mark() };
        assert_eq!(stand(&former, &name("old"), UUID), Ownership::Ours);
        assert_eq!(reason(&stand(&former, &name("h1"), UUID)), Some(Reason::Renamed));
    }

    #[test]
    fn l22_l48_another_entry_or_host_is_named_for_the_caller() {
        for (other, entry, host) in [
            (Mark { host: "h2".into(), ..mark() }, "lab", "h2"),
            (Mark { provider: "lab2".into(), ..mark() }, "lab2", "h1"),
        ] {
            let expected = Ownership::OtherEntryOrHost { entry: label(entry), host: label(host) };
            assert_eq!(stand(&other, &name("h1"), UUID), expected);
        }
    }
}
