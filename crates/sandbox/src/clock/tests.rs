use std::thread::sleep;

use super::*;

const WALL: Duration = Duration::from_secs(10);
const LIFE: Duration = Duration::from_hours(1);
const PART: Duration = Duration::from_millis(30);

/// How much time the clock excludes after one stretch of waiting in which `cpu` was used.
fn stood(cpu: Duration, cpu_millis: u32, waits: bool) -> Duration {
    let mut clock = WallClock::start(WALL, LIFE, cpu_millis);
    clock.set_waiting(waits);
    sleep(PART);
    clock.update_cpu(cpu);
    clock.excluded
}

#[test]
fn it_stands_only_for_an_idle_execution_that_waits() {
    assert!(stood(Duration::ZERO, 1000, true) >= PART);
    assert_eq!(stood(Duration::ZERO, 1000, false), Duration::ZERO);
    assert_eq!(stood(PART, 1000, true), Duration::ZERO);
    assert_eq!(stood(PART * 2, 2000, true), Duration::ZERO);
}

#[test]
fn a_tenth_of_a_processor_is_work_for_who_may_have_no_more() {
    let used = PART / 10;
    assert!(stood(used, 1000, true) + used >= PART);
    assert_eq!(stood(PART / 2, 100, true), Duration::ZERO);
}

#[test]
fn only_the_waiting_itself_is_put_off() {
    let mut clock = WallClock::start(WALL, LIFE, 1000);
    let end = clock.deadline();
    sleep(PART);
    clock.set_waiting(true);
    sleep(PART);
    clock.set_waiting(false);
    sleep(PART);
    clock.update_cpu(Duration::ZERO);
    let more = clock.deadline() - end;
    assert!(more >= PART && more + PART < clock.started.elapsed(), "{more:?}");
    assert!(clock.counted_time() + more <= clock.started.elapsed());
    assert!(!clock.is_over());
}

#[test]
fn a_life_ends_whatever_is_waited_for() {
    let mut clock = WallClock::start(WALL, PART, 1000);
    clock.set_waiting(true);
    sleep(PART);
    clock.update_cpu(Duration::ZERO);
    assert!(clock.is_over());
}
