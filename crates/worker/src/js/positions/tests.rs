use super::{LineIndex, SourceMap, map_stack};

#[test]
fn offsets_become_lines_and_columns() {
    let lines = LineIndex::new("ab\nüx\n");
    let places: Vec<_> = [0, 2, 3, 5, 4, 7, 99].map(|offset| lines.position(offset)).into();
    assert_eq!(places, [(1, 1), (1, 3), (2, 1), (2, 2), (2, 1), (3, 1), (3, 1)]);
}

#[test]
fn a_place_maps_to_the_nearest_one_before_it_on_its_line() {
    let positions = SourceMap::new([(1, 4, 9, 2), (0, 0, 5, 0), (1, 10, 9, 20)].into_iter());
    assert_eq!(positions.original(2, 7), (10, 3));
    assert_eq!(positions.original(2, 11), (10, 21));
    assert_eq!(positions.original(2, 1), (10, 3));
    assert_eq!(positions.original(1, 50), (6, 1));
    assert_eq!(positions.original(7, 8), (7, 8));
    assert_eq!(SourceMap::default().original(0, 0), (0, 0));
}

#[test]
fn our_frames_are_dropped_and_the_programs_are_moved() {
    let positions = SourceMap::new([(0, 0, 2, 0)].into_iter());
    let stack = "    at f (p.ts:1:1)\n    at map (native)\n    at <anonymous> (p.ts:9:9)\n    at out (ringfence:core:3:4)\n    at odd (p.ts:x)\n";
    let found = map_stack(stack, "p.ts", || &positions);
    assert_eq!(
        found.text,
        "    at f (p.ts:3:1)\n    at map (native)\n    at p.ts:9:9\n    at odd (p.ts:x)\n"
    );
    assert_eq!(found.place, Some((3, 1)));
}
