use tokio::sync::Mutex as AsyncMutex;

use super::*;
use crate::codes::{
    card::Purpose,
    exchange::{LineOver, enter},
};

/// One end of a line in memory.
struct End {
    out: mpsc::Sender<Vec<u8>>,
    incoming: AsyncMutex<mpsc::Receiver<Vec<u8>>>,
}

impl Line for End {
    async fn send(&self, message: Vec<u8>) -> Result<(), LineOver> {
        self.out.send(message).await.map_err(|_| LineOver)
    }

    async fn recv(&self) -> Result<Vec<u8>, LineOver> {
        self.incoming.lock().await.recv().await.ok_or(LineOver)
    }
}

fn line() -> (End, End) {
    let (out, theirs) = mpsc::channel(8);
    let (back, ours) = mpsc::channel(8);
    let end = |out, incoming| End {
        out,
        incoming: AsyncMutex::new(incoming),
    };
    (end(out, ours), end(back, theirs))
}

fn node(n: u8) -> NodeId {
    NodeId::from_public_key([n; 32])
}

fn code(text: &str) -> Code {
    text.parse().unwrap()
}

fn card(purpose: Purpose) -> Card {
    Card::new(purpose, "ada", vec!["192.0.2.1:1".parse().unwrap()])
}

fn open() -> (Arc<Desk>, mpsc::Receiver<DeskEvent>) {
    Desk::open(code("river-lamp-orbit"), node(1), card(Purpose::Send))
}

/// Enters a code as node 2.
async fn try_code(desk: &Desk, text: &str, purpose: Purpose) -> Result<Card, ExchangeError> {
    let (holder, issuer) = line();
    let entering = async {
        let result = enter(&holder, &code(text), node(2), node(1), &card(purpose)).await;
        drop(holder);
        result
    };
    let (result, _) = tokio::join!(entering, desk.serve(&issuer, node(2)));
    result
}

#[tokio::test]
async fn a_code_brings_two_cards_together_once() {
    let (desk, mut events) = open();
    let theirs = try_code(&desk, "river-lamp-orbit", Purpose::Receive).await;
    assert_eq!(theirs, Ok(card(Purpose::Send)));
    let Ok(DeskEvent::Met(met)) = events.try_recv() else {
        panic!("nobody was met");
    };
    assert_eq!((met.node, met.card), (node(2), card(Purpose::Receive)));
    assert_eq!(met.addresses, card(Purpose::Receive).addresses);
    let again = try_code(&desk, "river-lamp-orbit", Purpose::Receive).await;
    assert_eq!(again, Err(Refusal::Used.into()));
}

#[tokio::test]
async fn three_wrong_codes_end_it() {
    let (desk, mut events) = open();
    for (wrong, refusal) in [
        ("zoo", Refusal::Wrong),
        ("zero", Refusal::Wrong),
        ("zone", Refusal::Dead),
    ] {
        let text = format!("river-lamp-{wrong}");
        let result = try_code(&desk, &text, Purpose::Receive).await;
        assert_eq!(result, Err(refusal.into()));
    }
    let right = try_code(&desk, "river-lamp-orbit", Purpose::Receive).await;
    assert_eq!(right, Err(Refusal::Dead.into()));
    let seen = std::iter::from_fn(|| events.try_recv().ok());
    let seen = seen.map(|event| format!("{event:?}"));
    let wrong = |left| format!("Wrong {{ left: {left} }}");
    assert_eq!(
        seen.collect::<Vec<_>>(),
        [wrong(2), wrong(1), wrong(0), "Dead".to_owned()]
    );
}

#[tokio::test]
async fn two_wrong_codes_leave_a_third_try() {
    let (desk, _events) = open();
    for _ in 0..2 {
        assert!(
            try_code(&desk, "river-lamp-zoo", Purpose::Receive)
                .await
                .is_err()
        );
    }
    assert!(
        try_code(&desk, "river-lamp-orbit", Purpose::Receive)
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn sides_that_do_not_fit_together_do_not_use_it_up() {
    let (desk, mut events) = open();
    let result = try_code(&desk, "river-lamp-orbit", Purpose::Send).await;
    assert_eq!(result, Err(Refusal::Purpose.into()));
    assert!(matches!(events.try_recv(), Ok(DeskEvent::Unsuited)));
    assert!(
        try_code(&desk, "river-lamp-orbit", Purpose::Receive)
            .await
            .is_ok()
    );
}

/// Exchanges that stop before the proof are no guesses; those that run side by side are counted one by one.
#[tokio::test]
async fn guesses_side_by_side_are_counted_one_by_one() {
    let (desk, _events) = open();
    let parties = Parties {
        issuer: node(1),
        holder: node(2),
    };
    let mut waiting = Vec::new();
    let mut serving = tokio::task::JoinSet::new();
    for _ in 0..AT_A_TIME {
        let (holder, issuer) = line();
        let desk = desk.clone();
        serving.spawn(async move { desk.serve(&issuer, node(2)).await });
        let (begun, element) = secure::Begun::new(&code("river-lamp-zoo"), parties);
        holder
            .send(Message::Start { element }.encode())
            .await
            .unwrap();
        let Message::Answer { element } = next(&holder).await.unwrap() else {
            panic!("no answer");
        };
        waiting.push((holder, begun.finish(&element).unwrap()));
    }
    let busy = try_code(&desk, "river-lamp-orbit", Purpose::Receive).await;
    assert_eq!(busy, Err(Refusal::Busy.into()));
    let mut refusals = Vec::new();
    for (holder, keys) in waiting {
        let proof = keys.proof(Side::Holder);
        let sealed = keys.seal(Side::Holder, b"{}");
        holder
            .send(Message::Proof { proof, sealed }.encode())
            .await
            .unwrap();
        refusals.push(next(&holder).await.unwrap_err());
    }
    let expected = std::iter::repeat_n(Refusal::Wrong, 2)
        .chain(std::iter::repeat_n(Refusal::Dead, AT_A_TIME - 2));
    assert_eq!(
        refusals,
        expected.map(ExchangeError::from).collect::<Vec<_>>()
    );
    serving.join_all().await;
}

/// An impostor who takes the issuer's place learns whether one guess is right, and the holder notices that it was not.
#[tokio::test]
async fn an_impostor_in_place_of_the_issuer_is_noticed() {
    let (holder, issuer) = line();
    let (code_spoken, card) = (code("river-lamp-orbit"), card(Purpose::Receive));
    let entering = enter(&holder, &code_spoken, node(2), node(1), &card);
    let faking = async {
        let Ok(Message::Start { element }) = next(&issuer).await else {
            panic!("no start");
        };
        let parties = Parties {
            issuer: node(1),
            holder: node(2),
        };
        let (element, keys) = secure::answer(&code("river-lamp-zoo"), parties, &element).unwrap();
        issuer
            .send(Message::Answer { element }.encode())
            .await
            .unwrap();
        let Ok(Message::Proof { proof, sealed }) = next(&issuer).await else {
            panic!("no proof");
        };
        assert!(!keys.is_proof(Side::Holder, &proof));
        assert_eq!(keys.open(Side::Holder, &sealed), None);
        let proof = keys.proof(Side::Issuer);
        let accept = Message::Accept { proof, sealed };
        issuer.send(accept.encode()).await.unwrap();
    };
    let (result, ()) = tokio::join!(entering, faking);
    assert_eq!(result, Err(ExchangeError::Impostor));
}

#[tokio::test(start_paused = true)]
async fn who_says_nothing_is_given_up() {
    let (desk, _events) = open();
    let (_holder, issuer) = line();
    assert_eq!(
        desk.serve(&issuer, node(2)).await,
        Err(ExchangeError::Silent)
    );
}
