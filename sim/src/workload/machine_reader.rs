//! An application that reads through the core's client: its processes, one after another, and the name by
//! which the oracle knows what each of them reads.

use bytes::Bytes;
use odradek_core::bugs::Bugs;
use odradek_core::client::{ClientConfig, ClientEvent, Command, CommandId, ConsumerRecord};
use odradek_core::ids::ConnectionId;

use super::ClientContext;
use super::machine::Machine;
use super::seen::{ReadRecord, Seen, borrowed};

/// The process there is now, if there is one.
#[derive(Debug)]
pub struct Reader {
    /// The client in it.
    pub machine: Option<Machine>,
    /// How many there have been.
    pub life: u64,
    bugs: Bugs,
}

impl Reader {
    /// Nothing runs yet.
    #[must_use]
    pub const fn new(bugs: Bugs) -> Self {
        Self {
            machine: None,
            life: 0,
            bugs,
        }
    }

    /// What this process is to the oracle.
    #[must_use]
    pub const fn id(&self, client: usize) -> u64 {
        client as u64 | self.life << 16
    }

    /// A process starts.
    pub fn begin(&mut self, cx: &mut ClientContext<'_>, config: &ClientConfig) {
        self.life += 1;
        let reader = self.id(cx.client);
        let reset = config.consumer.auto_offset_reset;
        cx.saw.push(Seen::Reader { reader, reset });
        self.machine = Some(Machine::new(cx, config, self.bugs));
    }

    /// And ends without a word to anybody.
    pub fn die(&mut self, cx: &mut ClientContext<'_>) {
        if let Some(machine) = self.machine.take() {
            machine.die(cx);
        }
        let reader = self.id(cx.client);
        cx.saw.push(Seen::Leaves { reader });
    }

    /// Hands the client a command.
    pub fn command(&mut self, cx: &mut ClientContext<'_>, command: Command) -> CommandId {
        match &mut self.machine {
            Some(machine) => machine.command(cx, command),
            None => CommandId(0),
        }
    }

    /// What the client told the application since this was last asked; `None` if nothing runs.
    pub fn take_events(&mut self) -> Option<Vec<ClientEvent>> {
        Some(self.machine.as_mut()?.take_events())
    }

    /// A timer has come; whether it was the client's.
    pub fn timer(&mut self, cx: &mut ClientContext<'_>, tag: u64) -> bool {
        let machine = self.machine.as_mut();
        machine.is_some_and(|machine| machine.timer(cx, tag))
    }

    /// Bytes arrived.
    pub fn bytes(&mut self, cx: &mut ClientContext<'_>, connection: ConnectionId, bytes: &Bytes) {
        if let Some(machine) = &mut self.machine {
            machine.bytes(cx, connection, bytes);
        }
    }

    /// A connection is gone.
    pub fn closed(&mut self, cx: &mut ClientContext<'_>, connection: ConnectionId) {
        if let Some(machine) = &mut self.machine {
            machine.closed(cx, connection);
        }
    }
}

/// A record as the application got it.
#[must_use]
pub fn as_read(record: &ConsumerRecord) -> ReadRecord {
    let (key, value) = (record.key.as_deref(), record.value.as_deref());
    ReadRecord::of(record.offset.0, key, value, || borrowed(&record.headers))
}
