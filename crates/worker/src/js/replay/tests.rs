use super::*;

fn given(trace: &[u8]) -> ReplayLog {
    ReplayLog::new(&ReplayInput {
        seed: 0,
        clock: 1000,
        trace,
    })
}

#[test]
fn numbers_survive_their_bytes() {
    for number in [
        0,
        1,
        127,
        128,
        16_383,
        16_384,
        u64::from(u32::MAX),
        u64::MAX - 1,
        u64::MAX,
    ] {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, number);
        let mut recall = given(&bytes);
        assert_eq!((recall.take_varint(), recall.given.len()), (Some(number), 0));
    }
    for wrong in [
        &[][..],
        &[0x80],
        &[0xff; 9],
        &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2],
        &[0xff; 12],
    ] {
        assert_eq!(given(wrong).take_varint(), None, "{wrong:?}");
    }
}

#[test]
fn the_same_value_again_costs_a_count() {
    let mut recall = given(&[]);
    recall.note_time(1000);
    recall.note_time(990);
    recall.note_time(1300);
    for _ in 0..200 {
        recall.note_time(1300);
    }
    assert_eq!(recall.take_recorded(), [TIME, 0, 1, TIME, 0xac, 2, 0xc8, 1]);
    assert!(recall.take_recorded().is_empty());
}

#[test]
fn values_come_back_in_order_and_then_it_is_now() {
    let mut recall = given(&[TIME, 0, 1, TIME, 5, 0]);
    assert_eq!([1, 10, 1].map(|grain| recall.read_clock(grain)), [1000, 1000, 1005]);
    assert!(recall.is_live() && recall.read_clock(1) > 1_000_000, "{recall:?}");
    assert_eq!(recall.take_recorded().first(), Some(&TIME));
    assert!(!recall.has_diverged());
}

#[test]
fn what_does_not_fit_is_found() {
    for (trace, calls) in [
        (&[ANSWER, 0][..], 0),
        (&[ANSWER, 1], 1),
        (&[ANSWER, 0xff, 0xff, 0xff, 0xff, 0xff, 1], 1),
        (&[ANSWER], 1),
        (&[TIME, 1, 1], 1),
        (&[3], 1),
    ] {
        let mut recall = given(trace);
        (1..=calls).for_each(|number| recall.note_call(number));
        assert_eq!(recall.recall_wait(), Err(ReplayDiverged), "{trace:?}");
        assert_eq!(recall.recall_wait(), Err(ReplayDiverged), "it stays so");
    }
    for trace in [
        &[TIMER][..],
        &[ANSWER, 0],
        &[TIME],
        &[TIME, 1],
        &[TIME, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0],
    ] {
        let mut recall = given(trace);
        assert_eq!((recall.read_clock(1), recall.has_diverged()), (1000, true), "{trace:?}");
    }
    let mut recall = given(&[ANSWER, 1, ANSWER, 0]);
    recall.note_call(1);
    recall.note_call(2);
    assert_eq!(recall.recall_wait(), Ok(Some(WaitEnd::Answer(1))));
    assert_eq!(recall.recall_wait(), Ok(Some(WaitEnd::Answer(2))));
    assert_eq!((recall.recall_wait(), recall.has_open_calls()), (Ok(None), false));
}
