//! A TCP link to a service that can be cut, frozen, and set to do so at a word on the wire.
//!
//! In process and not Toxiproxy, because the faults that matter lie between two words of a protocol: after COMMIT was
//! sent and before it is answered, after the commit and before the ack.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
    task::JoinHandle,
};

/// What happens, once, to the connection on which a client says the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The word does not arrive; the connection is cut.
    CutBefore,
    /// The word arrives and is acted upon; the answer does not come back, the connection is cut.
    CutBeforeAnswer,
    /// The word and all behind it waits for [`Link::thaw`].
    Hold,
    /// The word arrives, as does all behind it; nothing comes back any more.
    SwallowAnswers,
}

/// See the module.
pub(crate) struct Link {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

struct Shared {
    upstream: String,
    gate: watch::Sender<Gate>,
    trap: Mutex<Option<(Vec<u8>, Fault)>>,
    /// A permit each time a trap has sprung.
    sprung: Semaphore,
}

#[derive(Clone, Copy, Debug, Default)]
struct Gate {
    down: bool,
    /// Connections of an older one are cut.
    generation: u64,
    frozen: bool,
    /// Connections of an older one stay silent.
    memory: u64,
    /// How long every read takes to get on.
    delay: Duration,
}

impl Link {
    pub(crate) async fn to(upstream: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            upstream: upstream.to_owned(),
            gate: watch::Sender::default(),
            trap: Mutex::default(),
            sprung: Semaphore::new(0),
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Self { address, shared, accepting }
    }

    /// Ends the connections there are.
    pub(crate) fn cut(&self) {
        self.shared.gate.send_modify(|gate| gate.generation += 1);
    }

    /// Cuts, and refuses new ones.
    pub(crate) fn down(&self) {
        self.shared.gate.send_modify(|gate| {
            gate.generation += 1;
            gate.down = true;
        });
    }

    pub(crate) fn up(&self) {
        self.shared.gate.send_modify(|gate| gate.down = false);
    }

    /// Holds every byte in both directions. Connections stay, and new ones get no answer.
    pub(crate) fn freeze(&self) {
        self.shared.gate.send_modify(|gate| gate.frozen = true);
    }

    /// Lets go what is held.
    pub(crate) fn thaw(&self) {
        self.shared.gate.send_modify(|gate| gate.frozen = false);
    }

    /// Lets the connections there are fall silent for ever, and none of their ends know. New ones pass.
    pub(crate) fn forget(&self) {
        self.shared.gate.send_modify(|gate| gate.memory += 1);
    }

    /// Makes everything take that much longer, in both directions.
    pub(crate) fn slow(&self, delay: Duration) {
        self.shared.gate.send_modify(|gate| gate.delay = delay);
    }

    /// Arms a fault for the first client that says `word`.
    pub(crate) fn on(&self, word: &[u8], fault: Fault) {
        *self.shared.trap.lock().expect("not poisoned") = Some((word.to_vec(), fault));
    }

    /// Returns once an armed fault has happened.
    pub(crate) async fn sprung(&self) {
        tokio::time::timeout(super::SOON, self.shared.sprung.acquire())
            .await
            .expect("the word is said")
            .expect("open")
            .forget();
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let Ok((client, _)) = listener.accept().await else { return };
        let gate = *shared.gate.borrow();
        if gate.down {
            continue;
        }
        tokio::spawn(serve(client, Arc::clone(&shared), gate));
    }
}

async fn serve(client: TcpStream, shared: Arc<Shared>, born: Gate) {
    let Ok(server) = TcpStream::connect(&shared.upstream).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (client_reads, client_writes) = client.into_split();
    let (server_reads, server_writes) = server.into_split();
    let (answers, answered) = watch::channel(None);
    // What each direction does when it ends ends the other, and with it both sockets.
    tokio::select! {
        () = there(client_reads, server_writes, &shared, born, answers) => {}
        () = back(server_reads, client_writes, &shared, born, answered) => {}
    }
}

async fn there(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    shared: &Shared,
    born: Gate,
    answers: watch::Sender<Option<Fault>>,
) {
    let mut gate = shared.gate.subscribe();
    let mut buffer = vec![0; 256 * 1024];
    let mut held = false;
    loop {
        let read = tokio::select! {
            read = from.read(&mut buffer) => read.unwrap_or(0),
            () = cut(&mut gate, born) => return,
        };
        match shared.spring(&buffer[..read]) {
            Some(Fault::CutBefore) => return,
            Some(fault @ (Fault::CutBeforeAnswer | Fault::SwallowAnswers)) => drop(answers.send_replace(Some(fault))),
            Some(Fault::Hold) => held = true,
            None => {}
        }
        if held {
            // Lifted by a thaw after this moment.
            shared.gate.send_modify(|gate| gate.frozen = true);
            held = false;
        }
        if passes(&mut gate, born).await.is_none() || read == 0 || to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

async fn back(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    shared: &Shared,
    born: Gate,
    answered: watch::Receiver<Option<Fault>>,
) {
    let mut gate = shared.gate.subscribe();
    let mut buffer = vec![0; 256 * 1024];
    loop {
        let read = tokio::select! {
            read = from.read(&mut buffer) => read.unwrap_or(0),
            () = cut(&mut gate, born) => return,
        };
        let fault = *answered.borrow();
        if fault == Some(Fault::SwallowAnswers) && read > 0 {
            continue;
        }
        let over = read == 0 || fault.is_some();
        if over || passes(&mut gate, born).await.is_none() || to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

async fn cut(gate: &mut watch::Receiver<Gate>, born: Gate) {
    drop(gate.wait_for(|gate| gate.generation != born.generation).await);
}

async fn passes(gate: &mut watch::Receiver<Gate>, born: Gate) -> Option<()> {
    let open = |gate: &Gate| !gate.frozen && gate.memory == born.memory;
    let delay = gate.borrow().delay;
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
    let gate = gate.wait_for(|gate| gate.generation != born.generation || open(gate)).await.ok()?;
    (gate.generation == born.generation).then_some(())
}

impl Shared {
    fn spring(&self, said: &[u8]) -> Option<Fault> {
        let mut trap = self.trap.lock().expect("not poisoned");
        let (word, fault) = trap.as_ref()?;
        let fault = said.windows(word.len()).any(|window| window == word).then_some(*fault)?;
        *trap = None;
        self.sprung.add_permits(1);
        Some(fault)
    }
}
