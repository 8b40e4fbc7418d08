//! Static addresses: a machine that bears one is made only when nobody else can still hold it.

use super::change::ActionId;
use super::draft::{Draft, Machine};
use super::hold::Hold;
use super::reason::Reason;
use super::wanted::Wanted;

impl<'a> Draft<'a> {
    /// The deletions that must come before a machine with static addresses is made or started; none
    /// for one without. `own` is the machine that is replaced or started.
    ///
    /// The former machine of a proxy that moves goes first. Machines of other proxies whose marks
    /// bear one of the addresses go first when nobody wants them; otherwise the address is in use
    /// until a later run.
    pub fn addresses_free(&self, wanted: &Wanted<'a>, own: Option<&Machine<'a>>) -> Result<Vec<ActionId>, Hold> {
        let Some(network) = &wanted.managed.spec.network else { return Ok(Vec::new()) };
        let bears = |own: &Machine<'a>| {
            let held = |address: &ipnet::IpNet| self.holders_of(address.addr()).iter().any(|holder| holder.is(own));
            network.addresses.iter().all(held)
        };
        // One that bears its addresses already was made when nobody else had them.
        if !own.is_some_and(bears)
            && let Some(host) = self.unknown_hosts().next()
        {
            return Err(Hold::waiting(
                Reason::HostUnknown,
                format!("its static address may still be in use on {host}, which is unknown"),
            ));
        }
        let is_own = |machine: &Machine<'a>| own.is_some_and(|own| own.is(machine));
        let mut first = Vec::new();
        for former in self.machines_of(wanted.key).iter().filter(|machine| !is_own(machine)) {
            if self.releasable(former).is_err() {
                return Err(Hold::waiting(
                    Reason::WaitsForOther,
                    format!("its static address is in use by its former machine on {}, which stays", former.place),
                ));
            }
            first.push(self.deletion_of(former));
        }
        for address in network.addresses.iter().map(ipnet::IpNet::addr) {
            for holder in self.holders_of(address).iter().filter(|holder| holder.mark.proxy != *wanted.key) {
                let unwanted = self.wanted(&holder.mark.proxy).is_none();
                if !unwanted || self.releasable(holder).is_err() {
                    let (key, place) = (&holder.mark.proxy, holder.place);
                    return Err(Hold::waiting(
                        Reason::WaitsForOther,
                        format!("its static address {address} is in use by {key} on {place}"),
                    )
                    .hint(format!("it goes on when {key} has given the address up")));
                }
                first.push(self.deletion_of(holder));
            }
        }
        Ok(first)
    }
}
