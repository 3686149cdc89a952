use std::sync::Arc;

use super::ConnectionTable;

#[test]
fn the_connection_that_has_waited_for_longest_makes_room() {
    let table = ConnectionTable::new(3);
    let [first, second, third] = [(); 3].map(|()| table.admit().unwrap());
    // The first connection gets an answer, and then waits again, behind the others.
    drop(first.begin_request().unwrap());
    let fourth = table.admit().unwrap();
    let closed = [&first, &second, &third, &fourth].map(|slot| slot.evicted.is_cancelled());
    assert_eq!(closed, [false, true, false, false]);
    // A connection that has to make room can start no request.
    assert!(second.begin_request().is_none());
    drop(second);
    let requests = [&first, &third, &fourth].map(|slot| slot.begin_request().unwrap());
    assert!(table.admit().is_none());
    drop(requests);
    assert!(table.admit().is_some());
}

#[test]
fn an_entry_is_given_back_whichever_way_its_connection_ends() {
    let table = ConnectionTable::new(1);
    let slot = table.admit().unwrap();
    let request = slot.begin_request().unwrap();
    assert!(table.admit().is_none());
    drop(slot);
    drop(request);
    let slot = table.admit().unwrap();
    let request = Arc::clone(&slot).begin_request();
    drop((request, slot));
    let connections = table.connections();
    assert_eq!((connections.busy, connections.waiting.len()), (0, 0));
}
